"""What upstream servers send to the client during a call: elicitation, sampling, progress, logs.

A handshake client is asked while the call waits. A stateless client gets the question as the
result of its call; the call is suspended until another request brings the answer.
"""

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

# Parts of `_meta` that describe the connection to the client. The upstream has a connection of its
# own, with values of its own; all other keys are passed on.
_CONNECTION_META_KEYS = frozenset(
    {
        types.PROTOCOL_VERSION_META_KEY,
        types.CLIENT_INFO_META_KEY,
        types.CLIENT_CAPABILITIES_META_KEY,
        "progressToken",
        "progress_token",
    }
)

# From the least severe to the most severe.
_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)


class DownstreamClient:
    """The client of one request, as the upstream that serves the request reaches it."""

    def __init__(self, context: Context, *, level: types.LoggingLevel = "info") -> None:
        request = context.request_context
        assert request is not None, "a client exists only while a request runs"
        self._session: ServerSession = context.session
        self._request_id = request.request_id
        self.is_stateless = request.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.accepts_input_required = self.is_stateless
        self.capabilities: Mapping[str, Any] = _client_capabilities(self._session)
        self.meta: Mapping[str, Any] = {
            key: value
            for key, value in (request.meta or {}).items()
            if key not in _CONNECTION_META_KEYS
        }
        # A stateless client asks for logs in `_meta` itself. A handshake client does so once per
        # connection, with logging/setLevel, so its level is added here.
        if not self.is_stateless:
            self.meta = {**self.meta, types.LOG_LEVEL_META_KEY: level}
        self._level = _LEVELS.index(level)
        self.responses = context.input_responses
        self.state = context.request_state

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Forward a progress report, if the client asked for progress."""
        await self._session.report_progress(progress, total, message)

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Forward a log message on the stream of its call, if the client wants this level."""
        if not self.is_stateless and _LEVELS.index(message.level) < self._level:
            return
        await self._session.send_notification(
            types.LoggingMessageNotification(params=message), related_request_id=self._request_id
        )

    def can_answer(self, request: types.InputRequest) -> bool:
        """Whether the client declared the capability that a question needs."""
        capabilities = self._session.client_capabilities or types.ClientCapabilities()
        match request:
            case types.ElicitRequest():
                return capabilities.elicitation is not None
            case types.CreateMessageRequest():
                return capabilities.sampling is not None
            case types.ListRootsRequest():
                return capabilities.roots is not None

    async def answer(self, request: types.InputRequest) -> InputAnswer:
        """Ask the client; a client that cannot be asked gives an error."""
        result_type: Any = {
            "elicitation/create": types.ElicitResult,
            "sampling/createMessage": types.CreateMessageResult,
            "roots/list": types.ListRootsResult,
        }[request.method]
        try:
            return await self._session.send_request(
                request,
                result_type,
                metadata=ServerMessageMetadata(related_request_id=self._request_id),
            )
        except MCPError as error:
            return error.error
        except ValidationError:
            return types.ErrorData(
                code=types.INVALID_REQUEST, message="The client's answer was not one."
            )


def _client_capabilities(session: ServerSession) -> dict[str, Any]:
    """The capabilities that upstreams may use."""
    capabilities = session.client_capabilities or types.ClientCapabilities()
    # The gateway does not pass on these three, so no upstream may rely on them.
    usable = capabilities.model_copy(
        update={"experimental": None, "extensions": None, "tasks": None}
    )
    return usable.model_dump(mode="json", by_alias=True, exclude_none=True)


# Tells our own `request_state` from that of an upstream, which has another prefix.
SUSPENDED_PREFIX = "parked:"
# A suspended call asks one question at a time, so its key can be constant.
_QUESTION_KEY = "question"
_MAX_SUSPENDED_CALLS = 1_000
_TTL_SECONDS = 600.0


def _invalid_request(message: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=message)


_CALL_ENDED = _invalid_request("The call is over.")


@dataclass(frozen=True, eq=False, slots=True)
class ClientQuestion:
    """A question of an upstream, with the future that takes its answer."""

    # `eq=False` above: two questions with the same text are still two questions.
    request: types.InputRequest
    answer: asyncio.Future[InputAnswer]

    @property
    def is_open(self) -> bool:
        """Whether the upstream still waits for the answer."""
        return not self.answer.done()

    def settle(self, answer: InputAnswer) -> None:
        """Deliver the answer, unless nobody waits for it any more."""
        if self.is_open:
            self.answer.set_result(answer)


