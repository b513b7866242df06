"""The client's end of a pipe: it is over when the client goes, or when the process is told to stop.

The thread that waits for the next line of stdin hears no signal and cannot be woken. So stdin is
read by a thread that nobody waits for, and handed on over a socket that can be closed at any time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

_CHUNK = 65_536


@contextmanager
def end_stdin_on_signals() -> Generator[None]:
    """Let SIGINT and SIGTERM end stdin, as if the client had gone; a second one ends all."""
    before, far = sys.stdin, os.dup(0)
    inlet, outlet = socket.socketpair()
    with Path(os.devnull).open() as nothing:  # for whoever else reads stdin
        os.dup2(nothing.fileno(), 0)
    Thread(target=_copy_stdin, args=(far, inlet), name="toolscout-stdin", daemon=True).start()
    sys.stdin = outlet.makefile("r", encoding="utf-8")
    try:
        with _handle_signals(inlet):
            yield
    finally:
        sys.stdin = before
        os.dup2(far, 0)
        outlet.close()


@contextmanager
def _handle_signals(inlet: socket.socket) -> Generator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def remove_handlers() -> None:
        for number in signals:
            loop.remove_signal_handler(number)

    def stop() -> None:
        remove_handlers()
        _end_stream(inlet)

    with suppress(NotImplementedError):  # Windows ends its processes in other ways
        for number in signals:
            loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            remove_handlers()


def _copy_stdin(far: int, inlet: socket.socket) -> None:
    with suppress(OSError):
        while chunk := os.read(far, _CHUNK):
            inlet.sendall(chunk)
    _end_stream(inlet)


def _end_stream(inlet: socket.socket) -> None:
    with suppress(OSError):
        inlet.shutdown(socket.SHUT_WR)
