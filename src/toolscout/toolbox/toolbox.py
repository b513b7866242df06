"""Toolbox: builds one catalog from sources, and searches it and opens sessions over it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self
from weakref import WeakValueDictionary

from ..catalog.catalog import Catalog
from ..config import Config, check_store_name, expand_path
from ..disclosure.doubt import judge_results
from ..disclosure.feature import Feature
from ..disclosure.profile import Profile
from ..disclosure.profiles import get_profile as named_profile
from ..disclosure.profiles import with_code
from ..disclosure.rebuild import rebuild_session
from ..disclosure.scope import is_allowed
from ..embedders import load_embedders
from ..errors import ConfigError, StoreError, ToolscoutError
from ..events import (
    Event,
    FeatureFailureEvent,
    Sink,
    StoreFailureEvent,
    combine_sinks,
    current_parent,
    guard_sink,
    ignore,
    stamp_sink,
)
from ..journal.journal import Journal
from ..learning.learner import Learner
from ..search.engine import Allow, Engine
from ..search.hit import Results
from ..search.query import Mode
from ..store.contract import Record, Store, check_entry
from ..store.factory import is_store_kept, open_store
from .argument_checks import check_messages, check_search, check_store
from .call_context import MissingToolExplainer
from .engine_settings import configure_engine
from .executor import CallExecutor
from .feature_settings import build_features, follow_profile
from .features import FeatureFailure, Features, find_shadowed_tools
from .health import Health, check_health
from .learning_settings import open_learner
from .live_catalog import LiveCatalog, close_engine
from .live_overlay import LiveOverlay
from .loop_thread import LoopThread
from .pending_questions import Asker, WaitingCalls, is_owned_by
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
from .server_content import CallerRule, admits_server
from .session import Session
from .source_factory import SourceContext, SourceLike, build_sources
from .suspension import SuspendedCalls
from .sync import SyncSession
from .unsaved_sessions import UnsavedSessions
from .visible_catalog import VisibleCatalogs


class Toolbox:
    """Finds, shows and calls the tools of an agent.

    `sources` are functions, paths (a catalog file, an `mcp.json`), tools, or Source objects. Use
    it as an async context manager: sources are listed on entering, and a slow source is added
    when its list arrives. `overlay` is a file with phrases and aliases for tools, which is read
    again when it changes. `features` are extensions; `rules`, `memory` and `offload` are
    those with a role, and come from the settings if they are not given. `learner` learns from
    calls; by default it is the one that the setting `learning` asks for.
    """

    def __init__(
        self,
        sources: Iterable[SourceLike] | SourceLike = (),
        *,
        profile: Profile | str | None = None,
        profile_options: Mapping[str, Any] | None = None,
        config: Config | None = None,
        store: Store | str | Path | None = None,
        engine: Engine | None = None,
        sink: Sink = ignore,
        journal: Journal | None = None,
        learner: Learner | None = None,
        allow: AllowRule | None = None,
        approver: Approver | None = None,
        asker: Asker | None = None,
        approval_policy: ApprovalPolicy = ask_if_destructive,
        rules: Feature | None = None,
        memory: Feature | None = None,
        offload: Feature | None = None,
        features: Sequence[Feature] = (),
        overlay: str | Path | None = None,
        clock: Callable[[], float] = time.time,
        explain_missing: MissingToolExplainer | None = None,
    ) -> None:
        self._explain_missing = explain_missing or self._explain_absent
        # Who explains missing tools in another way reports unsearched servers too.
        self._reports_absent = explain_missing is None
        self._config = config or Config.read()
        self._profile = _configure_profile(profile, self._config, profile_options)
        check_store(store)
        self._store: Store | None = None  # first, because building features emits events
        self._journal = journal or _open_journal(store, self._config, clock)
        self._owns_journal = journal is None
        journal_sink = self._record if self._journal is not None else ignore
        self._learner = learner
        is_learning = learner is not None or _can_learn(store, self._config)
        self._sink = _combine(
            journal_sink, self._observe if is_learning else ignore, sink, clock=clock
        )
        self._owns_engine = engine is None
        file = overlay or self._config.overlay
        self._overlay = LiveOverlay(expand_path(file)) if file else None
        engine = engine or _build_engine(self._config, self._sink)
        self._owns_learner = learner is None
        if learner is None and is_learning:
            self._learner = open_learner(
                _with_store(self._config, store), engine, sink=self._sink, clock=clock
            )
        self._live = LiveCatalog(
            engine,
            sink=self._sink,
            on_update=self._notify_features,
            allow=lambda: self._allowed_by(self._profile, None),
            overlay=self._overlay,
        )
        self._visible = VisibleCatalogs(self._live)
        self._source_context = SourceContext(self._live.schedule_refresh, self._config, self._sink)
        self._initial_sources = build_sources(sources, context=self._source_context)
        self._allow = normalize_rule(allow)
        self._approval_gate = ApprovalGate(approval_policy=approval_policy, approver=approver)
        self._asker = asker
        self._waiting: WaitingCalls = SuspendedCalls(ttl_seconds=self._question_seconds)
        given = Features(rules, memory, offload, tuple(features))
        self._features = build_features(self._config, given, profile=self._profile, sink=self._sink)
        self._feature_problems: Mapping[str, Sequence[str]] = {}
        self._clock = clock
        self._store_option = store
        self._store_lock = Lock()
        self._is_entered = False
        # Weak, so that an unused conversation is not held in memory. One with unsaved
        # changes is held by the second set until a write succeeds.
        self._stored_sessions: WeakValueDictionary[str, StoredSession] = WeakValueDictionary()
        self._unsaved_sessions = UnsavedSessions()

    async def __aenter__(self) -> Self:
        self._live.check_open()
        if self._is_entered:
            raise ToolscoutError(
                "This toolbox is open already. A toolbox can be entered only once.",
                hint="Make a new Toolbox with the same sources.",
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
        """End calls that wait for an answer, save changes, and close the sources and the store."""
        await self._waiting.close()
        self._unsaved_sessions.close()
        for stored in self._unsaved_sessions:
            await asyncio.to_thread(stored.save)
        await self._live.close()
        await asyncio.to_thread(self._visible.close)
        self._emit_failures(await self._features.close())
        if self._learner is not None and self._owns_learner:
            await asyncio.to_thread(self._learner.close)
        if self._owns_engine:
            await close_engine(self._live.engine)
        # A store or an engine that the user passed in is the user's to close.
        if self._store is not None and self._store is not self._store_option:
            await asyncio.to_thread(self._store.close)
        if self._journal is not None and self._owns_journal:
            await asyncio.to_thread(self._journal.close)

    def sync(self) -> SyncToolbox:
        """This toolbox for a program without an event loop: `with Toolbox(...).sync() as box:`."""
        return SyncToolbox(self)

    async def wait_until_ready(self) -> None:
        """Wait for slow sources and for vectors.

        Only measurements need this: everything works before, with the sources that are ready.
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
    def overlay_problems(self) -> Sequence[str]:
        """Why the overlay file cannot be used, and its entries that fit no tool known now."""
        return self._live.overlay_problems()

    @property
    def journal(self) -> Journal | None:
        """The journal of searches, calls and approvals; None if nothing is recorded."""
        return self._journal

    @property
    def learner(self) -> Learner | None:
        """Learns from calls; None if learning is off or not possible."""
        return self._learner

    @property
    def profile(self) -> Profile:
        """How tools are disclosed here."""
        return self._profile

    def visible_catalog(self, rule: AllowRule | None) -> Catalog:
        """The tools that a caller under this rule may see."""
        if isinstance(rule, CallerRule):
            return self._visible.get(rule).catalog
        allow = normalize_rule(rule)
        return (
            self.catalog
            if allow is None
            else Catalog(t for t in self.catalog if is_allowed(t, allow))
        )

    def engine_for(self, rule: AllowRule | None) -> Engine:
        """The search over the tools that a caller under this rule may see."""
        return self._visible.get(rule).engine if isinstance(rule, CallerRule) else self._live.engine

    def search(
        self,
        query: str | Sequence[str],
        *,
        limit: int = 5,
        allow: AllowRule | None = None,
        mode: Mode = "auto",
    ) -> Results:
        """The best tools for a query, or for several at once.

        `verdict` of the results is "likely", "unsure", or "nothing fits"; then there are no hits.
        """
        self._check_entered()
        check_search(query, limit, mode)
        allowed = self._allowed_by(self._profile, allow)
        engine = self._live.engine
        results = engine.search(query, limit=limit, allow=allowed, mode=mode)
        results = judge_results(results, engine, allow=allowed)
        note = self._note_absent(allowed)
        return replace(results, notes=(*results.notes, note)) if note else results

    async def session(
        self,
        id: str,  # noqa: A002 - as users say it
        *,
        messages: Iterable[object] | None = None,
        allow: AllowRule | None = None,
        approver: Approver | None = None,
        asker: Asker | None = None,
        profile: Profile | str | None = None,
        profile_options: Mapping[str, Any] | None = None,
        principal: str = "",
        client: str = "",
    ) -> Session:
        """Open a conversation by its id, new or as it was last saved.

        A conversation that the store does not have is rebuilt from `messages`, if given. `allow`
        narrows what this caller may see, `approver` and `asker` ask this caller's user, and
        `profile` with its `profile_options` overrides the profile of the toolbox, whose features
        (memory, rules, tools for large results) stay. `principal` and `client`, who calls and with
        which program, are for the events of the conversation; approvals and questions belong to
        their principal.
        """
        self._check_entered()
        self._live.check_open()
        check_entry(id)
        check_messages(messages)
        chosen = self._profile
        if profile or profile_options:
            named = profile or self._profile.name
            chosen = _configure_profile(named, self._config, profile_options)
        stored = await self._load_session(id)
        if messages is not None and stored.session.version == 0:
            rebuilt = rebuild_session(id, messages, profile=chosen, catalog=self.catalog)
            await asyncio.to_thread(stored.apply, lambda s: (rebuilt.with_version(s.version), None))
        gate = self._approval_gate
        return Session(
            CallExecutor(
                stored=stored,
                live=self._visible.get(allow) if isinstance(allow, CallerRule) else self._live,
                profile=chosen,
                features=self._features,
                allow=self._allowed_by(chosen, allow),
                approval_gate=replace(gate, approver=approver) if approver else gate,
                sink=self._sink,
                timeout_seconds=self._config.call_timeout_seconds,
                clock=self._clock,
                approval_seconds=self._config.approval_ttl_hours * 3_600,
                explain_missing=self._explain_missing,
                note_absent=self._note_absent,
                list_starting=lambda: sorted(self._live.absent_sources.starting),
                waiting=self._waiting,
                question_seconds=self._question_seconds,
                learner=self._learner,
                asker=asker or self._asker,
                principal=principal,
                client=client,
            )
        )

    def _explain_absent(self, name: str, allow: Allow | None) -> ToolscoutError | None:
        return self._live.absent_sources.explain(name, allow)

    def _note_absent(self, allow: Allow | None) -> str:
        return self._live.absent_sources.note(allow) if self._reports_absent else ""

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
        self._features = follow_profile(self._features, self._profile)
        self._approval_gate = replace(self._approval_gate, approval_policy=approval_policy)

    async def sessions(self, *, limit: int = 100) -> tuple[Record, ...]:
        """The stored conversations, most recently used first."""
        store = await self._get_store()
        return await asyncio.to_thread(store.list, limit=limit)

    async def stored_session(self, id: str) -> Record | None:  # noqa: A002 - as users say it
        """A conversation as the store has it, without opening it."""
        store = await self._get_store()
        return await asyncio.to_thread(store.get, id)

    async def forget(self, id: str) -> bool:  # noqa: A002 - as users say it
        """Delete a conversation, even if it cannot be read; return whether the store had it."""
        await self._waiting.cancel(is_owned_by(id))
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
        """List sources again, all of them by default, and read an edited overlay at once."""
        await self._live.refresh_overlay()
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
            overlay=self._overlay,
            feature_problems=self._feature_problems,
            profile=self._profile,
            journal=self._journal,
            learner=self._learner,
        )

    def admits_server(self, server: str) -> bool:
        """Whether prompts and resources of a server may be used here: at least one tool may be."""
        return admits_server(server, self.catalog, self._allowed_by(self._profile, None))

    def _allowed_by(self, profile: Profile, rule: AllowRule | None) -> Allow | None:
        """The rule that allows what the toolbox, the selection of a profile and a caller's rule all
        allow."""
        allowed = intersect(self._allow, normalize_rule(rule))
        selection = profile.selection
        return intersect(allowed, selection.allows) if selection.is_active else allowed

    @property
    def _question_seconds(self) -> float:
        return self._config.question_ttl_minutes * 60

    def _check_entered(self) -> None:
        """Fail before the sources are listed, rather than look as if there were no tools."""
        if not self._is_entered and self._initial_sources:
            raise ToolscoutError(
                "This toolbox has not been entered, so its tools are not known yet.",
                hint="Write `async with Toolbox(...) as box:` and use it inside.",
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
        if self._learner is not None:
            self._learner.update_tools(catalog)

    def _observe(self, event: Event) -> None:
        if self._learner is not None:
            self._learner(event)

    def _record(self, event: Event) -> None:
        """Write an event to the journal, from the first session on."""
        # A toolbox that is only searched writes nothing to disk.
        if self._journal is not None and self._store is not None:
            self._journal(event)

    def _emit_failures(self, failures: Iterable[FeatureFailure], *, session: str = "") -> None:
        for feature, error in failures:
            self._sink(FeatureFailureEvent(session=session, feature=feature, why=repr(error)))

    def _emit_store_failure(self, session: str, error: StoreError) -> None:
        parent = current_parent()
        self._sink(StoreFailureEvent(session=session, parent=parent, why=str(error)))


class SyncToolbox:
    """A `Toolbox` for programs without an event loop; several threads may use it at once.

    Everything asynchronous runs in one background thread, from entering to leaving. A tool that is
    a plain function may use the toolbox; an async one would wait for itself, which is an error.
    """

    # Here rather than in `sync`, because this class and `Toolbox` make each other.

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._loop = LoopThread(box)

    def __enter__(self) -> Self:
        self._loop.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cancel running calls, save pending changes, then close the sources and the store."""
        self._loop.stop()

    def wait_until_ready(self) -> None:
        """Wait for slow sources and for vectors."""
        self._loop.run(self._box.wait_until_ready())

    @property
    def catalog(self) -> Catalog:
        """All tools known now."""
        return self._box.catalog

    @property
    def problems(self) -> Mapping[str, str]:
        """Problems by source name: its list failed, or one of its tools cannot be called."""
        return self._loop.run_function(lambda: self._box.problems)

    @property
    def overlay_problems(self) -> Sequence[str]:
        """Why the overlay file cannot be used, and its entries that fit no tool known now."""
        return self._loop.run_function(lambda: self._box.overlay_problems)

    @property
    def profile(self) -> Profile:
        """How tools are disclosed here."""
        return self._box.profile

    @property
    def journal(self) -> Journal | None:
        """The journal of searches, calls and approvals; None if nothing is recorded."""
        return self._box.journal

    @property
    def learner(self) -> Learner | None:
        """Learns from calls; None if learning is off or not possible."""
        return self._box.learner

    def visible_catalog(self, rule: AllowRule | None) -> Catalog:
        """The tools that a caller under this rule may see."""
        return self._loop.run_function(self._box.visible_catalog, rule)

    def search(
        self,
        query: str | Sequence[str],
        *,
        limit: int = 5,
        allow: AllowRule | None = None,
        mode: Mode = "auto",
    ) -> Results:
        """The best tools for a query, or for several at once."""
        # In this thread: an index is a frozen value, and threads then search side by side.
        self._loop.check_open()
        return self._box.search(query, limit=limit, allow=allow, mode=mode)

    def session(
        self,
        id: str,  # noqa: A002 - as users say it
        *,
        messages: Iterable[object] | None = None,
        allow: AllowRule | None = None,
        approver: Approver | None = None,
        asker: Asker | None = None,
        profile: Profile | str | None = None,
        profile_options: Mapping[str, Any] | None = None,
        principal: str = "",
        client: str = "",
    ) -> SyncSession:
        """Open a conversation by its id, new or as it was last saved."""
        work = self._box.session(
            id,
            messages=messages,
            allow=allow,
            approver=approver,
            asker=asker,
            profile=profile,
            profile_options=profile_options,
            principal=principal,
            client=client,
        )
        return SyncSession(self._loop, self._loop.run(work))

    def reconfigure(
        self,
        *,
        profile: Profile,
        approval_policy: ApprovalPolicy,
        call_timeout_seconds: float | None = None,
    ) -> None:
        """Change settings for the sessions that are opened from now on."""
        change, limit = self._box.reconfigure, call_timeout_seconds
        self._loop.run_function(
            change, profile=profile, approval_policy=approval_policy, call_timeout_seconds=limit
        )

    def sessions(self, *, limit: int = 100) -> tuple[Record, ...]:
        """The stored conversations, most recently used first."""
        return self._loop.run(self._box.sessions(limit=limit))

    def forget(self, id: str) -> bool:  # noqa: A002 - as users say it
        """Delete a conversation, even if it cannot be read; return whether the store had it."""
        return self._loop.run(self._box.forget(id))

    def add(self, *sources: SourceLike) -> None:
        """Add sources at run time; a source replaces the one of the same name."""
        self._loop.run(self._box.add(*sources))

    def refresh(self, *names: str) -> None:
        """List sources again, all of them by default."""
        self._loop.run(self._box.refresh(*names))

    def remove(self, name: str) -> None:
        """Close a source and remove its tools; sessions keep their names in case it returns."""
        self._loop.run(self._box.remove(name))

    def admits_server(self, server: str) -> bool:
        """Whether prompts and resources of a server may be used here: at least one tool may be."""
        return self._loop.run_function(self._box.admits_server, server)

    def engine_for(self, rule: AllowRule | None) -> Engine:
        """The search over the tools that a caller under this rule may see."""
        return self._loop.run_function(self._box.engine_for, rule)

    def stored_session(self, id: str) -> Record | None:  # noqa: A002 - as users say it
        """A conversation as the store has it, without opening it."""
        return self._loop.run(self._box.stored_session(id))

    def health(self) -> Health:
        """The status of the catalog, the sources, the store and the features."""
        return self._loop.run(self._box.health())


def _open_journal(
    store: Store | str | Path | None, config: Config, clock: Callable[[], float]
) -> Journal | None:
    """The journal beside the store; none for a store in memory, or the user's own."""
    if store is not None and not isinstance(store, str | Path):
        return None
    config = _with_store(config, store)
    is_kept = config.record != "off" and is_store_kept(config)
    return Journal.open(config, clock=clock) if is_kept else None


def _with_store(config: Config, store: Store | str | Path | None) -> Config:
    """The settings with the store that was given as a path."""
    if not isinstance(store, str | Path):
        return config
    return config.model_copy(update={"store": check_store_name(str(store))})


def _can_learn(store: Store | str | Path | None, config: Config) -> bool:
    """Whether calls are learned from: not with the user's own store, which has no room for it."""
    return config.learning != "off" and (store is None or isinstance(store, str | Path))


def _combine(*sinks: Sink, clock: Callable[[], float]) -> Sink:
    """One sink for all of these; `ignore` if none of them listens."""
    sinks = tuple(sink for sink in sinks if sink is not ignore)
    if not sinks:
        return ignore
    # Sources and stores emit without a conversation: their events get a time and an id here.
    return stamp_sink(combine_sinks(*map(guard_sink, sinks)), clock=clock)


def _build_engine(config: Config, sink: Sink) -> Engine:
    """An engine for keyword search, and for semantic search if the settings name an embedder."""
    return configure_engine(config, load_embedders(config.embedder), sink=sink)


def _configure_profile(
    option: Profile | str | None, config: Config, options: Mapping[str, Any] | None = None
) -> Profile:
    """The profile with its options and the settings applied to it."""
    if isinstance(option, Profile):
        if options:
            raise ConfigError(
                "Options are for a profile that is given by its name.",
                hint="Build the profile with its options, or name it: profile='cortex'.",
            )
        profile = option
    else:
        profile = named_profile(option or config.profile, options)
    if config.code:
        profile = with_code(profile)
    limits = profile.limits
    if config.max_loaded:
        limits = replace(limits, loaded=config.max_loaded)
    return replace(
        profile,
        limits=limits,
        policy=replace(profile.policy, window_tokens=config.context_window_tokens),
        clears_on_compaction=profile.clears_on_compaction or config.clear_on_compaction,
    )
