"""Repair server messages that the SDK cannot parse, or answer them with an error."""

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

# Half of a surrogate pair, left where a server cut a text in the middle of an emoji.
_SURROGATES = re.compile(
    r"(?<!\\)((?:\\\\)*)(?:(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_ID = re.compile(r'"id"\s*:\s*(\d+)')
# Serialisers write the id first or last. In between it may be part of the result.
_ID_SEARCH_CHARS = 100
_OBJECT = re.compile(r'\{\s*"')
# What follows an object that is part of another, such as a log line that quotes a message.
_INSIDE_OBJECT = re.compile(r"\s*[,\]}]")
_DECODER = json.JSONDecoder()
_MAX_FAILURES = 32
_SERVER_METHODS = frozenset(method for method, _ in (*SERVER_REQUESTS, *SERVER_NOTIFICATIONS))
_UNREADABLE_PREFIX = "Its answer cannot be read: "
# The SDK's own wordings for an answer over HTTP that it could not use.
_UNREADABLE_PREFIXES = (
    _UNREADABLE_PREFIX,
    "Failed to parse JSON response: ",
    "Failed to parse SSE message: ",
    "Unexpected content type: ",
    "server answered a request with 202",
)
# The SDK's own wording. Its error code alone (-32000) is also what many servers send for errors
# of their own, and a call that they refused must not count as lost.
_DISCONNECT_PREFIXES = ("Connection closed", "SSE stream")


def is_disconnect(error: BaseException) -> bool:
    """Whether the connection was lost, in contrast to an error that the server sent."""
    return (
        isinstance(error, MCPError)
        and error.code == types.CONNECTION_CLOSED
        and error.message.startswith(_DISCONNECT_PREFIXES)
    )


def is_unreadable_reply(error: MCPError) -> bool:
    """Whether the server sent a reply that could not be parsed."""
    codes = (types.PARSE_ERROR, types.INVALID_REQUEST)
    return error.code in codes and error.message.startswith(_UNREADABLE_PREFIXES)


def explain_unreadable(error: MCPError) -> str:
    """Why a reply could not be read, in one sentence without what the server sent."""
    if error.message.startswith(_UNREADABLE_PREFIX):
        return error.message
    # The SDK quotes the parser, which quotes the reply.
    _, _, reason = error.message.partition(": ")
    is_ours = error.code == types.PARSE_ERROR and "validation error" not in reason
    return _UNREADABLE_PREFIX + (reason if is_ours and reason else "it is not MCP.")


def parse_message(text: str) -> SessionMessage:
    """A message of a server; a reply with both a result and an error counts as unreadable."""
    message = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    if isinstance(message, types.JSONRPCError) and is_contradictory(text):
        message.error = contradiction_error().error
    return SessionMessage(message)


def is_contradictory(text: str | bytes) -> bool:
    """Whether a reply has both a result and an error, of which the SDK sees only the error."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, dict):
        return False
    reply = cast("dict[str, Any]", value)
    return reply.get("result") is not None and reply.get("error") is not None


def contradiction_error() -> MCPError:
    """The error of a request whose reply has both a result and an error."""
    reason = "it has both a result and an error."
    return MCPError(types.PARSE_ERROR, _UNREADABLE_PREFIX + reason)


def repair_message(item: SessionMessage | Exception) -> tuple[SessionMessage | Exception, ...]:
    """Turn a line that could not be parsed into messages, or into an error for its request.

    Without that, the request would wait until its timeout.
    """
    if not isinstance(item, ValidationError):
        return (item,)
    failure: Any = item.errors(include_url=False)[0]
    line = failure["input"]
    if isinstance(line, dict):
        return (_error_from_object(cast("dict[str, Any]", line)) or item,)
    if failure["type"] != "json_invalid" or not isinstance(line, str) or '"jsonrpc"' not in line:
        return (item,)
    repaired = _SURROGATES.sub(lambda m: m[1] + (m[2] or "\\ufffd"), line)
    try:
        return (parse_message(repaired),)
    except ValidationError:
        messages = tuple(_extract_messages(repaired))
    if messages or not line.lstrip().startswith("{"):
        return messages or (item,)
    return (_error_from_text(line, str(failure["msg"])) or item,)


def _extract_messages(line: str) -> Iterator[SessionMessage]:
    """The messages in a line that also has other text, such as log output."""
    at, failures, wasted_chars = 0, 0, 0
    # Each failed attempt may read to the end of the line. Without bounds, a line of braces would
    # take quadratic time.
    while failures < _MAX_FAILURES and wasted_chars <= len(line):
        start = _OBJECT.search(line, at)
        if start is None:
            return
        at = start.start()
        try:
            value, end = _DECODER.raw_decode(line, at)
        except (ValueError, RecursionError) as error:
            failures += 1
            wasted_chars += getattr(error, "pos", len(line)) - at
            at += 1
            continue
        # A message inside a larger object or list is quoted there, not sent to us.
        if _is_from_server(value) and not _INSIDE_OBJECT.match(line, end):
            yield from _parse_fragment(line[at:end])
        at = end


def _is_from_server(value: dict[str, Any]) -> bool:
    """Whether a server may send this; a log line may repeat what we sent to the server."""
    if value.get("jsonrpc") != "2.0":
        return False
    method = value.get("method")
    if method is None:
        return "result" in value or "error" in value
    return isinstance(method, str) and method in _SERVER_METHODS


def _parse_fragment(text: str) -> Iterator[SessionMessage]:
    try:
        yield parse_message(text)
    except ValidationError as error:
        # Python's decoder has read it, so only limits of the SDK's parser (nesting) remain.
        failure: Any = error.errors(include_url=False)[0]
        if failure["type"] == "json_invalid":
            reply = _error_from_text(text, str(failure["msg"]))
            if reply is not None:
                yield reply


def _error_from_text(text: str, reason: str) -> SessionMessage | None:
    """An error for the request whose id can be found in an unreadable reply."""
    match = _ID.search(text[:_ID_SEARCH_CHARS]) or _ID.search(text[-_ID_SEARCH_CHARS:])
    return None if match is None else _error_response(int(match[1]), reason)


def _error_from_object(value: dict[str, Any]) -> SessionMessage | None:
    """An error for the request that a JSON object answers without being a valid reply."""
    key = value.get("id")
    if value.get("jsonrpc") != "2.0" or "method" in value:
        return None
    if isinstance(key, bool) or not isinstance(key, int | str):
        return None
    if "error" in value:
        return _error_response(key, "its error is malformed.")
    reason = "its result is not an object." if "result" in value else "no result and no error."
    return _error_response(key, reason)


def _error_response(key: int | str, reason: str) -> SessionMessage:
    error = types.ErrorData(code=types.PARSE_ERROR, message=_UNREADABLE_PREFIX + reason)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=key, error=error))
