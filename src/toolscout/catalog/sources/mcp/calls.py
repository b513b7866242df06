"""One request to a server: sent, followed while it runs, and its failure told in words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, assert_never

import mcp_types as types
from mcp import MCPError
from pydantic import ValidationError

from ....errors import SourceError
from ...result import Result
from . import wire
from .connection import Connection
from .exchange import CURRENT, Exchange
from .forgotten import Forgotten
from .salvage import is_cut, is_unreadable
from .servers import Server

_MOST_ROUNDS = 10
_LATER = "Try again later."
_UNSURE = "It may still have run: look before calling again."

Kind = Literal["tool", "prompt", "resource"]
Reply = types.CallToolResult | types.GetPromptResult | types.ReadResourceResult


@dataclass(frozen=True, slots=True)
class Call:
    """What to ask of a server: run a tool, fill in a prompt, or read a resource."""

    kind: Kind
    name: str
    arguments: Mapping[str, Any]
    is_repeatable: bool = False


class Lost(Exception):
    """The connection went away; `has_run` says whether the call may have reached the server."""

    def __init__(self, *, may_have_run: bool) -> None:
        super().__init__()
        self.may_have_run = may_have_run


class TooSlow(SourceError):
    """The server did not answer in time."""


@asynccontextmanager
async def within(server: Server, name: str, *, hint: str = _LATER) -> AsyncGenerator[None]:
    """Give a server as long as a call may take, from the first byte sent to the last received."""
    limit = server.limits.call_timeout_seconds
    try:
        async with asyncio.timeout(limit or None):
            yield
    except TimeoutError as error:
        raise TooSlow(
            f"Server {server.name!r} did not answer {name!r} within {limit:g} seconds; the call"
            " was cancelled.",
            hint=hint,
        ) from error


async def run(connection: Connection, server: Server, call: Call) -> Result:
    """Send one call and give back its result, with the caller reachable while it runs."""
    exchange = CURRENT.get()
    if exchange is not None:
        connection.calls.append(exchange)
    try:
        reply = await _converse(connection, server, call, exchange)
    except MCPError as error:
        return _failure(error, server, call)
    except ValidationError as error:
        raise SourceError(
            f"Server {server.name!r} answered {call.name!r} with something that is not MCP:"
            f" {server.hide(str(error.errors()[0]['msg']))}."
        ) from error
    finally:
        if exchange is not None:
            connection.calls.remove(exchange)
    if isinstance(reply, types.CallToolResult) and reply.is_error:
        reply = wire.hidden(reply, server)
    return _result(reply)


async def _converse(
    connection: Connection, server: Server, call: Call, exchange: Exchange | None
) -> Reply | types.InputRequiredResult:
    """Answer the server's questions until it is done, unless the caller does that itself."""
    responses = exchange.responses if exchange else None
    state = exchange.state if exchange else None
    for _ in range(_MOST_ROUNDS):
        async with within(server, call.name, hint=_UNSURE if call.kind == "tool" else _LATER):
            reply = await _send(connection, call, exchange, responses, state)
        if not isinstance(reply, types.InputRequiredResult):
            return reply
        if exchange is None:
            raise MCPError(types.INVALID_REQUEST, "It needs to ask the user, which cannot be done.")
        if exchange.takes_unfinished:
            return reply
        responses = await _answers(reply, exchange)
        state = reply.request_state
    raise MCPError(types.INVALID_REQUEST, f"It asked more than {_MOST_ROUNDS} times.")


async def _answers(asked: types.InputRequiredResult, exchange: Exchange) -> types.InputResponses:
    responses: types.InputResponses = {}
    for key, request in (asked.input_requests or {}).items():
        answer = await exchange.answer(request)
        if isinstance(answer, types.ErrorData):
            raise MCPError.from_error_data(answer)
        responses[key] = answer
    return responses


async def _send(
    connection: Connection,
    call: Call,
    exchange: Exchange | None,
    responses: types.InputResponses | None,
    state: str | None,
) -> Reply | types.InputRequiredResult:
    session: Any = connection.session
    common: dict[str, Any] = {
        "input_responses": responses,
        "request_state": state,
        "meta": _meta(connection, exchange),
        "allow_input_required": True,
    }
    match call.kind:
        case "tool":
            return await session.call_tool(
                call.name,
                dict(call.arguments),
                progress_callback=exchange.progress if exchange else None,
                **common,
            )
        case "prompt":
            return await session.get_prompt(call.name, dict(call.arguments), **common)
        case "resource":
            return await session.read_resource(call.name, **common)


def _meta(connection: Connection, exchange: Exchange | None) -> dict[str, Any] | None:
    meta = dict(exchange.meta) if exchange else {}
    if not connection.is_stateless:
        meta.pop(types.LOG_LEVEL_META_KEY, None)
    return meta or None


def _result(reply: Reply | types.InputRequiredResult) -> Result:
    match reply:
        case types.CallToolResult():
            return wire.result_of(reply)
        case types.GetPromptResult():
            return wire.prompt_of(reply)
        case types.ReadResourceResult():
            return wire.resource_of(reply)
        case types.InputRequiredResult():
            return Result(raw=reply)
        case _:
            assert_never(reply)


def _failure(error: MCPError, server: Server, call: Call) -> Result:
    if isinstance(error, Forgotten):
        raise Lost(may_have_run=False) from error
    if is_cut(error):
        raise Lost(may_have_run=True) from error
    if is_unreadable(error):
        raise SourceError(
            f"Server {server.name!r} answered {call.name!r}. {server.hide(str(error))}",
            hint="It may have run: look before calling again.",
        ) from error
    said = f"Server {server.name!r} refused {call.name!r}: {server.hide(str(error))}"
    return replace(Result.error(said), raw=wire.hidden(error.error, server))
