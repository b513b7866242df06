"""Accept connections from a socket that several workers share, so that each gets its part."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from .connection_counts import ConnectionCounts

# How often a worker that leaves a connection to another one checks whether it was taken.
_PAUSE_SECONDS = 0.002
# Longer than a worker is busy with one thing. If nobody has taken the connection by then, the
# others are frozen or overloaded.
_PATIENCE_SECONDS = 0.03
# For so long, connections are then not left to others.
_IMPATIENT_SECONDS = 1.0
# The process or the machine has no files left: connections close meanwhile.
_NO_FILES_SECONDS = 0.2


class FairAcceptor:
    """Accepts one connection at a time, unless another worker has fewer of them.

    Without this, the first worker to wake up takes most connections of a burst, and their clients
    keep them open.
    """

    def __init__(
        self,
        listener: socket.socket,
        create_protocol: Callable[[], asyncio.Protocol],
        *,
        worker: int,
        counts: ConnectionCounts,
        count_open: Callable[[], int],
    ) -> None:
        self._listener = listener
        self._create_protocol = create_protocol
        self._worker = worker
        self._counts = counts
        self._count_open = count_open
        self._loop = asyncio.get_running_loop()
        self._starting: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._waits_since = 0.0
        self._impatient_until = 0.0
        self._is_closed = False

    def start(self) -> None:
        """Accept connections."""
        self._listener.settimeout(0)
        self.publish()
        self._listen()

    def publish(self) -> None:
        """Tell the other workers how many connections are open here."""
        if not self._is_closed:
            self._counts.write(self._worker, self._count_open() + len(self._starting))

    def close(self) -> None:
        """Accept no more connections."""
        if self._is_closed:
            return
        self._is_closed = True
        self._counts.forget(self._worker)
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._listener)

    def _listen(self) -> None:
        self._timer = None
        self._loop.add_reader(self._listener, self._on_readable)

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._timer = self._loop.call_later(seconds, self._listen)

    def _on_readable(self) -> None:
        self.publish()
        if self._leaves_to_others():
            self._pause(_PAUSE_SECONDS)
            return
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            # Another worker was faster, or the client has gone.
            self._waits_since = 0.0
            return
        except OSError:
            self._pause(_NO_FILES_SECONDS)
            return
        self._waits_since = 0.0
        connection.settimeout(0)
        task = self._loop.create_task(self._connect(connection))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        self.publish()

    def _leaves_to_others(self) -> bool:
        now = self._loop.time()
        if now < self._impatient_until or not self._counts.is_above_others(self._worker):
            self._waits_since = 0.0
            return False
        if not self._waits_since:
            self._waits_since = now
        # The connection that is waiting may be another one by now, which does not matter.
        if now - self._waits_since > _PATIENCE_SECONDS:
            self._impatient_until = now + _IMPATIENT_SECONDS
            return False
        return True

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._create_protocol, connection)
        except OSError:  # the client has gone
            connection.close()
