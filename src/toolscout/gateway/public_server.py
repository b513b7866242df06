"""Run uvicorn on the public socket, alone or as one of several workers that accept from it."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn

from .fleet.fair_acceptor import FairAcceptor
from .fleet.worker import Worker
from .sockets import BACKLOG

ACCEPT_BATCH = 64
"""How many of the waiting connections are accepted at once, for the `backlog` of uvicorn.

Accepting takes a file for each before any of them is counted, so this has to be less than the
files that are left free.
"""


class PublicServer(uvicorn.Server):
    """A server whose queue of waiting connections is longer than what it accepts at once."""

    def __init__(self, config: uvicorn.Config, *, worker: Worker | None = None) -> None:
        super().__init__(config)
        self._worker = worker
        self._acceptors: list[FairAcceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        if self._worker is None:
            await super().startup(sockets)
        else:
            await super().startup([])
            self._acceptors = [self._share(each, self._worker) for each in sockets or ()]
        for listener in sockets or ():
            listener.listen(BACKLOG)
        if self._worker is not None and self.started:
            self._worker.report_ready()

    async def on_tick(self, counter: int) -> bool:
        """Tell the other workers about connections that were closed."""
        for acceptor in self._acceptors:
            acceptor.publish()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections."""
        for acceptor in self._acceptors:
            acceptor.close()
        await super().shutdown(sockets)

    def _share(self, listener: socket.socket, worker: Worker) -> FairAcceptor:
        """Accept what the other workers leave."""
        acceptor = FairAcceptor(
            listener,
            self._create_protocol,
            worker=worker.number,
            counts=worker.counts,
            count_open=lambda: len(self.server_state.connections),
        )
        acceptor.start()
        return acceptor

    def _create_protocol(self) -> asyncio.Protocol:
        # As uvicorn does it for the sockets that it accepts from.
        create: Any = self.config.http_protocol_class
        return create(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def run_until_stopped(self, listener: socket.socket) -> None:
        """Serve until a signal comes, the task is cancelled, or the supervisor has ended."""
        serving = asyncio.create_task(self.serve(sockets=[listener]))
        leaving = asyncio.create_task(self._worker.wait_until_left()) if self._worker else None
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
