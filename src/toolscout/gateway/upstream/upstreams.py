"""The servers of a configuration, kept in step with it: each a pinned source of the toolbox."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import mcp_types as types

from ...catalog.names import qualify_name
from ...catalog.source import Source
from ...catalog.tool import Tool
from ...events import Event, Sink
from ...sources.mcp.content import MCPContentSource
from ...sources.mcp.listing_cache import ListingCache
from ...sources.mcp.mcp_source import MCPSource, ServerState
from ...sources.mcp.oauth_tokens import GrantStore
from ...sources.mcp.servers import Server
from ...sources.openapi.api_source import API, OpenAPISource
from ...toolbox.toolbox import Toolbox
from ..policies import AccessRule
from .pinned_source import PinnedSource, find_shadows
from .pins import PinStore

MAX_CONCURRENT_STARTS = 2
"""How many servers are started at a time when nobody waits for them."""

_START_TIMEOUT_SECONDS = 5.0


class Upstreams:
    """Adds, replaces and removes servers while the gateway runs; wakes and describes them."""

    def __init__(
        self,
        *,
        listings: ListingCache | None,
        grants: GrantStore | None = None,
        pins: PinStore,
        sink: Sink,
        reserved: Iterable[str] = (),
        trusts_first: bool = True,
    ) -> None:
        self._listings = listings
        self._grants = grants
        self._pins = pins
        self._sink = sink
        self._reserved = tuple(reserved)
        self._trusts_first = trusts_first
        self._sources: dict[str, PinnedSource] = {}
        self._apis: dict[str, API] = {}
        self.version = 0
        self._changed: Callable[[str], None] = lambda _: None
        self._box: Toolbox | None = None
        self._joining: dict[str, asyncio.Task[None]] = {}
        self.content = MCPContentSource(lambda: [s.inner for s in self._sources.values()])

    @property
    def sources(self) -> Mapping[str, PinnedSource]:
        """Every server that is not disabled, by name."""
        return self._sources

    def states(self) -> tuple[ServerState, ...]:
        """How each server is right now."""
        return tuple(s.inner.state for s in self._sources.values())

    def definition(self, tool: Tool) -> types.Tool | None:
        """A tool as its server defined it."""
        source = self._sources.get(tool.server)
        known = source.inner.definitions.get(tool.local_name) if source else None
        return known.raw if known else None

    def servers_without_listing(self) -> tuple[str, ...]:
        """The servers whose tools are not known yet."""
        return tuple(n for n, s in self._sources.items() if s.inner.listing is None)

    def absent_servers(self) -> tuple[str, ...]:
        """The servers that no search looks into yet: not listed, or not taken in so far."""
        return self._absent_among(self._sources)

    def absent_servers_for(self, tool: str) -> tuple[str, ...]:
        """The server that a tool's name begins with, if it is still missing."""
        return self._absent_among(
            [n for n in self._sources if tool.startswith(qualify_name(n, ""))]
        )

    def _absent_among(self, names: Collection[str]) -> tuple[str, ...]:
        taken = self._box.catalog.sources if self._box and names else ()
        return tuple(n for n in names if not self._sources[n].is_covered_by(taken))

    async def wait_for_servers(self, *names: str, patience_seconds: float) -> None:
        """Wait for missing servers, each as long as it starts and at most so long."""
        if names:
            await asyncio.wait([self._admission_task(n) for n in names], timeout=patience_seconds)

    def _admission_task(self, name: str) -> asyncio.Task[None]:
        """The one task that takes a server in; it goes on, whoever stops waiting for it."""
        known = self._joining.get(name)
        if known is not None:
            return known
        assert self._box is not None
        work = self._box.refresh(name)
        task = asyncio.create_task(work, context=contextvars.Context())
        self._joining[name] = task

        def on_done(_: asyncio.Task[None]) -> None:
            del self._joining[name]
            if not task.cancelled():
                task.exception()

        task.add_done_callback(on_done)
        return task

    def server_holding(self, tool: str, allow: AccessRule | None = None) -> str:
        """The server whose pins hold a tool of this name back, as far as a caller may know."""
        held = ((n, t) for n, s in self._sources.items() for t in s.tools_on_hold())
        return next((n for n, t in held if t.name == tool and (not allow or allow(t))), "")

    def count_held_tools(self, allow: AccessRule | None = None) -> int:
        """How many tools are held back, of those that a caller may know of."""
        return sum(not allow or allow(t) for s in self._sources.values() for t in s.tools_on_hold())

    def create_sources(
        self, servers: Iterable[Server], apis: Iterable[API] = ()
    ) -> Sequence[Source]:
        """The sources to open a toolbox with."""
        self._sources = {s.name: self._create_source(s) for s in servers if not s.is_disabled}
        self._apis = {api.name: api for api in apis}
        return (*self._sources.values(), *map(OpenAPISource, self._apis.values()), self.content)

    def attach(self, box: Toolbox) -> None:
        """Tell the toolbox from now on when a server lists something else."""
        self._box = box
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[None]] = set()

        async def refresh_catalog(name: str) -> None:
            await box.refresh(name, self.content.name)
            await self.refresh_stale_sources(box)

        def on_change(name: str) -> None:
            task = loop.create_task(refresh_catalog(name))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        self._changed = on_change

    def update_trust_rules(self, *, reserved: Iterable[str], trusts_first: bool) -> None:
        """Judge what servers offer by other rules; if they are, all is looked at again."""
        names = tuple(reserved) or self._reserved
        if (names, trusts_first) != (self._reserved, self._trusts_first):
            self._reserved, self._trusts_first = names, trusts_first
            self.version += 1

    async def apply(self, servers: Iterable[Server], apis: Iterable[API], box: Toolbox) -> None:
        """Follow an edited configuration: only what changed is stopped or started."""
        await self._apply_apis({api.name: api for api in apis}, box)
        wanted = {s.name: s for s in servers if not s.is_disabled}
        for name in [n for n in self._sources if n not in wanted]:
            self._sources.pop(name).drain_on_close()
            await box.remove(name)
            self._sink(Event("upstream_removed", facts={"server": name}))
        new: list[PinnedSource] = []
        for name, server in wanted.items():
            known = self._sources.get(name)
            if known is not None and known.inner.server == server:
                continue
            if known is not None:
                known.drain_on_close()
            self._sources[name] = self._create_source(server)
            self._sink(Event("upstream_configured", facts={"server": name}))
            new.append(self._sources[name])
        await asyncio.gather(*map(box.add, new))
        await box.refresh(self.content.name)

    async def _apply_apis(self, wanted: Mapping[str, API], box: Toolbox) -> None:
        for name in [n for n in self._apis if n not in wanted]:
            await box.remove(name)
        for name, api in wanted.items():
            if self._apis.get(name) != api:
                await box.add(OpenAPISource(api))
        self._apis = dict(wanted)

    async def refresh_stale_sources(self, box: Toolbox) -> None:
        """Look again at pins that somebody has changed."""
        for name, source in list(self._sources.items()):
            if source.is_stale and source.inner.listing is not None:
                await box.refresh(name)

    async def start_all(self) -> None:
        """Start all servers in the background, a few at a time, so that clients come first."""
        room = asyncio.Semaphore(MAX_CONCURRENT_STARTS)

        async def start(source: MCPSource) -> None:
            async with room:
                await source.start(patience_seconds=_START_TIMEOUT_SECONDS)

        await asyncio.gather(*(start(s.inner) for s in self._sources.values()))

    def wake(self, *names: str) -> None:
        """Start sleeping servers in the background."""
        for name in names:
            source = self._sources.get(name)
            if source is not None:
                source.inner.wake()

    def find_shadows(self, source: MCPSource) -> Mapping[str, str]:
        """Which of a server's tools have a borrowed name."""
        # All at once: this may run in a thread while servers come and go.
        others = tuple(self._sources.values())
        return find_shadows(source, (s.inner for s in others), self._reserved)

    def _on_listing_change(self, source: MCPSource) -> None:
        self.version += 1
        self._changed(source.name)

    def _create_source(self, server: Server) -> PinnedSource:
        inner = MCPSource(
            server,
            listings=self._listings,
            grants=self._grants,
            changed=self._on_listing_change,
            sink=self._sink,
            talks_back=True,
        )
        return PinnedSource(
            inner,
            pins=self._pins,
            neighbours=self,
            sink=self._sink,
            trusts_first=lambda: self._trusts_first,
        )
