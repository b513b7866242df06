"""The catalog as its sources make it now, and the search over it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from threading import Thread
from types import MappingProxyType
from typing import Any, Protocol, cast, runtime_checkable

from ..catalog.catalog import Catalog
from ..catalog.problem import Problem
from ..catalog.source import Source
from ..catalog.tool import Tool
from ..disclosure.profile import Profile
from ..errors import SourceError, ToolscoutError
from ..events import Event, Sink
from ..search.engine import Engine
from .features import Features

_MAX_PROBLEMS_SHOWN = 3


@runtime_checkable
class MergeableSource(Protocol):
    """A source whose tools come beside those of the one before it."""

    def merge_onto(self, before: Source) -> Source:
        """The source that has the tools of both."""
        ...


class LiveCatalog:
    """Keeps one catalog and its index in step with sources that come, change and go.

    A source that cannot be listed is noted and the rest go on; what it listed before stays known,
    so that its tools keep their place and their calls say what is wrong.
    """

    def __init__(
        self, engine: Engine, *, sink: Sink, learn: Callable[[Catalog], None] = lambda _: None
    ) -> None:
        self._engine = engine
        self._sink = sink
        self._learn = learn
        self._sources: dict[str, Source] = {}
        self._problems: dict[str, str] = {}
        self._updating = asyncio.Lock()
        self._listings: set[asyncio.Task[None]] = set()
        self._changes: set[asyncio.Task[None]] = set()

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
        """Every source by name, those with problems too."""
        return MappingProxyType(self._sources)

    @property
    def problems(self) -> Mapping[str, str]:
        """Why sources could not be listed, by their names."""
        return MappingProxyType(self._problems)

    async def start(self, sources: Iterable[Source], *, wait_seconds: float) -> None:
        """List all sources at once; those that take longer join when they are ready."""
        listings = [_spawn(self.put(source), self._listings) for source in sources]
        if listings:
            await asyncio.wait(listings, timeout=wait_seconds)

    async def wait_for_listings(self) -> None:
        """Wait until every source that is being listed has answered."""
        if tasks := self._listings | self._changes:
            await asyncio.wait(tasks)

    async def put(self, source: Source) -> None:
        """Add a source, or replace the one of its name, or join it where that is its way."""
        before = self._sources.get(source.name)
        if before is not None and isinstance(source, MergeableSource):
            source = source.merge_onto(before)
        self._sources[source.name] = source
        # A task of its own: given up halfway, its tools would be those of the one before.
        task = _spawn(self._replace_source(source, before), self._listings)
        await asyncio.wait([task])
        if not task.cancelled():  # as it is when all is closed
            task.result()

    async def _replace_source(self, source: Source, before: Source | None) -> None:
        if before is not None and before is not source:
            await self._run_to_completion(before.close())
        await self.refresh(source.name)

    async def refresh(self, name: str) -> None:
        """List a source again and take over what changed."""
        source = self._get_source(name)
        try:
            tools = await source.tools()
        except Exception as error:  # noqa: BLE001 - whatever a source raises is that source's problem
            self._record_problem(name, str(error) or type(error).__name__)
            return
        if self._sources.get(name) is source:
            self._record_problem(name, _describe_problems(source))
            await self._run_to_completion(
                self._update_catalog(lambda catalog: catalog.with_source(name, tools))
            )

    def _record_problem(self, name: str, why: str) -> None:
        """Remember what is wrong with a source, or that nothing is."""
        if not why:
            self._problems.pop(name, None)
        elif self._problems.get(name) != why:
            self._problems[name] = why
            self._sink(Event("source_failed", facts={"source": name, "why": why}))

    def schedule_refresh(self, source: Source) -> None:
        """Hear from a source that its tools are not what they were."""
        if self._sources.get(source.name) is source:
            _spawn(self.refresh(source.name), self._listings)

    async def remove(self, name: str) -> None:
        """Let go of a source; its tools leave the catalog."""
        source = self._get_source(name)
        del self._sources[name]
        self._problems.pop(name, None)
        await self._run_to_completion(self._remove_source(name, source))

    async def _remove_source(self, name: str, source: Source) -> None:
        try:
            await self._update_catalog(lambda catalog: catalog.without_source(name))
        finally:  # nobody else knows of it any more
            await source.close()

    def source_of(self, tool: Tool) -> Source:
        """Who runs a tool of the catalog."""
        name = self.catalog.source_of(tool.name)
        source = self._sources.get(name) if name is not None else None
        if source is None:
            raise SourceError(
                f"{tool.name} has just gone: nothing runs it any more.", hint="Search again."
            )
        return source

    async def close(self) -> None:
        """Stop listing and let go of every source; one that fails to close holds up no other."""
        for task in self._listings:
            task.cancel()
        await asyncio.gather(*self._listings, *self._changes, return_exceptions=True)
        await asyncio.gather(*(s.close() for s in self._sources.values()), return_exceptions=True)

    async def _run_to_completion(self, change: Coroutine[Any, Any, None]) -> None:
        """Wait for a change, which goes on to its end if whoever waits for it gives up.

        Left halfway, a source would be gone and its tools not, or an index be made by a thread
        that the next change does not know of.
        """
        await asyncio.shield(_spawn(change, self._changes))

    async def _update_catalog(self, change: Callable[[Catalog], Catalog]) -> None:
        # Indexing may take a while; others go on searching the snapshot before.
        async with self._updating:
            before = self.catalog
            after = change(before)
            diff = after.diff(before)
            if not diff:
                return
            await asyncio.to_thread(self._engine.update, after)
            self._learn(after)
        facts = {
            "added": len(diff.added),
            "changed": len(diff.changed),
            "removed": len(diff.removed),
            "version": after.version,
        }
        self._sink(Event("catalog_changed", facts=facts))

    def _get_source(self, name: str) -> Source:
        try:
            return self._sources[name]
        except KeyError:
            known = ", ".join(self._sources) or "none"
            raise ToolscoutError(
                f"There is no source {name!r}.", hint=f"The sources are: {known}."
            ) from None


def _spawn(work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> asyncio.Task[None]:
    """A task of its own, held until it is done."""
    task = asyncio.create_task(work)
    among.add(task)
    task.add_done_callback(among.discard)
    return task


def _describe_problems(source: Source) -> str:
    """What a source could not take of what it was given, in a line."""
    found: object = getattr(source, "problems", ())
    if not isinstance(found, tuple | list):
        return ""
    serious = [
        str(p)
        for p in cast("Sequence[object]", found)
        if isinstance(p, Problem) and p.severity == "error"
    ]
    more = (
        f" (and {len(serious) - _MAX_PROBLEMS_SHOWN} more)"
        if len(serious) > _MAX_PROBLEMS_SHOWN
        else ""
    )
    return "; ".join(serious[:_MAX_PROBLEMS_SHOWN]) + more


CLOSE_WAIT_SECONDS = 2.0
"""How long the vectors at hand are waited for."""


@runtime_checkable
class ClosableEmbedder(Protocol):
    """An embedder that holds something open."""

    def close(self) -> None:
        """Let go of it."""
        ...


async def close_engine(engine: Engine, *, wait_seconds: float = CLOSE_WAIT_SECONDS) -> None:
    """End an engine and the connections of its embedders.

    A service that is slow to answer holds up nobody: what it was asked for ends by itself, or with
    the process.
    """
    thread = Thread(target=_close_in_thread, args=(engine,), name="toolscout-closing", daemon=True)
    thread.start()
    await asyncio.to_thread(thread.join, wait_seconds)


def _close_in_thread(engine: Engine) -> None:
    engine.close()
    for embedder in engine.embedders:
        if isinstance(embedder, ClosableEmbedder):
            embedder.close()


def find_shadowed_tools(
    catalog: Catalog, *, profile: Profile, features: Features
) -> Mapping[str, str]:
    """The sources of such tools, each with which they are and what to do."""
    own = dict.fromkeys(features.callable_tools, "a feature of this toolbox")
    own |= dict.fromkeys((m.name for m in profile.metatools), f"the profile {profile.name}")
    found: dict[str, list[str]] = defaultdict(list)
    for name, owner in own.items():
        if (source := catalog.source_of(name)) is not None:
            found[source].append(f"{name} cannot be called, since {owner} has a tool of that name")
    return {source: f"{'; '.join(why)}. Give it another name." for source, why in found.items()}
