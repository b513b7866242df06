"""Explain why a connection to an MCP server failed, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import httpx2
from pydantic import ValidationError

from ...catalog.sanitization import error_line
from ...program import remote_command_line
from ..http_client import PrivateAddress
from .connection import Connection
from .message_repair import is_disconnect
from .servers import Server, Transport

# The transport to suggest, and the HTTP statuses that suggest it: servers of one HTTP transport
# answer like this to a client of the other.
_OTHER_TRANSPORTS: Mapping[Transport, tuple[Transport, tuple[int, ...]]] = {
    "http": ("sse", (404, 405)),
    "sse": ("http", (400, 404, 405, 406)),
    "stdio": ("stdio", ()),
}


_MAX_LINE_CHARS = 500


@dataclass(frozen=True, slots=True)
class ConnectFailure:
    """Why a server cannot be used, and what it wrote to stderr last."""

    cause: str
    output: str = ""
    needs_login: bool = False

    @property
    def reason(self) -> str:
        """The cause and the one line of the output that explains it best; a log has the rest."""
        line = error_line(self.output)[:_MAX_LINE_CHARS]
        return f"{self.cause} It wrote: {line}" if line else self.cause


def explain_failure(
    error: Exception, connection: Connection, server: Server, *, unreadable_login: str = ""
) -> ConnectFailure:
    """Explain why a server cannot be used, without its secrets.

    `unreadable_login` says why a stored login cannot be used.
    """
    if connection.status_code == HTTPStatus.UNAUTHORIZED and not server.has_authorization:
        command = f"{remote_command_line('login', server.name)} --config FILE"
        cause = f"it requires a login: run {command}, or put a token into its headers."
        if unreadable_login:
            cause = f"{unreadable_login} Bring the key back, or run {command}."
        elif server.oauth.is_per_principal:
            cause = f"its tools are not listed yet: run {command}, or let a user log in."
        return ConnectFailure(cause, needs_login=True)
    cause = _describe_cause(error, connection, server)
    return ConnectFailure(cause, connection.stderr_tail)


def _describe_cause(error: Exception, connection: Connection, server: Server) -> str:
    if isinstance(error, TimeoutError):
        return (
            f"it did not answer within {server.limits.connect_timeout_seconds:g} seconds."
            " If it needs longer to start, raise connect_timeout_seconds in its entry."
        )
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        # The system reports a missing cwd and a missing command alike.
        if server.cwd and not Path(server.cwd).is_dir():
            return f"its cwd {server.redact(server.cwd)!r} is not a folder."
        return f"the command {server.redact(server.command)!r} was not found."
    if connection.end_reason:
        return connection.end_reason
    if is_disconnect(error):
        return "it ended before it answered."
    if connection.status_code >= HTTPStatus.BAD_REQUEST:
        hint = _transport_hint(connection, server)
        return f"it answered with HTTP status {connection.status_code}.{hint}"
    if isinstance(error, ValidationError):
        return "it answered with something that is not MCP."
    if isinstance(error, PrivateAddress):
        return f"connecting to it is not allowed: {_end_sentence(server.redact(str(error)))}"
    if isinstance(error, httpx2.ConnectError):
        return f"nothing answers at {server.location}: {_end_sentence(server.redact(str(error)))}"
    return _end_sentence(server.redact(str(error)) or type(error).__name__)


def _transport_hint(connection: Connection, server: Server) -> str:
    """Suggest the other HTTP transport where the status points to it."""
    other, statuses = _OTHER_TRANSPORTS[server.transport]
    if connection.status_code not in statuses:
        return ""
    return f' If it uses the other HTTP transport, give it "type": "{other}".'


def _end_sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
