"""Send one call to an MCP server, answer its questions, and translate its errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Literal, assert_never

import mcp_types as types
from mcp import MCPError
from pydantic import ValidationError

from ...catalog.questions import CURRENT_USER, stop_while_asking
from ...catalog.result import Result
from ...errors import SourceError
from ...program import remote_command_line
from ..unclear_calls import MAY_HAVE_RUN_HINT, RETRY_HINT, is_refusal
from . import wire
from .client_channel import CURRENT_CHANNEL, ClientChannel
from .connection import Connection
from .dispatcher import HTTPStatusError, SessionExpiredError
from .message_repair import explain_unreadable, is_disconnect, is_unreadable_reply
from .question_channel import QuestionChannel
from .servers import Server

# A server that never stops asking would keep the call open forever.
_MAX_ROUNDS = 10

CallKind = Literal["tool", "prompt", "resource"]
ServerReply = types.CallToolResult | types.GetPromptResult | types.ReadResourceResult


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A request to a server: run a tool, fill in a prompt, or read a resource."""

    kind: CallKind
    name: str
    arguments: Mapping[str, Any]
    is_repeatable: bool = False


class ConnectionLostError(Exception):
    """The connection was lost; `may_have_run` says whether the call may have reached the server.

    `reason` says why the gateway itself ended it.
    """

    def __init__(self, *, may_have_run: bool, reason: str = "") -> None:
        super().__init__()
        self.may_have_run = may_have_run
        self.reason = reason


class UnauthorizedError(SourceError):
    """The server no longer accepts the login of the connection."""


class CallTimeoutError(SourceError):
    """The server did not answer in time."""


@asynccontextmanager
async def enforce_call_timeout(
    server: Server, name: str, *, hint: str = RETRY_HINT
) -> AsyncGenerator[None]:
    """Raise CallTimeoutError if sending a request and receiving its reply takes too long."""
    limit = server.limits.call_timeout_seconds
    try:
        async with asyncio.timeout(limit or None) as timeout:
            with stop_while_asking(timeout):
                yield
    except TimeoutError as error:
        raise CallTimeoutError(
            f"Server {server.name!r} did not answer {name!r} within {limit:g} seconds; the call"
            " was cancelled.",
            hint=hint,
        ) from error


async def run_call(connection: Connection, server: Server, call: ServerCall) -> Result:
    """Send one call and return its result; the server can reach the client while it runs."""
    channel = CURRENT_CHANNEL.get()
    if channel is not None:
        channel = channel.for_user(CURRENT_USER.get())
    elif not connection.forwards_requests:
        channel = QuestionChannel(CURRENT_USER.get())
    # Set for the transport: over HTTP, a server's question arrives in the context of its call.
    token = CURRENT_CHANNEL.set(channel)
    if channel is not None:
        connection.channels.append(channel)
    try:
        reply = await _send_until_complete(connection, server, call, channel)
    except MCPError as error:
        if is_disconnect(error):
            raise ConnectionLostError(may_have_run=True, reason=connection.end_reason) from error
        return _convert_error(error, server, call)
    except ValidationError as error:
        raise SourceError(
            f"Server {server.name!r} answered {call.name!r} with something that is not MCP:"
            f" {server.redact(str(error.errors()[0]['msg']))}.",
            hint=_unclear_hint(call),
        ) from error
    finally:
        CURRENT_CHANNEL.reset(token)
        if channel is not None:
            connection.channels.remove(channel)
    # Errors tend to quote keys and addresses. Results are passed on unchanged.
    if isinstance(reply, types.CallToolResult) and reply.is_error:
        reply = wire.redact_record(reply, server)
    return _to_result(reply)


async def _send_until_complete(
    connection: Connection, server: Server, call: ServerCall, channel: ClientChannel | None
) -> ServerReply | types.InputRequiredResult:
    """Send the call and answer the server's questions, unless the client does that itself."""
    responses = channel.responses if channel else None
    state = channel.state if channel else None
    for _ in range(_MAX_ROUNDS):
        # The timeout is for each round, so that it does not count the time a person takes.
        async with enforce_call_timeout(server, call.name, hint=_unclear_hint(call)):
            reply = await _send(connection, call, channel, responses, state)
        if not isinstance(reply, types.InputRequiredResult):
            return reply
        if channel is None:
            raise MCPError(
                types.INVALID_REQUEST, "It needs to ask the user, but there is none here."
            )
        if channel.accepts_input_required:
            return reply
        responses = await _collect_responses(reply, channel)
        state = reply.request_state
    raise MCPError(types.INVALID_REQUEST, f"It asked more than {_MAX_ROUNDS} times.")


