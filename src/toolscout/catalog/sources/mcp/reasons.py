"""Why a server cannot be used, as a person can act on it."""

from __future__ import annotations

from http import HTTPStatus

import httpx2
from pydantic import ValidationError

from .connection import Connection
from .guard import PrivateAddress
from .salvage import is_cut
from .servers import Server


def explain(error: Exception, connection: Connection, server: Server) -> str:
    """Why a server cannot be used, in words that hold no secret."""
    said = connection.last_words
    tail = f" It wrote: {said[-500:]}" if said else ""
    if isinstance(error, TimeoutError):
        return f"it did not answer within {server.limits.connect_timeout_seconds:g} seconds.{tail}"
    if isinstance(error, FileNotFoundError):
        return f"there is no command {server.hide(server.command)!r} (or no such folder)."
    if is_cut(error):
        return f"it ended before it answered.{tail}"
    if connection.status_code == HTTPStatus.UNAUTHORIZED and not server.is_signed:
        return (
            f"it wants a login: run toolscout login {server.name} --config FILE, or put a token"
            " into its headers."
        )
    if connection.status_code >= HTTPStatus.BAD_REQUEST:
        return f"it answered with HTTP status {connection.status_code}."
    if isinstance(error, ValidationError):
        return f"it answered with something that is not MCP.{tail}"
    if isinstance(error, PrivateAddress):
        return f"it may not be reached: {server.hide(str(error))}"
    if isinstance(error, httpx2.ConnectError):
        return f"nothing answers at {server.place}: {server.hide(str(error))}"
    return f"{server.hide(str(error)) or type(error).__name__}.{tail}"
