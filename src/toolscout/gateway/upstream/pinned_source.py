"""Between a server and the catalog: only what is pinned as it is gets through, either way."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...catalog.names import normalise_name
from ...catalog.result import Result
from ...catalog.tool import Tool
from ...errors import CallRefused
from ...events import Event, Sink
from ...sources.mcp import wire
from ...sources.mcp.mcp_source import MCPSource
from .identity import ServerIdentity
from .pins import PinLedger, PinStore, Stamp, ToolOffer

log = logging.getLogger(__name__)
_HELD = "Tools of server %r are held back: %s. To see why: toolscout pins diff %s"
_IDENTITY_CHANGED = (
    "Server %r is another than was pinned under that name: its command, arguments, folder or"
    " address differ. It is met as for the first time; see: toolscout pins list %s"
)
_DRAIN_SECONDS = 5.0


class SiblingServers(Protocol):
    """The other servers, as far as their names matter; `version` changes whenever they do."""

    @property
    def version(self) -> int:
        """Counts the changes."""
        ...

    def find_shadows(self, source: MCPSource) -> Mapping[str, str]:
        """Which of a server's tools have a borrowed name, each with whose it is."""
        ...


@dataclass(frozen=True, slots=True)
class PinComparison:
    """What was seen when a server's tools were last compared with its pins, and the outcome."""

    ledger: PinLedger
    definitions: Mapping[str, wire.MCPToolDefinition] = field(
        default_factory=dict[str, wire.MCPToolDefinition]
    )
    borrowed: Mapping[str, str] = field(default_factory=dict[str, str])
    stamp: Stamp = (-1, -1)

    @property
    def names_on_hold(self) -> tuple[str, ...]:
        """What the server offers and is held back, by its own names."""
        return tuple(pin.tool for pin in self.ledger.pins_on_hold if pin.tool in self.definitions)

    def is_current_for(
        self,
        definitions: Mapping[str, wire.MCPToolDefinition],
        borrowed: Mapping[str, str],
        stamp: Stamp,
    ) -> bool:
        """Whether looking again would show the same."""
        is_same = definitions is self.definitions and borrowed == self.borrowed
        return is_same and stamp == self.stamp


