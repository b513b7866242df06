"""Pins: which definition of a server's tool was approved, and how it changed since.

A pin holds a hash over the whole definition, and the definition itself, so that a change can be
shown field by field. The same pin decides whether a tool can be found and whether it can be called.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

from ...catalog.sanitization import reveal_hidden, show_code

Standing = Literal["approved", "new", "changed", "shadow", "revoked"]
"""Why a tool is available or held."""

_STANDINGS = frozenset(get_args(Standing))


@dataclass(frozen=True, slots=True)
class Pin:
    """One tool of one server: the approved definition, and the one that was last offered."""

    tool: str
    digest: str = ""
    definition: Mapping[str, Any] = field(default_factory=dict[str, Any])
    offered_digest: str = ""
    offered: Mapping[str, Any] = field(default_factory=dict[str, Any])
    standing: Standing = "approved"
    note: str = ""
    # Set when the user approved a shadowing name. It then stays allowed.
    is_excused: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the tool as offered now may be found and called."""
        return self.standing == "approved" and self.digest == self.offered_digest

    def approve(self) -> Pin:
        """The pin with the offered definition approved, including a shadowing name."""
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
    """A tool definition as a server sent it; `shadows` says whose name it uses, if any."""

    tool: str
    digest: str
    definition: Mapping[str, Any]
    shadows: str = ""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A definition that a gateway was offered, another that a pin has as offered, and its own."""

    tool: str
    digest: str
    offered_digest: str
    approved_digest: str


@dataclass(frozen=True, slots=True)
class PinLedger:
    """All pins of one server, immutable.

    `key` tells servers of the same name apart, and `place` describes the server to people. A
    ledger without a key comes from a version that distinguished servers by name only.
    """

    server: str
    pins: Mapping[str, Pin] = field(default_factory=dict[str, Pin])
    is_known: bool = False
    key: str = ""
    place: str = ""

    @property
    def label(self) -> str:
        """The name that no other ledger has."""
        return f"{self.server}.{self.key}" if self.key else self.server

    def record_offers(
        self, offers: Iterable[ToolOffer], *, trusts_first: bool, is_newest: bool = True
    ) -> PinLedger:
        """Compare what a server offers with its pins.

        On first contact everything is approved if `trusts_first` is set. Later on, a tool that is
        new or differs from its pin is held. Without `is_newest`, the server may have offered
        something else since: then a tool that a pin holds stays held.
        """
        pins = dict(self.pins)
        for offer in offers:
            known = pins.get(offer.tool)
            if known is None:
                is_trusted = trusts_first and not self.is_known
                pins[offer.tool] = _pin_first_offer(offer, is_trusted=is_trusted)
            else:
                pins[offer.tool] = _pin_next_offer(known, offer, is_newest=is_newest)
        return replace(self, pins=pins, is_known=True)

    def find_contradictions(self, offers: Iterable[ToolOffer]) -> frozenset[Contradiction]:
        """Where these offers are not those in the pins, and one of the two is approved."""
        pairs = ((self.pins.get(offer.tool), offer) for offer in offers)
        return frozenset(
            Contradiction(pin.tool, offer.digest, pin.offered_digest, pin.digest)
            for pin, offer in pairs
            if pin is not None
            and pin.offered_digest != offer.digest
            and (pin.is_open or pin.digest == offer.digest)
        )

    def approve(self, *tools: str) -> PinLedger:
        """Approve the offered definitions of the named tools, or of all new and changed ones."""
        # A shadowing or revoked tool has to be named: "approve all" does not include it.
        names = tools or tuple(n for n, p in self.pins.items() if p.standing in ("new", "changed"))
        return self._replace_pins({n: self.pins[n].approve() for n in names if n in self.pins})

    def revoke(self, *tools: str) -> PinLedger:
        """Hold the named tools, or all of the server, even if their definitions change later."""
        names = tools or tuple(self.pins)
        return self._replace_pins(
            {n: replace(self.pins[n], standing="revoked") for n in names if n in self.pins}
        )

    def _replace_pins(self, pins: Mapping[str, Pin]) -> PinLedger:
        return replace(self, pins={**self.pins, **pins})

    @property
    def pins_on_hold(self) -> tuple[Pin, ...]:
        """The pins of tools that are held."""
        return tuple(p for p in self.pins.values() if not p.is_open)


def _pin_first_offer(offer: ToolOffer, *, is_trusted: bool) -> Pin:
    pin = Pin(offer.tool, offered_digest=offer.digest, offered=offer.definition, standing="new")
    return _decide_standing(pin.approve() if is_trusted else pin, offer)


def _pin_next_offer(known: Pin, offer: ToolOffer, *, is_newest: bool) -> Pin:
    # The usual case, for thousands of tools at a time: nothing changed, so nothing is copied.
    is_same = known.is_open and known.digest == offer.digest != ""
    if is_same and not (offer.shadows or known.note):
        return known
    # The tool has the approved definition in a listing, and another one in a listing of another
    # gateway that may be newer.
    if not is_newest and known.digest == offer.digest != known.offered_digest:
        return known
    return _decide_standing(
        replace(known, offered_digest=offer.digest, offered=offer.definition), offer
    )


def _decide_standing(pin: Pin, offer: ToolOffer) -> Pin:
    # The order matters: only the user lifts a revoke, and a shadowing name counts even on first
    # contact with a trusted server. A standing that this version does not know may be stricter
    # than all that it knows, so it stays until the user approves the tool.
    if pin.standing == "revoked" or pin.standing not in _STANDINGS:
        return pin
    if offer.shadows and not pin.is_excused:
        return replace(pin, standing="shadow", note=offer.shadows)
    if not pin.digest:
        return replace(pin, standing="new", note="")
    # A tool that returns to its approved definition is available again.
    is_same = pin.digest == offer.digest
    return replace(pin, standing="approved" if is_same else "changed", note="")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field of a definition that changed, with invisible characters made visible."""

    path: str
    before: str
    after: str


def diff_pin(pin: Pin) -> tuple[FieldChange, ...]:
    """The fields that differ between the approved definition and the offered one."""
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
    # Invisible characters can carry instructions to a model that a reviewer would not see. Here,
    # unusual spaces count too.
    return "".join(c if c.isprintable() or c == "\n" else show_code(c) for c in reveal_hidden(text))
