"""Letting go of an engine: its clients closed, and nobody kept waiting by a slow service."""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import Protocol, runtime_checkable

from ..search.engine import Engine

WAIT_SECONDS = 2.0
"""How long the vectors at hand are waited for."""


@runtime_checkable
class Closes(Protocol):
    """An embedder that holds something open."""

    def close(self) -> None:
        """Let go of it."""
        ...


async def let_go(engine: Engine, *, wait_seconds: float = WAIT_SECONDS) -> None:
    """End an engine and the connections of its embedders.

    A service that is slow to answer holds up nobody: what it was asked for ends by itself, or with
    the process.
    """
    thread = Thread(target=_end, args=(engine,), name="toolscout-closing", daemon=True)
    thread.start()
    await asyncio.to_thread(thread.join, wait_seconds)


def _end(engine: Engine) -> None:
    engine.close()
    for embedder in engine.embedders:
        if isinstance(embedder, Closes):
            embedder.close()
