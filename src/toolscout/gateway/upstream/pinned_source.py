"""A server as a source whose tools can be found and called only if its pins allow it."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from ...catalog.result import Result
from ...catalog.sanitization import reveal_line, show_code, strip_hidden
from ...catalog.tool import Tool, normalise_name
from ...errors import StoreError
from ...events import Sink, ToolHeldEvent
from ...sources.mcp import wire
from ...sources.mcp.mcp_source import MCPSource, ToolChangedError
from .held_tools import HeldTool, approved_tool, needed_names, pins_command
from .pin_files import Stamp
from .pin_store import PinStore, ServerIdentity
from .pins import Contradiction, PinLedger, ToolOffer

log = logging.getLogger(__name__)
_HELD = "Tools of server %r are held for approval: %s. See why: %s. Approve them: %s"
_STANDING_WORDS = {"shadow": "with the name of another tool"}
_IDENTITY_CHANGED = (
    "Server %r differs from the one pinned under that name: its command, arguments, folder or"
    " address changed. It is treated as a new server; see: %s"
)
# What a reader sees of characters that are neither white space nor hidden. The empty Braille
# pattern, the empty note head and the Khitan filler are blank. Lower case leaves a dot of its own
# on the `i` of `İ`, which cannot be seen there, and `ı` is an `i` in upper case.
_SEEN_AS = {**dict.fromkeys(map(ord, "\u2800\U0001d159\U00016fe4\u0307")), ord("\u0131"): "i"}
# How long running calls may continue after their server is removed from the configuration.
_DRAIN_SECONDS = 5.0


class SiblingServers(Protocol):
    """The other servers of the gateway; `version` changes whenever their tools do."""

    @property
    def version(self) -> int:
        """Counts the changes."""
        ...

    def find_shadows(self, source: MCPSource) -> Mapping[str, str]:
        """The tools of a server that use another's name, each with whose name it is."""
        ...

    async def refresh_catalog(self, server: str) -> None:
        """Update the catalog with the tools that a server offers now."""
        ...


@dataclass(frozen=True, slots=True)
class PinComparison:
    """A comparison of a server's tools with its pins: what was compared, and the result.

    `version` is that of the pins, and `basis` their version when the listing began. If the two are
    not equal, another gateway may have a newer listing, and `awaits_listing` if that matters.
    """

    ledger: PinLedger
    definitions: Mapping[str, wire.MCPToolDefinition] = field(
        default_factory=dict[str, wire.MCPToolDefinition]
    )
    shadows: Mapping[str, str] = field(default_factory=dict[str, str])
    stamp: Stamp = (-1, -1)
    version: Stamp = (-1, -1)
    basis: Stamp | None = None
    awaits_listing: bool = False
    is_provisional: bool = False

    @property
    def names_on_hold(self) -> tuple[str, ...]:
        """The tools that the server offers and that are held, by the server's own names."""
        return tuple(pin.tool for pin in self.ledger.pins_on_hold if pin.tool in self.definitions)

    def is_current_for(
        self,
        definitions: Mapping[str, wire.MCPToolDefinition],
        shadows: Mapping[str, str],
    ) -> bool:
        """Whether a new comparison with the same pins would give the same result."""
        # Every listing makes a new mapping, so identity is enough and costs nothing.
        return definitions is self.definitions and shadows == self.shadows


