"""Why a server cannot be used, as a person can act on it."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

import httpx2
from pydantic import ValidationError

from ..http_client import PrivateAddress
from .connection import Connection
from .message_repair import is_disconnect
from .servers import Server, Transport

_OTHER_TRANSPORTS: Mapping[Transport, tuple[Transport, tuple[int, ...]]] = {
    "http": ("sse", (404, 405)),
    "sse": ("http", (400, 404, 405, 406)),
    "stdio": ("stdio", ()),
}


def explain_failure(error: Exception, connection: Connection, server: Server) -> str:
    """Why a server cannot be used, in words that hold no secret."""
    said = connection.stderr_tail
    tail = f" It wrote: {said[-500:]}" if said else ""
    if isinstance(error, TimeoutError):
        return f"it did not answer within {server.limits.connect_timeout_seconds:g} seconds.{tail}"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        if server.cwd and not Path(server.cwd).is_dir():
            return f"its cwd {server.redact(server.cwd)!r} is no folder."
        return f"there is no command {server.redact(server.command)!r}."
    if is_disconnect(error):
        return f"it ended before it answered.{tail}"
    if connection.status_code == HTTPStatus.UNAUTHORIZED and not server.has_authorization:
        return (
            f"it wants a login: run toolscout login {server.name} --config FILE, or put a token"
            " into its headers."
        )
    if connection.status_code >= HTTPStatus.BAD_REQUEST:
        hint = _transport_hint(connection, server)
        return f"it answered with HTTP status {connection.status_code}.{hint}"
    if isinstance(error, ValidationError):
        return f"it answered with something that is not MCP.{tail}"
    if isinstance(error, PrivateAddress):
        return f"it may not be reached: {_end_sentence(server.redact(str(error)))}"
    if isinstance(error, httpx2.ConnectError):
        return f"nothing answers at {server.location}: {_end_sentence(server.redact(str(error)))}"
    return f"{_end_sentence(server.redact(str(error)) or type(error).__name__)}{tail}"


def _transport_hint(connection: Connection, server: Server) -> str:
    """What to write where a server is asked in the other generation's way."""
    other, statuses = _OTHER_TRANSPORTS[server.transport]
    if connection.status_code not in statuses:
        return ""
    return f' If it speaks the other way of HTTP, give it "type": "{other}".'


def _end_sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
