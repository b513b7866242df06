"""Ledgers of pins in a store that several gateways share; news of a change reach all at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import Protocol

from ...errors import StoreError
from ...store.change_feed import MISSED, Change, ChangeFeed
from ...store.contract import Record, Store
from .pin_files import Stamp

SPACE = "tool_pins"
"""The space of the store."""

TOPIC = "tool_pins"
"""The topic of the change feed; the payload is the label that was written."""

# A call is not kept waiting for longer; it then goes by the news alone.
_VERSION_SECONDS = 1.0
# More servers than any gateway has.
_MAX_LEDGERS = 100_000


class SequencedStore(Store, Protocol):
    """A store that numbers its writes."""

    def sequences(self, *keys: str, timeout_seconds: float | None = None) -> Mapping[str, int]:
        """A number for each of these keys that exists, which every write of it changes."""
        ...


class NamedLocks(Protocol):
    """Locks by name between processes."""

    def hold(self, name: str) -> AbstractContextManager[None]:
        """Keep other threads and processes out."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class LedgerRecords:
    """One record for each ledger.

    A process that lives long gives the feed of the store. It makes `stamp`, which is asked before
    every call, answer from memory: what another gateway writes changes it. A `place` names the
    store to people.
    """

    def __init__(
        self,
        store: SequencedStore,
        *,
        locks: NamedLocks,
        place: str,
        feed: ChangeFeed | None = None,
    ) -> None:
        self._store = store
        self._locks = locks
        self._place = place
        self._guard = Lock()
        self._changes = 0
        self._stamps: dict[str, int] = {}
        # Whether a gateway has met the server of each label; None if it has to be read again.
        self._known: Mapping[str, bool] | None = None
        # Before anything is read, so that no change is missed.
        self._unsubscribe = feed.subscribe(self._on_change) if feed is not None else None

    def labels(self) -> Sequence[str]:
        """The labels of all records, sorted."""
        return sorted(self._load_known())

    def read(self, label: str) -> bytes | None:
        """The text of a record, or None if there is none."""
        record = self._store.get(label)
        return record.text.encode() if record else None

    def write(self, label: str, text: str, *, is_unmet: bool) -> None:
        """Replace a record; under the lock of its server nobody else does."""
        del is_unmet  # the text says so too
        known = self._store.get(label)
        if self._store.put(label, text, expected=known.version if known else 0) is None:
            raise StoreError(
                f"The pins of {label!r} were changed by another process.", hint="Try again."
            )
        self._note_change(label)

    def delete(self, label: str) -> None:
        """Delete a record, if there is one."""
        self._store.delete(label)
        self._note_change(label)

    def rename(self, before: str, after: str) -> None:
        """Give a record another label."""
        text = self.read(before)
        if text is not None:
            self.write(after, text.decode(), is_unmet=False)
            self.delete(before)

    def is_met(self, label: str) -> bool:
        """Whether there is a record, of a server that a gateway has met."""
        try:
            return self._load_known().get(label, False)
        except StoreError:
            # Then the server lists its tools itself, and they are compared when the store answers.
            return False

    def stamp(self, label: str) -> Stamp:
        """A value that changes whenever a gateway writes pins of the server's name."""
        # Of the name: ledger_for() reads what was revoked under other labels of the name, too.
        with self._guard:
            return (self._stamps.get("", 0), self._stamps.get(_server(label), 0))

    @property
    def is_stamp_exact(self) -> bool:
        """False: news take a moment to arrive."""
        return False

    def version(self, own: str, shared: str) -> Stamp:
        """The numbers of the last writes."""
        known = self._store.sequences(own, shared, timeout_seconds=_VERSION_SECONDS)
        return known.get(own, 0), known.get(shared, 0)

    def write_lock(self, server: str) -> AbstractContextManager[None]:
        """Keep other threads and processes from writing the records of a server name."""
        # A command without a feed does not know the labels that others added since.
        with self._guard:
            self._known = None
        return self._locks.hold(f"{SPACE}/{server}")

    def describe(self, label: str) -> str:
        """The record and its store."""
        return f"the record {label!r} of {SPACE} in {self._place}"

    def close(self) -> None:
        """End the subscription, and close the store."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._store.close()
        self._locks.close()

    def _load_known(self) -> Mapping[str, bool]:
        with self._guard:
            known, changes = self._known, self._changes
        if known is None:
            records = self._store.list(limit=_MAX_LEDGERS)
            known = {record.key: _is_met(record) for record in records}
            with self._guard:
                if changes == self._changes:
                    self._known = known
        return known

    def _on_change(self, change: Change) -> None:
        if change == MISSED:
            self._note_change("")
        elif change.topic == TOPIC:
            self._note_change(change.payload)

    def _note_change(self, label: str) -> None:
        with self._guard:
            self._changes += 1
            self._stamps[_server(label)] = self._changes
            self._known = None


def _server(label: str) -> str:
    return label.partition(".")[0]


def _is_met(record: Record) -> bool:
    # Only few texts have the word, and most are long.
    if '"is_known"' not in record.text:
        return True
    try:
        return bool(json.loads(record.text).get("is_known", True))
    except (ValueError, AttributeError):
        return False