class StatelessClient(DownstreamClient):
    """A client that answers with later requests, one question at a time."""

    _questions: list[ClientQuestion]
    _has_question: asyncio.Event
    _has_ended: bool

    def prepare(self) -> None:
        """Accept questions from now on."""
        self._questions = []
        self._has_question = asyncio.Event()
        self._has_ended = False
        self.accepts_input_required = True

    async def answer(self, request: types.InputRequest) -> InputAnswer:
        """Ask, and wait for the request that brings the answer."""
        if not self.can_answer(request):
            return _invalid_request("The client cannot be asked that.")
        if self._has_ended:
            return _CALL_ENDED
        question = ClientQuestion(request, asyncio.get_running_loop().create_future())
        self._questions.append(question)
        self._has_question.set()
        try:
            return await question.answer
        finally:
            # Also when the upstream takes the question back, which cancels this wait.
            self._questions.remove(question)

    async def next_question(self) -> ClientQuestion:
        """Wait for a question; the oldest open one comes first."""
        while True:
            for question in self._questions:
                if question.is_open:
                    return question
            self._has_question.clear()
            await self._has_question.wait()

    def rebind(self, client: DownstreamClient) -> None:
        """Continue under a newer request of the same client."""
        # The request that started the call has ended. Progress and logs go to the new one.
        self._session, self._request_id = client._session, client._request_id

    def end_questions(self) -> None:
        """Answer open questions with an error, because the call has ended."""
        self._has_ended = True
        for question in self._questions:
            question.settle(_CALL_ENDED)


@dataclass(frozen=True, slots=True)
class SuspendedCall:
    """A call that waits for its client, its owner, and the question that the client was sent."""

    owner: str
    client: StatelessClient
    task: asyncio.Task[Result]
    question: ClientQuestion


class SuspendedCalls:
    """Suspended calls by token; only the owner of a call can resume it."""

    def __init__(self) -> None:
        self._calls: dict[str, SuspendedCall] = {}

    async def run(
        self, client: StatelessClient, owner: str, work: Coroutine[Any, Any, Result]
    ) -> Result:
        """Run a call until it is done, or until it has a question for the client."""
        client.prepare()
        task = asyncio.create_task(work)
        # A callback, since nobody may be awaiting the task: a suspended call can end by itself, by
        # its timeout or because its server gave up, while an upstream still waits for an answer.
        task.add_done_callback(lambda _: client.end_questions())
        return await self._run_until_question(client, owner, task)

    async def resume(self, token: str, owner: str, client: DownstreamClient) -> Result:
        """Continue a suspended call with the answer that a request brings."""
        call = self._calls.get(token)
        # Checked before the token is used up: a stolen token must not end the owner's call.
        if call is None or call.owner != owner:
            return Result.error(
                "The call that this answers is no longer waiting. Call the tool again.",
                code="expired",
            )
        del self._calls[token]
        call.client.rebind(client)
        answer = (client.responses or {}).get(_QUESTION_KEY)
        call.question.settle(
            answer if answer is not None else _invalid_request("No answer was given.")
        )
        return await self._run_until_question(call.client, owner, call.task)

    async def close(self) -> None:
        """Cancel every suspended call."""
        tasks = [call.task for call in self._calls.values()]
        self._calls.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_until_question(
        self, client: StatelessClient, owner: str, task: asyncio.Task[Result]
    ) -> Result:
        next_question = asyncio.ensure_future(client.next_question())
        try:
            await asyncio.wait((task, next_question), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The client cancelled its request. The call runs in a task of its own, so it has to be
            # cancelled too.
            task.cancel()
            raise
        finally:
            if not next_question.done():
                next_question.cancel()
        if task.done():
            return task.result()
        question = next_question.result()
        token = self._suspend(SuspendedCall(owner, client, task, question))
        raw = types.InputRequiredResult(
            input_requests={_QUESTION_KEY: question.request},
            request_state=f"{SUSPENDED_PREFIX}{token}",
        )
        return Result(raw=raw)

    def _suspend(self, call: SuspendedCall) -> str:
        token = uuid.uuid4().hex
        if len(self._calls) >= _MAX_SUSPENDED_CALLS:
            self._expire(next(iter(self._calls)))  # the oldest: dictionaries keep their order
        self._calls[token] = call
        asyncio.get_running_loop().call_later(_TTL_SECONDS, self._expire, token)
        return token

    def _expire(self, token: str) -> None:
        call = self._calls.pop(token, None)
        if call is not None:
            call.task.cancel()
