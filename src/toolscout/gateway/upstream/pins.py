"""Every definition an upstream sends is pinned; what is new or changed waits for a yes.

A pin is a hash over the whole definition, beside the definition itself, so that a change can be
shown field by field. One state decides both what can be found and what can be called.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from ...errors import ConfigError, StoreError
from .file_lock import file_lock
from .identity import ServerIdentity

_FORMAT = 1
_PATIENCE_SECONDS = 10.0
Standing = Literal["approved", "new", "changed", "shadow", "revoked"]
"""Why a tool is let in or held back."""
Stamp = tuple[int, int]
"""One writing of a server's pins."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One tool of one server: the definition that was approved, and the one last offered."""

    tool: str
    digest: str = ""
    definition: Mapping[str, Any] = field(default_factory=dict[str, Any])
    offered_digest: str = ""
    offered: Mapping[str, Any] = field(default_factory=dict[str, Any])
    standing: Standing = "approved"
    note: str = ""
    is_excused: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the tool, as it is offered now, may be found and called."""
        return self.standing == "approved" and self.digest == self.offered_digest

    def approve(self) -> Pin:
        """The pin with what is offered now taken as right, a borrowed name included."""
        return replace(
            self,
            digest=self.offered_digest,
            definition=self.offered,
            standing="approved",
            is_excused=self.is_excused or self.standing == "shadow",
            note="",
        )


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """A definition as a server sent it, and what is suspicious about it."""

    tool: str
    digest: str
    definition: Mapping[str, Any]
    shadows: str = ""


@dataclass(frozen=True, slots=True)
class PinLedger:
    """All pins of one server; every move gives the next ledger.

    `key` tells servers of one name apart, and `place` does so in words; a ledger without a key was
    written when names alone were told apart.
    """

    server: str
    pins: Mapping[str, Pin] = field(default_factory=dict[str, Pin])
    is_known: bool = False
    key: str = ""
    place: str = ""

    @property
    def label(self) -> str:
        """The one name that no other ledger has."""
        return f"{self.server}.{self.key}" if self.key else self.server

    def record_offers(self, offers: Iterable[ToolOffer], *, trusts_first: bool) -> PinLedger:
        """Compare what a server offers with what is pinned.

        On first contact all of it is approved, unless approval is required; from then on
        whatever is not pinned as it is waits.
        """
        pins = dict(self.pins)
        for offer in offers:
            known = pins.get(offer.tool)
            if known is None:
                is_trusted = trusts_first and not self.is_known
                pins[offer.tool] = _pin_first_offer(offer, is_trusted=is_trusted)
            else:
                pins[offer.tool] = _pin_next_offer(known, offer)
        return replace(self, pins=pins, is_known=True)

    def approve(self, *tools: str) -> PinLedger:
        """Take the offered definitions of some tools, or of all that wait, as right."""
        names = tools or tuple(n for n, p in self.pins.items() if p.standing in ("new", "changed"))
        return self._replace_pins({n: self.pins[n].approve() for n in names if n in self.pins})

    def revoke(self, *tools: str) -> PinLedger:
        """Hold tools back, or all of the server's, whatever they offer."""
        names = tools or tuple(self.pins)
        return self._replace_pins(
            {n: replace(self.pins[n], standing="revoked") for n in names if n in self.pins}
        )

    def _replace_pins(self, pins: Mapping[str, Pin]) -> PinLedger:
        return replace(self, pins={**self.pins, **pins})

    @property
    def pins_on_hold(self) -> tuple[Pin, ...]:
        """The tools that are kept out, with the reason."""
        return tuple(p for p in self.pins.values() if not p.is_open)


def _pin_first_offer(offer: ToolOffer, *, is_trusted: bool) -> Pin:
    pin = Pin(offer.tool, offered_digest=offer.digest, offered=offer.definition, standing="new")
    return _decide_standing(pin.approve() if is_trusted else pin, offer)


def _pin_next_offer(known: Pin, offer: ToolOffer) -> Pin:
    is_same = known.is_open and known.digest == offer.digest != ""
    if is_same and not (offer.shadows or known.note):
        return known
    return _decide_standing(
        replace(known, offered_digest=offer.digest, offered=offer.definition), offer
    )


def _decide_standing(pin: Pin, offer: ToolOffer) -> Pin:
    if pin.standing == "revoked":
        return pin
    if offer.shadows and not pin.is_excused:
        return replace(pin, standing="shadow", note=offer.shadows)
    if not pin.digest:
        return replace(pin, standing="new", note="")
    is_same = pin.digest == offer.digest
    return replace(pin, standing="approved" if is_same else "changed", note="")


