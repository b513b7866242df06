"""Pins on disk: one file for each server, safe to edit while a gateway runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from ...errors import ConfigError, StoreError
from ...sources.mcp.servers import Server
from ...store.file_lock import hold_file_lock
from .pins import Pin, PinLedger, ToolOffer

# The version of the file format; another one is an error rather than a guess.
_FORMAT = 1
_LOCK_TIMEOUT_SECONDS = 10.0
_MAX_PLACE_LENGTH = 200
Stamp = tuple[int, int]
"""Identifies one version of a server's file."""


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Identifies a server: a hash of its command or address, and the same as text."""

    server: str
    key: str
    place: str

    @classmethod
    def of(cls, server: Server) -> ServerIdentity:
        """The identity of a configured server."""
        # Another argument, folder or address makes it another server, with pins of its own.
        # Secrets are redacted first, so a renewed token does not, and `place` can be printed.
        command = [server.redact(part) for part in (server.command, *server.args)]
        is_local = server.transport == "stdio"
        facts = [*command, server.redact(server.cwd)] if is_local else [server.location]
        key = hashlib.sha256(json.dumps([is_local, *facts]).encode()).hexdigest()[:12]
        place = " ".join(command) if is_local else server.location
        return cls(server.name, key, place[:_MAX_PLACE_LENGTH])


class PinStore:
    """The ledgers of all servers, in one folder.

    A file is called `SERVER.KEY.json`, or `SERVER.json` if it was written when servers were
    distinguished by name only. A label is such a name without its ending; part of the key is
    enough.
    """

    def __init__(
        self, folder: str | Path, *, lock_timeout_seconds: float = _LOCK_TIMEOUT_SECONDS
    ) -> None:
        self._folder = Path(folder)
        self._lock_timeout_seconds = lock_timeout_seconds

    @contextmanager
    def write_lock(self, label: str) -> Generator[None]:
        """Keep other threads and processes from writing the pins of a server name."""
        # It covers all servers of the name: claim() renames the file that they share, and
        # ledger_for() reads the files of all of them.
        path = self._folder / f".{label.partition('.')[0]}.lock"
        with hold_file_lock(path, timeout_seconds=self._lock_timeout_seconds):
            yield

    def ledgers(self, label: str = "") -> tuple[PinLedger, ...]:
        """The ledgers that a label matches; without one, all of them."""
        # A file that cannot be read raises. Treating it as empty would approve everything again.
        name, _, key = label.partition(".")
        stems = (p.name.removesuffix(".json").partition(".") for p in self._ledger_files())
        return tuple(
            self._read_ledger(server, server_key)
            for server, _, server_key in stems
            if name in ("", server) and server_key.startswith(key)
        )

    def ledger(self, label: str) -> PinLedger:
        """The one ledger that a label matches, or an empty one; several are an error."""
        found = self.ledgers(label)
        if len(found) > 1:
            several = "; ".join(f"{each.label} ({each.place})" for each in found)
            raise ConfigError(
                f"Several servers are called {label!r}: {several}.",
                hint="Name one of them, with its number.",
            )
        return found[0] if found else PinLedger(label)

    def ledger_for(self, identity: ServerIdentity) -> PinLedger:
        """The pins of a configured server."""
        server = identity.server
        for key in (identity.key, ""):
            if self._ledger_path(server, key).exists():
                ledger = self._read_ledger(server, key)
                return replace(ledger, key=identity.key, place=identity.place)
        # A server that is new under a known name starts without pins. But tools that the user
        # revoked under that name stay revoked: a changed argument must not bring them back.
        pins = (pin for ledger in self.ledgers(server) for pin in ledger.pins.values())
        revoked = {p.tool: Pin(p.tool, standing="revoked") for p in pins if p.standing == "revoked"}
        return PinLedger(server, revoked, key=identity.key, place=identity.place)

    def claim(self, identity: ServerIdentity) -> None:
        """Take over a file that was written by name only; the first server to ask gets it."""
        before = self._ledger_path(identity.server)
        path = self._ledger_path(identity.server, identity.key)
        if not path.exists() and before.exists():
            self._read_ledger(identity.server)  # raises if it is damaged
            # Another gateway may have been first, or the folder may be read-only. ledger_for() then
            # takes the file that is there.
            with contextlib.suppress(OSError, StoreError), self.write_lock(identity.server):
                if not path.exists():
                    before.rename(path)

    def record_offers(
        self, identity: ServerIdentity, offers: Sequence[ToolOffer], *, trusts_first: bool
    ) -> tuple[PinLedger, PinLedger]:
        """Save what a server offers; returns its pins before and after."""
        with self.write_lock(identity.server):
            # Read under the lock: somebody may have approved or revoked a moment ago, and saving an
            # older ledger would undo that.
            before = self.ledger_for(identity)
            after = before.record_offers(offers, trusts_first=trusts_first)
            self.save(after)
        return before, after

    def save(self, ledger: PinLedger) -> None:
        """Write a ledger atomically."""
        tools = {n: _pin_row(p) for n, p in ledger.pins.items()}
        record = {"format": _FORMAT, "place": ledger.place, "tools": tools}
        text = json.dumps(record, ensure_ascii=False, indent=1)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # A rename replaces the file as a whole: a reader sees the old text or the new one.
            descriptor, temporary = tempfile.mkstemp(dir=self._folder, prefix=".pins-")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).replace(self._ledger_path(ledger.server, ledger.key))
        except OSError as error:
            raise StoreError(
                f"The pins of {ledger.server!r} cannot be written: {error}."
            ) from error

    def forget(self, server: str) -> int:
        """Delete all pins of a server name, revocations included; returns how many files."""
        with self.write_lock(server):
            files = [p for p in self._ledger_files() if p.name.partition(".")[0] == server]
            for path in files:
                path.unlink(missing_ok=True)
        return len(files)

    def has_pins(self, identity: ServerIdentity) -> bool:
        """Whether a gateway has met this server before."""
        paths = (self._ledger_path(identity.server, key) for key in (identity.key, ""))
        return any(path.exists() for path in paths)

    def shortest_label(self, ledger: PinLedger) -> str:
        """The server's name, or its label if several servers have pins under that name."""
        names = [p.name.partition(".")[0] for p in self._ledger_files()]
        return ledger.label if names.count(ledger.server) > 1 else ledger.server

    def servers(self) -> tuple[str, ...]:
        """The names of the servers that have pins."""
        return tuple(sorted({p.name.partition(".")[0] for p in self._ledger_files()}))

    def stamp(self, identity: ServerIdentity) -> Stamp:
        """A value that changes whenever the pins of a server are written."""
        for key in (identity.key, ""):
            with contextlib.suppress(OSError):
                status = self._ledger_path(identity.server, key).stat()
                # Two writes within one tick of the clock have the same time, but save() makes a
                # new file each time, and so another inode.
                return (status.st_mtime_ns, status.st_ino)
        return (0, 0)

    def _ledger_files(self) -> list[Path]:
        with contextlib.suppress(OSError):
            return sorted(self._folder.glob("*.json"))
        return []

    def _read_ledger(self, server: str, key: str = "") -> PinLedger:
        path = self._ledger_path(server, key)
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise StoreError(f"The pins of {server!r} cannot be read: {error}.") from error
        try:
            return replace(_parse_ledger(server, json.loads(text)), key=key)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"The pins of {server!r} in {path} are damaged: {error}.",
                hint="Restore the file from a copy, or delete it to trust the current tools.",
            ) from error

    def _ledger_path(self, server: str, key: str = "") -> Path:
        return self._folder / (f"{server}.{key}.json" if key else f"{server}.json")


def _pin_row(pin: Pin) -> dict[str, Any]:
    row: dict[str, Any] = {"standing": pin.standing, "digest": pin.digest}
    row["definition"] = pin.definition
    # Most tools are offered as approved. Their definition is written once.
    if pin.offered_digest != pin.digest:
        row |= {"offered_digest": pin.offered_digest, "offered": pin.offered}
    if pin.note:
        row["note"] = pin.note
    if pin.is_excused:
        row["is_excused"] = True
    return row


def _parse_ledger(server: str, record: dict[str, Any]) -> PinLedger:
    if record["format"] != _FORMAT:
        raise ValueError(f"format {record['format']} is not known")
    pins: dict[str, Pin] = {}
    for tool, row in cast("dict[str, dict[str, Any]]", record["tools"]).items():
        pins[tool] = Pin(
            tool=tool,
            digest=row["digest"],
            definition=row["definition"],
            offered_digest=row.get("offered_digest", row["digest"]),
            offered=row.get("offered", row["definition"]),
            standing=row["standing"],
            note=row.get("note", ""),
            is_excused=row.get("is_excused", False),
        )
    return PinLedger(server, pins, is_known=True, place=record.get("place", ""))
