"""The client side of a gateway: finds a request's session, shows its view, and runs its calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import mcp_types as types
from fastmcp.server.context import Context

from ...catalog.principals import bind_principal
from ...catalog.result import Result
from ...disclosure.discovery import role_of
from ...disclosure.profile import Profile
from ...disclosure.scope import is_small_catalog
from ...errors import StoreError
from ...sources.mcp.client_channel import CURRENT_CHANNEL
from ...telemetry import lines
from ...toolbox.call_record import CallRecord
from ...toolbox.permissions import Approver
from ...toolbox.session import Session
from ...toolbox.step import StepLimits
from ...toolbox.toolbox import Toolbox
from ..access import AccessRule
from ..identity.roles import Identity
from ..operations.operations import Operations
from ..setup import Setup
from ..upstream.upstream_side import UpstreamSide
from .client_call import (
    ClientCall,
    ClientRequest,
    add_held_notice,
    append_absent_notice,
    ask_user,
    strip_upstream_prefix,
    suggest_held_tools,
    tag_result,
)
from .elicitation import (
    QUESTION_KEY,
    SUSPENDED_PREFIX,
    ClientSuspensions,
    DownstreamClient,
    StatelessClient,
)
from .list_news import ListNews
from .memory_notes import MemoryNotes
from .notifications import ToolListNotifier
from .programs import ProgramState, ask_client, give_answer
from .sessions import (
    LRUCache,
    Principal,
    client_name,
    identify_caller,
    is_explicit_listing,
    program_session,
    scope_to_rule,
    transient_principal,
)
from .views import ClientView, ViewCache

_lines = logging.getLogger(lines.LOGGER)
CONSOLE_CLIENT = "console"
"""The program of calls that come from no MCP client."""

_MAX_SESSIONS = 2_000
# A gateway does not see the steps of the model behind a client: a client that polls a tool must
# not be taken for a model that repeats itself.
_LIMITS = StepLimits(repeats=0)


class ClientSide:
    """Serves clients from one toolbox, each in its own session."""

    def __init__(
        self,
        box: Toolbox,
        *,
        read_setup: Callable[[], Setup],
        upstream: UpstreamSide,
        operations: Operations,
        wait_until_ready: Callable[[], Any],
        fixed_session: str = "",
        shares_store: bool = False,
        announce: Callable[[Principal], None] | None = None,
    ) -> None:
        self._box = box
        self._read_setup = read_setup
        self._upstream = upstream
        self._operations = operations
        self._wait_until_ready = wait_until_ready
        self._fixed_session = fixed_session
        self._shares_store = shares_store
        self._announce = announce
        self._suspended = ClientSuspensions()
        self._memory = MemoryNotes()
        self.notifier = ToolListNotifier(
            lambda context: self._identify(context).caller.identity,
            self._list_new_tools,
            max_streams=lambda: read_setup().settings.limits.streams,
        )
        self._sessions: LRUCache[tuple[str, str], Session] = LRUCache(_MAX_SESSIONS)
        self._views = ViewCache(
            box,
            operations.savings,
            get_original=self._original_definition,
            # A large result is replaced by a notice, which fits no schema of a server.
            shows_output_schemas=not read_setup().options.large_outputs,
        )
        self._levels: LRUCache[str, types.LoggingLevel] = LRUCache(_MAX_SESSIONS)

    async def close(self) -> None:
        """End suspended calls, which use the toolbox."""
        await self._suspended.close()

    def reset(self) -> None:
        """Reopen sessions: they hold the profile and the rule that they were opened with."""
        self._sessions.clear()
        self._views.invalidate()

    # Requests

    async def list_tools(self, context: Context) -> Sequence[types.Tool]:
        """The tools that a client sees now."""
        request = self._identify(context)
        if request.caller.keeps_session:
            self.notifier.remember_client(request.caller, context.session)
        # Servers that were never reached are retried by any listing or search.
        with bind_principal(request.caller.name):
            self._upstream.retry_unlisted()
        return await self._views.list_tools(
            request.caller,
            request.rule,
            lambda: self._open_session(request),
            is_counted=is_explicit_listing(),
        )

    async def instructions(self, context: Context) -> str:
        """The server instructions for a client: how to find tools, and which kinds exist."""
        request = self._identify(context)
        view = await self._get_view(request)
        # Without a session there is nothing to remember, and none has to be opened.
        session = await self._open_session(request) if request.caller.keeps_session else None
        return self._memory.add_to_instructions(view.instructions, session)

    def set_level(self, context: Context, level: types.LoggingLevel) -> None:
        """Set the lowest level of log messages that a client wants."""
        self._levels.put(self._identify(context).caller.session, level)

    async def call(self, context: Context, name: str, arguments: dict[str, Any]) -> Result:
        """Run a client's call."""
        request = self._identify(context)
        session = await self._open_session(request)
        level = self._levels.get(request.caller.session) or "info"
        client = DownstreamClient(context, level=level)
        call = ClientCall(request, name, arguments)
        if (
            session.is_program(call.inner_tool(self._box.profile))
            and not request.caller.keeps_session
        ):
            # So that the answer to a question of the program finds it again, also after a restart.
            request = replace(request, caller=replace(request.caller, session=program_session()))
            session = await self._open_session(request)
            call = replace(call, request=request)
        if not client.is_stateless:
            with self._announce_change(request.caller, session):
                result = await self._run_call(call, session, client)
            await self._notify_if_changed(request.caller, session)
            return result
        return await self._call_stateless(call, session, StatelessClient(context))

    async def _call_stateless(
        self, call: ClientCall, session: Session, client: StatelessClient
    ) -> Result:
        state, owner = client.state or "", call.request.caller.owner
        # The request answers a question of a call that is suspended here, which simply continues.
        if state.startswith(SUSPENDED_PREFIX):
            token = state.removeprefix(SUSPENDED_PREFIX)
            return await self._suspended.resume(token, owner, client)
        program = ProgramState.read(state)
        if program is not None:
            work = self._continue_program(call, program, client)
            return await self._suspended.run(client, owner, work)
        # An answer to a stateless upstream is a new call there, with the upstream's own state.
        client.state = strip_upstream_prefix(client.state)
        work = self._run_call(call, session, client)
        with self._announce_change(call.request.caller, session):
            result = await self._suspended.run(client, owner, work)
        await self._notify_if_changed(call.request.caller, session)
        return result

    async def call_as(
        self, identity: Identity, name: str, arguments: Mapping[str, Any], *, approver: Approver
    ) -> CallRecord:
        """Run one call for somebody without an MCP client, under that caller's own rule.

        `client` in its events is `console`. A question of the server is not asked.
        """
        rule = self._read_setup().rule_for(identity)
        caller = transient_principal(identity)
        await self._wait_until_ready()
        session = await self._box.session(
            caller.session,
            allow=rule,
            approver=approver,
            profile=replace(self._box.profile, on_unloaded="execute"),
            principal=identity.name,
            client=CONSOLE_CLIENT,
        )
        with bind_principal(identity.name):
            await self._upstream.wait_for((name,), rule, is_known=session.knows)
            step = session.step(limits=_LIMITS, approvals="ask")
            await step.call(name, arguments)
            (record,) = await step.finish()
        self._upstream.mark_answered()
        return record

    @contextmanager
    def bind_client(self, context: Context) -> Generator[ClientRequest]:
        """Let servers reach this client while the block runs; yields the caller."""
        request = self._identify(context)
        client = DownstreamClient(context)
        client.state = strip_upstream_prefix(client.state)
        token = CURRENT_CHANNEL.set(client)
        try:
            with bind_principal(request.caller.name):
                yield request
        finally:
            CURRENT_CHANNEL.reset(token)

    async def notify_changed_clients(self) -> None:
        """Notify the clients whose list of tools has changed."""
        changed: set[Identity] = set()
        for caller in self.notifier.reachable_clients():
            request = ClientRequest(caller, self._read_setup().rule_for(caller.identity))
            # As it is known here: reading the state of every client would take long.
            session = await self._open_session(request, reads_store=False)
            if self._views.detect_change(session):
                await self.notifier.notify(session.id)
                changed.add(caller.identity)
        for identity in changed.union(await self.notifier.find_changed_listeners()):
            await self.notifier.publish(identity)

    async def follow_news(self, news: ListNews) -> None:
        """Notify the clients here of a change that a call at another gateway has made."""
        caller = self.notifier.reachable_client(news.session)
        if caller is not None:
            await self._notify_if_stored_changed(caller)
        await self.notifier.publish(news.identity)

    async def follow_missed_news(self) -> None:
        """Notify every client here whose list may have changed at another gateway."""
        for caller in self.notifier.reachable_clients():
            await self._notify_if_stored_changed(caller)
        await self.notifier.publish_to_all()

    async def _notify_if_stored_changed(self, caller: Principal) -> None:
        request = ClientRequest(caller, self._read_setup().rule_for(caller.identity))
        session = await self._open_session(request)
        if self._views.detect_change(session):
            await self.notifier.notify(session.id)

    async def _list_new_tools(self, identity: Identity) -> Sequence[types.Tool]:
        caller = transient_principal(identity)
        request = ClientRequest(caller, self._read_setup().rule_for(identity))
        return (await self._get_view(request)).tools

    # One call

    async def _run_call(
        self, call: ClientCall, session: Session, client: DownstreamClient
    ) -> Result:
        with bind_principal(call.request.caller.name):
            return await self._run_bound_call(call, session, client)

    async def _run_bound_call(
        self, call: ClientCall, session: Session, client: DownstreamClient
    ) -> Result:
        profile, rule = self._box.profile, call.request.rule
        inner = call.unwrap(profile)  # models also search through `call_tool`
        is_search = role_of(profile, inner.name, self._box.catalog) == "search"
        # Finding the names in a search means parsing the query a second time. That is needed only
        # while a server is missing, to wait for it if the query selects one of its tools.
        is_complete = self._upstream.is_complete
        names = () if is_search and is_complete else call.target_tools(profile)
        # A name that is not in the catalog may belong to a server that is still starting.
        token = CURRENT_CHANNEL.set(client)
        try:
            await self._upstream.wait_for(names, rule, is_known=session.knows)
            if is_search:
                await self._upstream.settle()
            record = await self._run_step(call, session, client)
        finally:
            CURRENT_CHANNEL.reset(token)
        self._upstream.mark_answered()
        result = record.result
        if not is_search:  # a search result lists the missing servers itself
            self._upstream.wake_late(names, rule, is_known=session.knows)
            result = suggest_held_tools(result, names, self._upstream, rule)
        self._count_call(record, result)
        if session.is_program(inner.name):
            return await self._end_program(call, session, record)
        if is_search:
            result = self._memory.add_to_result(result, session)
            return await self._add_notices(result, record, inner)
        is_inner = record.is_run and call.uses_dispatcher(profile)
        return tag_result(result, tool=record.tool if is_inner else "")

    async def _run_step(
        self, call: ClientCall, session: Session, client: DownstreamClient
    ) -> CallRecord:
        """Every call is a separate step: a client sends the calls of a model one by one."""
        view = (await self._get_view(call.request)).view
        is_program = session.is_program(call.inner_tool(self._box.profile))
        step = session.step(view, limits=_LIMITS, approvals="return" if is_program else "ask")
        await step.call(call.name, call.arguments)
        (record,) = await step.finish()
        return await ask_client(record, session, client) if is_program else record

    async def _continue_program(
        self, call: ClientCall, program: ProgramState, client: StatelessClient
    ) -> Result:
        """Continue the program that a request answers a question of."""
        caller = replace(call.request.caller, session=program.session)
        request = replace(call.request, caller=caller)
        session = await self._open_session(request)
        answer = (client.responses or {}).get(QUESTION_KEY)
        given = answer or types.ErrorData(code=types.INVALID_REQUEST, message="no answer was given")
        token = CURRENT_CHANNEL.set(client)
        try:
            with bind_principal(caller.name):
                record = await give_answer(session, program, given)
                record = await ask_client(record, session, client)
        finally:
            CURRENT_CHANNEL.reset(token)
        return await self._end_program(call, session, record)

    async def _end_program(self, call: ClientCall, session: Session, record: CallRecord) -> Result:
        # A session that was opened only for a program has done its work.
        if record.needs is None and not call.request.caller.keeps_session:
            await session.forget()
        return record.result

    def _count_call(self, record: CallRecord, result: Result) -> None:
        # Without a tool that ran it was a search or a description, whose text costs tokens.
        if not record.is_run:
            self._operations.savings.record_answer(result.text)
        if record.found:
            self._upstream.wake_found(record.found, self._box)

    async def _add_notices(self, result: Result, record: CallRecord, call: ClientCall) -> Result:
        """Add to a search result which servers it does not cover, and which tools are held."""
        rule = call.request.rule
        self._upstream.retry_unlisted()
        held = self._upstream.upstreams.held_tools.restrict(rule)
        if held.catalog:
            # Of what this caller may see: whether there is anything else must not show.
            catalog = self._box.visible_catalog(rule)
            queries = call.search_queries(self._box.profile)
            # In a thread: the first search indexes the held tools, which may be thousands.
            notice = await asyncio.to_thread(
                held.notice,
                queries,
                rule,
                reply=result.text,
                listed=record.found,
                found=[tool for name in record.found if (tool := catalog.get(name))],
                ranker=self._upstream.held_ranker,
                has_others=bool(catalog),
            )
            if notice.line:
                _lines.info("search: %s", notice.line)
            has_answer = bool(catalog) or not queries
            is_alone = not has_answer or (notice.names_tools and not record.found)
            result = add_held_notice(result, notice, is_alone=is_alone)
        return append_absent_notice(result, self._upstream.missing_servers(rule))

    @contextmanager
    def _announce_change(self, caller: Principal, session: Session) -> Generator[None]:
        """Tell other gateways if the list of the session's tools changes in the block."""
        if self._announce is None or not caller.keeps_session:
            yield
            return
        # Unlike what was listed last: the client may have listed at another gateway.
        before = self._views.view_of(session)
        yield
        after = self._views.view_of(session)
        if after is not before and after.tools != before.tools:
            self._announce(caller)

    async def _notify_if_changed(self, caller: Principal, session: Session) -> None:
        if self._views.detect_change(session):
            await self.notifier.notify(session.id)
            await self.notifier.publish(caller.identity)

    # Sessions

    def _identify(self, context: Context) -> ClientRequest:
        setup = self._read_setup()
        caller = identify_caller(
            context, auth=setup.settings.auth, fixed_session=self._fixed_session
        )
        rule = setup.rule_for(caller.identity)
        caller = scope_to_rule(replace(caller, client=client_name(context)), rule)
        return ClientRequest(caller, rule)

    async def _get_view(self, request: ClientRequest) -> ClientView:
        return await self._views.get_view(
            request.caller, request.rule, lambda: self._open_session(request)
        )

    async def _open_session(self, request: ClientRequest, *, reads_store: bool = True) -> Session:
        await self._wait_until_ready()
        caller, rule = request.caller, request.rule
        # Two programs may share a session, and each event names the one that caused it.
        key = (caller.session, caller.client)
        known = self._sessions.get(key)
        if known is not None:
            if reads_store and self._shares_store:
                # The last request may have been answered by another gateway. Without the store,
                # the conversation continues as it is known here.
                with suppress(StoreError):
                    await known.refresh()
            return known
        session = await self._box.session(
            caller.session,
            allow=rule,
            approver=ask_user,
            profile=self._box.profile if caller.keeps_session else self._stateless_profile(rule),
            principal=caller.name,
            client=caller.client,
        )
        if caller.keeps_session:
            self._sessions.put(key, session)
            if caller.client:
                # The handle of the handshake, in which the client has no name yet.
                self._sessions.discard((caller.session, ""))
        return session

    def _stateless_profile(self, allow: AccessRule | None) -> Profile:
        """The profile for a client without a session."""
        # On the `load` surface a tool that was found joins the list of its session. Without one it
        # could never be called, so the client gets `call_tool` instead. A small catalog is shown
        # as a whole, and nothing has to join.
        profile = self._box.profile
        if profile.surface == "dispatch":
            return profile
        # Nothing stays loaded, so a profile without `call_tool` may refuse no call for that.
        if profile.tool_for("call") is None:
            return replace(profile, on_unloaded="execute")
        is_small = is_small_catalog(profile.policy, self._box.catalog, allow)
        return profile if is_small else replace(profile, surface="dispatch")

    def _original_definition(self, name: str) -> types.Tool | None:
        tool = self._box.catalog.get(name)
        return self._upstream.upstreams.definition(tool) if tool is not None else None
