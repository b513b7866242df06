"""The gateway: one toolbox over all servers, and a session of it for every client."""

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
from ..events import (
    CatalogChangeEvent,
    ConfigAppliedEvent,
    DiscoveryResultEvent,
    Event,
    Sink,
    ignore,
    stamp,
)
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
from .client.memory_notes import MemoryNotes
from .client.notifications import ToolListNotifier
from .client.sessions import (
    LRUCache,
    Principal,
    RoutingStore,
    client_name,
    current_principal,
    identify_caller,
    is_explicit_listing,
    scope_to_rule,
)
from .client.views import ViewCache
from .operations.audit import AuditLog
from .operations.reload import GatewayProcesses, hash_fixed_settings, settings_needing_restart
from .operations.savings import Savings
from .settings import audit_path
from .setup import AccessRule, Setup
from .startup import QUIET_SECONDS, BackgroundStartup, build_engine
from .upstream.pin_store import PinStore
from .upstream.upstreams import Upstreams

log = logging.getLogger(__name__)
_MAX_SESSIONS = 2_000
_APPROVAL_POLICIES: dict[str, ApprovalPolicy] = {
    "never": never_ask,
    "destructive": ask_if_destructive,
    "unknown": ask_unless_safe,
}
# The events of the call that runs in this context. The toolbox reports to one sink for all calls.
_CALL_EVENTS: ContextVar[list[Event] | None] = ContextVar("call_events", default=None)


