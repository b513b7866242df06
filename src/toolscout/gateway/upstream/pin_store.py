"""The pins of all servers: which ledger belongs to which server, and how it is written."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from ...errors import ConfigError, StoreError
from ...sources.mcp.servers import Server
from .pin_files import LOCK_TIMEOUT_SECONDS, LedgerFiles, LedgerTexts, Stamp
from .pins import Pin, PinLedger, Standing, ToolOffer

# The version of the file format; another one is an error rather than a guess.
_FORMAT = 1
_MAX_PLACE_LENGTH = 200


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

    @property
    def labels(self) -> tuple[str, str]:
        """The server's own label, and the one of its name only."""
        return f"{self.server}.{self.key}" if self.key else self.server, self.server


class PinStore:
    """The ledgers of all servers, in a folder or in a store that gateways share.

    A label is `SERVER.KEY`, or `SERVER` if the ledger was written when servers were distinguished
    by name only. To name a ledger, part of the key is enough.
    """

    def __init__(self, texts: LedgerTexts) -> None:
        self._texts = texts

    @classmethod
    def in_folder(
        cls, folder: str | Path, *, lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS
    ) -> PinStore:
        """Pins in files of a folder."""
        return cls(LedgerFiles(folder, lock_timeout_seconds=lock_timeout_seconds))

    @property
    def texts(self) -> LedgerTexts:
        """The ledgers as they are stored."""
        return self._texts

    def write_lock(self, label: str) -> AbstractContextManager[None]:
        """Keep other threads and processes from writing the pins of a server name."""
        # It covers all servers of the name: claim() renames the ledger that they share, and
        # ledger_for() reads the ledgers of all of them.
        return self._texts.write_lock(label.partition(".")[0])

    def ledgers(self, label: str = "") -> tuple[PinLedger, ...]:
        """The ledgers that a label matches; without one, all of them."""
        # A ledger that cannot be read raises. Treating it as empty would approve everything again.
        name, _, key = label.partition(".")
        labels = ((each, *each.partition(".")) for each in self._texts.labels())
        found = (
            self._read_ledger(each)
            for each, server, _, server_key in labels
            if name in ("", server) and server_key.startswith(key)
        )
        return tuple(ledger for ledger in found if ledger is not None)

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
        for label in identity.labels:
            ledger = self._read_ledger(label)
            if ledger is not None:
                return replace(ledger, key=identity.key, place=identity.place)
        # A server that is new under a known name starts without pins. But tools that the user
        # revoked under that name stay revoked: a changed argument must not bring them back.
        pins = (pin for ledger in self.ledgers(server) for pin in ledger.pins.values())
        revoked = {p.tool: Pin(p.tool, standing="revoked") for p in pins if p.standing == "revoked"}
        return PinLedger(server, revoked, key=identity.key, place=identity.place)

    def claim(self, identity: ServerIdentity) -> None:
        """Take over a ledger that was written by name only; the first server to ask gets it."""
        own, shared = identity.labels
        if shared not in self._texts.labels() or own in self._texts.labels():
            return
        self._read_ledger(shared)  # raises if it is damaged
        # Another gateway may have been first, or the folder may be read-only. ledger_for() then
        # takes the ledger that is there.
        with contextlib.suppress(OSError, StoreError), self.write_lock(identity.server):
            if own not in self._texts.labels():
                self._texts.rename(shared, own)

    def record_offers(
        self,
        identity: ServerIdentity,
        offers: Sequence[ToolOffer],
        *,
        trusts_first: bool,
        basis: Stamp | None = None,
    ) -> tuple[PinLedger, PinLedger]:
        """Save what a server offers; returns its pins before and after.

        With a `basis`, nothing that contradicts the pins is saved if their version is another one
        by now: they may have a newer offer.
        """
        with self.write_lock(identity.server):
            # Read under the lock: somebody may have approved or revoked a moment ago, and saving an
            # older ledger would undo that.
            before = self.ledger_for(identity)
            is_newest = basis is None or basis == self.version(identity)
            is_newest = is_newest or not before.find_contradictions(offers)
            after = before.record_offers(offers, trusts_first=trusts_first, is_newest=is_newest)
            if is_newest:
                self.save(after)
        return before, after

    def save(self, ledger: PinLedger) -> None:
        """Write a ledger atomically."""
        tools = {n: _pin_row(p) for n, p in ledger.pins.items()}
        record: dict[str, Any] = {"format": _FORMAT, "place": ledger.place, "tools": tools}
        # Tools may be revoked before a gateway has met the server. It still trusts the others then.
        if not ledger.is_known:
            record["is_known"] = False
        text = json.dumps(record, ensure_ascii=False, indent=1)
        self._texts.write(ledger.label, text, is_unmet=not ledger.is_known)

    def forget(self, server: str) -> int:
        """Delete all pins of a server name, revocations included; returns how many ledgers."""
        with self.write_lock(server):
            labels = [x for x in self._texts.labels() if x.partition(".")[0] == server]
            for label in labels:
                self._texts.delete(label)
        return len(labels)

    def has_pins(self, identity: ServerIdentity) -> bool:
        """Whether a gateway has met this server before."""
        return any(map(self._texts.is_met, identity.labels))

    def shortest_label(self, ledger: PinLedger) -> str:
        """The server's name, or its label if several servers have pins under that name."""
        names = [label.partition(".")[0] for label in self._texts.labels()]
        return ledger.label if names.count(ledger.server) > 1 else ledger.server

    def servers(self) -> tuple[str, ...]:
        """The names of the servers that have pins."""
        return tuple(sorted({label.partition(".")[0] for label in self._texts.labels()}))

    def stamp(self, identity: ServerIdentity) -> Stamp:
        """A value that changes whenever the pins of a server are written."""
        own, shared = map(self._texts.stamp, identity.labels)
        return own if own != (0, 0) else shared

    @property
    def is_stamp_exact(self) -> bool:
        """Whether `stamp` shows what another process wrote at once, and not after a moment."""
        return self._texts.is_stamp_exact

    def version(self, identity: ServerIdentity) -> Stamp:
        """A value that differs after every write of a server's pins; may wait for the store."""
        return self._texts.version(*identity.labels)

    def close(self) -> None:
        """Release connections, if there are any."""
        self._texts.close()

    def _read_ledger(self, label: str) -> PinLedger | None:
        content = self._texts.read(label)
        if content is None:
            return None
        server, _, key = label.partition(".")
        try:
            return replace(_parse_ledger(server, json.loads(content)), key=key)
        except (ValueError, RecursionError) as error:
            place = self._texts.describe(label)
            raise StoreError(
                f"The pins of {server!r} are damaged: {_describe_damage(error)}.",
                hint=f"Restore {place} from a copy, or delete it to trust the current tools.",
            ) from error


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


