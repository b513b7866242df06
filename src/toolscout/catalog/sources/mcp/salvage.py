"""Messages that the SDK cannot read: mended where that is safe, or answered for."""

from __future__ import annotations

import re
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

# Half of a character, as a text that was cut in the middle of an emoji has it.
_HALF = re.compile(
    r"(?<!\\)((?:\\\\)*)(?:(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_ID = re.compile(r'"id"\s*:\s*(\d+)')
_EDGE = 100
_CUT = ("Connection closed", "SSE stream")


def is_cut(error: BaseException) -> bool:
    """Whether the connection went away; a server's own error may well have the same code."""
    return (
        isinstance(error, MCPError)
        and error.code == types.CONNECTION_CLOSED
        and error.message.startswith(_CUT)
    )


def salvaged(item: SessionMessage | Exception) -> SessionMessage | Exception:
    """A message that could not be read, made readable; or an error in its place for who waits."""
    if not isinstance(item, ValidationError):
        return item
    fault: Any = item.errors(include_url=False)[0]
    line = fault["input"]
    if fault["type"] != "json_invalid" or not isinstance(line, str) or '"jsonrpc"' not in line:
        return item
    try:
        mended = _HALF.sub(lambda m: m[1] + (m[2] or "\\ufffd"), line)
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(mended, by_name=False))
    except ValidationError:
        return _refusal(line, str(fault["msg"])) or item


def _refusal(line: str, why: str) -> SessionMessage | None:
    """The answer cannot be read, but whom it is for can."""
    found = _ID.search(line[:_EDGE]) or _ID.search(line[-_EDGE:])
    if found is None or not line.lstrip().startswith("{"):
        return None
    error = types.ErrorData(code=types.PARSE_ERROR, message=f"Its answer cannot be read: {why}")
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))