class Gateway:
    """Serves every client from one toolbox, each in a session of its own."""

    def __init__(
        self,
        setup: Setup,
        *,
        sink: Sink = ignore,
        session: str = "",
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        self.setup = setup
        self._fixed_hashes = hash_fixed_settings(setup)
        self._shows_everything = setup.shows_everything
        self._processes = GatewayProcesses(setup.config.state_folder / "running")
        self._sink = sink
        self._fixed_session = session
        options, config = setup.options, setup.config
        self.upstreams = Upstreams(
            listings=ListingCache(config.cache_folder / "listings"),
            grants=GrantStore.of(config),
            pins=PinStore(config.state_folder / "pins"),
            sink=self._on_event,
            reserved=setup.own_tool_names,
            trusts_first=not options.require_approval,
        )
        self._engine = build_engine(config)
        self.box = Toolbox(
            self.upstreams.create_sources(setup.document.servers, setup.apis),
            profile=setup.profile,
            config=setup.toolbox_config,
            store=RoutingStore(open_store(config)),
            engine=self._engine,
            sink=self._on_event,
            approval_policy=_APPROVAL_POLICIES[options.confirm],
        )
        self.metrics = PrometheusMetrics()
        self.savings = Savings(config.state_folder / "savings.json", default_counter())
        self.audit = AuditLog(audit_path(options, config.state_folder))
        self._memory = MemoryNotes()
        self._suspended = SuspendedCalls()
        self.notifier = ToolListNotifier()
        self._sessions: LRUCache[tuple[str, str], Session] = LRUCache(_MAX_SESSIONS)
        self._views = ViewCache(self.box, self.savings, get_original=self._original_definition)
        self._levels: LRUCache[str, types.LoggingLevel] = LRUCache(_MAX_SESSIONS)
        self._opening: asyncio.Task[None] | None = None
        self._startup = BackgroundStartup(self.upstreams, self._engine, quiet_seconds=quiet_seconds)
        self._tasks: set[asyncio.Task[None]] = set()
        self.problem = ""

    # Start, stop and reload

    async def start(self) -> None:
        """Open the toolbox in the background; listings from earlier runs are searchable at once."""
        self.upstreams.attach(self.box)
        self._processes.register(self.setup)
        self._opening = asyncio.create_task(self._open_toolbox())

    async def _open_toolbox(self) -> None:
        await self.box.__aenter__()
        self._spawn(self._startup.run())

    async def wait_until_ready(self) -> None:
        """Wait until every server is listed, or the time for that is over."""
        if self._opening is not None and not self._opening.done():
            # Shielded: a client that cancels its request must not stop the start for all others.
            await asyncio.shield(self._opening)

    async def close(self) -> None:
        """Stop all servers and tasks."""
        tasks = [*self._tasks, *([self._opening] if self._opening else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Suspended calls use the toolbox, so they end first.
        await self._suspended.close()
        await self.box.close()
        await close_engine(self._engine)
        self.savings.save()
        self._processes.unregister()

    async def apply(self, setup: Setup) -> None:
        """Use an edited configuration without a restart; settings that need one are reported."""
        late = settings_needing_restart(self._fixed_hashes, setup)
        before, self.setup = self.setup, setup
        self.problem = f"Edited, but used only after a restart: {', '.join(late)}." if late else ""
        if late:
            log.warning("%s", self.problem)
        self._apply_options(setup)
        await self.upstreams.apply(setup.document.servers, setup.apis, self.box)
        if before.settings != setup.settings:
            await self.upstreams.refresh_stale_sources(self.box)
            await self.notifier.notify_all()
        self._on_event(ConfigAppliedEvent(waiting=late))

    def _apply_options(self, setup: Setup) -> None:
        options = setup.options
        # Prompts and resources are passed through only if the server was built for that, so a
        # change to or from `everything` waits for a restart, and the profile with it.
        can_change_profile = setup.shows_everything == self._shows_everything
        self.box.reconfigure(
            profile=setup.profile if can_change_profile else self.box.profile,
            approval_policy=_APPROVAL_POLICIES[options.confirm],
            call_timeout_seconds=setup.toolbox_config.call_timeout_seconds,
        )
        self.upstreams.update_trust_rules(
            reserved=setup.own_tool_names if can_change_profile else (),
            trusts_first=not options.require_approval,
        )
        path = audit_path(options, setup.config.state_folder)
        if path != self.audit.path:
            self.audit = AuditLog(path)
        # Sessions hold the profile and rule that they were opened with.
        self._sessions.clear()
        self._views.invalidate()

    async def recheck_pins(self) -> None:
        """Apply pins that were approved or revoked."""
        await self.upstreams.refresh_stale_sources(self.box)

    def report_problem(self, problem: str) -> None:
        """Remember what is wrong, for `GET /health`."""
        self.problem = problem

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered without waiting for servers."""
        return self._opening is not None and self._opening.done()

    # Requests of clients

    async def list_tools(self, context: Context) -> Sequence[types.Tool]:
        """The tools that a client sees now."""
        caller = self._identify(context)
        if caller.keeps_session:
            self.notifier.remember_client(caller, context.session)
        # Servers that were never reached are retried by any listing or search.
        self.upstreams.wake(*self.upstreams.servers_without_listing())
        return await self._views.list_tools(
            caller,
            self._rule(caller),
            lambda: self._open_session(caller),
            is_counted=is_explicit_listing(),
        )

    async def instructions(self, context: Context) -> str:
        """The server instructions for a client: how to find tools, and what there is."""
        caller = self._identify(context)
        view = await self._views.get_view(
            caller, self._rule(caller), lambda: self._open_session(caller)
        )
        # Without a session there is nothing to remember, and none has to be opened.
        session = await self._open_session(caller) if caller.keeps_session else None
        return self._memory.add_to_instructions(view.instructions, session)

    def set_level(self, context: Context, level: types.LoggingLevel) -> None:
        """Set the lowest level of log messages that a client wants."""
        self._levels.put(self._identify(context).session, level)

    async def call(self, context: Context, name: str, arguments: dict[str, Any]) -> Result:
        """Run a client's call."""
        caller = self._identify(context)
        session = await self._open_session(caller)
        client = DownstreamClient(context, level=self._levels.get(caller.session) or "info")
        call = ClientCall(caller, name, arguments)
        if not client.is_stateless:
            result = await self._run_call(call, session, client)
            await self._notify_if_changed(session)
            return result
        client = StatelessClient(context)
        state = client.state or ""
        # The request answers a question of a call that is suspended here, which simply goes on.
        if state.startswith(SUSPENDED_PREFIX):
            return await self._suspended.resume(
                state.removeprefix(SUSPENDED_PREFIX), caller.owner, client
            )
        # An answer to a stateless upstream is a new call there, with the upstream's own state.
        client.state = strip_upstream_prefix(client.state)
        work = self._run_call(call, session, client)
        result = await self._suspended.run(client, caller.owner, work)
        await self._notify_if_changed(session)
        return result

    async def _notify_if_changed(self, session: Session) -> None:
        if self._views.detect_change(session):
            await self.notifier.notify(session.id)

    async def _notify_changed_clients(self) -> None:
        for caller in self.notifier.reachable_clients():
            await self._notify_if_changed(await self._open_session(caller))

    async def _run_call(
        self, call: ClientCall, session: Session, client: DownstreamClient
    ) -> Result:
        tokens = (CURRENT_CHANNEL.set(client), _CALL_EVENTS.set(call.events))
        profile = self.box.profile
        rule = self._rule(call.caller)
        search = profile.tool_for("search")
        is_search = search is not None and call.name == search.name
        # Finding the names in a search means parsing the query a second time. That is needed only
        # while a server is missing, to wait for it if the query selects one of its tools.
        is_complete = not self.upstreams.absent_servers()
        names = () if is_search and is_complete else call.target_tools(profile)
        try:
            # A name that is not in the catalog may belong to a server that is still starting.
            await self.upstreams.wait_for_servers(
                *late_servers(names, self.upstreams, rule),
                timeout_seconds=self.setup.options.start_wait_seconds,
            )
            result = await session.call(call.name, call.arguments)
            self._startup.mark_answered()
        except asyncio.CancelledError:
            self.audit.write(**call.audit_row(profile, "cancelled"))
            raise
        finally:
            CURRENT_CHANNEL.reset(tokens[0])
            _CALL_EVENTS.reset(tokens[1])
        if not is_search:  # a search result lists the missing servers itself, below
            result = explain_absent_tool(result, names, self.upstreams, rule)
        # Without a tool call it was a search or a description, whose text costs tokens.
        if call.tool_call is None:
            self.savings.record_answer(result.text)
        outcome = (result.code or "error") if result.is_error else "ok"
        self.audit.write(**call.audit_row(profile, outcome))
        if is_search:
            result = self._memory.add_to_result(result, session)
            self.upstreams.wake(*self.upstreams.servers_without_listing())
            missing = self.upstreams.absent_servers()
            held = 0 if call.has_results else self.upstreams.count_held_tools(rule)
            result = append_held_notice(result, held, is_empty=not self.box.catalog)
            return append_absent_notice(
                result, [n for n in missing if rule is None or rule.admits_server(n)]
            )
        ran = call.tool_call if call.is_bridged(profile) else None
        return tag_result(result, tool=ran.tool if ran else "")

    @contextmanager
    def bind_client(self, context: Context) -> Generator[None]:
        """Let servers reach this client while the block runs."""
        client = DownstreamClient(context)
        client.state = strip_upstream_prefix(client.state)
        token = CURRENT_CHANNEL.set(client)
        try:
            yield
        finally:
            CURRENT_CHANNEL.reset(token)

    def admits_server(self, server: str) -> bool:
        """Whether the current caller may reach a server at all."""
        rule = self.setup.rule_for(current_principal())
        return rule is None or rule.admits_server(server)

    # Internals

    def _identify(self, context: Context) -> Principal:
        caller = identify_caller(context, fixed_session=self._fixed_session)
        caller = replace(caller, client=client_name(context))
        return scope_to_rule(caller, self._rule(caller))

    async def _open_session(self, caller: Principal) -> Session:
        await self.wait_until_ready()
        # Two programs may share a session, and each event names the one that caused it.
        key = (caller.session, caller.client)
        known = self._sessions.get(key)
        if known is not None:
            return known
        allow = self._rule(caller)
        session = await self.box.session(
            caller.session,
            allow=allow,
            approver=ask_user,
            profile=self.box.profile if caller.keeps_session else self._stateless_profile(allow),
            principal=caller.name,
            client=caller.client,
        )
        if caller.keeps_session:
            self._sessions.put(key, session)
        return session

    def _stateless_profile(self, allow: AccessRule | None) -> Profile:
        """The profile for a client without a session."""
        # On the `load` surface a tool that was found joins the list of its session. Without one it
        # could never be called, so the client gets `call_tool` instead. A small catalog is shown
        # as a whole, and nothing has to join.
        profile = self.box.profile
        is_dynamic = profile.surface != "dispatch" and profile.tool_for("call") is not None
        if not is_dynamic or is_small_catalog(profile.policy, self.box.catalog, allow):
            return profile
        return replace(profile, surface="dispatch")

    def _original_definition(self, name: str) -> types.Tool | None:
        tool = self.box.catalog.get(name)
        return self.upstreams.definition(tool) if tool is not None else None

    def _rule(self, caller: Principal) -> AccessRule | None:
        return self.setup.rule_for(caller.name)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)  # asyncio itself holds tasks weakly
        task.add_done_callback(self._tasks.discard)

    def _on_event(self, event: Event) -> None:
        # Events of the toolbox are stamped already, those of the gateway and its servers are not.
        event = stamp(event)
        events = _CALL_EVENTS.get()
        if events is not None:
            events.append(event)
        if isinstance(event, DiscoveryResultEvent):
            found = (self.box.catalog.get(n) for n in event.names)
            self._startup.wake_servers({t.server for t in found if t is not None})
        # Before start() there is no event loop to run the task, and no client to notify.
        if isinstance(event, CatalogChangeEvent) and self._opening is not None:
            self._spawn(self._notify_changed_clients())
        self.metrics(event)
        self._sink(event)
