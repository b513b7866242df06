"""A session that is saved after each move, by however many writers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from threading import Lock
from typing import TypeVar

from ..disclosure.session_state import SessionState
from ..errors import StoreError
from ..store.contract import Store

T = TypeVar("T")
Move = Callable[[SessionState], tuple[SessionState, T]]
"""A pure step: the session after it, and what it has to say. It may be done over on newer state."""

_MAX_ATTEMPTS = 200


@dataclass(frozen=True, slots=True)
class _LocalState:
    """What is known of a session here, and the moves in it that the store does not have."""

    session: SessionState
    unsaved: tuple[Callable[[SessionState], SessionState], ...] = ()

    def with_move(self, move: Move[T], session: SessionState) -> _LocalState:
        """With one more such move, which led to this session."""
        if session == self.session:
            return self
        return _LocalState(session, (*self.unsaved, lambda s: move(s)[0]))

    def rebase(self, newest: SessionState | None) -> _LocalState:
        """The newest state of all writers, with the moves that only this one knows on top.

        A record that is gone was evicted or expired under a conversation that goes on: what is
        known here is then the newest.
        """
        if newest is None:
            return _LocalState(self.session.with_version(0), self.unsaved)
        return _LocalState(reduce(lambda s, move: move(s), self.unsaved, newest), self.unsaved)


class StoredSession:
    """One conversation's state in a store; safe from many threads.

    A move is done on the newest state known and written with its version; where another writer
    was first, the state is read again and the move done over on that, so nothing is lost. When
    the store fails, the move holds in memory and is written with the next; as long as there is
    such a move, this is one of `waiting`, so that nobody lets go of it.

    Those who write take turns. Whoever only looks or notes never waits for them: the state is a
    value, and is locked neither while a move is made nor while the store is at work.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - as the session calls it
        store: Store,
        *,
        on_failure: Callable[[StoreError], None],
        waiting: set[StoredSession],
    ) -> None:
        self._store = store
        self._on_failure = on_failure
        self._waiting = waiting
        self._writing = Lock()
        self._swapping = Lock()
        self._state = _LocalState(_read_state(store, id) or SessionState(id))

    @property
    def session(self) -> SessionState:
        """The state as it is known here."""
        return self._state.session

    def refresh(self) -> None:
        """Take over what other processes wrote since; what expired or made room is new again."""
        with self._writing:
            before = self._state
            if not before.unsaved:
                known = (
                    before.session
                    if not before.session.version
                    else SessionState(before.session.id)
                )
                self._compare_and_swap(
                    before, _LocalState(_read_state(self._store, known.id) or known)
                )

    def apply_locally(self, move: Move[T]) -> T:
        """Make a move now and save it with the next one."""
        while True:
            before = self._state
            session, value = move(before.session)
            if self._compare_and_swap(before, before.with_move(move, session)):
                return value

    def try_read(self, move: Move[T]) -> tuple[T] | None:
        """Make a move here and now if it changes nothing; else None."""
        before = self.session
        after, value = move(before)
        return (value,) if after == before else None

    def apply(self, move: Move[T]) -> T:
        """Make a move and save it."""
        with self._writing:
            try:
                return self._write_move(move)
            except StoreError as error:
                value, failure = self.apply_locally(move), error
        # Not while others wait to write: whoever is told may look at the conversation.
        self._on_failure(failure)
        return value

    def save(self) -> None:
        """Write what is not written yet."""
        self.apply(lambda session: (session, None))

    def forget(self) -> None:
        """Remove the conversation from the store; what is left here starts anew."""
        with self._writing:
            new = _LocalState(SessionState(self.session.id))
            self._store.delete(new.session.id)
            while not self._compare_and_swap(self._state, new):
                pass  # something was noted meanwhile

    def _write_move(self, move: Move[T]) -> T:
        for _ in range(_MAX_ATTEMPTS):
            before = self._state
            session, value = move(before.session)
            if session == before.session and not before.unsaved:
                return value
            expected = before.session.version
            record = self._store.put(session.id, session.to_json(), expected=expected)
            if record is None:
                self._rebase()
            elif self._compare_and_swap(before, _LocalState(session.with_version(record.version))):
                return value
            else:
                return self._reapply(move, record.version, written=len(before.unsaved))
        raise _contention_error(self.session.id)

    def _reapply(self, move: Move[T], version: int, *, written: int) -> T:
        """Put a move that was written after those noted meanwhile, which are still to be saved."""
        while True:
            now = self._state
            session, value = move(now.session)
            if self._compare_and_swap(
                now, _LocalState(session.with_version(version), now.unsaved[written:])
            ):
                return value

    def _rebase(self) -> None:
        newest = _read_state(self._store, self.session.id)
        while not self._compare_and_swap(now := self._state, now.rebase(newest)):
            pass  # something was noted meanwhile

    def _compare_and_swap(self, before: _LocalState, after: _LocalState) -> bool:
        """Go from one state to another, unless it is no longer the one there is."""
        with self._swapping:
            if self._state is not before:
                return False
            self._state = after
            (self._waiting.add if after.unsaved else self._waiting.discard)(self)
            return True


def _read_state(store: Store, id: str) -> SessionState | None:  # noqa: A002 - as the session calls it
    record = store.get(id)
    return SessionState.from_json(record.text, version=record.version) if record else None


def _contention_error(id: str) -> StoreError:  # noqa: A002 - as the session calls it
    return StoreError(
        f"Session {id!r} is written by too many at once.",
        hint="Give each conversation an id of its own.",
    )
