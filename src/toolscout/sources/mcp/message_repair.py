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
_SURROGATES = re.compile(
    r"(?<!\\)((?:\\\\)*)(?:(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_ID = re.compile(r'"id"\s*:\s*(\d+)')
_ID_SEARCH_CHARS = 100
_OBJECT = re.compile(r'\{\s*"')
# What follows an object that is a part of another.
_INSIDE_OBJECT = re.compile(r"\s*[,\]}]")
_DECODER = json.JSONDecoder()
_MAX_FAILURES = 32
_SERVER_METHODS = frozenset(method for method, _ in (*SERVER_REQUESTS, *SERVER_NOTIFICATIONS))
_UNREADABLE_PREFIX = "Its answer cannot be read: "
_DISCONNECT_PREFIXES = ("Connection closed", "SSE stream")


def is_disconnect(error: BaseException) -> bool:
    """Whether the connection went away; a server's own error may well have the same code."""
    return (
        isinstance(error, MCPError)
        and error.code == types.CONNECTION_CLOSED
        and error.message.startswith(_DISCONNECT_PREFIXES)
    )


def is_unreadable_reply(error: MCPError) -> bool:
    """Whether a server answered, but with something that is no answer."""
    return error.code == types.PARSE_ERROR and error.message.startswith(_UNREADABLE_PREFIX)


def repair_message(item: SessionMessage | Exception) -> tuple[SessionMessage | Exception, ...]:
    """What was meant by a line that could not be read; or an error in its place for who waits."""
    if not isinstance(item, ValidationError):
        return (item,)
    fault: Any = item.errors(include_url=False)[0]
    line = fault["input"]
    if isinstance(line, dict):
        return (_error_from_object(cast("dict[str, Any]", line)) or item,)
    if fault["type"] != "json_invalid" or not isinstance(line, str) or '"jsonrpc"' not in line:
        return (item,)
    mended = _SURROGATES.sub(lambda m: m[1] + (m[2] or "\\ufffd"), line)
    try:
        return (_parse_message(mended),)
    except ValidationError:
        found = tuple(_extract_messages(mended))
    if found or not line.lstrip().startswith("{"):
        return found or (item,)
    return (_error_from_text(line, str(fault["msg"])) or item,)


def _extract_messages(line: str) -> Iterator[SessionMessage]:
    """The messages of a line that has other text around them."""
    at, failures, read_in_vain = 0, 0, 0
    # A try may read to the end of the line: without bounds, many braces would cost its square.
    while failures < _MAX_FAILURES and read_in_vain <= len(line):
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
        if _is_from_server(value) and not _INSIDE_OBJECT.match(line, end):
            yield from _parse_fragment(line[at:end])
        at = end


def _is_from_server(value: dict[str, Any]) -> bool:
    """Whether it can be meant for us: a log that repeats what was sent to the server is not."""
    if value.get("jsonrpc") != "2.0":
        return False
    method = value.get("method")
    if method is None:
        return "result" in value or "error" in value
    return isinstance(method, str) and method in _SERVER_METHODS


def _parse_fragment(text: str) -> Iterator[SessionMessage]:
    try:
        yield _parse_message(text)
    except ValidationError as error:
        fault: Any = error.errors(include_url=False)[0]
        if fault["type"] == "json_invalid" and (told := _error_from_text(text, str(fault["msg"]))):
            yield told


def _parse_message(text: str) -> SessionMessage:
    return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))


def _error_from_text(text: str, why: str) -> SessionMessage | None:
    """The answer cannot be read, but whom it is for can."""
    found = _ID.search(text[:_ID_SEARCH_CHARS]) or _ID.search(text[-_ID_SEARCH_CHARS:])
    return None if found is None else _error_response(int(found[1]), why)


def _error_from_object(value: dict[str, Any]) -> SessionMessage | None:
    """The answer is JSON and says whom it is for, but is none."""
    key = value.get("id")
    if value.get("jsonrpc") != "2.0" or "method" in value:
        return None
    if isinstance(key, bool) or not isinstance(key, int | str):
        return None
    if "error" in value:
        return _error_response(key, "its error is malformed.")
    said = "its result is not an object." if "result" in value else "no result and no error."
    return _error_response(key, said)


def _error_response(key: int | str, why: str) -> SessionMessage:
    error = types.ErrorData(code=types.PARSE_ERROR, message=_UNREADABLE_PREFIX + why)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=key, error=error))
