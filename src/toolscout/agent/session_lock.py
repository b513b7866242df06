"""Session lock: one run at a time per conversation, in order of arrival."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, WeakValueDictionary

from ..errors import ToolscoutError
from ..toolbox.toolbox import Toolbox

# A context variable, since tasks that a tool starts inherit it: that shows that a new run belongs
# to one in progress. Waiting for that one would be a deadlock.
_ACTIVE_RUNS: ContextVar[frozenset[object]] = ContextVar("runs that the code at work is part of")


@dataclass(slots=True, eq=False, weakref_slot=True)
class _SessionLock:
    """The lock of one conversation, and the run that holds it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    run: object = None


# Weak, so that locks go away with their toolbox and with the last run that waits for them.
_LOCKS: WeakKeyDictionary[Toolbox, WeakValueDictionary[str, _SessionLock]] = WeakKeyDictionary()


@asynccontextmanager
async def lock_session(box: Toolbox, session: str) -> AsyncGenerator[None]:
    """Wait until no other run of this process, of any agent, works in the conversation.

    Raises for a run that would wait for itself: one started by its own tool or hook.
    """
    session_lock = _LOCKS.setdefault(box, WeakValueDictionary()).setdefault(session, _SessionLock())
    active = _ACTIVE_RUNS.get(frozenset())
    if session_lock.run in active:
        raise ToolscoutError(
            f"Session {session!r} is busy with the run that asks for another one.",
            hint="Inside a tool or a hook, give the run its own session.",
        )
    async with session_lock.lock:
        run = session_lock.run = object()
        token = _ACTIVE_RUNS.set(active | {run})
        try:
            yield
        finally:
            session_lock.run = None
            _ACTIVE_RUNS.reset(token)
