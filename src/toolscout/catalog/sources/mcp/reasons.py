"""Why a server cannot be used, as a person can act on it."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

import httpx2
from pydantic import ValidationError

from .connection import Connection
from .guard import PrivateAddress
from .salvage import is_cut
from .servers import Server, Transport

_OTHERS: Mapping[Transport, tuple[Transport, tuple[int, ...]]] = {
    "http": ("sse", (404, 405)),
    "sse": ("http", (400, 404, 405, 406)),
    "stdio": ("stdio", ()),
}


def explain(error: Exception, connection: Connection, server: Server) -> str:
    """Why a server cannot be used, in words that hold no secret."""
    said = connection.last_words
    tail = f" It wrote: {said[-500:]}" if said else ""
    if isinstance(error, TimeoutError):
        return f"it did not answer within {server.limits.connect_timeout_seconds:g} seconds.{tail}"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        if server.cwd and not Path(server.cwd).is_dir():
            return f"its cwd {server.hide(server.cwd)!r} is no folder."
        return f"there is no command {server.hide(server.command)!r}."
    if is_cut(error):
        return f"it ended before it answered.{tail}"
    if connection.status_code == HTTPStatus.UNAUTHORIZED and not server.is_signed:
        return (
            f"it wants a login: run toolscout login {server.name} --config FILE, or put a token"
            " into its headers."
        )
    if connection.status_code >= HTTPStatus.BAD_REQUEST:
        return f"it answered with HTTP status {connection.status_code}.{_hint(connection, server)}"
    if isinstance(error, ValidationError):
        return f"it answered with something that is not MCP.{tail}"
    if isinstance(error, PrivateAddress):
        return f"it may not be reached: {_sentence(server.hide(str(error)))}"
    if isinstance(error, httpx2.ConnectError):
        return f"nothing answers at {server.place}: {_sentence(server.hide(str(error)))}"
    return f"{_sentence(server.hide(str(error)) or type(error).__name__)}{tail}"


def _hint(connection: Connection, server: Server) -> str:
    """What to write where a server is asked in the other generation's way."""
    other, statuses = _OTHERS[server.transport]
    if connection.status_code not in statuses:
        return ""
    return f' If it speaks the other way of HTTP, give it "type": "{other}".'


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