async def _collect_responses(
    reply: types.InputRequiredResult, channel: ClientChannel
) -> types.InputResponses:
    responses: types.InputResponses = {}
    for key, request in (reply.input_requests or {}).items():
        answer = await channel.answer(request)
        if isinstance(answer, types.ErrorData):
            raise MCPError.from_error_data(answer)
        responses[key] = answer
    return responses


async def _send(
    connection: Connection,
    call: ServerCall,
    channel: ClientChannel | None,
    responses: types.InputResponses | None,
    state: str | None,
) -> ServerReply | types.InputRequiredResult:
    session: Any = connection.session
    common: dict[str, Any] = {
        "input_responses": responses,
        "request_state": state,
        "meta": _request_meta(connection, channel),
        "allow_input_required": True,
    }
    match call.kind:
        case "tool":
            return await session.call_tool(
                call.name,
                dict(call.arguments),
                progress_callback=_progress_callback(connection, channel),
                **common,
            )
        case "prompt":
            return await session.get_prompt(call.name, dict(call.arguments), **common)
        case "resource":
            return await session.read_resource(call.name, **common)
        case _:
            assert_never(call.kind)


def _progress_callback(connection: Connection, channel: ClientChannel | None) -> Any:
    # With a callback the server is asked for progress, which the library does not use.
    return channel.report_progress if channel and connection.forwards_requests else None


def _request_meta(connection: Connection, channel: ClientChannel | None) -> dict[str, Any] | None:
    meta = dict(channel.meta) if channel else {}
    # Only stateless servers read the log level from each request.
    if not connection.is_stateless:
        meta.pop(types.LOG_LEVEL_META_KEY, None)
    return meta or None


def _to_result(reply: ServerReply | types.InputRequiredResult) -> Result:
    match reply:
        case types.CallToolResult():
            return wire.tool_result(reply)
        case types.GetPromptResult():
            return wire.prompt_result(reply)
        case types.ReadResourceResult():
            return wire.resource_result(reply)
        case types.InputRequiredResult():
            return Result(raw=reply)
        case _:
            assert_never(reply)


def _unclear_hint(call: ServerCall) -> str:
    """What to do about a call that was sent and has no usable answer."""
    return MAY_HAVE_RUN_HINT if call.kind == "tool" else RETRY_HINT


def _convert_error(error: MCPError, server: Server, call: ServerCall) -> Result:
    # An expired session is certain not to have run the call, so it may be sent again. After any
    # other answer that is not one of the protocol, that is unknown.
    if isinstance(error, SessionExpiredError):
        raise ConnectionLostError(may_have_run=False) from error
    if is_unreadable_reply(error):
        raise SourceError(
            f"Server {server.name!r} answered {call.name!r}."
            f" {server.redact(explain_unreadable(error))}",
            hint=_unclear_hint(call),
        ) from error
    if isinstance(error, HTTPStatusError):
        if error.status_code == HTTPStatus.UNAUTHORIZED and not server.has_authorization:
            raise UnauthorizedError(
                f"Server {server.name!r} refused {call.name!r}: it requires a new login.",
                hint=f"The operator can run: {remote_command_line('login', server.name)}",
            ) from error
        reason = f"HTTP status {error.status_code}: {server.redact(str(error))}"
        if not is_refusal(error.status_code):
            raise SourceError(
                f"Server {server.name!r} answered {call.name!r} with {reason}.",
                hint=_unclear_hint(call),
            ) from error
    elif error.code == types.INTERNAL_ERROR and call.kind == "tool":
        # The server failed in the middle of the call. Any other code is a refusal.
        raise SourceError(
            f"Server {server.name!r} failed inside {call.name!r}:"
            f" {server.redact(str(error)).rstrip('.')}.",
            hint=MAY_HAVE_RUN_HINT,
        ) from error
    text = f"Server {server.name!r} refused {call.name!r}: {server.redact(str(error))}"
    return replace(Result.error(text), raw=wire.redact_record(error.error, server))
