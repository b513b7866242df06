"""Live catalog: merges the tool lists of changing sources and keeps the search index current."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from threading import Thread
from types import MappingProxyType
from typing import Any, Protocol, cast, runtime_checkable

from ..catalog.catalog import Catalog
from ..catalog.problem import Problem
from ..catalog.source import Source
from ..catalog.tool import Tool
from ..errors import ClosedError, SourceError, ToolscoutError
from ..events import CatalogChangeEvent, Sink, SourceFailureEvent
from ..search.engine import Allow, Engine
from .absent_sources import AbsentSources
from .live_overlay import POLL_SECONDS, LiveOverlay
from .server_content import (
    CONTENT,
    ContentServer,
    ContentSource,
    RuleAccess,
    admits_server,
    build_content_source,
)

_MAX_PROBLEMS_SHOWN = 3


@runtime_checkable
class MergeableSource(Protocol):
    """A source that adds its tools to those of its predecessor instead of replacing it."""

    def merge_onto(self, before: Source) -> Source:
        """A source with the tools of both."""
        ...


class CatalogView(Protocol):
    """A catalog and its search, as a conversation uses them: a whole one, or a part of it."""

    @property
    def engine(self) -> Engine:
        """The search over the catalog."""
        ...

    @property
    def catalog(self) -> Catalog:
        """All tools known now."""
        ...

    def check_open(self) -> None:
        """Raise if the toolbox was closed."""
        ...

    def source_of(self, tool: Tool) -> Source:
        """The source that runs a tool of the catalog."""
        ...

    def check_content(
        self, tool: Tool, arguments: Mapping[str, Any], allow: Allow | None, /
    ) -> None:
        """Raise if a tool would get a prompt or resource that the caller may not get."""
        ...

    def has_hidden_tool(self, name: str, /) -> bool:
        """Whether a tool of this name exists that is not in `catalog`."""
        ...


class LiveCatalog:
    """Keeps one catalog and its index current while sources are added, changed and removed.

    When a source cannot be listed, the problem is recorded and the others keep working. Its last
    known
    tools stay in the catalog, so that they keep their place and a call of one says what is wrong.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        sink: Sink,
        on_update: Callable[[Catalog], None] = lambda _: None,
        allow: Callable[[], Allow | None] = lambda: None,
        overlay: LiveOverlay | None = None,
    ) -> None:
        self._engine = engine
        self._overlay = overlay
        self._overlay_lock = asyncio.Lock()
        self._overlay_watch: asyncio.Task[None] | None = None
        self._allow = allow
        self._content: Source | None = None
        self._sink = sink
        self._on_update = on_update
        self._sources: dict[str, Source] = {}
        self._problems: dict[str, str] = {}
        self._unlisted: set[str] = set()
        self._updating = asyncio.Lock()
        self._is_closed = False
        # Closing cancels listings, which may wait for a slow server, but waits for changes.
        self._listings: set[asyncio.Task[None]] = set()
        self._changes: set[asyncio.Task[None]] = set()

    def check_open(self) -> None:
        """Raise if the toolbox was closed: its sources are closed, and nothing can run."""
        if self._is_closed:
            raise ClosedError(
                "This toolbox is closed. A toolbox can be entered only once.",
                hint="Make a new Toolbox with the same sources.",
            )

    @property
    def engine(self) -> Engine:
        """The search over the catalog."""
        return self._engine

    @property
    def catalog(self) -> Catalog:
        """All tools known now."""
        return self._engine.catalog

    @property
    def sources(self) -> Mapping[str, Source]:
        """Every source by name, including those with problems."""
        return MappingProxyType(self._sources)

    @property
    def problems(self) -> Mapping[str, str]:
        """Why sources could not be listed, by source name."""
        return MappingProxyType(self._problems)

    @property
    def absent_sources(self) -> AbsentSources:
        """The sources that have no tools yet, or none because they fail."""
        if not (self._unlisted or self._problems):
            return AbsentSources(self.catalog, frozenset(), {})
        listed = {self.catalog.source_of(tool.name) for tool in self.catalog}
        problems = {
            name: why
            for name, why in self._problems.items()
            if name in self._sources and name not in listed and name not in self._unlisted
        }
        return AbsentSources(self.catalog, frozenset(self._unlisted - listed), problems)

    async def start(self, sources: Iterable[Source], *, wait_seconds: float) -> None:
        """List all sources in parallel; one that takes longer is added when it is ready."""
        if self._overlay is not None:
            self._record_problem(self._overlay.label, self._overlay.problem)
            self._overlay_watch = asyncio.create_task(self._watch_overlay(self._overlay))
        listings = [_spawn(self.put(source), self._listings) for source in sources]
        if listings:
            await asyncio.wait(listings, timeout=wait_seconds)

    async def wait_for_listings(self) -> None:
        """Wait until every pending listing and change is done."""
        if tasks := self._listings | self._changes:
            await asyncio.wait(tasks)

    async def put(self, source: Source) -> None:
        """Add a source; it replaces the one of the same name, or is merged with it."""
        before = self._sources.get(source.name)
        if before is not None and isinstance(source, MergeableSource):
            source = source.merge_onto(before)
        self._sources[source.name] = source
        self._unlisted.add(source.name)
        # A separate task: if the caller is cancelled halfway, the new source would be registered
        # with the tools of the old one.
        task = _spawn(self._replace_source(source, before), self._listings)
        await asyncio.wait([task])
        if not task.cancelled():  # close() cancels it
            task.result()

    async def _replace_source(self, source: Source, before: Source | None) -> None:
        if before is not None and before is not source:
            await self._run_to_completion(before.close())
        await self.refresh(source.name)

    async def refresh(self, name: str) -> None:
        """List a source again and apply what changed."""
        source = self._get_source(name)
        try:
            tools = await source.tools()
        except Exception as error:  # noqa: BLE001 - a failing source must not affect others
            self._unlisted.discard(name)
            self._record_problem(name, str(error) or type(error).__name__)
            return
        # It may have been removed or replaced while it was listed.
        if self._sources.get(name) is source:
            self._record_problem(name, _describe_problems(source))
            await self._run_to_completion(
                self._update_catalog(name, lambda catalog: self._with_source(catalog, name, tools))
            )
            self._unlisted.discard(name)
            await self._refresh_content(source)

    def _with_source(self, catalog: Catalog, name: str, tools: Sequence[Tool]) -> Catalog:
        """The catalog with what a source lists.

        Sources are ready in any order. Each goes to the place where the user put it, so that the
        next start shows the same list, and prompt caches stay valid.
        """
        return catalog.with_source(name, self._add_overlay(tools), order=tuple(self._sources))

    async def refresh_overlay(self) -> None:
        """Read the overlay file if it was edited, and apply it to the tools of all sources."""
        overlay = self._overlay
        if overlay is None:
            return
        async with self._overlay_lock:
            if not await asyncio.to_thread(overlay.reload_if_changed):
                return
            self._record_problem(overlay.label, overlay.problem)
            change = overlay.overlay.apply
            await self._run_to_completion(
                self._update_catalog(overlay.label, lambda c: c.with_changed_tools(change))
            )

    async def _watch_overlay(self, overlay: LiveOverlay) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self.refresh_overlay()
            except Exception as error:  # noqa: BLE001 - later edits must still be noticed
                self._record_problem(overlay.label, repr(error))

    def overlay_problems(self) -> list[str]:
        """What is wrong with the overlay file, and with its entries for the tools known now."""
        if self._overlay is None:
            return []
        # A source without tools may still be starting, or failing: its entries may be right.
        unlisted = self._sources.keys() - set(self.catalog.sources)
        found = self._overlay.overlay.find_problems(self.catalog, unlisted=unlisted)
        problem = self._overlay.problem
        return [*([problem] if problem else []), *map(str, found)]

    def _add_overlay(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        return [*map(self._overlay.overlay.apply, tools)] if self._overlay else tools

    async def _refresh_content(self, source: Source) -> None:
        """Offer what an MCP server has besides tools, after it was listed or removed."""
        if not isinstance(source, ContentServer):
            return
        if CONTENT not in self._sources:
            content = build_content_source(
                lambda: tuple(self._sources.values()),
                lambda server: admits_server(server, self.catalog, self._allow()),
            )
            # Without prompts and resources it is not a source that a user should see.
            if await content.tools():
                self._sources[CONTENT] = self._content = content
        if self._content is not None:
            await self.refresh(CONTENT)

    @property
    def content(self) -> ContentSource | None:
        """The source that gets prompts and resources, if there is one."""
        source = self._sources.get(CONTENT)
        return source if isinstance(source, ContentSource) else None

    def check_content(self, tool: Tool, arguments: Mapping[str, Any], allow: Allow | None) -> None:
        """Raise if a tool would get a prompt or resource that the caller may not get."""
        content = self.content
        if content is not None and self.catalog.source_of(tool.name) == CONTENT:
            content.check(tool, arguments, RuleAccess(allow))

    def has_hidden_tool(self, _: str) -> bool:
        """Whether a tool of this name exists that is not in `catalog`; here all of them are."""
        return False

    def _record_problem(self, name: str, why: str) -> None:
        """Store or clear the problem of a source; only a new problem is an event."""
        if not why:
            self._problems.pop(name, None)
        elif self._problems.get(name) != why:
            self._problems[name] = why
            self._sink(SourceFailureEvent(source=name, why=why))

    def schedule_refresh(self, source: Source) -> None:
        """Start listing a source again, after it reported that its tools changed."""
        if self._sources.get(source.name) is source:
            _spawn(self.refresh(source.name), self._listings)

    async def remove(self, name: str) -> None:
        """Close a source and remove its tools from the catalog."""
        source = self._get_source(name)
        del self._sources[name]
        self._unlisted.discard(name)
        self._problems.pop(name, None)
        await self._run_to_completion(self._remove_source(name, source))

    async def _remove_source(self, name: str, source: Source) -> None:
        try:
            await self._update_catalog(name, lambda catalog: catalog.without_source(name))
        finally:  # it is registered nowhere now, so nothing else would close it
            await source.close()
        await self._refresh_content(source)

    def source_of(self, tool: Tool) -> Source:
        """The source that runs a tool of the catalog."""
        name = self.catalog.source_of(tool.name)
        source = self._sources.get(name) if name is not None else None
        if source is None:
            raise SourceError(
                f"{tool.name} was just removed, so it cannot run.", hint="Search again."
            )
        return source

    async def close(self) -> None:
        """Stop listing and close every source; one that fails to close does not stop the others."""
        self._is_closed = True
        if self._overlay_watch is not None:
            self._overlay_watch.cancel()
        for task in self._listings:
            task.cancel()
        await asyncio.gather(*self._listings, *self._changes, return_exceptions=True)
        await asyncio.gather(*(s.close() for s in self._sources.values()), return_exceptions=True)

    async def _run_to_completion(self, change: Coroutine[Any, Any, None]) -> None:
        """Wait for a change; it runs to its end even if the caller is cancelled."""
        # A half-made change would leave the tools of a removed source in the catalog, or a thread
        # that still indexes while the next change starts.
        await asyncio.shield(_spawn(change, self._changes))

    async def _update_catalog(self, name: str, change: Callable[[Catalog], Catalog]) -> None:
        # Indexing may take a while, so it runs in a thread; searches use the old snapshot until
        # then. The lock makes each change start from the result of the one before it.
        async with self._updating:
            before = self.catalog
            after = change(before)
            diff = after.diff(before)
            if not diff:
                return
            await asyncio.to_thread(self._engine.update, after)
            self._on_update(after)
        self._sink(
            CatalogChangeEvent(
                source=name,
                added=len(diff.added),
                changed=len(diff.changed),
                removed=len(diff.removed),
                version=after.version,
            )
        )

    def _get_source(self, name: str) -> Source:
        try:
            return self._sources[name]
        except KeyError:
            known = ", ".join(self._sources) or "none"
            raise ToolscoutError(
                f"There is no source {name!r}.", hint=f"The sources are: {known}."
            ) from None


def _spawn(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> asyncio.Task[None]:
    """Start a task and hold it in a set until it is done."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


def _describe_problems(source: Source) -> str:
    """The errors that a source reports about its own definition, in one line."""
    # Not part of the Source contract: only some sources have problems to report.
    problems: object = getattr(source, "problems", ())
    if not isinstance(problems, tuple | list):
        return ""
    errors = [
        str(p)
        for p in cast("Sequence[object]", problems)
        if isinstance(p, Problem) and p.severity == "error"
    ]
    more = (
        f" (and {len(errors) - _MAX_PROBLEMS_SHOWN} more)"
        if len(errors) > _MAX_PROBLEMS_SHOWN
        else ""
    )
    return "; ".join(errors[:_MAX_PROBLEMS_SHOWN]) + more


CLOSE_WAIT_SECONDS = 2.0
"""How long closing waits for vectors that are being computed."""


@runtime_checkable
class ClosableEmbedder(Protocol):
    """An embedder that holds a connection or another resource."""

    def close(self) -> None:
        """Release it."""
        ...


async def close_engine(engine: Engine, *, wait_seconds: float = CLOSE_WAIT_SECONDS) -> None:
    """Close an engine and the connections of its embedders."""
    # A daemon thread, because an embedding service may be slow to answer: closing waits a little,
    # and the request then ends by itself or with the process.
    thread = Thread(target=_close_in_thread, args=(engine,), name="toolscout-closing", daemon=True)
    thread.start()
    await asyncio.to_thread(thread.join, wait_seconds)


def _close_in_thread(engine: Engine) -> None:
    engine.close()
    for embedder in engine.embedders:
        if isinstance(embedder, ClosableEmbedder):
            embedder.close()
