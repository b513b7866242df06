"""The gateway itself: one toolbox over all servers, and a conversation for every client."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import mcp_types as types
from fastmcp.server.context import Context

from ..catalog.result import Content, Result
from ..catalog.sources.mcp.exchange import CURRENT
from ..catalog.sources.mcp.listing import Listings
from ..events import Event, Sink, ignore
from ..offload.shelf import Shelf
from ..store.opening import open_store
from ..tokens import default_counter
from ..toolbox.approval import Answer, Approval, Caution, careful, trusting, wary
from ..toolbox.box import Toolbox
from ..toolbox.handle import Handle
from .audit import Audit, shape
from .front import Front
from .health import Meters, report
from .parking import PARKED, Parked, Parking
from .pins import Pins
from .policies import rule_for
from .savings import Savings
from .sessions import Who, who
from .settings import audit_path
from .setup import Setup
from .stores import Divided
from .upstreams import Upstreams

_MOST_HANDLES = 2_000
_UPSTREAM = "upstream:"
_CAUTIONS: dict[str, Caution] = {"never": trusting, "destructive": careful, "unknown": wary}
_HAPPENED: ContextVar[list[Event] | None] = ContextVar("happened", default=None)


class Gateway:
    """Answers every client out of one toolbox, each in its own conversation."""

    def __init__(self, setup: Setup, *, sink: Sink = ignore, session: str = "") -> None:
        self.setup = setup
        self._listener = sink
        self._session = session
        profile, options, config = setup.profile, setup.options, setup.config
        shelf = Shelf(config.state_folder / "outputs") if options.large_outputs else None
        self.pins = Pins(config.state_folder / "pins")
        self.upstreams = Upstreams(
            listings=Listings(config.cache_folder / "listings"),
            pins=self.pins,
            sink=self._hear,
            reserved=setup.reserved,
            trusts_first=not options.require_approval,
        )
        self.box = Toolbox(
            self.upstreams.begin(setup.document.servers),
            profile=profile,
            config=setup.toolbox_config,
            store=Divided(open_store(config)),
            sink=self._hear,
            caution=_CAUTIONS[options.confirm],
            offload=shelf,
            offers=(shelf,) if shelf else (),
        )
        self.meters = Meters()
        self.savings = Savings(config.state_folder / "savings.json", default_counter())
        self.audit = Audit(audit_path(options, config.state_folder))
        self._parking = Parking()
        self._handles: OrderedDict[str, Handle] = OrderedDict()
        self._listings: set[str] = set()
        self._levels: dict[str, types.LoggingLevel] = {}
        self._shown: dict[str, tuple[str, ...]] = {}
        self._starting: asyncio.Task[Any] | None = None
        self._complaint = ""

    # Life

    async def start(self) -> None:
        """Open the toolbox in the background; what is known already is searched at once."""
        self.upstreams.attach(self.box)
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        await self.box.__aenter__()
        self.upstreams.wake()

    async def started(self) -> None:
        """Wait until every server is listed, or the time for that is over."""
        if self._starting is not None and not self._starting.done():
            await asyncio.shield(self._starting)

    async def close(self) -> None:
        """Stop everything."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._parking.close()
        await self.box.close()
        self.savings.save()

    async def apply(self, setup: Setup) -> None:
        """Take over an edited configuration without a restart."""
        self.setup = setup
        self._complaint = ""
        self._handles.clear()
        await self.upstreams.apply(setup.document.servers, self.box)

    async def recheck(self) -> None:
        """Follow pins that somebody approved or revoked."""
        await self.upstreams.recheck(self.box)

    def complain(self, about: str) -> None:
        """Remember what is wrong, for whoever asks how the gateway is."""
        self._complaint = about

    # What people ask

    @property
    def is_ready(self) -> bool:
        """Whether searches are answered without waiting for servers."""
        return self._starting is not None and self._starting.done()

    def report(self) -> dict[str, Any]:
        """How the gateway is, as JSON."""
        held = {name: len(s.ledger.held) for name, s in self.upstreams.sources.items()}
        found = report(
            self.upstreams.states(),
            is_ready=self.is_ready,
            tools=len(self.box.catalog),
            held=held,
        )
        found["tokens_saved"] = self.savings.total
        problems = [self._complaint] if self._complaint else []
        problems += ["The audit log cannot be written."] if self.audit.is_failing else []
        if problems:
            found |= {"status": "degraded", "problems": problems}
        return found

    def metrics(self) -> str:
        """The same in figures."""
        gauges = {"tools": len(self.box.catalog), "tokens_saved": self.savings.total}
        return self.meters.text(self.upstreams.states(), gauges)

    # What clients ask

    async def listed(self, context: Context) -> Sequence[types.Tool]:
        """The tools that a client sees now, the roster with the search tool."""
        caller = self._who(context)
        handle = await self._handle(caller)
        view = handle.view("mcp")
        search = self.box.profile.tool_for("search")
        shown = [types.Tool.model_validate(tool) for tool in view.tools]
        roster = handle.state.roster
        for tool in shown:
            if search is not None and tool.name == search.name and roster:
                tool.description = f"{tool.description}\n\nWhat there is:\n{roster}"
        if view.surface != "dispatch":
            self._shown[handle.id] = handle.state.loaded
        await self._saved(caller, shown)
        return shown

    async def _saved(self, caller: Who, shown: Sequence[types.Tool]) -> None:
        if caller.session in self._listings:
            return
        if caller.is_kept:
            self._listings.add(caller.session)
        await self.savings.listed(self.box.catalog, [t.model_dump_json() for t in shown])

    async def instructions(self, context: Context) -> str:
        """What a client is told at the start: how to find tools, and what there is."""
        return (await self._handle(self._who(context))).view("mcp").instructions

    def set_level(self, context: Context, level: types.LoggingLevel) -> None:
        """From which level on a client wants to hear of log messages."""
        self._levels[self._who(context).session] = level

    async def call(self, context: Context, name: str, arguments: dict[str, Any]) -> Result:
        """The answer to a client's call."""
        caller = self._who(context)
        handle = await self._handle(caller)
        front = Front(context, level=self._levels.get(caller.session, "info"))
        if not front.is_stateless:
            result = await self._answered(caller, handle, front, name, arguments)
            await self._announce(context, handle)
            return result
        front = Parked(context)
        state = front.state or ""
        if state.startswith(PARKED):
            return await self._parking.resume(state.removeprefix(PARKED), caller.owner, front)
        if state.startswith(_UPSTREAM):
            front.state = state.removeprefix(_UPSTREAM) or None
        work = self._answered(caller, handle, front, name, arguments)
        return await self._parking.run(front, caller.owner, work)

    async def _announce(self, context: Context, handle: Handle) -> None:
        """Tell a client whose list of tools is not what it was shown."""
        shown = self._shown.get(handle.id)
        if shown is not None and shown != handle.state.loaded:
            self._shown[handle.id] = handle.state.loaded
            await context.send_notification(types.ToolListChangedNotification())

    async def _answered(
        self, caller: Who, handle: Handle, front: Front, name: str, arguments: dict[str, Any]
    ) -> Result:
        happened: list[Event] = []
        tokens = (CURRENT.set(front), _HAPPENED.set(happened))
        started = time.perf_counter()
        try:
            result = await handle.call(name, arguments)
        except asyncio.CancelledError:
            self._note(caller, name, arguments, happened, "cancelled", started)
            raise
        finally:
            CURRENT.reset(tokens[0])
            _HAPPENED.reset(tokens[1])
        if not any(e.kind == "tool_call" for e in happened):
            self.savings.answered(result.text)
        outcome = (result.code or "error") if result.is_error else "ok"
        self._note(caller, name, arguments, happened, outcome, started)
        search = self.box.profile.tool_for("search")
        if search is not None and name == search.name:
            return _with_note(result, self.upstreams.unlisted())
        return _marked(result)

    # Inside

    def _who(self, context: Context) -> Who:
        return who(context, fixed=self._session)

    async def _handle(self, caller: Who) -> Handle:
        await self.started()
        known = self._handles.get(caller.session)
        if known is not None:
            self._handles.move_to_end(caller.session)
            return known
        allow = rule_for(caller.principal, self.setup.settings.policies)
        handle = await self.box.session(caller.session, allow=allow, approver=_ask)
        if caller.is_kept:
            self._handles[caller.session] = handle
            if len(self._handles) > _MOST_HANDLES:
                self._handles.popitem(last=False)
        return handle

    def _hear(self, event: Event) -> None:
        happened = _HAPPENED.get()
        if happened is not None:
            happened.append(event)
        if event.kind == "tool_discovery_result":
            found = (self.box.catalog.get(n) for n in event.facts.get("names", ()))
            self.upstreams.wake(*{t.server for t in found if t is not None}, "")
        self.meters(event)
        self._listener(event)

    def _note(
        self,
        caller: Who,
        name: str,
        arguments: dict[str, Any],
        happened: Sequence[Event],
        outcome: str,
        started: float,
    ) -> None:
        ran = [e for e in happened if e.kind == "tool_call"]
        inner: Mapping[str, Any] = ran[-1].facts if ran else {}
        bridge = self.box.profile.tool_for("call")
        given: Any = arguments
        if bridge is not None and name == bridge.name:
            given = arguments.get("arguments")
            name = str(inner.get("tool") or arguments.get("name") or name)
        self.audit.note(
            principal=caller.principal or "anonymous",
            session=caller.session[:12],
            tool=str(inner.get("tool") or name),
            server=inner.get("server", ""),
            arguments=shape(given),
            outcome=outcome,
            took_ms=round((time.perf_counter() - started) * 1_000, 1),
        )


