"""Run uvicorn on the public socket, alone or as one of several workers that accept from it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import uvicorn

from .sockets import BACKLOG

_ACCEPT_BATCH = 64
"""How many of the waiting connections are accepted at once.

Accepting takes a file for each before any of them is counted, so this has to be less than the
files that are left free.
"""

_SHARED_ACCEPT_BATCH = 1
"""The same for workers: the first one to wake up would otherwise take all connections."""


def accept_batch(*, is_shared: bool) -> int:
    """How many waiting connections to accept at once, for the `backlog` of uvicorn."""
    return _SHARED_ACCEPT_BATCH if is_shared else _ACCEPT_BATCH


class PublicServer(uvicorn.Server):
    """A server whose queue of waiting connections is longer than what it accepts at once."""

    def __init__(
        self, config: uvicorn.Config, *, on_ready: Callable[[], None] | None = None
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)
        if self._on_ready is not None and self.started:
            self._on_ready()

    async def run_until_stopped(
        self, listener: socket.socket, *, left: Awaitable[None] | None = None
    ) -> None:
        """Serve until a signal comes, the task is cancelled, or `left` is done."""
        serving = asyncio.create_task(self.serve(sockets=[listener]))
        leaving = asyncio.ensure_future(left) if left is not None else None
        if leaving is not None:
            leaving.add_done_callback(lambda _: self._stop())
        try:
            # Shielded, so that a cancelled server can still close its connections and the gateway.
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            self._stop()
            await serving
            raise
        finally:
            if leaving is not None:
                leaving.cancel()

    def _stop(self) -> None:
        self.should_exit = True
