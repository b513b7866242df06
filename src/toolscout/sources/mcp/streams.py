"""Streams around a session: the monitored message stream and the tail of stderr."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TextIO

from mcp.shared.message import SessionMessage

from .message_repair import repair_message
from .stdio_transport import LineTooLongError

_TAIL_BYTES = 4_000


class _ParseErrorFilter(logging.Filter):
    """Keeps a server's stray output, which may contain secrets, out of the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop the SDK's record of a line that it could not parse."""
        return not str(record.msg).startswith("Failed to parse JSONRPC message")


class _TracebackFilter(logging.Filter):
    """Keeps tracebacks of broken connections out of the log: the caller gets the error."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop records with a traceback."""
        return record.exc_info is None


logging.getLogger("mcp.client.stdio").addFilter(_ParseErrorFilter())
# Below warnings, these log whole requests: URLs, headers and arguments, with all secrets.
for _name in ("httpx2", "httpcore2", "mcp.client.streamable_http", "mcp.client.sse"):
    logging.getLogger(_name).setLevel(logging.WARNING)
    logging.getLogger(_name).addFilter(_TracebackFilter())


async def wait_for_first(*events: asyncio.Event, timeout_seconds: float | None = None) -> None:
    """Wait until one of the events is set, or until the timeout."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


class MonitoredStream:
    """A read stream that repairs messages, and sets an event when it ends."""

    def __init__(self, inner: Any, ended: asyncio.Event) -> None:
        self._inner = inner
        self._ended = ended
        self._pending: deque[SessionMessage | Exception] = deque()
        self.end_reason = ""

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context in which the last message was sent, if the transport knows it."""
        # The SDK runs the handler of a message in this context. That is how a question reaches
        # the client whose call it belongs to.
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        return await self._inner.receive()

    async def aclose(self) -> None:
        """Close the stream, which ends it too."""
        self._ended.set()
        await self._inner.aclose()

    def __aiter__(self) -> MonitoredStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            if not self._pending:
                item = await self._inner.__anext__()
                if isinstance(item, LineTooLongError):
                    self.end_reason = str(item)
                    item = await self._inner.__anext__()  # the end, which raises
                self._pending.extend(repair_message(item))
            return self._pending.popleft()
        except BaseException:
            self._ended.set()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        await self.aclose()
        return None


class StderrTail:
    """The last bytes that a process wrote to stderr; `on_lines` gets every line as it arrives."""

    def __init__(self, on_lines: Callable[[Sequence[str]], None] | None = None) -> None:
        self._on_lines = on_lines
        self._reader = -1
        self._bytes = b""
        self._unfinished = b""

    @property
    def text(self) -> str:
        """The tail as text."""
        return self._bytes.decode(errors="replace").strip()

    def open_writer(self) -> TextIO:
        """The end of a pipe for the process; close it here once the process has it."""
        # Without a reader, a full pipe would block a talkative server.
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        asyncio.get_running_loop().add_reader(self._reader, self._read_available)
        return os.fdopen(writer, "w")

    def _read_available(self) -> None:
        with suppress(BlockingIOError):
            chunk = os.read(self._reader, 65_536)
            if chunk:
                self._bytes = (self._bytes + chunk)[-_TAIL_BYTES:]
                self._pass_on(chunk)
            else:
                self.close()

    def _read_rest(self) -> None:
        """Read what a process wrote just before it ended."""
        with suppress(OSError):  # nothing more for now, if something else still has the pipe
            while chunk := os.read(self._reader, 65_536):
                self._bytes = (self._bytes + chunk)[-_TAIL_BYTES:]
                self._pass_on(chunk)

    def _pass_on(self, chunk: bytes) -> None:
        if self._on_lines is None:
            return
        *lines, rest = (self._unfinished + chunk).split(b"\n")
        # A line that never ends must not fill the memory.
        if len(rest) >= _TAIL_BYTES:
            lines, rest = [*lines, rest], b""
        self._unfinished = rest
        if lines:
            self._on_lines([line.decode(errors="replace") for line in lines])

    def close(self) -> None:
        """Stop reading; the tail stays available."""
        if self._reader >= 0:
            self._read_rest()
        if self._unfinished:
            self._pass_on(b"\n")
        if self._reader >= 0:
            asyncio.get_running_loop().remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1
