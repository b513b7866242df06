"""Questions to a client that is not there while it thinks: the call is parked until it answers.

A stateless client is asked by ending its request with a question; it answers with another
request. An upstream of the older generation asks in the middle of a call and waits. So the call
goes on waiting here, under a token that the client brings back with its answer.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from ..catalog.result import Result
from ..catalog.sources.mcp.exchange import Answer
from .front import Front

PARKED = "parked:"
_KEY = "question"
_MOST = 1_000
_TTL_SECONDS = 600.0


def _error(message: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=message)


_OVER = _error("The call is over.")


@dataclass(frozen=True, eq=False, slots=True)
class Question:
    """Something that an upstream asks, and where the answer to it goes, and to nothing else."""

    request: types.InputRequest
    answer: asyncio.Future[Answer]

    @property
    def is_open(self) -> bool:
        """Whether somebody still waits for the answer."""
        return not self.answer.done()

    def settle(self, answer: Answer) -> None:
        """Answer it; nobody hears it who waits no more."""
        if self.is_open:
            self.answer.set_result(answer)


class Parked(Front):
    """A client whose answers come with later requests, each to one question."""

    _questions: list[Question]
    _news: asyncio.Event
    _is_over: bool

    def prepare(self) -> None:
        """Be ready to be asked."""
        self._questions = []
        self._news = asyncio.Event()
        self._is_over = False
        self.takes_unfinished = True

    async def answer(self, request: types.InputRequest) -> Answer:
        """Ask, and wait for the request that brings the answer."""
        if not self.can_answer(request):
            return _error("The client cannot be asked that.")
        if self._is_over:
            return _OVER
        question = Question(request, asyncio.get_running_loop().create_future())
        self._questions.append(question)
        self._news.set()
        try:
            return await question.answer
        finally:
            self._questions.remove(question)

    async def question(self) -> Question:
        """The oldest question that somebody waits with, as soon as there is one."""
        while True:
            for question in self._questions:
                if question.is_open:
                    return question
            self._news.clear()
            await self._news.wait()

    def resume(self, front: Front) -> None:
        """Go on under a newer request."""
        self._session, self._request_id = front._session, front._request_id

    def leave(self) -> None:
        """Ask no more: whoever still waits for an answer hears that the call is over."""
        self._is_over = True
        for question in self._questions:
            question.settle(_OVER)


@dataclass(frozen=True, slots=True)
class Place:
    """A call that waits, whose it is, and the one question that its client was sent."""

    owner: str
    front: Parked
    task: asyncio.Task[Result]
    question: Question


class Parking:
    """Calls that wait for their client, each known by a token to its owner alone."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}

    async def run(self, front: Parked, owner: str, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a call until it is done, or until it has a question for the client."""
        front.prepare()
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: front.leave())
        return await self._until(front, owner, task)

    async def resume(self, token: str, owner: str, front: Front) -> Result:
        """Take a parked call up again."""
        place = self._places.get(token)
        if place is None or place.owner != owner:
            return Result.error(
                "The call that this answers is no longer waiting. Call the tool again.",
                code="expired",
            )
        del self._places[token]
        place.front.resume(front)
        given = (front.responses or {}).get(_KEY)
        place.question.settle(given if given is not None else _error("No answer was given."))
        return await self._until(place.front, owner, place.task)

    async def close(self) -> None:
        """Give every parked call up."""
        tasks = [place.task for place in self._places.values()]
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
        asked = question.result()
        token = self._park(Place(owner, front, task, asked))
        raw = types.InputRequiredResult(
            input_requests={_KEY: asked.request}, request_state=f"{PARKED}{token}"
        )
        return Result(raw=raw)

    def _park(self, place: Place) -> str:
        token = uuid.uuid4().hex
        if len(self._places) >= _MOST:
            self._drop(next(iter(self._places)))
        self._places[token] = place
        asyncio.get_running_loop().call_later(_TTL_SECONDS, self._drop, token)
        return token

    def _drop(self, token: str) -> None:
        place = self._places.pop(token, None)
        if place is not None:
            place.task.cancel()
