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
from ..catalog.sources.mcp.exchange import CURRENT
from ..catalog.sources.mcp.grants import Grants
from ..catalog.sources.mcp.listing import Listings
from ..disclosure.profile import Profile
from ..disclosure.scope import is_small
from ..events import Event, Sink, ignore
from ..offload.shelf import Shelf
from ..store.opening import open_store
from ..tokens import default_counter
from ..toolbox.approval import Caution, careful, trusting, wary
from ..toolbox.box import Toolbox
from ..toolbox.closing import let_go
from ..toolbox.handle import Handle
from .announcing import Announcer
from .answering import (
    Asked,
    ask_user,
    awaited,
    continued,
    explained,
    marked,
    noted,
    waited_for,
)
from .audit import Audit
from .editing import Runs, fixed, waiting
from .front import Front
from .health import Meters
from .parking import PARKED, Parked, Parking
from .pins import Pins
from .policies import Rule, rule_for
from .recent import Recent
from .rousing import QUIET_SECONDS, Rousing
from .savings import Savings
from .sessions import Who, is_asked_for, principal_of, under, who
from .settings import audit_path
from .setup import Setup
from .showing import Showing
from .stores import Divided
from .upstreams import Upstreams
from .warming import engine_of

log = logging.getLogger(__name__)
_MOST_HANDLES = 2_000
_CAUTIONS: dict[str, Caution] = {"never": trusting, "destructive": careful, "unknown": wary}
_HAPPENED: ContextVar[list[Event] | None] = ContextVar("happened", default=None)


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
        self._fixed = fixed(setup)
        self._shows_everything = setup.shows_everything
        self._runs = Runs(setup.config.state_folder / "running")
        self._listener = sink
        self._session = session
        profile, options, config = setup.profile, setup.options, setup.config
        shelf = Shelf(config.state_folder / "outputs") if options.large_outputs else None
        self.pins = Pins(config.state_folder / "pins")
        self.upstreams = Upstreams(
            listings=Listings(config.cache_folder / "listings"),
            grants=Grants.of(config),
            pins=self.pins,
            sink=self._hear,
            reserved=setup.reserved,
            trusts_first=not options.require_approval,
        )
        self._engine = engine_of(config)
        self.box = Toolbox(
            self.upstreams.begin(setup.document.servers, setup.apis),
            profile=profile,
            config=setup.toolbox_config,
            store=Divided(open_store(config)),
            engine=self._engine,
            sink=self._hear,
            caution=_CAUTIONS[options.confirm],
            offload=shelf,
            offers=(shelf,) if shelf else (),
        )
        self.meters = Meters()
        self.savings = Savings(config.state_folder / "savings.json", default_counter())
        self.audit = Audit(audit_path(options, config.state_folder))
        self._parking = Parking()
        self.announcer = Announcer()
        self._handles: Recent[str, Handle] = Recent(_MOST_HANDLES)
        self._showing = Showing(self.box, self.savings, original=self._original)
        self._levels: Recent[str, types.LoggingLevel] = Recent(_MOST_HANDLES)
        self._starting: asyncio.Task[Any] | None = None
        self._rousing = Rousing(self.upstreams, self._engine, quiet_seconds=quiet_seconds)
        self._tasks: set[asyncio.Task[None]] = set()
        self.complaint = ""

    # Life

    async def start(self) -> None:
        """Open the toolbox in the background; what is known already is searched at once."""
        self.upstreams.attach(self.box)
        self._runs.begin(self.setup)
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        await self.box.__aenter__()
        self._spawn(self._rousing.run())

    async def started(self) -> None:
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
        await let_go(self._engine)
        self.savings.save()
        self._runs.end()

    async def apply(self, setup: Setup) -> None:
        """Take over an edited configuration without a restart; what cannot be is told."""
        late = waiting(self._fixed, setup)
        before, self.setup = self.setup, setup
        self.complaint = (
            f"Edited, but used only after a restart: {', '.join(late)}." if late else ""
        )
        if late:
            log.warning("%s", self.complaint)
        self._adopt(setup)
        await self.upstreams.apply(setup.document.servers, setup.apis, self.box)
        if before.settings != setup.settings:
            await self.upstreams.recheck(self.box)
            await self.announcer.tell_all()
        self._hear(Event("config_applied", facts={"waiting": late}))

    def _adopt(self, setup: Setup) -> None:
        options = setup.options
        is_alike = setup.shows_everything == self._shows_everything
        self.box.adopt(
            profile=setup.profile if is_alike else self.box.profile,
            caution=_CAUTIONS[options.confirm],
            call_timeout_seconds=setup.toolbox_config.call_timeout_seconds,
        )
        self.upstreams.adopt(
            reserved=setup.reserved if is_alike else (), trusts_first=not options.require_approval
        )
        path = audit_path(options, setup.config.state_folder)
        if path != self.audit.path:
            self.audit = Audit(path)
        self._handles.clear()
        self._showing.renew()

    async def recheck(self) -> None:
        """Follow pins that somebody approved or revoked."""
        await self.upstreams.recheck(self.box)

    def complain(self, about: str) -> None:
        """Remember what is wrong, for whoever asks how the gateway is."""
        self.complaint = about

    @property
    def is_ready(self) -> bool:
        """Whether searches are answered without waiting for servers."""
        return self._starting is not None and self._starting.done()

    # What clients ask

    async def listed(self, context: Context) -> Sequence[types.Tool]:
        """The tools that a client sees now."""
        caller = self._who(context)
        if caller.is_kept:
            self.announcer.know(caller, context.session)
        self.upstreams.wake(*self.upstreams.unlisted())
        return await self._showing.listed(
            caller,
            self._rule(caller),
            lambda: self._handle(caller),
            is_counted=is_asked_for(),
        )

    async def instructions(self, context: Context) -> str:
        """What a client is told at the start: how to find tools, and what there is."""
        caller = self._who(context)
        shown = await self._showing.shown(caller, self._rule(caller), lambda: self._handle(caller))
        return shown.instructions

    def set_level(self, context: Context, level: types.LoggingLevel) -> None:
        """From which level on a client wants to hear of log messages."""
        self._levels.put(self._who(context).session, level)

    async def call(self, context: Context, name: str, arguments: dict[str, Any]) -> Result:
        """The answer to a client's call."""
        caller = self._who(context)
        handle = await self._handle(caller)
        front = Front(context, level=self._levels.get(caller.session) or "info")
        asked = Asked(caller, name, arguments)
        if not front.is_stateless:
            result = await self._answered(asked, handle, front)
            await self._announce(handle)
            return result
        front = Parked(context)
        state = front.state or ""
        if state.startswith(PARKED):
            return await self._parking.resume(state.removeprefix(PARKED), caller.owner, front)
        front.state = continued(front.state)
        work = self._answered(asked, handle, front)
        result = await self._parking.run(front, caller.owner, work)
        await self._announce(handle)
        return result

    async def _announce(self, handle: Handle) -> None:
        if self._showing.has_changed(handle):
            await self.announcer.tell(handle.id)

    async def _announce_all(self) -> None:
        for caller in self.announcer.known():
            await self._announce(await self._handle(caller))

    async def _answered(self, asked: Asked, handle: Handle, front: Front) -> Result:
        tokens = (CURRENT.set(front), _HAPPENED.set(asked.happened))
        profile = self.box.profile
        rule = self._rule(asked.caller)
        search = profile.tool_for("search")
        is_search = search is not None and asked.name == search.name
        is_whole = not self.upstreams.missing()
        names = () if is_search and is_whole else asked.named(profile)
        try:
            # A name that nobody has yet may be that of a server which is just starting.
            await self.upstreams.join(
                *awaited(names, self.upstreams, rule),
                patience_seconds=self.setup.options.start_wait_seconds,
            )
            result = await handle.call(asked.name, asked.arguments)
            self._rousing.answered()
        except asyncio.CancelledError:
            self.audit.note(**asked.row(profile, "cancelled"))
            raise
        finally:
            CURRENT.reset(tokens[0])
            _HAPPENED.reset(tokens[1])
        if not is_search:  # a search tells itself where it could not look
            result = explained(result, names, self.upstreams, rule)
        if not asked.ran:
            self.savings.answered(result.text)
        outcome = (result.code or "error") if result.is_error else "ok"
        self.audit.note(**asked.row(profile, outcome))
        if is_search:
            self.upstreams.wake(*self.upstreams.unlisted())
            missing = self.upstreams.missing()
            held = 0 if asked.has_found else self.upstreams.held(rule)
            result = waited_for(result, held, is_empty=not self.box.catalog)
            return noted(result, [n for n in missing if rule is None or rule.admits_server(n)])
        is_bridged = asked.is_bridged(profile)
        return marked(result, tool=str(asked.ran.get("tool", "")) if is_bridged else "")

    @contextmanager
    def reachable(self, context: Context) -> Generator[None]:
        """Let the servers that are asked meanwhile talk back to this client."""
        front = Front(context)
        front.state = continued(front.state)
        token = CURRENT.set(front)
        try:
            yield
        finally:
            CURRENT.reset(token)

    def admits_server(self, server: str) -> bool:
        """Whether the caller's policies let it reach a server at all."""
        rule = rule_for(principal_of(), self.setup.settings.policies)
        return rule is None or rule.admits_server(server)

    # Inside

    def _who(self, context: Context) -> Who:
        caller = who(context, fixed=self._session)
        return under(caller, self._rule(caller))

    async def _handle(self, caller: Who) -> Handle:
        await self.started()
        known = self._handles.get(caller.session)
        if known is not None:
            return known
        allow = self._rule(caller)
        handle = await self.box.session(
            caller.session,
            allow=allow,
            approver=ask_user,
            profile=self.box.profile if caller.is_kept else self._passing(allow),
        )
        if caller.is_kept:
            self._handles.put(caller.session, handle)
        return handle

    def _passing(self, allow: Rule | None) -> Profile:
        """How to serve who is not known again: no tool joins its list, so it gets a way to call.

        Where all tools are in the list anyway, nothing has to join it.
        """
        profile = self.box.profile
        is_dynamic = profile.surface != "dispatch" and profile.tool_for("call") is not None
        if not is_dynamic or is_small(profile.policy, self.box.catalog, allow):
            return profile
        return replace(profile, surface="dispatch")

    def _original(self, name: str) -> types.Tool | None:
        tool = self.box.catalog.get(name)
        return self.upstreams.definition(tool) if tool is not None else None

    def _rule(self, caller: Who) -> Rule | None:
        return rule_for(caller.principal, self.setup.settings.policies)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _hear(self, event: Event) -> None:
        happened = _HAPPENED.get()
        if happened is not None:
            happened.append(event)
        if event.kind == "tool_discovery_result":
            found = (self.box.catalog.get(n) for n in event.facts.get("names", ()))
            self._rousing.found({t.server for t in found if t is not None})
        if event.kind == "catalog_changed" and self._starting is not None:
            self._spawn(self._announce_all())
        self.meters(event)
        self._listener(event)
