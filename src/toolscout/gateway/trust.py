"""Between a server and the catalog: only what is pinned as it is gets through, either way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ..catalog.names import normalised
from ..catalog.result import Result
from ..catalog.sources.mcp import wire
from ..catalog.sources.mcp.source import MCPSource
from ..catalog.tool import Tool
from ..errors import CallRefused
from ..events import Event, Sink
from .pins import Ledger, Offer, Pins

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
        self._ledger = Ledger(inner.name)
        self._stamp = (-1, -1)
        self._patience_seconds = 0.0

    @property
    def ledger(self) -> Ledger:
        """The pins as they were when the tools were last looked at."""
        return self._ledger

    async def tools(self) -> Sequence[Tool]:
        """The tools that are open; the rest is noted and kept out."""
        await self.inner.tools()
        self._look()
        definitions = self.inner.definitions
        return tuple(d.tool for d in definitions.values() if self._is_open(d.local))

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Run an open tool; one that has been held back since is refused."""
        name, _ = wire.origin(tool)
        if self.is_stale:
            self._look()
        if not self._is_open(name):
            raise refusal(tool.name, self.name)
        return await self.inner.call(tool, arguments)

    def holds(self, tool: str) -> bool:
        """Whether the server offers a tool of this name that waits for a yes."""
        found = (d.local for d in self.inner.definitions.values() if d.tool.name == tool)
        return any(not self._is_open(local) for local in found)

    def leave(self) -> None:
        """Let the calls that run end, when the server is closed."""
        self._patience_seconds = _FAREWELL_SECONDS

    async def close(self) -> None:
        """Close the server."""
        await self.inner.close(patience_seconds=self._patience_seconds)

    @property
    def is_stale(self) -> bool:
        """Whether somebody has changed the pins, or taken a name, since the last look."""
        return self._now() != self._stamp

    def _now(self) -> tuple[int, int]:
        return (self._pins.stamp(self.name), self._neighbours.version)

    def _is_open(self, tool: str) -> bool:
        pin = self._ledger.pins.get(tool)
        return pin is not None and pin.is_open

    def _look(self) -> None:
        before = self._pins.ledger(self.name)
        after = before.met(self._offers(), trusts_first=self._trusts_first())
        if after != before:
            self._pins.save(after)
            self._tell(before, after)
        self._ledger = after
        self._stamp = self._now()

    def _offers(self) -> Iterator[Offer]:
        borrowed = self._neighbours.shadows(self.inner)
        for definition in self.inner.definitions.values():
            yield Offer(
                tool=definition.local,
                digest=definition.digest,
                definition=wire.plain(definition.raw),
                shadows=borrowed.get(definition.local, ""),
            )

    def _tell(self, before: Ledger, after: Ledger) -> None:
        known = {p.tool: p for p in before.held}
        for pin in after.held:
            if known.get(pin.tool) != pin:
                facts = {"server": self.name, "tool": pin.tool, "standing": pin.standing}
                self._sink(Event("tool_held", facts=facts))


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
