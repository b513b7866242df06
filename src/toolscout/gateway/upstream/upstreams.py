"""All servers of a configuration as pinned sources: add, replace, remove, start and query them."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

import mcp_types as types

from ...catalog.source import Source
from ...catalog.tool import Tool, qualify_name
from ...events import Sink, UpstreamConfiguredEvent, UpstreamRemovedEvent
from ...sources.mcp.content import MCPContentSource
from ...sources.mcp.listing_cache import ListingCache
from ...sources.mcp.login_request import LoginLink
from ...sources.mcp.mcp_source import MCPSource, ServerState
from ...sources.mcp.oauth_tokens import OAuthTokenStore
from ...sources.mcp.server_log import ServerLogs
from ...sources.mcp.servers import Server
from ...sources.openapi.api_source import API, OpenAPISource
from ...sources.server_status import UP_STATUSES
from ...store.rate_limits import BucketStore, MemoryBuckets
from ...toolbox.toolbox import Toolbox
from .held_tools import HeldTools
from .pin_store import PinStore, ServerIdentity
from .pinned_source import PinComparison, PinnedSource, find_shadows

MAX_CONCURRENT_STARTS = 2
"""How many servers start at a time when no request waits for them."""

# A server that hangs gives its place to the next one after this time; it continues to start.
_START_TIMEOUT_SECONDS = 5.0


class Upstreams:
    """The servers of a running gateway; an edit of the configuration changes only some of them."""

    def __init__(
        self,
        *,
        listings: ListingCache | None,
        grants: OAuthTokenStore | None = None,
        logs: ServerLogs | None = None,
        pins: PinStore,
        sink: Sink,
        reserved: Iterable[str] = (),
        trusts_first: bool = True,
        login_link: LoginLink | None = None,
        buckets: BucketStore | None = None,
    ) -> None:
        self._listings = listings
        self._grants = grants
        self._logs = logs
        self._pins = pins
        self._sink = sink
        self._reserved = tuple(reserved)
        self._trusts_first = trusts_first
        self._login_link = login_link
        self._sources: dict[str, PinnedSource] = {}
        self._apis: dict[str, API] = {}
        # Shared by all sources, so that an edit of a server does not fill its bucket again.
        self._buckets = buckets or MemoryBuckets()
        self.version = 0
        # Does nothing until attach() connects it to the toolbox.
        self._notify_changed: Callable[[str], None] = lambda _: None
        self._box: Toolbox | None = None
        self._held: tuple[list[PinComparison], HeldTools] = [], HeldTools({}, {})
        self._settled: Mapping[str, PinComparison] = {}
        self._disabled: frozenset[str] = frozenset()
        self._admission_tasks: dict[str, asyncio.Task[None]] = {}
        self.content = MCPContentSource(self._content_servers)

    @property
    def sources(self) -> Mapping[str, PinnedSource]:
        """Every server that is not disabled, by name."""
        return self._sources

    def _content_servers(self) -> list[MCPSource]:
        """The servers whose prompts and resources may be used, by the profile's selection."""
        box = self._box
        # A copy: this also runs in threads, while the event loop adds and removes servers.
        return [
            source.inner
            for name, source in list(self._sources.items())
            if box is None or box.admits_server(name)
        ]

    def states(self) -> tuple[ServerState, ...]:
        """The current state of each server."""
        return tuple(s.inner.state for s in self._sources.values())

    def definition(self, tool: Tool) -> types.Tool | None:
        """The definition of a tool as its server sent it."""
        source = self._sources.get(tool.server)
        definition = source.inner.definitions.get(tool.local_name) if source else None
        return definition.raw if definition else None

    def failure_reason(self, server: str) -> str:
        """Why a server's tools cannot be used; empty if nothing is wrong with it."""
        source = self._sources[server]
        return source.inner.login_problem() or source.inner.state.reason or source.problem

    def servers_without_listing(self) -> tuple[str, ...]:
        """The servers that have not listed their tools yet."""
        return tuple(n for n, s in self._sources.items() if s.inner.listing is None)

    def absent_servers(self) -> tuple[str, ...]:
        """The servers that a search does not cover yet: not listed, or not in the catalog."""
        return self._absent_among(self._sources)

    def absent_servers_for(self, tool: str) -> tuple[str, ...]:
        """The servers that a tool's name begins with and that are not in the catalog yet."""
        return self._absent_among(
            [n for n in self._sources if tool.startswith(qualify_name(n, ""))]
        )

    def starting_servers_for(self, tool: str) -> tuple[str, ...]:
        """The servers that may still list a tool of this name: its own, or any for a bare name."""
        is_bare = not any(tool.startswith(qualify_name(n, "")) for n in self._sources)
        absent = self.absent_servers() if is_bare else self.absent_servers_for(tool)
        return tuple(n for n in absent if self._is_starting(n))

    def failing_servers_for(self, tool: str) -> tuple[str, ...]:
        """The servers that fail, were never listed, and may have a tool of this bare name."""
        if any(tool.startswith(qualify_name(n, "")) for n in self._sources):
            return ()
        return tuple(n for n in self.servers_without_listing() if self.failure_reason(n))

    def _is_starting(self, server: str) -> bool:
        # A server that just became ready is not in the catalog yet.
        is_up = self._sources[server].inner.state.status in UP_STATUSES
        return is_up and not self.failure_reason(server)

    def disabled_servers_for(self, tool: str) -> tuple[str, ...]:
        """The disabled servers that a tool's name begins with."""
        return tuple(n for n in sorted(self._disabled) if tool.startswith(qualify_name(n, "")))

    def _absent_among(self, names: Collection[str]) -> tuple[str, ...]:
        in_catalog = self._box.catalog.sources if self._box and names else ()
        return tuple(n for n in names if not self._sources[n].is_covered_by(in_catalog))

    async def wait_for_servers(
        self,
        *names: str,
        timeout_seconds: float,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wait until servers have started and are in the catalog, or until the timeout.

        `is_enough` ends the wait early; it is asked whenever one more server is in the catalog.
        """
        pending = {self._admission_task(n) for n in names}
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while pending and not is_enough():
                    _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)

    def _admission_task(self, name: str) -> asyncio.Task[None]:
        """The task that adds a server to the catalog, shared by all callers that wait for it."""
        known = self._admission_tasks.get(name)
        if known is not None:
            return known
        assert self._box is not None
        self._sources[name].inner.note_caller()
        work = self._box.refresh(name)
        # An empty context: the task outlives the call that started it, and must not find that
        # call's client in CURRENT_CHANNEL.
        task = asyncio.create_task(work, context=contextvars.Context())
        self._admission_tasks[name] = task

        def on_done(_: asyncio.Task[None]) -> None:
            del self._admission_tasks[name]
            # The toolbox records a failure itself. Fetching it here keeps asyncio from logging it.
            if not task.cancelled():
                task.exception()

        task.add_done_callback(on_done)
        return task

    async def settle(self, *, timeout_seconds: float) -> None:
        """Wait until the catalog has the outcome of every comparison with pins.

        Otherwise one reply could list a tool as found and as held for approval.
        """
        compared = {n: s.comparison for n, s in self._sources.items() if s.comparison.definitions}
        new = [n for n, c in compared.items() if self._settled.get(n) is not c]
        await self.wait_for_servers(*new, timeout_seconds=timeout_seconds)
        self._settled = compared

    @property
    def held_tools(self) -> HeldTools:
        """The tools of all servers that are held for approval now."""
        # A copy: this also runs in threads, while the event loop adds and removes servers.
        sources = dict(self._sources)
        comparisons = [s.comparison for s in sources.values()]
        known, held = self._held
        # By identity, which is quick: every comparison that found a difference is a new object.
        if [*map(id, comparisons)] != [*map(id, known)]:
            tools = {n: tuple(s.tools_on_hold()) for n, s in sources.items()}
            labels = {n: s.label for n, s in sources.items() if tools[n]}
            held = HeldTools(tools, labels)
            self._held = comparisons, held
        return held

    def create_sources(
        self, servers: Iterable[Server], apis: Iterable[API] = ()
    ) -> Sequence[Source]:
        """The sources for a new toolbox: servers, APIs, and the servers' prompts and resources."""
        servers = tuple(servers)
        self._disabled = frozenset(s.name for s in servers if s.is_disabled)
        self._sources = {s.name: self._create_source(s) for s in servers if not s.is_disabled}
        self._apis = {api.name: api for api in apis}
        return (*self._sources.values(), *map(OpenAPISource, self._apis.values()), self.content)

    def attach(self, box: Toolbox) -> None:
        """Refresh the toolbox from now on whenever a server's lists change."""
        self._box = box
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[None]] = set()  # asyncio itself holds tasks weakly

        def on_change(name: str) -> None:
            task = loop.create_task(self.refresh_catalog(name))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        self._notify_changed = on_change

    async def refresh_catalog(self, server: str) -> None:
        """Update the catalog with the tools that a server offers now."""
        if self._box is not None:
            await self._box.refresh(server, self.content.name)
            # A new name on one server may shadow, or stop shadowing, a tool of another.
            await self.refresh_stale_sources(self._box)

    def update_trust_rules(self, *, reserved: Iterable[str], trusts_first: bool) -> None:
        """Change how tools are approved; a real change makes every comparison with pins stale."""
        names = tuple(reserved) or self._reserved
        if (names, trusts_first) != (self._reserved, self._trusts_first):
            self._reserved, self._trusts_first = names, trusts_first
            self.version += 1

    async def apply(self, servers: Iterable[Server], apis: Iterable[API], box: Toolbox) -> None:
        """Apply an edited configuration: stop and start only the servers that changed."""
        await self._apply_apis({api.name: api for api in apis}, box)
        servers = tuple(servers)
        were_disabled = self._disabled
        self._disabled = frozenset(s.name for s in servers if s.is_disabled)
        wanted = {s.name: s for s in servers if not s.is_disabled}
        for name in [n for n in self._sources if n not in wanted]:
            self._sources.pop(name).drain_on_close()
            await box.remove(name)
            self._sink(UpstreamRemovedEvent(server=name, is_disabled=name in self._disabled))
        new: list[PinnedSource] = []
        for name, server in wanted.items():
            known = self._sources.get(name)
            if known is not None and known.inner.server == server:
                continue
            change = "enabled" if name in were_disabled else "added"
            if known is not None:
                known.drain_on_close()
                change = "changed"
            self._sources[name] = self._create_source(server)
            self._sink(UpstreamConfiguredEvent(server=name, change=change))
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
        """Refresh the servers whose pins changed, or whose names another server uses now."""
        for name, source in list(self._sources.items()):
            # A server without a listing has nothing to compare; refreshing would start it.
            if source.is_stale and source.inner.listing is not None:
                await box.refresh(name)
            else:
                source.relist_if_awaited()

    async def start_all(self) -> None:
        """Start all servers, a few at a time, so that requests of clients come first."""
        slots = asyncio.Semaphore(MAX_CONCURRENT_STARTS)

        async def start(source: MCPSource) -> None:
            async with slots:
                await source.start(timeout_seconds=_START_TIMEOUT_SECONDS)

        await asyncio.gather(*(start(s.inner) for s in self._sources.values()))

    async def start(self, name: str) -> None:
        """Start a server now; a slow one continues to start in the background."""
        source = self._sources.get(name)
        if source is not None:
            await source.inner.start(timeout_seconds=_START_TIMEOUT_SECONDS)

    def wake(self, *names: str) -> None:
        """Start sleeping servers in the background."""
        for name in names:
            source = self._sources.get(name)
            if source is not None:
                source.inner.wake()

    def find_shadows(self, source: MCPSource) -> Mapping[str, str]:
        """The tools of a server that use another's name, each with whose name it is."""
        # A copy: this runs in a thread, while the event loop adds and removes servers.
        others = tuple(self._sources.values())
        return find_shadows(source, (s.inner for s in others), self._reserved)

    def _on_listing_change(self, source: MCPSource) -> None:
        self.version += 1
        self._notify_changed(source.name)

    def _create_source(self, server: Server) -> PinnedSource:
        is_met = self._pins.has_pins(ServerIdentity.of(server))
        inner = MCPSource(
            server,
            listings=self._listings,
            grants=self._grants,
            on_change=self._on_listing_change,
            sink=self._sink,
            # A cached list is not the first contact: another command wrote it, perhaps long ago.
            # It makes tools searchable at once, and is pinned once the server itself has listed.
            reads_cache=is_met or self._trusts_first,
            is_met=is_met,
            forwards_requests=True,
            server_log=self._logs.open(server) if self._logs else None,
            buckets=self._buckets,
            login_link=self._login_link,
        )
        return PinnedSource(
            inner,
            pins=self._pins,
            siblings=self,
            sink=self._sink,
            trusts_first=lambda: self._trusts_first,
        )
