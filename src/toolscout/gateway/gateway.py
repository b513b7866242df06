"""The gateway itself: one toolbox over all servers, and a conversation for every client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import mcp_types as types
from fastmcp.server.context import Context

from ..catalog.result import Result
from ..disclosure.profile import Profile
from ..disclosure.scope import is_small_catalog
from ..events import Event, Sink, ignore
from ..offload.result_store import ResultStore
from ..sources.mcp.client_channel import CURRENT_CHANNEL
from ..sources.mcp.listing_cache import ListingCache
from ..sources.mcp.oauth_tokens import GrantStore
from ..store.factory import open_store
from ..telemetry.prometheus import PrometheusMetrics
from ..tokens import default_counter
from ..toolbox.live_catalog import close_engine
from ..toolbox.permissions import ApprovalPolicy, ask_if_destructive, ask_unless_safe, never_ask
from ..toolbox.session import Session
from ..toolbox.toolbox import Toolbox
from .client.call_record import (
    ClientCall,
    append_absent_notice,
    append_held_notice,
    ask_user,
    explain_absent_tool,
    late_servers,
    strip_upstream_prefix,
    tag_result,
)
from .client.elicitation import SUSPENDED_PREFIX, DownstreamClient, StatelessClient, SuspendedCalls
from .client.notifications import ToolListNotifier
from .client.sessions import (
    Principal,
    RoutingStore,
    current_principal,
    identify_caller,
    is_explicit_listing,
    scope_to_rule,
)
from .client.views import ViewCache
from .lazy_encoder import build_engine
from .lru import LRUCache
from .operations.audit import AuditLog
from .operations.reload import GatewayProcesses, hash_fixed_settings, settings_needing_restart
from .operations.savings import Savings
from .policies import AccessRule, rule_for
from .settings import audit_path
from .setup import Setup
from .upstream.pins import PinStore
from .upstream.startup import QUIET_SECONDS, BackgroundStartup
from .upstream.upstreams import Upstreams

log = logging.getLogger(__name__)
_MAX_SESSIONS = 2_000
_CAUTIONS: dict[str, ApprovalPolicy] = {
    "never": never_ask,
    "destructive": ask_if_destructive,
    "unknown": ask_unless_safe,
}
_CALL_EVENTS: ContextVar[list[Event] | None] = ContextVar("happened", default=None)


class Gateway:
    """Answers every client out of one toolbox, each in its own conversation."""

    def __init__(
        self,
        setup: Setup,
        *,
        sink: Sink = ignore,
        session: str = "",
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        self.setup = setup
        self._fixed = hash_fixed_settings(setup)
        self._shows_everything = setup.shows_everything
        self._runs = GatewayProcesses(setup.config.state_folder / "running")
        self._listener = sink
        self._session = session
        profile, options, config = setup.profile, setup.options, setup.config
        shelf = ResultStore(config.state_folder / "outputs") if options.large_outputs else None
        self.pins = PinStore(config.state_folder / "pins")
        self.upstreams = Upstreams(
            listings=ListingCache(config.cache_folder / "listings"),
            grants=GrantStore.of(config),
            pins=self.pins,
            sink=self._on_event,
            reserved=setup.own_tool_names,
            trusts_first=not options.require_approval,
        )
        self._engine = build_engine(config)
        self.box = Toolbox(
            self.upstreams.create_sources(setup.document.servers, setup.apis),
            profile=profile,
            config=setup.toolbox_config,
            store=RoutingStore(open_store(config)),
            engine=self._engine,
            sink=self._on_event,
            caution=_CAUTIONS[options.confirm],
            offload=shelf,
            offers=(shelf,) if shelf else (),
        )
        self.meters = PrometheusMetrics()
        self.savings = Savings(config.state_folder / "savings.json", default_counter())
        self.audit = AuditLog(audit_path(options, config.state_folder))
        self._parking = SuspendedCalls()
        self.announcer = ToolListNotifier()
        self._handles: LRUCache[str, Session] = LRUCache(_MAX_SESSIONS)
        self._showing = ViewCache(self.box, self.savings, original=self._original_definition)
        self._levels: LRUCache[str, types.LoggingLevel] = LRUCache(_MAX_SESSIONS)
        self._starting: asyncio.Task[Any] | None = None
        self._rousing = BackgroundStartup(self.upstreams, self._engine, quiet_seconds=quiet_seconds)
        self._tasks: set[asyncio.Task[None]] = set()
        self.complaint = ""

    # Life

    async def start(self) -> None:
        """Open the toolbox in the background; what is known already is searched at once."""
        self.upstreams.attach(self.box)
        self._runs.register(self.setup)
        self._starting = asyncio.create_task(self._open_toolbox())

    async def _open_toolbox(self) -> None:
        await self.box.__aenter__()
        self._spawn(self._rousing.run())

    async def wait_until_ready(self) -> None:
        """Wait until every server is listed, or the time for that is over."""
        if self._starting is not None and not self._starting.done():
            await asyncio.shield(self._starting)

    async def close(self) -> None:
        """Stop everything."""
        tasks = [*self._tasks, *([self._starting] if self._starting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._parking.close()
        await self.box.close()
        await close_engine(self._engine)
        self.savings.save()
        self._runs.unregister()

    async def apply(self, setup: Setup) -> None:
        """Take over an edited configuration without a restart; what cannot be is told."""
        late = settings_needing_restart(self._fixed, setup)
        before, self.setup = self.setup, setup
        self.complaint = (
            f"Edited, but used only after a restart: {', '.join(late)}." if late else ""
        )
        if late:
            log.warning("%s", self.complaint)
        self._apply_options(setup)
        await self.upstreams.apply(setup.document.servers, setup.apis, self.box)
        if before.settings != setup.settings:
            await self.upstreams.refresh_stale_sources(self.box)
            await self.announcer.notify_all()
        self._on_event(Event("config_applied", facts={"waiting": late}))

    def _apply_options(self, setup: Setup) -> None:
        options = setup.options
        is_alike = setup.shows_everything == self._shows_everything
        self.box.reconfigure(
            profile=setup.profile if is_alike else self.box.profile,
            caution=_CAUTIONS[options.confirm],
            call_timeout_seconds=setup.toolbox_config.call_timeout_seconds,
        )
        self.upstreams.update_trust_rules(
            reserved=setup.own_tool_names if is_alike else (),
            trusts_first=not options.require_approval,
        )
        path = audit_path(options, setup.config.state_folder)
        if path != self.audit.path:
            self.audit = AuditLog(path)
        self._handles.clear()
        self._showing.invalidate()

    async def recheck_pins(self) -> None:
        """Follow pins that somebody approved or revoked."""
        await self.upstreams.refresh_stale_sources(self.box)

    def report_problem(self, about: str) -> None:
        """Remember what is wrong, for whoever asks how the gateway is."""
        self.complaint = about

    @property
    def is_ready(self) -> bool:
        """Whether searches are answered without waiting for servers."""
        return self._starting is not None and self._starting.done()

    # What clients ask

    async def list_tools(self, context: Context) -> Sequence[types.Tool]:
        """The tools that a client sees now."""
        caller = self._identify(context)
        if caller.is_kept:
            self.announcer.remember_client(caller, context.session)
        self.upstreams.wake(*self.upstreams.servers_without_listing())
        return await self._showing.list_tools(
            caller,
            self._rule(caller),
            lambda: self._open_session(caller),
            is_counted=is_explicit_listing(),
        )

    async def instructions(self, context: Context) -> str:
        """What a client is told at the start: how to find tools, and what there is."""
        caller = self._identify(context)
        shown = await self._showing.get_view(
            caller, self._rule(caller), lambda: self._open_session(caller)
        )
        return shown.instructions

    def set_level(self, context: Context, level: types.LoggingLevel) -> None:
        """From which level on a client wants to hear of log messages."""
        self._levels.put(self._identify(context).session, level)

    async def call(self, context: Context, name: str, arguments: dict[str, Any]) -> Result:
        """The answer to a client's call."""
        caller = self._identify(context)
        handle = await self._open_session(caller)
        front = DownstreamClient(context, level=self._levels.get(caller.session) or "info")
        asked = ClientCall(caller, name, arguments)
        if not front.is_stateless:
            result = await self._run_call(asked, handle, front)
            await self._notify_if_changed(handle)
            return result
        front = StatelessClient(context)
        state = front.state or ""
        if state.startswith(SUSPENDED_PREFIX):
            return await self._parking.resume(
                state.removeprefix(SUSPENDED_PREFIX), caller.owner, front
            )
        front.state = strip_upstream_prefix(front.state)
        work = self._run_call(asked, handle, front)
        result = await self._parking.run(front, caller.owner, work)
        await self._notify_if_changed(handle)
        return result

    async def _notify_if_changed(self, handle: Session) -> None:
        if self._showing.has_changed(handle):
            await self.announcer.notify(handle.id)

    async def _notify_changed_clients(self) -> None:
        for caller in self.announcer.reachable_clients():
            await self._notify_if_changed(await self._open_session(caller))

    async def _run_call(
        self, asked: ClientCall, handle: Session, front: DownstreamClient
    ) -> Result:
        tokens = (CURRENT_CHANNEL.set(front), _CALL_EVENTS.set(asked.happened))
        profile = self.box.profile
        rule = self._rule(asked.caller)
        search = profile.tool_for("search")
        is_search = search is not None and asked.name == search.name
        is_whole = not self.upstreams.absent_servers()
        names = () if is_search and is_whole else asked.target_tools(profile)
        try:
            # A name that nobody has yet may be that of a server which is just starting.
            await self.upstreams.wait_for_servers(
                *late_servers(names, self.upstreams, rule),
                patience_seconds=self.setup.options.start_wait_seconds,
            )
            result = await handle.call(asked.name, asked.arguments)
            self._rousing.mark_answered()
        except asyncio.CancelledError:
            self.audit.write(**asked.audit_row(profile, "cancelled"))
            raise
        finally:
            CURRENT_CHANNEL.reset(tokens[0])
            _CALL_EVENTS.reset(tokens[1])
        if not is_search:  # a search tells itself where it could not look
            result = explain_absent_tool(result, names, self.upstreams, rule)
        if not asked.tool_call_facts:
            self.savings.record_answer(result.text)
        outcome = (result.code or "error") if result.is_error else "ok"
        self.audit.write(**asked.audit_row(profile, outcome))
        if is_search:
            self.upstreams.wake(*self.upstreams.servers_without_listing())
            missing = self.upstreams.absent_servers()
            held = 0 if asked.has_results else self.upstreams.count_held_tools(rule)
            result = append_held_notice(result, held, is_empty=not self.box.catalog)
            return append_absent_notice(
                result, [n for n in missing if rule is None or rule.admits_server(n)]
            )
        is_bridged = asked.is_bridged(profile)
        return tag_result(
            result, tool=str(asked.tool_call_facts.get("tool", "")) if is_bridged else ""
        )

    @contextmanager
    def bind_client(self, context: Context) -> Generator[None]:
        """Let the servers that are asked meanwhile talk back to this client."""
        front = DownstreamClient(context)
        front.state = strip_upstream_prefix(front.state)
        token = CURRENT_CHANNEL.set(front)
        try:
            yield
        finally:
            CURRENT_CHANNEL.reset(token)

    def admits_server(self, server: str) -> bool:
        """Whether the caller's policies let it reach a server at all."""
        rule = rule_for(current_principal(), self.setup.settings.policies)
        return rule is None or rule.admits_server(server)

    # Inside

    def _identify(self, context: Context) -> Principal:
        caller = identify_caller(context, fixed=self._session)
        return scope_to_rule(caller, self._rule(caller))

    async def _open_session(self, caller: Principal) -> Session:
        await self.wait_until_ready()
        known = self._handles.get(caller.session)
        if known is not None:
            return known
        allow = self._rule(caller)
        handle = await self.box.session(
            caller.session,
            allow=allow,
            approver=ask_user,
            profile=self.box.profile if caller.is_kept else self._stateless_profile(allow),
        )
        if caller.is_kept:
            self._handles.put(caller.session, handle)
        return handle

    def _stateless_profile(self, allow: AccessRule | None) -> Profile:
        """How to serve who is not known again: no tool joins its list, so it gets a way to call.

        Where all tools are in the list anyway, nothing has to join it.
        """
        profile = self.box.profile
        is_dynamic = profile.surface != "dispatch" and profile.tool_for("call") is not None
        if not is_dynamic or is_small_catalog(profile.policy, self.box.catalog, allow):
            return profile
        return replace(profile, surface="dispatch")

    def _original_definition(self, name: str) -> types.Tool | None:
        tool = self.box.catalog.get(name)
        return self.upstreams.definition(tool) if tool is not None else None

    def _rule(self, caller: Principal) -> AccessRule | None:
        return rule_for(caller.principal, self.setup.settings.policies)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_event(self, event: Event) -> None:
        happened = _CALL_EVENTS.get()
        if happened is not None:
            happened.append(event)
        if event.kind == "tool_discovery_result":
            found = (self.box.catalog.get(n) for n in event.facts.get("names", ()))
            self._rousing.wake_servers({t.server for t in found if t is not None})
        if event.kind == "catalog_changed" and self._starting is not None:
            self._spawn(self._notify_changed_clients())
        self.meters(event)
        self._listener(event)