class PinnedSource:
    """A server's tools as far as its pins allow; a source like any other."""

    def __init__(
        self,
        inner: MCPSource,
        *,
        pins: PinStore,
        neighbours: SiblingServers,
        sink: Sink,
        trusts_first: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = inner.name
        self.inner = inner
        self._pins = pins
        self._neighbours = neighbours
        self._sink = sink
        self._trusts_first = trusts_first
        self._who = ServerIdentity.of(inner.server)
        self._sight = PinComparison(PinLedger(inner.name))
        self._version = -1
        self._looking: asyncio.Task[None] | None = None
        self._patience_seconds = 0.0

    @property
    def ledger(self) -> PinLedger:
        """The pins as they were when the tools were last looked at."""
        return self._sight.ledger

    async def tools(self) -> Sequence[Tool]:
        """The tools that are open; the rest is noted and kept out."""
        await self.inner.tools()
        await self._compare_if_stale()
        # Only what was compared with the pins, even if there is something newer by now.
        found = self._sight.definitions.values()
        return tuple(d.tool for d in found if self._is_open(d.local))

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Run an open tool; one that has been held back since is refused."""
        await self._compare_if_stale()
        name, _ = wire.tool_origin(tool)
        if not self._is_open(name):
            raise hold_refusal(tool.name, self.name)
        return await self.inner.call(tool, arguments)

    def is_covered_by(self, sources: Container[str]) -> bool:
        """Whether what the server offers is among the sources of a catalog, if it offers any."""
        if self.name in sources:
            return True
        offered = self._sight.definitions
        is_looked_at = self.inner.listing is not None and offered is self.inner.definitions
        return is_looked_at and not any(map(self._is_open, offered))

    def tools_on_hold(self) -> Iterator[Tool]:
        """The tools that were looked at and are held back."""
        return (d.tool for d in self._sight.definitions.values() if not self._is_open(d.local))

    def drain_on_close(self) -> None:
        """Let the calls that run end, when the server is closed."""
        self._patience_seconds = _DRAIN_SECONDS

    async def close(self) -> None:
        """Close the server."""
        await self.inner.close(patience_seconds=self._patience_seconds)

    @property
    def is_stale(self) -> bool:
        """Whether somebody has changed the pins, or taken a name, since the last look."""
        is_same = self._version == self._neighbours.version
        return not (is_same and self._sight.stamp == self._pins.stamp(self._who))

    def _is_open(self, tool: str) -> bool:
        pin = self.ledger.pins.get(tool)
        return pin is not None and pin.is_open

    async def _compare_if_stale(self) -> None:
        """Compare what is offered with the pins, unless that is done; all who ask wait for one."""
        while self.is_stale:
            # One that is done would be waited for without a break, and nothing else would run.
            if self._looking is None or self._looking.done():
                # A task of its own: it goes on, whatever happens to who asked first.
                work = self._refresh_comparison()
                self._looking = asyncio.create_task(work, context=contextvars.Context())
                self._looking.add_done_callback(_retrieve_exception)
            await asyncio.shield(self._looking)

    async def _refresh_comparison(self) -> None:
        version, trusts_first = self._neighbours.version, self._trusts_first()
        # Of many tools it takes a while, in which other servers are to be called.
        before, sight = await asyncio.to_thread(self._compare_with_pins, trusts_first=trusts_first)
        last, self._sight, self._version = self._sight, sight, version
        self._emit_held_events(before, sight.ledger)
        self._warn_on_hold(last, sight)

    def _compare_with_pins(self, *, trusts_first: bool) -> tuple[PinLedger, PinComparison]:
        definitions = self.inner.definitions
        borrowed = self._neighbours.find_shadows(self.inner)
        stamp = self._pins.stamp(self._who)
        if self._sight.is_current_for(definitions, borrowed, stamp):
            return self._sight.ledger, self._sight
        self._pins.claim(self._who)
        before = self._pins.ledger_for(self._who)
        if not before.is_known and self._pins.ledgers(self.name):
            log.warning(_IDENTITY_CHANGED, self.name, self.name)
        offers = tuple(_tool_offers(definitions, borrowed))
        ledger = before.record_offers(offers, trusts_first=trusts_first)
        # Two gateways that are offered different things must not answer each other's every word.
        is_news = not self._sight.is_current_for(definitions, borrowed, self._sight.stamp)
        if ledger != before and (is_news or not before.is_known):
            with self._pins.write_lock(self.name):
                # Somebody may have approved or revoked since they were read.
                before = self._pins.ledger_for(self._who)
                ledger = before.record_offers(offers, trusts_first=trusts_first)
                self._pins.save(ledger)
                stamp = self._pins.stamp(self._who)
        return before, PinComparison(ledger, definitions, borrowed, stamp)

    def _warn_on_hold(self, last: PinComparison, now: PinComparison) -> None:
        """Say in a line that tools are held back, at the start and whenever others are."""
        if now.names_on_hold and now.names_on_hold != last.names_on_hold:
            kinds = Counter(now.ledger.pins[tool].standing for tool in now.names_on_hold)
            counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            log.warning(_HELD, self.name, counts, self.name)

    def _emit_held_events(self, before: PinLedger, after: PinLedger) -> None:
        known = {p.tool: p for p in before.pins_on_hold}
        for pin in after.pins_on_hold:
            if known.get(pin.tool) != pin:
                facts = {"server": self.name, "tool": pin.tool, "standing": pin.standing}
                self._sink(Event("tool_held", facts=facts))


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    """Take its error, which whoever waits gets as well; perhaps nobody does any more."""
    if not task.cancelled():
        task.exception()


def _tool_offers(
    definitions: Mapping[str, wire.MCPToolDefinition], borrowed: Mapping[str, str]
) -> Iterator[ToolOffer]:
    for definition in definitions.values():
        yield ToolOffer(
            tool=definition.local,
            digest=definition.digest,
            definition=wire.dump_definition(definition.raw),
            shadows=borrowed.get(definition.local, ""),
        )


def hold_refusal(tool: str, server: str) -> CallRefused:
    """What is said to whoever calls a tool that waits for a yes."""
    return CallRefused(
        f"{tool} is held back until it is approved.",
        hint=f"Whoever runs the gateway can see why: toolscout pins diff {server}",
    )


def find_shadows(
    source: MCPSource, others: Iterable[MCPSource], reserved: Iterable[str]
) -> dict[str, str]:
    """Which of a server's tools have the name of a discovery tool or of another server's tool."""
    spelled = {local: normalise_name(local) for local in source.definitions}
    wanted = frozenset(spelled.values())
    taken = {normalise_name(name): f"the gateway's own tool {name}" for name in reserved}
    for other in others:
        if other.name != source.name:
            for name in other.spellings.keys() & wanted:
                taken[name] = f"server {other.name!r}'s tool {other.spellings[name]}"
    found = {local: taken.get(name) for local, name in spelled.items()}
    return {local: f"It has the name of {whose}." for local, whose in found.items() if whose}
