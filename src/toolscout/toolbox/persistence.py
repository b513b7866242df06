"""Saves a session after each change, with optimistic concurrency between writers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from threading import Lock
from typing import TypeVar

from ..disclosure.session_state import SessionState
from ..errors import StoreError
from ..store.contract import Store
from .pending_approvals import APPROVALS
from .unsaved_sessions import UnsavedSessions

T = TypeVar("T")
Move = Callable[[SessionState], tuple[SessionState, T]]
"""A pure function of the state: the new state and a value. It may run again on newer state."""

# Each failed attempt means that another writer succeeded, so some writer always makes progress.
# So many failures in a row mean far too many writers for one conversation.
_MAX_ATTEMPTS = 200


@dataclass(frozen=True, slots=True)
class _LocalState:
    """The state known in this process, and the moves in it that are not stored yet."""

    session: SessionState
    unsaved: tuple[Callable[[SessionState], SessionState], ...] = ()

    def with_move(self, move: Move[T], session: SessionState) -> _LocalState:
        """Add an unsaved move that led to this session."""
        if session == self.session:
            return self
        return _LocalState(session, (*self.unsaved, lambda s: move(s)[0]))

    def rebase(self, newest: SessionState | None) -> _LocalState:
        """Apply the unsaved moves to the newest stored state."""
        # The record was evicted or expired while the conversation continued: the state known here
        # is then the newest. Version 0 creates the record again.
        if newest is None:
            # Approvals do not come back with it: another process may have used one of them and
            # deleted the record that said so.
            was_stored = self.session.version > 0
            session = self.session.without_section(APPROVALS) if was_stored else self.session
            return _LocalState(session.with_version(0), self.unsaved)
        return _LocalState(reduce(lambda s, move: move(s), self.unsaved, newest), self.unsaved)


class StoredSession:
    """One conversation's state in a store; thread-safe.

    A move is applied to the newest known state and written with its version. If another writer
    was first, the state is read again and the move is applied to that, so nothing is lost. If
    the store fails, the move stays in memory and is written with the next one, or when the store
    works again; until then this object is in `unsaved_sessions`.

    Writers take turns. Reading and `apply_locally` never wait for them: the state is a frozen
    value, and no lock is held while a move runs or the store works, only for the final swap.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - as the session calls it
        store: Store,
        *,
        on_failure: Callable[[StoreError], None],
        unsaved_sessions: UnsavedSessions,
    ) -> None:
        self._store = store
        self._on_failure = on_failure
        self._unsaved_sessions = unsaved_sessions
        self._write_lock = Lock()
        self._swap_lock = Lock()
        self._has_failed = False
        self._state = _LocalState(_read_state(store, id) or SessionState(id))

    @property
    def session(self) -> SessionState:
        """The state as it is known in this process."""
        return self._state.session

    @property
    def has_unsaved(self) -> bool:
        """Whether there are changes that the store does not have yet."""
        return bool(self._state.unsaved)

    @property
    def is_overdue(self) -> bool:
        """Whether there are changes that could not be written."""
        return self._has_failed and self.has_unsaved

    def refresh(self) -> None:
        """Take over what other processes wrote; an expired or evicted session starts new."""
        with self._write_lock:
            before = self._state
            if before.unsaved:
                self._rebase()
                return
            # A session that was never stored is not expired: it keeps its state.
            was_stored = before.session.version > 0
            fallback = SessionState(before.session.id) if was_stored else before.session
            stored = _read_state(self._store, fallback.id)
            # No retry: a change made meanwhile is newer than what was read.
            self._compare_and_swap(before, _LocalState(stored or fallback))

    def apply_locally(self, move: Move[T]) -> T:
        """Apply a move in memory; the next write saves it."""
        while True:
            before = self._state
            session, value = move(before.session)
            if self._compare_and_swap(before, before.with_move(move, session)):
                return value

    def try_read(self, move: Move[T]) -> tuple[T] | None:
        """The value of a move in a 1-tuple if it changes nothing, else None.

        A tuple, because None may be the value.
        """
        before = self.session
        after, value = move(before)
        return (value,) if after == before else None

    def apply(self, move: Move[T]) -> T:
        """Apply a move and save it; if the store fails, keep it in memory."""
        with self._write_lock:
            try:
                return self._write_move(move)
            except StoreError as error:
                # Raising would lose the result of a tool that has run, and the model would call
                # it again (docs/decisions/sessions.md).
                value, failure = self.apply_locally(move), error
                self._has_failed = True
        # Outside the lock: the callback may use this session.
        self._unsaved_sessions.retry_later()
        self._on_failure(failure)
        return value

    def apply_durably(self, move: Move[T]) -> T:
        """Apply a move to the newest stored state and save it; raise if the store fails.

        For what must happen once among all processes: of two writers only one gets through with
        the same version, and the other sees its change.
        """
        self.refresh()
        with self._write_lock:
            # A local change replaces a refresh, which would leave older state in place here.
            self._rebase()
            return self._write_move(move)

    def save(self) -> None:
        """Write pending changes."""
        self.apply(lambda session: (session, None))

    def try_save(self) -> bool:
        """Write pending changes; False if the store fails, which was reported before."""
        with self._write_lock:
            try:
                self._write_move(lambda session: (session, None))
            except StoreError:
                return False
        return True

    def forget(self) -> None:
        """Delete the conversation from the store, and reset the state here."""
        with self._write_lock:
            new = _LocalState(SessionState(self.session.id))
            self._store.delete(new.session.id)
            while not self._compare_and_swap(self._state, new):
                pass  # a local move came in between

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
        """Apply a move that was written to state that changed locally during the write.

        The first `written` unsaved moves are in the store now; the later ones stay unsaved.
        """
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
            pass  # a local move came in between

    def _compare_and_swap(self, before: _LocalState, after: _LocalState) -> bool:
        """Replace the state if it is still `before`; return whether it was."""
        with self._swap_lock:
            if self._state is not before:
                return False
            self._state = after
            self._has_failed = self._has_failed and bool(after.unsaved)
            pending = self._unsaved_sessions
            (pending.add if after.unsaved else pending.discard)(self)
            return True


def _read_state(store: Store, id: str) -> SessionState | None:  # noqa: A002 - as the session calls it
    record = store.get(id)
    return SessionState.from_json(record.text, version=record.version) if record else None


def _contention_error(id: str) -> StoreError:  # noqa: A002 - as the session calls it
    return StoreError(
        f"Session {id!r} has too many writers at once.",
        hint="Give each conversation its own id.",
    )
