"""Send lines to a syslog receiver: RFC 5424 messages over UDP, TCP or a local socket."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from .forwarding import ForwardedLine

SyslogTransport = Literal["udp", "tcp", "unix"]

DEFAULT_SOCKET = "/dev/log"
_FACILITY_AUDIT = 13
_SEVERITY_OK, _SEVERITY_WARNING = 6, 4
_TIMEOUT_SECONDS = 5.0
# Receivers cut off longer messages, and then they are not JSON any more.
_MAX_BYTES = 8_000
_MAX_HOST_CHARS = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class SyslogAddress:
    """Where a syslog receiver listens; `path` is that of a local socket."""

    transport: SyslogTransport
    host: str = ""
    port: int = 0
    path: str = ""


class SyslogReceiver:
    """Sends one message per line; over TCP with their lengths in front (RFC 6587)."""

    def __init__(self, address: SyslogAddress) -> None:
        self._address = address
        self._socket: socket.socket | None = None

    def send(self, lines: Sequence[ForwardedLine]) -> int:
        """Send lines until one fails; how many were taken."""
        taken = 0
        try:
            if self._socket is not None and self._is_closed(self._socket):
                self.close()
            connection = self._socket = self._socket or self._connect()
            for line in lines:
                connection.sendall(self._frame(syslog_message(line)))
                taken += 1
        except OSError:
            self.close()
            if not taken:
                raise
        return taken

    def close(self) -> None:
        """Close the connection; the next line opens another."""
        connection, self._socket = self._socket, None
        if connection is not None:
            with suppress(OSError):
                connection.close()

    def _connect(self) -> socket.socket:
        try:
            return _connect(self._address)
        except UnicodeError as error:
            raise OSError(f"{self._address.host!r} is not the name of a host") from error

    def _frame(self, message: bytes) -> bytes:
        return b"%d %s" % (len(message), message) if self._address.transport == "tcp" else message

    def _is_closed(self, connection: socket.socket) -> bool:
        """Whether the receiver has closed a connection: what is sent to it first would be lost."""
        if self._address.transport != "tcp":
            return False
        connection.settimeout(0)
        try:
            return connection.recv(1) == b""
        except BlockingIOError:
            return False
        finally:
            connection.settimeout(_TIMEOUT_SECONDS)


def syslog_message(line: ForwardedLine) -> bytes:
    """A line as a message of RFC 5424, with JSON as its text."""
    priority = _FACILITY_AUDIT * 8 + (_SEVERITY_OK if line.is_ok else _SEVERITY_WARNING)
    moment = datetime.fromtimestamp(line.time, UTC).isoformat(timespec="milliseconds")
    host = _printable(socket.gethostname())[:_MAX_HOST_CHARS] or "-"
    head = f"<{priority}>1 {moment.replace('+00:00', 'Z')} {host} toolscout {os.getpid()}"
    head = f"{head} {line.kind} - "
    text = json.dumps(dict(line.facts), separators=(",", ":"))
    if len(head) + len(text) > _MAX_BYTES:
        short: dict[str, Any] = {**line.facts, "arguments": {}, "left_out": ["arguments"]}
        text = json.dumps(short, separators=(",", ":"))
    return f"{head}{text}".encode()


def _printable(text: str) -> str:
    return "".join(char for char in text if "!" <= char <= "~")


def _connect(address: SyslogAddress) -> socket.socket:
    match address.transport:
        case "tcp":
            return socket.create_connection((address.host, address.port), _TIMEOUT_SECONDS)
        case "udp":
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)
            family, place = found[0][0], found[0][4]
        case "unix":
            try:
                family, place = socket.AF_UNIX, address.path
            except AttributeError:
                raise OSError("this system has no local sockets: use UDP or TCP") from None
    connection = socket.socket(family, socket.SOCK_DGRAM)
    try:
        connection.settimeout(_TIMEOUT_SECONDS)
        connection.connect(place)
    except BaseException:
        connection.close()
        raise
    return connection
