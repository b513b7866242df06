"""Connections to a socket that several workers share: each worker gets its part."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, closing

import pytest

from toolscout.gateway.fleet.connection_counts import ConnectionCounts
from toolscout.gateway.fleet.fair_acceptor import FairAcceptor


class Greeter(asyncio.Protocol):
    """Sends the number of its worker, and counts itself while it is open."""

    def __init__(self, worker: int, opened: set[asyncio.Protocol]) -> None:
        self._worker = worker
        self._opened = opened

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._opened.add(self)
        transport.write(f"{self._worker}\n".encode())

    def connection_lost(self, exc: Exception | None) -> None:
        self._opened.discard(self)


Opened = list[tuple[int, asyncio.StreamWriter]]


class Shared:
    """A socket, and the workers that accept from it."""

    def __init__(self, stack: ExitStack, workers: int) -> None:
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100))
        self._counts = stack.enter_context(closing(ConnectionCounts.create(workers)))
        self._opened: dict[int, set[asyncio.Protocol]] = {}
        self._writers: set[asyncio.StreamWriter] = set()

    def start(self, worker: int) -> None:
        opened = self._opened[worker] = set()
        acceptor = FairAcceptor(
            # Of its own, as in another process: a loop watches each only once.
            self._stack.enter_context(self._listener.dup()),
            lambda: Greeter(worker, opened),
            worker=worker,
            counts=self._counts,
            count_open=lambda: len(opened),
        )
        acceptor.start()
        self._stack.callback(acceptor.close)

    def freeze(self, worker: int) -> None:
        """Let a worker look as if it had no connections and were about to accept."""
        self._counts.write(worker, 0)

    async def connect(self, number: int) -> Opened:
        """Open connections at once; the worker of each."""
        host, port = self._listener.getsockname()
        opened = await asyncio.gather(*(asyncio.open_connection(host, port) for _ in range(number)))
        self._writers |= {writer for _, writer in opened}
        return [(int(await reader.readline()), writer) for reader, writer in opened]

    async def disconnect(self, writers: set[asyncio.StreamWriter]) -> None:
        """Close connections, and wait until their workers know it."""
        left = sum(map(len, self._opened.values())) - len(writers)
        for writer in writers:
            writer.close()
            await writer.wait_closed()
        self._writers -= writers
        # Until the loop has read all ends.
        while sum(map(len, self._opened.values())) > left:  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def close(self) -> None:
        await self.disconnect(set(self._writers))


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    with ExitStack() as stack:
        async with asyncio.timeout(30):
            made = Shared(stack, 3)
            yield made
            await made.close()


def count(opened: Opened) -> list[int]:
    found = [worker for worker, _ in opened]
    return [found.count(worker) for worker in range(3)]


async def test_a_burst_of_connections_is_shared_evenly(shared: Shared) -> None:
    for worker in range(3):
        shared.start(worker)
    opened = await shared.connect(30)
    assert min(count(opened)) >= 8
    # The worker that has lost its connections gets the next ones.
    await shared.disconnect({writer for worker, writer in opened if worker == 1})
    assert count(await shared.connect(10))[1] >= 7


async def test_a_worker_that_runs_alone_takes_all(shared: Shared) -> None:
    shared.start(2)
    assert count(await shared.connect(20)) == [0, 0, 20]


async def test_connections_do_not_wait_for_a_worker_that_is_frozen(shared: Shared) -> None:
    shared.start(0)
    shared.freeze(1)
    started = time.monotonic()
    assert count(await shared.connect(50)) == [50, 0, 0]
    assert time.monotonic() - started < 1
