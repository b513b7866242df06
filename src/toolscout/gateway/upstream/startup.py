"""When servers start that nobody has asked for: after the first answer, never before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from ...search.engine import Engine
from ..lazy_encoder import preload_encoders
from .upstreams import Upstreams

QUIET_SECONDS = 3.0
"""How long a gateway that nobody asks anything lets its servers sleep."""

_REPLY_GRACE_SECONDS = 0.05


class BackgroundStartup:
    """Gets the servers and the encoder going in the background.

    All of that takes the machine's attention, so a client that has just started the gateway gets
    its first answer before. Whatever a search finds or a call needs is woken for it alone.
    """

    def __init__(self, upstreams: Upstreams, engine: Engine, *, quiet_seconds: float) -> None:
        self._upstreams = upstreams
        self._engine = engine
        self._quiet_seconds = quiet_seconds
        self._has_answered = asyncio.Event()

    async def run(self) -> None:
        """Start everything, once a client was answered or none seems to be there."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._quiet_seconds):
                await self._has_answered.wait()
        preload_encoders(self._engine)
        await self._upstreams.start_all()

    def mark_answered(self) -> None:
        """A client has its answer."""
        if not self._has_answered.is_set():
            _run_soon(self._has_answered.set)

    def wake_servers(self, servers: Iterable[str]) -> None:
        """A search has found tools of these servers, which will be called next."""
        names = tuple(servers)
        _run_soon(lambda: self._upstreams.wake(*names))


def _run_soon(do: Callable[[], None]) -> None:
    """Do something once the answer at hand is out."""
    asyncio.get_running_loop().call_later(_REPLY_GRACE_SECONDS, do)
