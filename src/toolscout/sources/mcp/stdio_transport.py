"""A local MCP server as a child process, one message per line, with a limit on each line."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import anyio
from anyio.abc import Process
from mcp.client import stdio as sdk
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from .message_repair import parse_message
from .process_limits import ProcessLimits, limit_command
from .servers import Server

_STOP_SECONDS = (2.0, 2.0)
_FLUSH_SECONDS = 0.5
_POLL_SECONDS = 0.01


class StopTimes:
    """Seconds for a process to end after its stdin closes, and then after SIGTERM.

    A process that still runs then is killed.
    """

    def __init__(self) -> None:
        self.seconds = _STOP_SECONDS


STOP_TIMES = StopTimes()
"""The times for all processes; shorter while a user waits for the gateway to stop."""


class LineTooLongError(Exception):
    """A server wrote a line that is longer than allowed."""


class LineBuffer:
    """Splits bytes into lines, none of them longer than the limit."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that a chunk completes; raises for a line that is too long."""
        *ends, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            self._add(end)
            lines.append(b"".join(self._parts))
            self._parts, self._size = [], 0
        self._add(rest)
        return lines

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            raise LineTooLongError(f"it wrote a line of more than {self._max_bytes:,} bytes.")
        self._parts.append(part)


@asynccontextmanager
async def open_process(server: Server, *, errlog: TextIO) -> AsyncGenerator[tuple[Any, Any]]:
    """Start a server, and yield the streams of its messages; it is stopped afterwards.

    A line that is too long ends the connection.
    """
    parameters = sdk.StdioServerParameters(
        command=server.command,
        args=list(server.args),
        env=dict(server.env),
        cwd=server.cwd or None,
        # A stray byte costs one character, not the connection.
        encoding_error_handler="replace",
    )
    if sys.platform == "win32":
        # Windows needs job objects to stop the children of a process, which the SDK has.
        async with sdk.stdio_client(parameters, errlog=errlog) as streams:
            yield streams
        return
    async with _run_process(server, errlog) as streams:
        yield streams


@asynccontextmanager
async def _run_process(server: Server, errlog: TextIO) -> AsyncGenerator[tuple[Any, Any]]:
    command = limit_command([server.command, *server.args], ProcessLimits.of(server))
    process = await anyio.open_process(
        command,
        env=sdk.get_default_environment() | dict(server.env),
        stderr=errlog,
        cwd=Path(server.cwd) if server.cwd else None,
        # A group of its own, so that its children can be stopped with it.
        start_new_session=True,
    )
    # No await until the task group is entered: a cancellation here would leak the process.
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    from_session, to_server = _message_stream()
    written = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read_lines, process, to_session, server.limits.response_bytes)
        tasks.start_soon(_write_lines, process, to_server, to_session, written)
        try:
            yield from_server, from_session
        finally:
            with anyio.CancelScope(shield=True):
                from_server.close()
                from_session.close()
                with anyio.move_on_after(_FLUSH_SECONDS):
                    await written.wait()
                await _stop(process)
            tasks.cancel_scope.cancel()


def _message_stream() -> tuple[Any, Any]:
    return anyio.create_memory_object_stream[SessionMessage](0)


async def _read_lines(process: Process, messages: Any, max_bytes: int) -> None:
    assert process.stdout is not None
    buffer = LineBuffer(max_bytes)
    # The end of the stream tells the session that the connection is over, whatever the reason.
    async with messages:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
            try:
                async for chunk in process.stdout:
                    for line in buffer.feed(chunk):
                        await messages.send(_parse(line))
            except LineTooLongError as error:
                await messages.send(error)
    # Its last output is discarded, so that it cannot block on a full pipe while it ends.
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError):
        while True:
            await process.stdout.receive()


async def _write_lines(process: Process, messages: Any, to_session: Any, written: Any) -> None:
    assert process.stdin is not None
    try:
        async with messages:
            async for item in messages:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(f"{text}\n".encode(errors="replace"))
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        # It may still run. Without this a request would wait for an answer that cannot come.
        await to_session.aclose()
    finally:
        written.set()


def _parse(line: bytes) -> SessionMessage | Exception:
    try:
        return parse_message(line.decode(errors="replace"))
    except ValidationError as error:
        return error


async def _stop(process: Process) -> None:
    """Close stdin, and stop the process with all its children if that does not end it."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    grace_seconds, kill_seconds = STOP_TIMES.seconds
    if not await _wait_for_exit(process, grace_seconds):
        await terminate_posix_process_tree(process, kill_seconds)
        await _wait_for_exit(process, kill_seconds)
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdout.aclose()


async def _wait_for_exit(process: Process, seconds: float) -> bool:
    # Not process.wait(): a child that inherited the pipes would make an ended server look alive.
    deadline = anyio.current_time() + seconds
    while process.returncode is None and anyio.current_time() < deadline:  # noqa: ASYNC110 -- no event reports it
        await anyio.sleep(_POLL_SECONDS)
    return process.returncode is not None
