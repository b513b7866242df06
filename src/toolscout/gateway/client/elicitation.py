"""What upstream servers send to the client during a call: elicitation, sampling, progress, logs.

A handshake client is asked while the call waits. A stateless client gets the question as the
result of its call; the call is suspended until another request brings the answer.
"""

from __future__ import annotations

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

from ...catalog.questions import CallUser
from ...catalog.result import Result
from ...sources.mcp.client_channel import ClientChannel, InputAnswer
from ...sources.mcp.question_channel import QuestionChannel
from ...toolbox.suspension import OpenQuestion, QuestionQueue, SuspendedCalls, not_waiting_result

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

_CANNOT_ANSWER = "The client cannot be asked that."

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

    def for_user(self, user: CallUser | None) -> ClientChannel:
        """The channel of one call; a call of a program asks the user in its own way."""
        return self if user is None else ProgramClient(self, user)

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
        # Such a client may not answer at all, and the call would wait until its timeout.
        if not self.can_answer(request):
            return _invalid_request(_CANNOT_ANSWER)
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
                code=types.INVALID_REQUEST, message="The client's answer is not a valid result."
            )


class ProgramClient(QuestionChannel):
    """The client during a call of a program: questions wait in the store, the rest goes through."""

    def __init__(self, client: DownstreamClient, user: CallUser) -> None:
        super().__init__(user)
        self._client = client
        self.meta = client.meta

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Forward a progress report."""
        await self._client.report_progress(progress, total, message)

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Forward a log message."""
        await self._client.log(message)

    async def answer(self, request: types.InputRequest) -> InputAnswer:
        """Ask the user, or let the client itself answer what is not for the user."""
        if isinstance(request, types.ElicitRequest):
            return await super().answer(request)
        return await self._client.answer(request)


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
QUESTION_KEY = "question"


def _invalid_request(message: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=message)


@dataclass(frozen=True, slots=True)
class ClientQuestion:
    """A question of an upstream, and the client that it is for."""

    client: StatelessClient
    request: types.InputRequest


class StatelessClient(DownstreamClient):
    """A client that answers with later requests, one question at a time."""

    questions: QuestionQueue[ClientQuestion, InputAnswer]

    def prepare(self) -> None:
        """Accept questions from now on."""
        self.questions = QuestionQueue(answer_at_end=_invalid_request("The call is over."))
        self.accepts_input_required = True

    async def answer(self, request: types.InputRequest) -> InputAnswer:
        """Ask, and wait for the request that brings the answer."""
        if not self.can_answer(request):
            return _invalid_request(_CANNOT_ANSWER)
        return await self.questions.ask(ClientQuestion(self, request))

    def rebind(self, client: DownstreamClient) -> None:
        """Continue under a newer request of the same client."""
        # The request that started the call has ended. Progress and logs go to the new one.
        self._session, self._request_id = client._session, client._request_id


class ClientSuspensions:
    """Calls that wait for their clients; the question goes out as the result of the call."""

    def __init__(self) -> None:
        self._calls = SuspendedCalls[Result, ClientQuestion, InputAnswer]()

    async def run(
        self, client: StatelessClient, owner: str, work: Coroutine[Any, Any, Result]
    ) -> Result:
        """Run a call until it is done, or until it has a question for the client."""
        client.prepare()
        return _to_result(await self._calls.run(work, client.questions, owner=owner))

    async def resume(self, token: str, owner: str, client: DownstreamClient) -> Result:
        """Continue a suspended call with the answer that a request brings."""
        # The owner is checked before the token is used up: a stolen token must not end its call.
        call = self._calls.find(token, owner=owner)
        if call is None:
            return not_waiting_result()
        call.question.question.client.rebind(client)
        answer = (client.responses or {}).get(QUESTION_KEY)
        given = answer if answer is not None else _invalid_request("No answer was given.")
        return _to_result(await self._calls.resume(call, given))

    async def close(self) -> None:
        """Cancel every suspended call."""
        await self._calls.close()


def _to_result(outcome: Result | OpenQuestion[ClientQuestion, InputAnswer]) -> Result:
    if isinstance(outcome, Result):
        return outcome
    return Result(
        raw=types.InputRequiredResult(
            input_requests={QUESTION_KEY: outcome.question.request},
            request_state=f"{SUSPENDED_PREFIX}{outcome.id}",
        )
    )
