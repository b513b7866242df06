"""Answers a client's first requests over stdio while the gateway is still loading.

A thread reads stdin from the first moment on. It answers `initialize`, `server/discover` and
`ping` if a greeting is known, and keeps every line. When the gateway is ready it gets all of them,
in order, and so is in the state that it would be in without the front. Its answers to requests that
were answered already are dropped.
"""

from __future__ import annotations

import io
import json
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from typing import Any

from .greeting import Greeting, Table, as_table, is_modern

_CHUNK_BYTES = 65_536

OnAnswer = Callable[[str, Table], None]
"""Gets a method and the result that the gateway itself has for it."""


class StdioFront:
    """Owns stdin and stdout until the gateway takes over."""

    def __init__(self, greeting: Greeting, *, on_answer: OnAnswer | None = None) -> None:
        self._greeting = greeting
        self._stdin = os.dup(0)
        self._stdout = sys.stdout
        self._wire = Wire(os.dup(1), on_answer)
        # As the MCP SDK does: anything else that this process prints must not reach the client.
        os.dup2(2, 1)
        self._is_opened = False
        self._is_modern = False
        self._lock = Lock()
        self._pending = bytearray()
        self._is_ended = False
        self._writer: socket.socket | None = None

    def start(self) -> None:
        """Begin to read stdin."""
        # A daemon, because its last read may never return: it must not keep the process alive.
        Thread(target=self._read_stdin, name="toolscout-stdin", daemon=True).start()

    def feed(self, writer: socket.socket) -> None:
        """Send everything that was read, and is read from now on, to the gateway."""
        self._writer = writer
        sys.stdout = WireStream(self._wire)
        # In a thread: the other end is read only after this call has returned.
        Thread(target=self._send_pending, name="toolscout-replay", daemon=True).start()

    def close(self) -> None:
        """Give stdout back."""
        sys.stdout = self._stdout
        os.dup2(self._wire.descriptor, 1)

    def _read_stdin(self) -> None:
        rest = b""
        with suppress(OSError):
            while chunk := os.read(self._stdin, _CHUNK_BYTES):
                if self._writer is None:
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        self._answer_early(line)
                    self._pass_on(b"".join(line + b"\n" for line in lines))
                else:
                    self._pass_on(rest + chunk)
                    rest = b""
        self._pass_on(rest, is_end=True)

    def _pass_on(self, data: bytes, *, is_end: bool = False) -> None:
        with self._lock:
            self._pending += data
            self._is_ended = is_end
            self._flush()

    def _send_pending(self) -> None:
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if self._writer is None:
            return
        # The gateway may have stopped reading.
        with suppress(OSError):
            self._writer.sendall(self._pending)
            if self._is_ended:
                self._writer.shutdown(socket.SHUT_WR)
        self._pending.clear()

    def _answer_early(self, line: bytes) -> None:
        request = _parse_request(line)
        if request is None:
            return
        method, params = str(request["method"]), as_table(request.get("params"))
        if method == "ping":
            # The stateless protocol has no ping.
            if not (self._is_modern or is_modern(params)):
                self._wire.answer(request["id"], method, {})
        elif not self._is_opened:
            # Only the first request decides what kind of connection it is.
            self._is_opened = True
            self._is_modern = method != "initialize" and is_modern(params)
            self._wire.answer(request["id"], method, self._greeting.answer(method, params))


def _parse_request(line: bytes) -> Table | None:
    """A line as a request; None for a notification, or if it is not one JSON-RPC message."""
    try:
        message = as_table(json.loads(line))
    except (ValueError, RecursionError):
        return None
    is_request = isinstance(message.get("id"), int | str) and isinstance(message.get("method"), str)
    return message if is_request and message.get("jsonrpc") == "2.0" else None


class Wire(io.BufferedIOBase):
    """The way to the client: drops the gateway's answers to requests that were answered early."""

    def __init__(self, descriptor: int, on_answer: OnAnswer | None = None) -> None:
        self.descriptor = descriptor
        self._on_answer = on_answer
        self._lock = Lock()
        # Requests that the gateway has not answered yet: their method, and whether the client has
        # an answer.
        self._awaited: dict[str, tuple[str, bool]] = {}
        self._partial = b""

    def writable(self) -> bool:
        """It can be written to."""
        return True

    def answer(self, request_id: int | str, method: str, result: Table | None) -> None:
        """Send a result before the gateway does; with None only note that one will come."""
        message = {"jsonrpc": "2.0", "id": request_id, "result": result}
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        with self._lock:
            self._awaited[json.dumps(request_id)] = (method, result is not None)
            if result is not None:
                with suppress(OSError):  # a client that has gone is noticed on stdin
                    self._send(text.encode(errors="replace") + b"\n")

    def write(self, data: Any, /) -> int:
        """Send what the gateway writes, without answers that the client has already."""
        written = bytes(data)
        with self._lock:
            self._send(self._filter(written) if self._awaited else written)
        return len(written)

    def _filter(self, data: bytes) -> bytes:
        *lines, self._partial = (self._partial + data).split(b"\n")
        kept = b"".join(line + b"\n" for line in lines if not self._is_answered(line))
        if not self._awaited:
            kept, self._partial = kept + self._partial, b""
        return kept

    def _is_answered(self, line: bytes) -> bool:
        message = as_table(json.loads(line))
        key = json.dumps(message.get("id"))
        if key not in self._awaited or "method" in message:
            return False
        method, is_answered = self._awaited.pop(key)
        if self._on_answer is not None and "result" in message:
            self._on_answer(method, as_table(message["result"]))
        return is_answered

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self.descriptor, left) :]


class WireStream(io.TextIOBase):
    """Replaces stdout: its `buffer` is sent to the client, printed text goes to stderr."""

    def __init__(self, wire: Wire) -> None:
        self.buffer = wire

    def write(self, text: str, /) -> int:
        """Print to stderr."""
        return sys.stderr.write(text)
