"""The toolbox: sources in, search and conversations out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Literal, Self
from weakref import WeakValueDictionary

from ..catalog.catalog import Catalog
from ..config import Config
from ..disclosure.profile import Profile
from ..disclosure.profiles import get_profile as named_profile
from ..disclosure.rebuild import rebuild_session
from ..errors import StoreError, ToolscoutError
from ..events import Event, Sink, guard_sink, ignore
from ..offload.result_store import ResultStore
from ..search.embedders import load_embedders
from ..search.embedders.cache import VectorCache
from ..search.engine import Engine
from ..search.hit import Results
from ..search.query import Mode
from ..store.contract import Record, Store, check_entry
from ..store.factory import open_store
from .argument_checks import check_messages, check_search, check_store
from .executor import CallExecutor
from .features import (
    CatalogListener,
    Features,
    MemoryFeature,
    OffloadFeature,
    RulesFeature,
    ToolFeature,
)
from .health import Health, check_health
from .live_catalog import LiveCatalog, close_engine, find_shadowed_tools
from .permissions import (
    AllowRule,
    ApprovalGate,
    ApprovalPolicy,
    Approver,
    ask_if_destructive,
    intersect,
    normalize_rule,
)
from .persistence import StoredSession
from .session import Session
from .source_factory import SourceContext, SourceLike, build_sources


class Toolbox:
    """Everything an agent needs of its tools: find them, show them, call them.

    `sources` are functions, paths (a catalog file, an `mcp.json`), tools, or Source objects. Use
    it as an async context manager; sources are listed on entering, and a slow one joins when it
    is ready.
    """

    def __init__(
        self,
        sources: Iterable[SourceLike] | SourceLike = (),
        *,
        profile: Profile | str | None = None,
        config: Config | None = None,
        store: Store | str | Path | None = None,
        engine: Engine | None = None,
        sink: Sink = ignore,
        allow: AllowRule | None = None,
        approver: Approver | None = None,
        caution: ApprovalPolicy = ask_if_destructive,
        rules: RulesFeature | None = None,
        memory: MemoryFeature | None = None,
        offload: OffloadFeature | None = None,
        offers: Sequence[ToolFeature] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config or Config.read()
        self._profile = _configure_profile(profile, self._config)
        self._sink = guard_sink(sink)
        self._owns_engine = engine is None
        self._live = LiveCatalog(
            engine or _build_engine(self._config), sink=self._sink, learn=self._notify_features
        )
        self._rim = SourceContext(self._live.schedule_refresh, self._config)
        self._given = build_sources(sources, rim=self._rim)
        self._allow = normalize_rule(allow)
        self._consent = ApprovalGate(caution=caution, approver=approver)
        # Without a keeper of one's own there is still the cap.
        self._features = Features(rules, memory, offload or ResultStore(None), tuple(offers))
        self._complaints: Mapping[str, Sequence[str]] = {}
        self._clock = clock
        check_store(store)
        self._store_given = store
        self._store: Store | None = None
        self._opening = Lock()
        self._life: Literal["new", "open", "closed"] = "new"
        self._kept: WeakValueDictionary[str, StoredSession] = WeakValueDictionary()
        self._waiting: set[StoredSession] = set()

    async def __aenter__(self) -> Self:
        if self._life != "new":
            raise _lifecycle_error(self._life)
        self._life = "open"
        await self._live.start(self._given, wait_seconds=self._config.start_timeout_seconds)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Save what is not saved, and let go of sources and of the store."""
        self._life = "closed"
        for kept in list(self._waiting):
            await asyncio.to_thread(kept.save)
        await self._live.close()
        if self._owns_engine:
            await close_engine(self._live.engine)
        if self._store is not None and self._store is not self._store_given:
            await asyncio.to_thread(self._store.close)

    async def wait_until_ready(self) -> None:
        """Wait for slow sources and for vectors: nothing needs it, but first figures are fairer."""
        await self._live.wait_for_listings()
        await asyncio.to_thread(self._live.engine.fill)

    @property
    def catalog(self) -> Catalog:
        """All tools known now."""
        return self._live.catalog

    @property
    def problems(self) -> Mapping[str, str]:
        """What is wrong with sources, by name: they cannot be listed, or some tool not called."""
        found = dict(self._live.problems)
        for source, why in find_shadowed_tools(
            self.catalog, profile=self._profile, features=self._features
        ).items():
            found[source] = "; ".join((*([found[source]] if source in found else []), why))
        return found

    @property
    def profile(self) -> Profile:
        """How tools are disclosed here."""
        return self._profile

    def search(
        self,
        query: str | Sequence[str],
        *,
        limit: int = 5,
        allow: AllowRule | None = None,
        mode: Mode = "auto",
    ) -> Results:
        """The best tools for a query, or for several at once."""
        self._check_entered()
        check_search(query, limit, mode)
        allowed = intersect(self._allow, normalize_rule(allow))
        return self._live.engine.search(query, limit=limit, allow=allowed, mode=mode)

    async def session(
        self,
        id: str,  # noqa: A002 - as users say it
        *,
        messages: Iterable[object] | None = None,
        allow: AllowRule | None = None,
        approver: Approver | None = None,
        profile: Profile | None = None,
    ) -> Session:
        """A conversation by its id, new or as it was left.

        One that the store does not know is rebuilt from `messages` where they are given. `allow`
        narrows what this caller may see, `approver` asks this caller's user, and `profile` is
        another than the toolbox's own.
        """
        self._check_entered()
        if self._life == "closed":
            raise _lifecycle_error(self._life)
        check_entry(id)
        check_messages(messages)
        kept = await self._load_session(id)
        if messages is not None and kept.session.version == 0:
            again = rebuild_session(id, messages, profile=self._profile, catalog=self.catalog)
            await asyncio.to_thread(kept.apply, lambda s: (again.with_version(s.version), None))
        consent = self._consent
        return Session(
            CallExecutor(
                stored=kept,
                live=self._live,
                profile=profile or self._profile,
                features=self._features,
                allow=intersect(self._allow, normalize_rule(allow)),
                approval_gate=replace(consent, approver=approver) if approver else consent,
                sink=self._sink,
                timeout_seconds=self._config.call_timeout_seconds,
                clock=self._clock,
            )
        )

    def reconfigure(
        self,
        *,
        profile: Profile,
        caution: ApprovalPolicy,
        call_timeout_seconds: float | None = None,
    ) -> None:
        """Go on in another way: conversations that are opened from now on are served so."""
        if call_timeout_seconds is not None:
            limit = {"call_timeout_seconds": call_timeout_seconds}
            self._config = self._config.model_copy(update=limit)
        self._profile = _configure_profile(profile, self._config)
        self._consent = replace(self._consent, caution=caution)

    async def sessions(self, *, limit: int = 100) -> tuple[Record, ...]:
        """The conversations that are kept, the last used first."""
        store = await self._get_store()
        return await asyncio.to_thread(store.list, limit=limit)

    async def forget(self, id: str) -> bool:  # noqa: A002 - as users say it
        """Delete a conversation, also one that cannot be read; whether there was anything."""
        store = await self._get_store()
        was = await asyncio.to_thread(store.delete, id)
        if known := self._kept.get(id):
            await asyncio.to_thread(known.forget)
        await self._features.forget(id)
        return was

    async def add(self, *sources: SourceLike) -> None:
        """Add sources while others work; one of a known name replaces it.

        Functions and bare tools come one by one: each replaces only the one of its own name.
        """
        for source in build_sources(sources, rim=self._rim):
            await self._live.put(source)

    async def refresh(self, *names: str) -> None:
        """List sources again, all of them by default."""
        for name in names or tuple(self._live.sources):
            await self._live.refresh(name)

    async def remove(self, name: str) -> None:
        """Let go of a source; its tools can no longer be found, and wait for it in sessions."""
        await self._live.remove(name)

    async def health(self) -> Health:
        """How the toolbox is: catalog, sources, store and features."""
        return await check_health(
            self._live,
            self._features,
            self._get_store,
            problems=self.problems,
            complaints=self._complaints,
        )

    def _check_entered(self) -> None:
        """Refuse to look as if there were no tools, where they have only not been listed."""
        if self._life == "new" and self._given:
            raise ToolscoutError(
                "This toolbox has not been entered, so none of its tools is known.",
                hint="Write `async with Toolbox(...) as box:` and use it in there.",
            )

    async def _load_session(self, id: str) -> StoredSession:  # noqa: A002 - as users say it
        store = await self._get_store()
        known = self._kept.get(id)
        if known is not None:
            await asyncio.to_thread(known.refresh)
            return known
        kept = await asyncio.to_thread(
            StoredSession,
            id,
            store,
            on_failure=lambda error: self._emit_store_failure(id, error),
            waiting=self._waiting,
        )
        # Another task may have opened it meanwhile; there is one state a conversation here.
        return self._kept.setdefault(id, kept)

    async def _get_store(self) -> Store:
        known = self._store
        return known if known is not None else await asyncio.to_thread(self._open_store_once)

    def _open_store_once(self) -> Store:
        """The one store of this toolbox, opened by whoever needs it first."""
        with self._opening:
            if self._store is None:
                self._store = self._make_store()
            return self._store

    def _make_store(self) -> Store:
        given = self._store_given
        if given is not None and not isinstance(given, str | Path):
            return given
        config = self._config
        if given is not None:
            config = config.model_copy(update={"store": str(given)})
        store = open_store(config)
        store.expire()
        return store

    def _notify_features(self, catalog: Catalog) -> None:
        """Let features know of the tools there are now."""
        complaints: dict[str, Sequence[str]] = {}
        for name, feature in self._features.by_report_name.items():
            if isinstance(feature, CatalogListener):
                try:
                    complaints[name] = [str(problem) for problem in feature.update_tools(catalog)]
                except Exception as error:  # noqa: BLE001 - a feature never keeps tools away
                    complaints[name] = [repr(error)]
        self._complaints = complaints

    def _emit_store_failure(self, session: str, error: StoreError) -> None:
        self._sink(Event("store_failed", session, {"why": str(error)}))


def _lifecycle_error(life: str) -> ToolscoutError:
    state = "has been closed" if life == "closed" else "is open already"
    return ToolscoutError(
        f"This toolbox {state}; it is entered once and used until it is closed.",
        hint="Make another Toolbox of the same sources.",
    )


def _build_engine(config: Config) -> Engine:
    """A search by words and, where the settings name an embedder, by meaning."""
    embedders = load_embedders(config.embedder)
    cache = VectorCache(config.cache_folder / "vectors.db") if embedders else None
    return Engine(embedders=embedders, cache=cache)


def _configure_profile(given: Profile | str | None, config: Config) -> Profile:
    """The profile with what the settings say of it."""
    profile = given if isinstance(given, Profile) else named_profile(given or config.profile)
    limits = profile.limits
    if config.max_loaded:
        limits = replace(limits, loaded=config.max_loaded)
    return replace(
        profile,
        limits=limits,
        policy=replace(profile.policy, window_tokens=config.context_window_tokens),
        clears_on_compaction=profile.clears_on_compaction or config.clear_on_compaction,
    )