class PinStore:
    """Ledgers in a folder, one file a server, safe to edit while a gateway runs."""

    def __init__(self, folder: str | Path, *, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self._folder = Path(folder)
        self._patience_seconds = patience_seconds

    def write_lock(self, label: str) -> AbstractContextManager[None]:
        """Whoever reads pins of a name to write them again does so in here, one at a time."""
        path = self._folder / f".{label.partition('.')[0]}.lock"
        return file_lock(path, patience_seconds=self._patience_seconds)

    def ledgers(self, label: str = "") -> tuple[PinLedger, ...]:
        """The ledgers of a name, of one server of it by its label, or of all servers.

        An unreadable file is an error, never a clean slate.
        """
        name, _, key = label.partition(".")
        found = (p.name.removesuffix(".json").partition(".") for p in self._ledger_files())
        return tuple(
            self._read_ledger(server, of)
            for server, _, of in found
            if name in ("", server) and of.startswith(key)
        )

    def ledger(self, label: str) -> PinLedger:
        """The only ledger of a name, or the one of a label; new if there is none."""
        found = self.ledgers(label)
        if len(found) > 1:
            several = "; ".join(f"{each.label} ({each.place})" for each in found)
            raise ConfigError(
                f"Several servers are called {label!r}: {several}.",
                hint="Name one of them, with its number.",
            )
        return found[0] if found else PinLedger(label)

    def ledger_for(self, who: ServerIdentity) -> PinLedger:
        """The pins of the server that a name stands for.

        One that is new under a known name has no pins, but what was revoked under the name.
        """
        for key in (who.key, ""):
            if self._ledger_path(who.server, key).exists():
                return replace(self._read_ledger(who.server, key), key=who.key, place=who.place)
        pins = (pin for ledger in self.ledgers(who.server) for pin in ledger.pins.values())
        revoked = {p.tool: Pin(p.tool, standing="revoked") for p in pins if p.standing == "revoked"}
        return PinLedger(who.server, revoked, key=who.key, place=who.place)

    def claim(self, who: ServerIdentity) -> None:
        """Take over a ledger that was written by name alone: the first to meet it has it."""
        before, path = self._ledger_path(who.server), self._ledger_path(who.server, who.key)
        if not path.exists() and before.exists():
            self._read_ledger(who.server)
            # Another gateway was first, or nothing can be written here.
            with contextlib.suppress(OSError, StoreError), self.write_lock(who.server):
                if not path.exists():
                    before.rename(path)

    def save(self, ledger: PinLedger) -> None:
        """Write a ledger in one stroke."""
        tools = {n: _pin_row(p) for n, p in ledger.pins.items()}
        record = {"format": _FORMAT, "place": ledger.place, "tools": tools}
        text = json.dumps(record, ensure_ascii=False, indent=1)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=".pins-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).replace(self._ledger_path(ledger.server, ledger.key))
        except OSError as error:
            raise StoreError(
                f"The pins of {ledger.server!r} cannot be written: {error}."
            ) from error

    def servers(self) -> tuple[str, ...]:
        """The names of the servers that have pins."""
        return tuple(sorted({p.name.partition(".")[0] for p in self._ledger_files()}))

    def stamp(self, who: ServerIdentity) -> Stamp:
        """Changes whenever somebody wrote the pins of a server."""
        for key in (who.key, ""):
            with contextlib.suppress(OSError):
                status = self._ledger_path(who.server, key).stat()
                # A clock may stand still between two writings, but each makes another file.
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
                hint="Put the file back from a copy, or delete it to trust the server anew.",
            ) from error

    def _ledger_path(self, server: str, key: str = "") -> Path:
        return self._folder / (f"{server}.{key}.json" if key else f"{server}.json")


def _pin_row(pin: Pin) -> dict[str, Any]:
    row: dict[str, Any] = {"standing": pin.standing, "digest": pin.digest}
    row["definition"] = pin.definition
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


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that is not what it was; hidden characters are shown by their codes."""

    path: str
    before: str
    after: str


def diff_pin(pin: Pin) -> tuple[FieldChange, ...]:
    """What changed between the approved definition and the offered one, field by field."""
    return tuple(_diff_values("", pin.definition, pin.offered))


def _diff_values(path: str, before: Any, after: Any) -> Iterator[FieldChange]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        for key in dict.fromkeys((*old, *new)):
            yield from _diff_values(f"{path}.{key}" if path else key, old.get(key), new.get(key))
        return
    yield FieldChange(path, _render_value(before), _render_value(after))


def _render_value(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else f"<U+{ord(c):04X}>" for c in text)
