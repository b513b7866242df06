"""Upstreams in processes of their own, on loopback."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TALKER = str(Path(__file__).parent / "talker.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of uvicorn's, from when it listens until it is not needed."""
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    while b"Uvicorn running" not in (line := process.stdout.readline()):
        assert line, "the server ended before it listened"
    drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
        drain.wait()


@contextmanager
def listening(kind: str, port: int = 0) -> Iterator[str]:
    port = port or free_port()
    with running(TALKER, kind, str(port)):
        yield f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}"
