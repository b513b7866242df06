"""Start a worker in a process of its own, and notice when it is ready and when it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from .connection_counts import ConnectionCounts
from .worker import READY

MAX_LAUNCH_BYTES = 1_000_000
"""The longest description of a run that a worker reads."""


class WorkerProcess:
    """One process of a worker; it ends by itself when its supervisor does."""

    def __init__(
        self,
        command: Sequence[str],
        launch: Mapping[str, Any],
        *,
        listener: socket.socket,
        counts: ConnectionCounts,
    ) -> None:
        self.control, theirs = socket.socketpair()
        with theirs:
            descriptors = (theirs.fileno(), listener.fileno(), counts.descriptor)
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [*command, *map(str, descriptors)],
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
                # In a group of its own: Ctrl-C reaches the supervisor alone, which then asks each
                # worker once. A worker that is asked twice drops its connections.
                process_group=0,
            )
        self.is_ready = False
        # A worker that has already ended is noticed by poll().
        with suppress(OSError):
            self.control.sendall(json.dumps(launch, default=str).encode() + b"\n")
        self.control.settimeout(0)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def read_control(self) -> bool:
        """Read what the worker reports; False if it has closed the connection."""
        try:
            received = self.control.recv(64)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.is_ready |= READY in received
        return bool(received)

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return self._process.poll()

    def wait(self, timeout_seconds: float) -> int | None:
        """The exit code; None if the process still runs after this time."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_seconds)
        return None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def close(self) -> None:
        """Close the connection; a worker that still runs then stops."""
        self.control.close()


def read_launch(control: socket.socket) -> Mapping[str, Any]:
    """What a worker is to do, as its supervisor sent it."""
    with control.makefile("rb", buffering=0) as stream:
        text = bytearray()
        # Without a buffer, and so by the byte: what follows the line is not for this reader.
        while len(text) < MAX_LAUNCH_BYTES and (part := stream.read(1)) and part != b"\n":
            text += part
    launch: Mapping[str, Any] = json.loads(text)
    return launch
