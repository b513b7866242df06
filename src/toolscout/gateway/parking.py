"""Questions to a client that is not there while it thinks: the call is parked until it answers.

A stateless client is asked by ending its request with a question; it answers with another
request. An upstream of the older generation asks in the middle of a call and waits. So the call
goes on waiting here, under a token that the client brings back with its answer.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from typing import Any

import mcp_types as types

from ..catalog.result import Result
from ..catalog.sources.mcp.exchange import Answer
from .front import Front

PARKED = "parked:"
_KEY = "question"
_MOST = 1_000
_TTL_SECONDS = 600.0


class Parked(Front):
    """A client whose answers come with later requests."""

    _questions: asyncio.Queue[types.InputRequest]
    _answer: asyncio.Future[Answer]

    def prepare(self) -> None:
        """Be ready to be asked."""
        self._questions = asyncio.Queue()
        self.takes_unfinished = True

    async def answer(self, request: types.InputRequest) -> Answer:
        """Ask, and wait for the request that brings the answer."""
        if not self.can_answer(request):
            return types.ErrorData(
                code=types.INVALID_REQUEST, message="The client cannot be asked that."
            )
        self._answer = asyncio.get_running_loop().create_future()
        self._questions.put_nowait(request)
        return await self._answer

    async def question(self) -> types.InputRequest:
        """The next question, as soon as there is one."""
        return await self._questions.get()

    def resume(self, front: Front, answers: types.InputResponses | None) -> None:
        """Go on under a newer request, with what it answers."""
        self._session, self._request_id = front._session, front._request_id
        given = (answers or {}).get(_KEY)
        if not self._answer.done():
            missing = types.ErrorData(code=types.INVALID_REQUEST, message="No answer was given.")
            self._answer.set_result(given if given is not None else missing)


class Parking:
    """Calls that wait for their client, each known by a token to its owner alone."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[str, Parked, asyncio.Task[Result]]] = {}

    async def run(self, front: Parked, owner: str, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a call until it is done, or until it has a question for the client."""
        front.prepare()
        return await self._until(front, owner, asyncio.create_task(work))

    async def resume(self, token: str, owner: str, front: Front) -> Result:
        """Take a parked call up again."""
        place = self._places.pop(token, None)
        if place is None or place[0] != owner:
            return Result.error(
                "The call that this answers is no longer waiting. Call the tool again.",
                code="expired",
            )
        _, parked, task = place
        parked.resume(front, front.responses)
        return await self._until(parked, owner, task)

    async def close(self) -> None:
        """Give every parked call up."""
        tasks = [task for _, _, task in self._places.values()]
        self._places.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _until(self, front: Parked, owner: str, task: asyncio.Task[Result]) -> Result:
        question = asyncio.ensure_future(front.question())
        try:
            await asyncio.wait((task, question), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            if not question.done():
                question.cancel()
        if task.done():
            return task.result()
        token = self._park(front, owner, task)
        asked = types.InputRequiredResult(
            input_requests={_KEY: question.result()}, request_state=f"{PARKED}{token}"
        )
        return Result(raw=asked)

    def _park(self, front: Parked, owner: str, task: asyncio.Task[Result]) -> str:
        token = uuid.uuid4().hex
        if len(self._places) >= _MOST:
            self._drop(next(iter(self._places)))
        self._places[token] = (owner, front, task)
        asyncio.get_running_loop().call_later(_TTL_SECONDS, self._drop, token)
        return token

    def _drop(self, token: str) -> None:
        place = self._places.pop(token, None)
        if place is not None:
            place[2].cancel()