class _PinRow(BaseModel):
    """One tool in a file of pins."""

    model_config = ConfigDict(strict=True)

    standing: str
    digest: str
    definition: dict[str, Any]
    offered_digest: str | None = None
    offered: dict[str, Any] | None = None
    note: str = ""
    is_excused: bool = False

    def to_pin(self, tool: str) -> Pin:
        return Pin(
            tool=tool,
            digest=self.digest,
            definition=self.definition,
            offered_digest=self.digest if self.offered_digest is None else self.offered_digest,
            offered=self.definition if self.offered is None else self.offered,
            # A state that this version does not know counts as not approved.
            standing=cast("Standing", self.standing),
            note=self.note,
            is_excused=self.is_excused,
        )


class _LedgerFile(BaseModel):
    """The pins of one server, as they are stored."""

    model_config = ConfigDict(strict=True)

    format: int
    tools: dict[str, _PinRow]
    place: str = ""
    is_known: bool = True


def _parse_ledger(server: str, record: object) -> PinLedger:
    file = _LedgerFile.model_validate(record)
    if file.format != _FORMAT:
        raise ValueError(f"format {file.format} is not known")
    pins = {tool: row.to_pin(tool) for tool, row in file.tools.items()}
    return PinLedger(server, pins, is_known=file.is_known, place=file.place)


def _describe_damage(error: Exception) -> str:
    """What is wrong with a file, in one line without its content."""
    match error:
        case ValidationError():
            first = error.errors(include_input=False)[0]
            return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
        case json.JSONDecodeError():
            return str(error)
        case UnicodeDecodeError():
            return "it is not UTF-8"
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return str(error)
