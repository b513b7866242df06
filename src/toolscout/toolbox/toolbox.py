"""Toolbox: builds one catalog from sources, and searches it and opens sessions over it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary

from ..catalog.catalog import Catalog
from ..config import Config
from ..disclosure.feature import Feature
from ..disclosure.profile import Profile
from ..disclosure.profiles import get_profile as named_profile
from ..disclosure.rebuild import rebuild_session
from ..errors import StoreError, ToolscoutError
from ..events import (
    FeatureFailureEvent,
    Sink,
    StoreFailureEvent,
    current_parent,
    guard_sink,
    ignore,
    stamp_sink,
)
from ..search.embedders import load_embedders
from ..search.embedders.cache import VectorCache
from ..search.engine import Engine
from ..search.hit import Results
from ..search.query import Mode
from ..store.contract import Record, Store, check_entry
from ..store.factory import open_store
from .argument_checks import check_messages, check_search, check_store
from .executor import CallExecutor
from .feature_settings import build_features
from .features import FeatureFailure, Features, find_shadowed_tools
from .health import Health, check_health
from .live_catalog import LiveCatalog, close_engine
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
    """Finds, shows and calls the tools of an agent.

    `sources` are functions, paths (a catalog file, an `mcp.json`), tools, or Source objects. Use
    it as an async context manager: sources are listed on entering, and a slow source is added
    when its list arrives. `features` stand beside the calls; `rules`, `memory` and `offload` are
    those with a role, and come from the settings if they are not given.
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
        approval_policy: ApprovalPolicy = ask_if_destructive,
        rules: Feature | None = None,
        memory: Feature | None = None,
        offload: Feature | None = None,
        features: Sequence[Feature] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config or Config.read()
        self._profile = _configure_profile(profile, self._config)
        # Sources and stores emit without a conversation: their events get a time and an id here.
        self._sink = sink if sink is ignore else stamp_sink(guard_sink(sink), clock=clock)
        self._owns_engine = engine is None
        self._live = LiveCatalog(
            engine or _build_engine(self._config), sink=self._sink, on_update=self._notify_features
        )
        self._source_context = SourceContext(self._live.schedule_refresh, self._config)
        self._initial_sources = build_sources(sources, context=self._source_context)
        self._allow = normalize_rule(allow)
        self._approval_gate = ApprovalGate(approval_policy=approval_policy, approver=approver)
        given = Features(rules, memory, offload, tuple(features))
        self._features = build_features(self._config, given, sink=self._sink)
        self._feature_problems: Mapping[str, Sequence[str]] = {}
        self._clock = clock
        check_store(store)
        self._store_option = store
        self._store: Store | None = None
        self._store_lock = Lock()
        self._is_entered = False
        # Weak, so that a conversation nobody uses any more is not held in memory. One with unsaved
        # changes is held by the second set until a write succeeds.
        self._stored_sessions: WeakValueDictionary[str, StoredSession] = WeakValueDictionary()
        self._unsaved_sessions: set[StoredSession] = set()

    async def __aenter__(self) -> Self:
        self._live.check_open()
        if self._is_entered:
            raise ToolscoutError(
                "This toolbox is open already; it is entered once and used until it is closed.",
                hint="Make another Toolbox of the same sources.",
            )
        self._is_entered = True
        self._emit_failures(self._features.tool_failures)
        wait_seconds = self._config.start_timeout_seconds
        await self._live.start(self._initial_sources, wait_seconds=wait_seconds)
        # Last: an `async with` that is cancelled before this line never closes them.
        self._emit_failures(await self._features.start())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Save pending changes, then close the sources and the store."""
        for stored in list(self._unsaved_sessions):
            await asyncio.to_thread(stored.save)
        await self._live.close()
        self._emit_failures(await self._features.close())
        if self._owns_engine:
            await close_engine(self._live.engine)
        # A store or an engine that the user passed in is the user's to close.
        if self._store is not None and self._store is not self._store_option:
            await asyncio.to_thread(self._store.close)

    async def wait_until_ready(self) -> None:
        """Wait for slow sources and for vectors.

        Only measurements need this: everything works before, with what is there.
        """
        await self._live.wait_for_listings()
        await asyncio.to_thread(self._live.engine.fill)

    @property
    def catalog(self) -> Catalog:
        """All tools known now."""
        return self._live.catalog

    @property
    def problems(self) -> Mapping[str, str]:
        """Problems by source name: its list failed, or one of its tools cannot be called."""
        problems = dict(self._live.problems)
        for source, why in find_shadowed_tools(
            self.catalog, profile=self._profile, features=self._features
        ).items():
            problems[source] = "; ".join((*([problems[source]] if source in problems else []), why))
        return problems

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
        principal: str = "",
        client: str = "",
    ) -> Session:
        """Open a conversation by its id, new or as it was last saved.

        A conversation that the store does not have is rebuilt from `messages`, if given. `allow`
        narrows what this caller may see, `approver` asks this caller's user, and `profile`
        overrides the profile of the toolbox. `principal` and `client`, who calls and with which
        program, are only for the events of the conversation.
        """
        self._check_entered()
        self._live.check_open()
        check_entry(id)
        check_messages(messages)
        stored = await self._load_session(id)
        if messages is not None and stored.session.version == 0:
            rebuilt = rebuild_session(id, messages, profile=self._profile, catalog=self.catalog)
            await asyncio.to_thread(stored.apply, lambda s: (rebuilt.with_version(s.version), None))
        gate = self._approval_gate
        return Session(
            CallExecutor(
                stored=stored,
                live=self._live,
                profile=profile or self._profile,
                features=self._features,
                allow=intersect(self._allow, normalize_rule(allow)),
                approval_gate=replace(gate, approver=approver) if approver else gate,
                sink=self._sink,
                timeout_seconds=self._config.call_timeout_seconds,
                clock=self._clock,
                approval_seconds=self._config.approval_ttl_hours * 3_600,
                principal=principal,
                client=client,
            )
        )

    def reconfigure(
        self,
        *,
        profile: Profile,
        approval_policy: ApprovalPolicy,
        call_timeout_seconds: float | None = None,
    ) -> None:
        """Change settings for the sessions that are opened from now on."""
        if call_timeout_seconds is not None:
            limit = {"call_timeout_seconds": call_timeout_seconds}
            self._config = self._config.model_copy(update=limit)
        self._profile = _configure_profile(profile, self._config)
        self._approval_gate = replace(self._approval_gate, approval_policy=approval_policy)

    async def sessions(self, *, limit: int = 100) -> tuple[Record, ...]:
        """The stored conversations, most recently used first."""
        store = await self._get_store()
        return await asyncio.to_thread(store.list, limit=limit)

    async def forget(self, id: str) -> bool:  # noqa: A002 - as users say it
        """Delete a conversation, even if it cannot be read; return whether the store had it."""
        store = await self._get_store()
        was_stored = await asyncio.to_thread(store.delete, id)
        if known := self._stored_sessions.get(id):
            await asyncio.to_thread(known.forget)
        self._emit_failures(await self._features.forget(id), session=id)
        return was_stored

    async def add(self, *sources: SourceLike) -> None:
        """Add sources at run time; a source replaces the one of the same name.

        A function or a bare tool replaces only the function or tool of its own name.
        """
        for source in build_sources(sources, context=self._source_context):
            await self._live.put(source)

    async def refresh(self, *names: str) -> None:
        """List sources again, all of them by default."""
        for name in names or tuple(self._live.sources):
            await self._live.refresh(name)

    async def remove(self, name: str) -> None:
        """Close a source and remove its tools; sessions keep their names in case it returns."""
        await self._live.remove(name)

    async def health(self) -> Health:
        """The status of the catalog, the sources, the store and the features."""
        return await check_health(
            self._live,
            self._features,
            self._get_store,
            problems=self.problems,
            feature_problems=self._feature_problems,
        )

    def _check_entered(self) -> None:
        """Fail before the sources are listed, rather than look as if there were no tools."""
        if not self._is_entered and self._initial_sources:
            raise ToolscoutError(
                "This toolbox has not been entered, so none of its tools is known.",
                hint="Write `async with Toolbox(...) as box:` and use it in there.",
            )

    async def _load_session(self, id: str) -> StoredSession:  # noqa: A002 - as users say it
        store = await self._get_store()
        known = self._stored_sessions.get(id)
        if known is not None:
            await asyncio.to_thread(known.refresh)
            return known
        stored = await asyncio.to_thread(
            StoredSession,
            id,
            store,
            on_failure=lambda error: self._emit_store_failure(id, error),
            unsaved_sessions=self._unsaved_sessions,
        )
        # Another task may have opened it meanwhile. All sessions of one id share one state.
        return self._stored_sessions.setdefault(id, stored)

    async def _get_store(self) -> Store:
        known = self._store
        return known if known is not None else await asyncio.to_thread(self._open_store_once)

    def _open_store_once(self) -> Store:
        """Open the store on first use; the lock keeps two threads from opening it twice."""
        with self._store_lock:
            if self._store is None:
                self._store = self._make_store()
            return self._store

    def _make_store(self) -> Store:
        option = self._store_option
        if option is not None and not isinstance(option, str | Path):
            return option
        config = self._config
        if option is not None:
            config = config.model_copy(update={"store": str(option)})
        store = open_store(config)
        store.expire()
        return store

    def _notify_features(self, catalog: Catalog) -> None:
        """Pass the new catalog to the features, and collect their problems for `health`."""
        problems: dict[str, Sequence[str]] = {}
        for name, error in self._features.tool_failures:
            problems[name] = [f"its tools are missing: {error!r}"]
        for name, feature in self._features.by_name.items():
            found = problems.get(name, ())
            try:
                problems[name] = (*found, *map(str, feature.update_tools(catalog)))
            except Exception as error:  # noqa: BLE001 - a feature must not block the catalog
                problems[name] = (*found, repr(error))
        self._feature_problems = problems

    def _emit_failures(self, failures: Iterable[FeatureFailure], *, session: str = "") -> None:
        for feature, error in failures:
            self._sink(FeatureFailureEvent(session=session, feature=feature, why=repr(error)))

    def _emit_store_failure(self, session: str, error: StoreError) -> None:
        parent = current_parent()
        self._sink(StoreFailureEvent(session=session, parent=parent, why=str(error)))


def _build_engine(config: Config) -> Engine:
    """An engine for keyword search, and for semantic search if the settings name an embedder."""
    embedders = load_embedders(config.embedder)
    cache = VectorCache(config.cache_folder / "vectors.db") if embedders else None
    return Engine(embedders=embedders, cache=cache)


def _configure_profile(option: Profile | str | None, config: Config) -> Profile:
    """The profile with the settings applied to it."""
    profile = option if isinstance(option, Profile) else named_profile(option or config.profile)
    limits = profile.limits
    if config.max_loaded:
        limits = replace(limits, loaded=config.max_loaded)
    return replace(
        profile,
        limits=limits,
        policy=replace(profile.policy, window_tokens=config.context_window_tokens),
        clears_on_compaction=profile.clears_on_compaction or config.clear_on_compaction,
    )
