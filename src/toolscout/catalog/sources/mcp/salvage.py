"""Messages that the SDK cannot read: mended where that is safe, or answered for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import mcp_types as types
from mcp import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.methods import SERVER_NOTIFICATIONS, SERVER_REQUESTS
from pydantic import ValidationError

# Half of a character, as a text that was cut in the middle of an emoji has it.
_HALF = re.compile(
    r"(?<!\\)((?:\\\\)*)(?:(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_ID = re.compile(r'"id"\s*:\s*(\d+)')
_EDGE = 100
_OBJECT = re.compile(r'\{\s*"')
# What follows an object that is a part of another.
_INSIDE = re.compile(r"\s*[,\]}]")
_DECODER = json.JSONDecoder()
_MOST_FAILURES = 32
_SAID_BY_SERVERS = frozenset(method for method, _ in (*SERVER_REQUESTS, *SERVER_NOTIFICATIONS))
_UNREADABLE = "Its answer cannot be read: "
_CUT = ("Connection closed", "SSE stream")


def is_cut(error: BaseException) -> bool:
    """Whether the connection went away; a server's own error may well have the same code."""
    return (
        isinstance(error, MCPError)
        and error.code == types.CONNECTION_CLOSED
        and error.message.startswith(_CUT)
    )


def is_unreadable(error: MCPError) -> bool:
    """Whether a server answered, but with something that is no answer."""
    return error.code == types.PARSE_ERROR and error.message.startswith(_UNREADABLE)


def salvaged(item: SessionMessage | Exception) -> tuple[SessionMessage | Exception, ...]:
    """What was meant by a line that could not be read; or an error in its place for who waits."""
    if not isinstance(item, ValidationError):
        return (item,)
    fault: Any = item.errors(include_url=False)[0]
    line = fault["input"]
    if isinstance(line, dict):
        return (_blank_refusal(cast("dict[str, Any]", line)) or item,)
    if fault["type"] != "json_invalid" or not isinstance(line, str) or '"jsonrpc"' not in line:
        return (item,)
    mended = _HALF.sub(lambda m: m[1] + (m[2] or "\\ufffd"), line)
    try:
        return (_message(mended),)
    except ValidationError:
        found = tuple(_among(mended))
    if found or not line.lstrip().startswith("{"):
        return found or (item,)
    return (_refusal(line, str(fault["msg"])) or item,)


def _among(line: str) -> Iterator[SessionMessage]:
    """The messages of a line that has other text around them."""
    at, failures, read_in_vain = 0, 0, 0
    # A try may read to the end of the line: without bounds, many braces would cost its square.
    while failures < _MOST_FAILURES and read_in_vain <= len(line):
        start = _OBJECT.search(line, at)
        if start is None:
            return
        at = start.start()
        try:
            value, end = _DECODER.raw_decode(line, at)
        except (ValueError, RecursionError) as error:
            failures += 1
            read_in_vain += getattr(error, "pos", len(line)) - at
            at += 1
            continue
        if _is_from_server(value) and not _INSIDE.match(line, end):
            yield from _one(line[at:end])
        at = end


def _is_from_server(value: dict[str, Any]) -> bool:
    """Whether it can be meant for us: a log that repeats what was sent to the server is not."""
    if value.get("jsonrpc") != "2.0":
        return False
    method = value.get("method")
    if method is None:
        return "result" in value or "error" in value
    return isinstance(method, str) and method in _SAID_BY_SERVERS


def _one(text: str) -> Iterator[SessionMessage]:
    try:
        yield _message(text)
    except ValidationError as error:
        fault: Any = error.errors(include_url=False)[0]
        if fault["type"] == "json_invalid" and (told := _refusal(text, str(fault["msg"]))):
            yield told


def _message(text: str) -> SessionMessage:
    return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))


def _refusal(text: str, why: str) -> SessionMessage | None:
    """The answer cannot be read, but whom it is for can."""
    found = _ID.search(text[:_EDGE]) or _ID.search(text[-_EDGE:])
    return None if found is None else _error_for(int(found[1]), why)


def _blank_refusal(value: dict[str, Any]) -> SessionMessage | None:
    """The answer is JSON and says whom it is for, but is none."""
    key = value.get("id")
    if value.get("jsonrpc") != "2.0" or "method" in value:
        return None
    if isinstance(key, bool) or not isinstance(key, int | str):
        return None
    if "error" in value:
        return _error_for(key, "its error is malformed.")
    said = "its result is not an object." if "result" in value else "no result and no error."
    return _error_for(key, said)


def _error_for(key: int | str, why: str) -> SessionMessage:
    error = types.ErrorData(code=types.PARSE_ERROR, message=_UNREADABLE + why)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=key, error=error))
