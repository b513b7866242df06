"""One run at a time in a conversation: others wait for their turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, WeakValueDictionary

from ..errors import ToolscoutError
from ..toolbox.toolbox import Toolbox

_ACTIVE_RUNS: ContextVar[frozenset[object]] = ContextVar("runs that the code at work is part of")


@dataclass(slots=True, eq=False, weakref_slot=True)
class _SessionLock:
    """Who is at work in a conversation, and who waits, in the order they came."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    run: object = None


_LOCKS: WeakKeyDictionary[Toolbox, WeakValueDictionary[str, _SessionLock]] = WeakKeyDictionary()


@asynccontextmanager
async def lock_session(box: Toolbox, session: str) -> AsyncGenerator[None]:
    """Wait until no other run of this program is at work in the conversation, whichever agent's.

    A run that would wait for itself is refused: one started by its own tool or hook.
    """
    mine = _LOCKS.setdefault(box, WeakValueDictionary()).setdefault(session, _SessionLock())
    ours = _ACTIVE_RUNS.get(frozenset())
    if mine.run in ours:
        raise ToolscoutError(
            f"Session {session!r} is at work on the very run that asks for another.",
            hint="Inside a tool or a hook, give the run a session of its own.",
        )
    async with mine.lock:
        run = mine.run = object()
        token = _ACTIVE_RUNS.set(ours | {run})
        try:
            yield
        finally:
            mine.run = None
            _ACTIVE_RUNS.reset(token)
