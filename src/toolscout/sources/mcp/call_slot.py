"""The slot that one call holds on a server, which others may use while its user is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class CallSlots(asyncio.Semaphore):
    """The slots of a server."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._count = count

    @property
    def taken(self) -> int:
        """How many calls have a slot, including those for which the server is still starting."""
        return self._count - self._value


class CallSlot:
    """A place of one call under a lock or a semaphore."""

    def __init__(self, lock: asyncio.Semaphore | asyncio.Lock) -> None:
        self._lock = lock
        self._is_held = False
        self._is_over = False
        self._open_questions = 0

    async def take(self) -> None:
        """Wait for the place."""
        await self._lock.acquire()
        if self._is_over:  # the call has ended meanwhile
            self._lock.release()
        else:
            self._is_held = True

    def leave(self) -> None:
        """Release the place for good."""
        self._is_over = True
        self._give_up()

    @asynccontextmanager
    async def pause(self) -> AsyncGenerator[None]:
        """Release the place while the block runs, and wait for it again afterwards."""
        self._give_up()
        self._open_questions += 1
        try:
            yield
        finally:
            self._open_questions -= 1
        # Not if the wait for the user was cancelled: then nothing continues that needs the place.
        if not self._open_questions and not self._is_over:
            await self.take()

    def _give_up(self) -> None:
        if self._is_held:
            self._is_held = False
            self._lock.release()
