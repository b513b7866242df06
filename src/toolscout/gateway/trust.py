"""Between a server and the catalog: only what is pinned as it is gets through, either way."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..catalog.names import normalised
from ..catalog.result import Result
from ..catalog.sources.mcp import wire
from ..catalog.sources.mcp.source import MCPSource
from ..catalog.tool import Tool
from ..errors import CallRefused
from ..events import Event, Sink
from .identity import Identity
from .pins import Ledger, Offer, Pins, Stamp

log = logging.getLogger(__name__)
_HELD = "Tools of server %r are held back: %s. To see why: toolscout pins diff %s"
_ANOTHER = (
    "Server %r is another than was pinned under that name: its command, arguments, folder or"
    " address differ. It is met as for the first time; see: toolscout pins list %s"
)
_FAREWELL_SECONDS = 5.0


class Neighbours(Protocol):
    """The other servers, as far as their names matter; `version` changes whenever they do."""

    @property
    def version(self) -> int:
        """Counts the changes."""
        ...

    def shadows(self, source: MCPSource) -> Mapping[str, str]:
        """Which of a server's tools have a borrowed name, each with whose it is."""
        ...


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen when a server's tools were last compared with its pins, and the outcome."""

    ledger: Ledger
    definitions: Mapping[str, wire.Definition] = field(default_factory=dict[str, wire.Definition])
    borrowed: Mapping[str, str] = field(default_factory=dict[str, str])
    stamp: Stamp = (-1, -1)

    @property
    def held(self) -> tuple[str, ...]:
        """What the server offers and is held back, by its own names."""
        return tuple(pin.tool for pin in self.ledger.held if pin.tool in self.definitions)

    def is_of(
        self,
        definitions: Mapping[str, wire.Definition],
        borrowed: Mapping[str, str],
        stamp: Stamp,
    ) -> bool:
        """Whether looking again would show the same."""
        is_same = definitions is self.definitions and borrowed == self.borrowed
        return is_same and stamp == self.stamp