async def _ask(approval: Approval) -> Answer:
    """Ask the user through the client that called."""
    front = CURRENT.get()
    if front is None:
        return Answer(is_approved=False, reason="nobody can be asked")
    said = await front.answer(
        types.ElicitRequest(
            params=types.ElicitRequestFormParams(
                message=f"Run {approval.tool.name}? {approval.why}.",
                requested_schema={"type": "object", "properties": {}},
            )
        )
    )
    if isinstance(said, types.ErrorData):
        return Answer(is_approved=False, reason=f"it needs a yes, but {said.message}")
    return Answer(is_approved=isinstance(said, types.ElicitResult) and said.action == "accept")


def _with_note(result: Result, missing: Sequence[str]) -> Result:
    """A search's answer, with the servers that it could not look into."""
    if not missing:
        return result
    note = f"Not searched, still starting or out of reach: {', '.join(missing)}."
    return replace(result, content=(*result.content, Content(text=note)), raw=None)


def _marked(result: Result) -> Result:
    """A server's own question, so marked that its answer finds the way back."""
    raw = result.raw
    if not isinstance(raw, types.InputRequiredResult):
        return result
    state = f"{_UPSTREAM}{raw.request_state or ''}"
    return Result(raw=raw.model_copy(update={"request_state": state}))