class PinnedSource:
    """The tools of a server that its pins allow."""

    def __init__(
        self,
        inner: MCPSource,
        *,
        pins: PinStore,
        siblings: SiblingServers,
        sink: Sink,
        trusts_first: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = inner.name
        self.inner = inner
        self._pins = pins
        self._siblings = siblings
        self._sink = sink
        self._trusts_first = trusts_first
        self._identity = ServerIdentity.of(inner.server)
        self._comparison = PinComparison(PinLedger(inner.name))
        self._version = -1
        self._comparison_task: asyncio.Task[None] | None = None
        self._refresh_task: asyncio.Task[None] | None = None
        # The version of the pins when the last listing began, and the newest that was read.
        self._basis: Stamp | None = None
        self._newest_version: Stamp | None = None
        self._corrections: frozenset[Contradiction] = frozenset()
        inner.watch_listings(self)
        self._drain_seconds = 0.0
        self.problem = ""
        """Why the tools cannot be compared with the pins, so that all of them are held."""

    @property
    def ledger(self) -> PinLedger:
        """The pins as of the last comparison."""
        return self._comparison.ledger

    @property
    def comparison(self) -> PinComparison:
        """The last comparison of the tools with the pins."""
        return self._comparison

    @property
    def label(self) -> str:
        """The server as `toolscout pins` calls it."""
        return self._pins.shortest_label(self.ledger)

    async def tools(self) -> Sequence[Tool]:
        """The tools that are not held."""
        await self.inner.tools()
        await self._compare_if_stale()
        # The server may have listed again since. Only compared tools may be listed.
        definitions = self._comparison.definitions.values()
        return tuple(d.tool for d in definitions if self._is_open(d.local))

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Call a tool; raises if it is held by now, at whichever gateway."""
        if self.inner.is_provisional:
            # Nothing runs because of a cached list alone: the server lists first, and is pinned.
            await self.inner.refresh()
            await self._siblings.refresh_catalog(self.name)
        await self._read_version()
        await self._compare_if_stale()
        name, _ = wire.tool_origin(tool)
        if not self._is_open(name):
            raise HeldTool(tool, self.label).refusal()
        try:
            return await self.inner.call(tool, arguments)
        except ToolChangedError:
            # The call started the server, which lists other tools than at its last start. Searches
            # must not offer the old ones any longer.
            await self._siblings.refresh_catalog(self.name)
            if name in self._comparison.definitions and not self._is_open(name):
                raise HeldTool(tool, self.label).refusal() from None
            raise

    async def begin_listing(self) -> Stamp | None:
        """The version of the pins; None if the store does not answer."""
        try:
            return await asyncio.to_thread(self._claim_version)
        except StoreError:
            return None

    def end_listing(self, mark: object) -> None:
        """Compare again if a newer listing was waited for."""
        self._basis = cast("Stamp | None", mark)
        if self._comparison.awaits_listing:
            work = self._siblings.refresh_catalog(self.name)
            self._refresh_task = asyncio.create_task(work, context=contextvars.Context())
            self._refresh_task.add_done_callback(_retrieve_exception)

    def relist_if_awaited(self) -> None:
        """List again if another gateway may have a newer listing, which the tools depend on."""
        if self._comparison.awaits_listing:
            self.inner.relist()

    def is_covered_by(self, sources: Container[str]) -> bool:
        """Whether a catalog with these sources has everything that the server offers."""
        if self.name in sources:
            return True
        # A server whose tools are all held, or that has none, is never among a catalog's sources.
        offered = self._comparison.definitions
        is_compared = self.inner.listing is not None and offered is self.inner.definitions
        return is_compared and not any(map(self._is_open, offered))

    def uncallable_tools(self) -> tuple[Tool, ...]:
        """The tools that nobody can call: those on hold, or all if the pins cannot be read."""
        if self.problem:
            return tuple(definition.tool for definition in self.inner.definitions.values())
        return tuple(self.tools_on_hold())

    def tools_on_hold(self) -> Iterator[Tool]:
        """The tools that were compared and are held, by their approved definitions."""
        server, pins = self.inner.server, self.ledger.pins
        definitions = self._comparison.definitions.values()
        return (
            approved_tool(server, pins.get(d.local), d.tool)
            for d in definitions
            if not self._is_open(d.local)
        )

    def drain_on_close(self) -> None:
        """Let running calls finish when the server is closed."""
        self._drain_seconds = _DRAIN_SECONDS

    async def close(self) -> None:
        """Close the server."""
        await self.inner.close(drain_seconds=self._drain_seconds)

    @property
    def is_stale(self) -> bool:
        """Whether pins or the names of other servers' tools changed since the last comparison."""
        if self._comparison.awaits_listing and self._comparison.basis != self._basis:
            return True
        is_same = self._version == self._siblings.version and not self._has_newer_version
        return not (is_same and self._comparison.stamp == self._pins.stamp(self._identity))

    @property
    def _has_newer_version(self) -> bool:
        return self._newest_version not in (None, self._comparison.version)

    def _is_open(self, tool: str) -> bool:
        pin = self.ledger.pins.get(tool)
        return pin is not None and pin.is_open

    async def _read_version(self) -> None:
        """Ask the store whether another gateway wrote pins, of which the news may be on the way."""
        if not self._pins.is_stamp_exact:
            # While the store does not answer, nobody can write to it either.
            with suppress(StoreError):
                self._newest_version = await asyncio.to_thread(self._pins.version, self._identity)

    def _claim_version(self) -> Stamp:
        self._pins.claim(self._identity)
        return self._pins.version(self._identity)

    async def _compare_if_stale(self) -> None:
        """Compare the tools with the pins if needed; concurrent callers share one comparison."""
        while self.is_stale:
            # Awaiting a finished task returns without yielding to the event loop. If things changed
            # again during the comparison, that would spin forever, so a new task is needed.
            if self._comparison_task is None or self._comparison_task.done():
                # The task serves all callers, so it must not be cancelled with the first one, nor
                # run in its context: CURRENT_CHANNEL there would send questions to that client.
                work = self._refresh_comparison()
                self._comparison_task = asyncio.create_task(work, context=contextvars.Context())
                self._comparison_task.add_done_callback(_retrieve_exception)
            await asyncio.shield(self._comparison_task)

    async def _refresh_comparison(self) -> None:
        # Read before the thread starts: a change in the meantime makes the result stale again.
        version, trusts_first = self._siblings.version, self._trusts_first()
        newest = self._newest_version
        # Thousands of tools take a while. Other servers are called meanwhile.
        try:
            before, comparison = await asyncio.to_thread(
                self._compare_with_pins, trusts_first=trusts_first
            )
        except StoreError as error:
            # Without the hint, which names files of the gateway: clients read this.
            self.problem = error.message
            raise
        self.problem = ""
        last, self._comparison, self._version = self._comparison, comparison, version
        if self._newest_version == newest:  # no call has read a newer one meanwhile
            self._newest_version = comparison.version
        if comparison.awaits_listing:
            self.inner.relist()
        else:
            self._emit_held_events(before, comparison.ledger)
        self._warn_on_hold(last, comparison)

    def _compare_with_pins(self, *, trusts_first: bool) -> tuple[PinLedger, PinComparison]:
        # Read before the definitions: a listing that arrives meanwhile is newer than its basis.
        basis, last = self._basis, self._comparison
        is_provisional, definitions = self.inner.is_provisional, self.inner.definitions
        shadows = self._siblings.find_shadows(self.inner)
        stamp = self._pins.stamp(self._identity)
        is_new_offer = not last.is_current_for(definitions, shadows)
        is_confirmed = last.is_provisional and not is_provisional
        is_same = not is_new_offer and (stamp, basis) == (last.stamp, last.basis)
        if is_same and not is_confirmed and not self._has_newer_version:
            return last.ledger, last
        version = self._claim_version()
        before = self._pins.ledger_for(self._identity)
        if not before.is_known and any(led.is_known for led in self._pins.ledgers(self.name)):
            log.warning(_IDENTITY_CHANGED, self.name, pins_command("list", self.name))
        offers = tuple(build_offers(definitions, shadows))
        if is_provisional and not before.is_known:
            ledger = before.record_offers(offers, trusts_first=trusts_first)
            now = PinComparison(ledger, definitions, shadows, stamp, version, basis)
            return ledger, replace(now, is_provisional=True)
        now = PinComparison(before, definitions, shadows, stamp, version, basis)
        return self._record_news(now, offers, is_new_offer=is_new_offer, trusts_first=trusts_first)

    def _record_news(
        self,
        now: PinComparison,
        offers: Sequence[ToolOffer],
        *,
        is_new_offer: bool,
        trusts_first: bool,
    ) -> tuple[PinLedger, PinComparison]:
        """Save what a server offers if that is new and nobody may have a newer listing."""
        before = now.ledger
        contradictions = before.find_contradictions(offers)
        is_latest = now.basis == now.version
        # Only a new offer is written, or once what differs from that of another gateway. Otherwise
        # two gateways that see different definitions would contradict each other without end.
        if is_new_offer:
            self._corrections = frozenset()
        is_news = is_new_offer or self._comparison.awaits_listing
        is_news |= not contradictions <= self._corrections
        is_saved = (is_news and (is_latest or not contradictions)) or not before.is_known
        ledger = before.record_offers(offers, trusts_first=trusts_first, is_newest=is_saved)
        if not is_saved or ledger == before:
            awaits = (is_news and bool(contradictions)) or self._lacks_tools(before)
            return before, replace(now, ledger=ledger, awaits_listing=awaits and not is_latest)
        self._corrections |= contradictions
        known, ledger = self._pins.record_offers(
            self._identity, offers, trusts_first=trusts_first, basis=now.version
        )
        stamp = self._pins.stamp(self._identity)
        # Another gateway may have been faster.
        return known, replace(now, ledger=ledger, stamp=stamp, awaits_listing=known != before)

    def _lacks_tools(self, before: PinLedger) -> bool:
        """Whether another gateway has just written a tool that this listing does not have."""
        definitions, known = self.inner.definitions, self.ledger
        return known.is_known and any(
            pin.offered_digest and name not in definitions and pin != known.pins.get(name)
            for name, pin in before.pins.items()
        )

    def _warn_on_hold(self, last: PinComparison, now: PinComparison) -> None:
        """Log one line when tools are held, at the start and whenever others are."""
        if now.names_on_hold and now.names_on_hold != last.names_on_hold:
            counts = Counter(now.ledger.pins[tool].standing for tool in now.names_on_hold)
            text = ", ".join(f"{n} {_STANDING_WORDS.get(s, s)}" for s, n in counts.items())
            names = needed_names([now.ledger.pins[tool] for tool in now.names_on_hold])
            approve = pins_command("approve", self.label, *names)
            log.warning(_HELD, self.name, text, pins_command("diff", self.label), approve)

    def _emit_held_events(self, before: PinLedger, after: PinLedger) -> None:
        known = {p.tool: p for p in before.pins_on_hold}
        for pin in after.pins_on_hold:
            if known.get(pin.tool) != pin:
                held = ToolHeldEvent(server=self.name, tool=pin.tool, standing=pin.standing)
                self._sink(held)


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    # Callers get the error from the task. If all of them are cancelled, no one does, and asyncio
    # would log that the exception was never retrieved.
    if not task.cancelled():
        task.exception()


def build_offers(
    definitions: Mapping[str, wire.MCPToolDefinition], shadows: Mapping[str, str]
) -> Iterator[ToolOffer]:
    """A server's definitions in the form that a ledger compares with its pins."""
    for definition in definitions.values():
        yield ToolOffer(
            tool=definition.local,
            digest=definition.digest,
            definition=wire.dump_definition(definition.raw),
            shadows=shadows.get(definition.local, ""),
        )


def find_shadows(
    source: MCPSource, others: Iterable[MCPSource], reserved: Iterable[str]
) -> dict[str, str]:
    """The tools of a server that use the name of a gateway tool or of another server's tool."""
    # Names are compared in normalised form, so `ToolSearch` counts as `tool_search`.
    spelled = {local: normalise_name(local) for local in source.definitions}
    wanted = frozenset(spelled.values())
    taken = {normalise_name(name): f"the gateway's own tool {name}" for name in reserved}
    for other in others:
        if other.name != source.name:
            for name in other.spellings.keys() & wanted:
                taken[name] = f"server {other.name!r}'s tool {other.spellings[name]}"
    owners = {local: taken.get(name) for local, name in spelled.items()}
    shadows = {local: f"It has the name of {owner}." for local, owner in owners.items() if owner}
    return {**_find_lookalikes(source.definitions), **shadows}


def _find_lookalikes(names: Iterable[str]) -> dict[str, str]:
    """The names of one server that a reader cannot distinguish, each with the other one."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_fold(name), []).append(name)
    reason = "Only case, white space or hidden characters distinguish its name from"
    return {
        name: f"{reason} '{_escape_name(other)}'."
        for group in groups.values()
        if len(group) > 1
        for name, other in zip(group, (*group[1:], group[0]), strict=True)
    }


def _fold(name: str) -> str:
    """What a reader sees of a name, whatever its case."""
    text = name
    if not (name.isascii() and name.isprintable()):
        # Twice: folding the case of some characters gives others that have a compatibility form.
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
        text = strip_hidden(text).translate(_SEEN_AS)
    return "".join(text.casefold().split())


def _escape_name(name: str) -> str:
    """A name in which every space and every unusual character can be seen."""
    return "".join(
        c if c.isalnum() or (c.isascii() and c.isprintable()) else show_code(c)
        for c in reveal_line(name)
    )