class Pinned:
    """A server's tools as far as its pins allow; a source like any other."""

    def __init__(
        self,
        inner: MCPSource,
        *,
        pins: Pins,
        neighbours: Neighbours,
        sink: Sink,
        trusts_first: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = inner.name
        self.inner = inner
        self._pins = pins
        self._neighbours = neighbours
        self._sink = sink
        self._trusts_first = trusts_first
        self._who = Identity.of(inner.server)
        self._sight = Sight(Ledger(inner.name))
        self._version = -1
        self._looking: asyncio.Task[None] | None = None
        self._patience_seconds = 0.0

    @property
    def ledger(self) -> Ledger:
        """The pins as they were when the tools were last looked at."""
        return self._sight.ledger

    async def tools(self) -> Sequence[Tool]:
        """The tools that are open; the rest is noted and kept out."""
        await self.inner.tools()
        await self._look()
        # Only what was compared with the pins, even if there is something newer by now.
        found = self._sight.definitions.values()
        return tuple(d.tool for d in found if self._is_open(d.local))

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Run an open tool; one that has been held back since is refused."""
        await self._look()
        name, _ = wire.origin(tool)
        if not self._is_open(name):
            raise refusal(tool.name, self.name)
        return await self.inner.call(tool, arguments)

    def is_in(self, sources: Container[str]) -> bool:
        """Whether what the server offers is among the sources of a catalog, if it offers any."""
        if self.name in sources:
            return True
        offered = self._sight.definitions
        is_looked_at = self.inner.listing is not None and offered is self.inner.definitions
        return is_looked_at and not any(map(self._is_open, offered))

    def held(self) -> Iterator[Tool]:
        """The tools that were looked at and are held back."""
        return (d.tool for d in self._sight.definitions.values() if not self._is_open(d.local))

    def leave(self) -> None:
        """Let the calls that run end, when the server is closed."""
        self._patience_seconds = _FAREWELL_SECONDS

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

    async def _look(self) -> None:
        """Compare what is offered with the pins, unless that is done; all who ask wait for one."""
        while self.is_stale:
            # One that is done would be waited for without a break, and nothing else would run.
            if self._looking is None or self._looking.done():
                # A task of its own: it goes on, whatever happens to who asked first.
                work = self._looked()
                self._looking = asyncio.create_task(work, context=contextvars.Context())
                self._looking.add_done_callback(_take_note)
            await asyncio.shield(self._looking)

    async def _looked(self) -> None:
        version, trusts_first = self._neighbours.version, self._trusts_first()
        # Of many tools it takes a while, in which other servers are to be called.
        before, sight = await asyncio.to_thread(self._met, trusts_first=trusts_first)
        last, self._sight, self._version = self._sight, sight, version
        self._tell(before, sight.ledger)
        self._warn(last, sight)

    def _met(self, *, trusts_first: bool) -> tuple[Ledger, Sight]:
        definitions = self.inner.definitions
        borrowed = self._neighbours.shadows(self.inner)
        stamp = self._pins.stamp(self._who)
        if self._sight.is_of(definitions, borrowed, stamp):
            return self._sight.ledger, self._sight
        self._pins.claim(self._who)
        before = self._pins.of(self._who)
        if not before.is_known and self._pins.ledgers(self.name):
            log.warning(_ANOTHER, self.name, self.name)
        offers = tuple(_offers(definitions, borrowed))
        ledger = before.met(offers, trusts_first=trusts_first)
        # Two gateways that are offered different things must not answer each other's every word.
        is_news = not self._sight.is_of(definitions, borrowed, self._sight.stamp)
        if ledger != before and (is_news or not before.is_known):
            with self._pins.writing(self.name):
                # Somebody may have approved or revoked since they were read.
                before = self._pins.of(self._who)
                ledger = before.met(offers, trusts_first=trusts_first)
                self._pins.save(ledger)
                stamp = self._pins.stamp(self._who)
        return before, Sight(ledger, definitions, borrowed, stamp)

    def _warn(self, last: Sight, now: Sight) -> None:
        """Say in a line that tools are held back, at the start and whenever others are."""
        if now.held and now.held != last.held:
            kinds = Counter(now.ledger.pins[tool].standing for tool in now.held)
            counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            log.warning(_HELD, self.name, counts, self.name)

    def _tell(self, before: Ledger, after: Ledger) -> None:
        known = {p.tool: p for p in before.held}
        for pin in after.held:
            if known.get(pin.tool) != pin:
                facts = {"server": self.name, "tool": pin.tool, "standing": pin.standing}
                self._sink(Event("tool_held", facts=facts))


def _take_note(task: asyncio.Task[None]) -> None:
    """Take its error, which whoever waits gets as well; perhaps nobody does any more."""
    if not task.cancelled():
        task.exception()


def _offers(
    definitions: Mapping[str, wire.Definition], borrowed: Mapping[str, str]
) -> Iterator[Offer]:
    for definition in definitions.values():
        yield Offer(
            tool=definition.local,
            digest=definition.digest,
            definition=wire.plain(definition.raw),
            shadows=borrowed.get(definition.local, ""),
        )


def refusal(tool: str, server: str) -> CallRefused:
    """What is said to whoever calls a tool that waits for a yes."""
    return CallRefused(
        f"{tool} is held back until it is approved.",
        hint=f"Whoever runs the gateway can see why: toolscout pins diff {server}",
    )


def shadows(
    source: MCPSource, others: Iterable[MCPSource], reserved: Iterable[str]
) -> dict[str, str]:
    """Which of a server's tools have the name of a discovery tool or of another server's tool."""
    spelled = {local: normalised(local) for local in source.definitions}
    wanted = frozenset(spelled.values())
    taken = {normalised(name): f"the gateway's own tool {name}" for name in reserved}
    for other in others:
        if other.name != source.name:
            for name in other.spellings.keys() & wanted:
                taken[name] = f"server {other.name!r}'s tool {other.spellings[name]}"
    found = {local: taken.get(name) for local, name in spelled.items()}
    return {local: f"It has the name of {whose}." for local, whose in found.items() if whose}
