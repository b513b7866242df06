"""Approve and revoke what servers offer: one path for the command line and the console."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from ...errors import ConfigError
from ...events import PinDecisionEvent
from ...folders import user_servers_file
from ...program import command_line
from ...sources.mcp.servers import Server
from ..setup import Setup
from .pin_store import PinStore
from .pins import Pin, PinLedger
from .unmet_servers import keep_decisions, offered_ledger

PinChoice = Literal["approved", "revoked"]
FindServer = Callable[[], tuple[Setup, Server]]
"""Finds the server of a label that has no pins yet, with its configuration; raises without one."""


@dataclass(frozen=True, slots=True)
class PinDecision:
    """What somebody decided about tools: the pins before and after, and the changed tools."""

    choice: PinChoice
    before: PinLedger
    after: PinLedger
    changed: tuple[str, ...]

    def events(self, *, principal: str, client: str) -> Iterator[PinDecisionEvent]:
        """One event for each tool that changed, for the journal."""
        for tool in self.changed:
            yield PinDecisionEvent(
                principal=principal,
                client=client,
                server=self.after.server,
                tool=tool,
                decision=self.choice,
                standing=self.before.pins[tool].standing,
            )


def decide_pins(
    pins: PinStore,
    label: str,
    tools: tuple[str, ...],
    choice: PinChoice,
    *,
    find_unmet: FindServer,
    seen: str = "",
) -> PinDecision:
    """Approve or revoke the named tools of a server, or all that the choice means without names.

    `seen` is the fingerprint of the offers that the person has read; others are not approved.
    """
    # Read and written under the lock, so that a running gateway cannot write in between.
    with pins.write_lock(label):
        saved = pins.ledger(label)
        before = saved if saved.is_known else _read_offers(label, *find_unmet())
        _check_names(before, label, tools)
        if seen and seen != fingerprint_offers(chosen_pins(before, tools)):
            raise ConfigError(
                f"{label} offers other tools than those that you have seen.",
                hint="Load the page again, and read what changed.",
            )
        after = before.approve(*tools) if choice == "approved" else before.revoke(*tools)
        changed = tuple(tool for tool, pin in after.pins.items() if pin != before.pins[tool])
        if changed:
            is_met = saved.is_known
            pins.save(after if is_met else keep_decisions(before, after, saved.pins))
    return PinDecision(choice, before, after, changed)


def chosen_pins(ledger: PinLedger, tools: Iterable[str] = ()) -> tuple[Pin, ...]:
    """The pins of named tools; without names, those that are approved together."""
    names = tuple(tools)
    if names:
        return tuple(ledger.pins[name] for name in names)
    return tuple(pin for pin in ledger.pins.values() if pin.standing in ("new", "changed"))


def fingerprint_offers(pins: Iterable[Pin]) -> str:
    """A text that differs whenever other definitions are offered."""
    facts = sorted((pin.tool, pin.offered_digest, pin.note) for pin in pins)
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def _read_offers(label: str, setup: Setup, server: Server) -> PinLedger:
    """The tools of a server that no gateway has met, as it last listed them."""
    ledger = offered_ledger(setup, server)
    if ledger is None:
        is_own = setup.path == user_servers_file()
        options = () if is_own else ("--config", str(setup.path))
        raise ConfigError(
            f"The tools of {label!r} are not known yet.",
            hint=f"List them first: {command_line('check', *options)}",
        )
    return ledger


def _check_names(ledger: PinLedger, label: str, tools: Iterable[str]) -> None:
    unknown = [tool for tool in tools if tool not in ledger.pins]
    if unknown:
        near = get_close_matches(unknown[0], ledger.pins, n=1)
        see = f"See them all: {command_line('pins', 'list', label)}"
        raise ConfigError(
            f"Server {label!r} has no pin for {', '.join(unknown)}.",
            hint=f"Did you mean {near[0]}?" if near else see,
        )
