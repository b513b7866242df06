"""What a server may ask of the client during a call: elicitation, sampling, progress, logs."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import mcp_types as types
from fastmcp.server.context import Context
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ...catalog.result import Result
from ...sources.mcp.client_channel import InputAnswer

_CONNECTION_META_KEYS = frozenset(
    {
        types.PROTOCOL_VERSION_META_KEY,
        types.CLIENT_INFO_META_KEY,
        types.CLIENT_CAPABILITIES_META_KEY,
        "progressToken",
        "progress_token",
    }
)

_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)


class DownstreamClient:
    """A connected client, as an upstream's call reaches it."""

    def __init__(self, context: Context, *, level: types.LoggingLevel = "info") -> None:
        request = context.request_context
        assert request is not None, "a front exists only while a request runs"
        self._session: ServerSession = context.session
        self._request_id = request.request_id
        self.is_stateless = request.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.takes_unfinished = self.is_stateless
        self.capabilities: Mapping[str, Any] = _client_capabilities(self._session)
        self.meta: Mapping[str, Any] = {
            key: value
            for key, value in (request.meta or {}).items()
            if key not in _CONNECTION_META_KEYS
        }
        if not self.is_stateless:
            self.meta = {**self.meta, types.LOG_LEVEL_META_KEY: level}
        self._level = _LEVELS.index(level)
        self.responses = context.input_responses
        self.state = context.request_state

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Pass a progress report on, if the client asked for any."""
        await self._session.report_progress(progress, total, message)

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Pass a log message on, on the stream of the call it belongs to, if it is wanted."""
        if not self.is_stateless and _LEVELS.index(message.level) < self._level:
            return
        await self._session.send_notification(
            types.LoggingMessageNotification(params=message), related_request_id=self._request_id
        )

    def can_answer(self, request: types.InputRequest) -> bool:
        """Whether the client has said that it can be asked such a thing."""
        has = self._session.client_capabilities or types.ClientCapabilities()
        match request:
            case types.ElicitRequest():
                return has.elicitation is not None
            case types.CreateMessageRequest():
                return has.sampling is not None
            case types.ListRootsRequest():
                return has.roots is not None

    async def answer(self, request: types.InputRequest) -> InputAnswer:
        """Ask the client; one that cannot be asked is an error that says so."""
        kind: Any = {
            "elicitation/create": types.ElicitResult,
            "sampling/createMessage": types.CreateMessageResult,
            "roots/list": types.ListRootsResult,
        }[request.method]
        try:
            return await self._session.send_request(
                request,
                kind,
                metadata=ServerMessageMetadata(related_request_id=self._request_id),
            )
        except MCPError as error:
            return error.error
        except ValidationError:
            return types.ErrorData(
                code=types.INVALID_REQUEST, message="The client's answer was not one."
            )


def _client_capabilities(session: ServerSession) -> dict[str, Any]:
    """What the client can be asked, as it declared it."""
    has = session.client_capabilities or types.ClientCapabilities()
    asked = has.model_copy(update={"experimental": None, "extensions": None, "tasks": None})
    return asked.model_dump(mode="json", by_alias=True, exclude_none=True)


SUSPENDED_PREFIX = "parked:"
_KEY = "question"
_MOST = 1_000
_TTL_SECONDS = 600.0


def _invalid_request(message: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=message)


_CALL_ENDED = _invalid_request("The call is over.")


@dataclass(frozen=True, eq=False, slots=True)
class ClientQuestion:
    """Something that an upstream asks, and where the answer to it goes, and to nothing else."""

    request: types.InputRequest
    answer: asyncio.Future[InputAnswer]

    @property
    def is_open(self) -> bool:
        """Whether somebody still waits for the answer."""
        return not self.answer.done()

    def settle(self, answer: InputAnswer) -> None:
        """Answer it; nobody hears it who waits no more."""
        if self.is_open:
            self.answer.set_result(answer)


class StatelessClient(DownstreamClient):
    """A client whose answers come with later requests, each to one question."""

    _questions: list[ClientQuestion]
    _news: asyncio.Event
    _is_over: bool

    def prepare(self) -> None:
        """Be ready to be asked."""
        self._questions = []
        self._news = asyncio.Event()
        self._is_over = False
        self.takes_unfinished = True

    async def answer(self, request: types.InputRequest) -> InputAnswer:
        """Ask, and wait for the request that brings the answer."""
        if not self.can_answer(request):
            return _invalid_request("The client cannot be asked that.")
        if self._is_over:
            return _CALL_ENDED
        question = ClientQuestion(request, asyncio.get_running_loop().create_future())
        self._questions.append(question)
        self._news.set()
        try:
            return await question.answer
        finally:
            self._questions.remove(question)

    async def next_question(self) -> ClientQuestion:
        """The oldest question that somebody waits with, as soon as there is one."""
        while True:
            for question in self._questions:
                if question.is_open:
                    return question
            self._news.clear()
            await self._news.wait()

    def rebind(self, front: DownstreamClient) -> None:
        """Go on under a newer request."""
        self._session, self._request_id = front._session, front._request_id

    def end_questions(self) -> None:
        """Ask no more: whoever still waits for an answer hears that the call is over."""
        self._is_over = True
        for question in self._questions:
            question.settle(_CALL_ENDED)


@dataclass(frozen=True, slots=True)
class SuspendedCall:
    """A call that waits, whose it is, and the one question that its client was sent."""

    owner: str
    front: StatelessClient
    task: asyncio.Task[Result]
    question: ClientQuestion


class SuspendedCalls:
    """Calls that wait for their client, each known by a token to its owner alone."""

    def __init__(self) -> None:
        self._places: dict[str, SuspendedCall] = {}

    async def run(
        self, front: StatelessClient, owner: str, work: Coroutine[Any, Any, Result]
    ) -> Result:
        """Run a call until it is done, or until it has a question for the client."""
        front.prepare()
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: front.end_questions())
        return await self._run_until_question(front, owner, task)

    async def resume(self, token: str, owner: str, front: DownstreamClient) -> Result:
        """Take a parked call up again."""
        place = self._places.get(token)
        if place is None or place.owner != owner:
            return Result.error(
                "The call that this answers is no longer waiting. Call the tool again.",
                code="expired",
            )
        del self._places[token]
        place.front.rebind(front)
        given = (front.responses or {}).get(_KEY)
        place.question.settle(
            given if given is not None else _invalid_request("No answer was given.")
        )
        return await self._run_until_question(place.front, owner, place.task)

    async def close(self) -> None:
        """Give every parked call up."""
        tasks = [place.task for place in self._places.values()]
        self._places.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_until_question(
        self, front: StatelessClient, owner: str, task: asyncio.Task[Result]
    ) -> Result:
        question = asyncio.ensure_future(front.next_question())
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
        token = self._suspend(SuspendedCall(owner, front, task, asked))
        raw = types.InputRequiredResult(
            input_requests={_KEY: asked.request}, request_state=f"{SUSPENDED_PREFIX}{token}"
        )
        return Result(raw=raw)

    def _suspend(self, place: SuspendedCall) -> str:
        token = uuid.uuid4().hex
        if len(self._places) >= _MOST:
            self._expire(next(iter(self._places)))
        self._places[token] = place
        asyncio.get_running_loop().call_later(_TTL_SECONDS, self._expire, token)
        return token

    def _expire(self, token: str) -> None:
        place = self._places.pop(token, None)
        if place is not None:
            place.task.cancel()
