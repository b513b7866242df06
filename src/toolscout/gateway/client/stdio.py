"""Stdin that ends when the client disconnects or when the process receives a signal.

A thread that waits for the next line of stdin cannot be interrupted. So a daemon thread reads
stdin and copies it into a socket, which can be closed at any time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

_CHUNK_BYTES = 65_536

StdinFeed = Callable[[socket.socket], None]
"""Sends all of stdin to a socket, in its own thread."""


@contextmanager
def end_stdin_on_signals(feed: StdinFeed | None = None) -> Generator[None]:
    """Let SIGINT and SIGTERM end stdin, as if the client had disconnected.

    `feed` is for a caller that has begun to read stdin itself.
    """
    original, real_stdin = sys.stdin, os.dup(0)
    writer, reader = socket.socketpair()
    # Descriptor 0 becomes /dev/null: nothing else in this process, and no child of it, may take
    # messages that are meant for the gateway.
    with Path(os.devnull).open() as devnull:
        os.dup2(devnull.fileno(), 0)
    if feed is not None:
        feed(writer)
    else:
        # A daemon, because its last read may never return: it must not keep the process alive.
        args = (real_stdin, writer)
        Thread(target=_copy_stdin, args=args, name="toolscout-stdin", daemon=True).start()
    sys.stdin = reader.makefile("r", encoding="utf-8")
    try:
        with _handle_signals(writer):
            yield
    finally:
        sys.stdin = original
        os.dup2(real_stdin, 0)
        reader.close()


@contextmanager
def _handle_signals(writer: socket.socket) -> Generator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def remove_handlers() -> None:
        for number in signals:
            loop.remove_signal_handler(number)

    def stop() -> None:
        # The first signal stops the gateway in order. A second one then has its default effect
        # and ends a process that does not stop.
        remove_handlers()
        _end_stream(writer)

    with suppress(NotImplementedError):  # Windows has no signal handlers in the event loop
        for number in signals:
            loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            remove_handlers()


def _copy_stdin(real_stdin: int, writer: socket.socket) -> None:
    with suppress(OSError):
        while chunk := os.read(real_stdin, _CHUNK_BYTES):
            writer.sendall(chunk)
    _end_stream(writer)


def _end_stream(writer: socket.socket) -> None:
    # The reader gets the end of the file after all that was written before.
    with suppress(OSError):
        writer.shutdown(socket.SHUT_WR)
