"""The sessions with changes that the store does not have, and the thread that writes them later."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Lock, Thread
from typing import Protocol

RETRY_SECONDS = 0.5
"""How often a write that failed is tried again."""


class UnsavedSession(Protocol):
    """A session with changes in memory."""

    @property
    def is_overdue(self) -> bool:
        """Whether a write of its changes has failed."""
        ...

    def save(self) -> None:
        """Write its changes; a failure is reported."""
        ...

    def try_save(self) -> bool:
        """Write its changes; False if the store fails."""
        ...


class UnsavedSessions:
    """Keeps sessions from being garbage-collected until they are saved; thread-safe."""

    def __init__(self) -> None:
        self._sessions: set[UnsavedSession] = set()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._is_closed = Event()

    def __iter__(self) -> Iterator[UnsavedSession]:
        with self._lock:
            return iter(tuple(self._sessions))

    def add(self, session: UnsavedSession) -> None:
        """Keep a session."""
        with self._lock:
            self._sessions.add(session)

    def discard(self, session: UnsavedSession) -> None:
        """A session is saved."""
        with self._lock:
            self._sessions.discard(session)

    def retry_later(self) -> None:
        """Write the sessions whose writes failed as soon as the store works again."""
        with self._lock:
            if self._thread is None and not self._is_closed.is_set():
                self._thread = Thread(target=self._retry, name="toolscout-unsaved", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Try no more."""
        self._is_closed.set()

    def _retry(self) -> None:
        while not self._is_closed.wait(RETRY_SECONDS):
            # The first failure ends the round: the others would wait for the same store.
            all(session.try_save() for session in self if session.is_overdue)
            with self._lock:
                if not any(session.is_overdue for session in self._sessions):
                    self._thread = None
                    return
