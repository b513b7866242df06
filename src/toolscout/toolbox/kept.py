"""A session that is saved after each move, by however many writers."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from ..disclosure.session import Session
from ..errors import StoreError
from ..store.contract import Store

T = TypeVar("T")
Move = Callable[[Session], tuple[Session, T]]
"""A pure step: the session after it, and what it has to say. It may be done over on newer state."""

_TRIES = 200


class Kept:
    """One conversation's state in a store; safe from many threads.

    A move is done on the newest state known and written with its version; where another writer
    was first, the state is read again and the move done over on that, so nothing is lost. When
    the store fails, the move holds in memory and is written with the next; as long as there is
    such a move, this is one of `waiting`, so that nobody lets go of it.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - as the session calls it
        store: Store,
        *,
        on_failure: Callable[[StoreError], None],
        waiting: set[Kept],
    ) -> None:
        self._store = store
        self._on_failure = on_failure
        self._waiting = waiting
        self._lock = Lock()
        self._unsaved: list[Callable[[Session], Session]] = []
        self._session = _read(store, id) or Session(id)

    @property
    def session(self) -> Session:
        """The state as it is known here."""
        return self._session

    def refresh(self) -> None:
        """Take over what other processes wrote since; what expired or made room is new again."""
        with self._lock:
            if not self._unsaved:
                known = self._session if not self._session.version else Session(self._session.id)
                self._session = _read(self._store, self._session.id) or known

    def note(self, move: Move[T]) -> T:
        """Make a move now and save it with the next one."""
        with self._lock:
            after, value = move(self._session)
            if after != self._session:
                self._hold(after, move)
            return value

    def glance(self, move: Move[T]) -> tuple[T] | None:
        """Make a move here and now if it changes nothing and nobody is in the way; else None."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            after, value = move(self._session)
            return (value,) if after == self._session else None
        finally:
            self._lock.release()

    def change(self, move: Move[T]) -> T:
        """Make a move and save it."""
        with self._lock:
            after, value = move(self._session)
            try:
                for _ in range(_TRIES):
                    if (after == self._session and not self._unsaved) or self._put(after):
                        return value
                    self._take_over()
                    after, value = move(self._session)
                raise _crowded(self._session.id)
            except StoreError as error:
                self._hold(after, move)
                failure = error
        # Not under the lock: whoever is told may look at the conversation.
        self._on_failure(failure)
        return value

    def save(self) -> None:
        """Write what is not written yet."""
        self.change(lambda session: (session, None))

    def forget(self) -> None:
        """Remove the conversation from the store; what is left here starts anew."""
        with self._lock:
            self._store.delete(self._session.id)
            self._session = Session(self._session.id)
            self._let_go()

    def _put(self, after: Session) -> bool:
        record = self._store.put(after.id, after.to_json(), expected=self._session.version)
        if record is not None:
            self._session = after.at(record.version)
            self._let_go()
        return record is not None

    def _hold(self, after: Session, move: Move[T]) -> None:
        self._session = after
        self._unsaved.append(lambda s: move(s)[0])
        self._waiting.add(self)

    def _let_go(self) -> None:
        self._unsaved.clear()
        self._waiting.discard(self)

    def _take_over(self) -> None:
        """The newest state of all writers, with the moves that only this one knows on top.

        A record that is gone was evicted or expired under a conversation that goes on: what is
        known here is then the newest.
        """
        newest = _read(self._store, self._session.id) or self._session.at(0)
        for move in self._unsaved:
            newest = move(newest)
        self._session = newest


def _read(store: Store, id: str) -> Session | None:  # noqa: A002 - as the session calls it
    record = store.get(id)
    return Session.from_json(record.text, version=record.version) if record else None


def _crowded(id: str) -> StoreError:  # noqa: A002 - as the session calls it
    return StoreError(
        f"Session {id!r} is written by too many at once.",
        hint="Give each conversation an id of its own.",
    )
