"""Call executor: resolves, checks, approves and runs one call; failures become results."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ..catalog.failure import TOOL_FAILURES, failure_result
from ..catalog.result import Content, Result
from ..catalog.tool import Tool
from ..disclosure.discovery import InnerCall, Outcome, discover, role_of
from ..disclosure.profile import Profile
from ..disclosure.resolution import Resolution, resolve_call
from ..disclosure.session_state import SessionState
from ..errors import CallError, InvalidArguments, SchemaError, ToolscoutError
from ..events import (
    ApprovalEvent,
    DiscoveryResultEvent,
    DiscoveryStartEvent,
    Event,
    FeatureFailureEvent,
    OffloadEvent,
    SearchEvent,
    Sink,
    ToolCallEvent,
    ToolCallStartEvent,
    ToolNotFoundEvent,
    ToolRefusedEvent,
    ToolsEnabledEvent,
    current_id,
    current_parent,
    ignore,
    new_id,
    part_of,
    stamp,
)
from ..search.engine import Allow
from ..tokens import default_counter
from .arguments import fit_arguments, read_arguments, read_tool_name, signature_hint
from .features import MEMORY, RULES, Features, ToolFeature
from .live_catalog import LiveCatalog
from .permissions import ApprovalGate, ApprovalRequest, approval_reason, approval_refusal
from .persistence import Move, StoredSession, T


async def run_tool(tool: Tool, work: Awaitable[Result], *, timeout_seconds: float) -> Result:
    """Wait for a tool; failures, time-outs and empty answers become results that say so."""
    try:
        async with asyncio.timeout(timeout_seconds):
            result = Result.of(await work)
    except TimeoutError:
        return Result.error(
            f"{tool.name} gave no answer within {timeout_seconds:g} seconds; what it began may"
            " still take effect. Check before you try again.",
            code="timeout",
        )
    except ToolscoutError as error:
        return Result.error(str(error), code=error.code)
    except TOOL_FAILURES as error:
        return failure_result(tool.name, error)
    if result.is_error and not result.code:
        result = replace(result, code=CallError.code)
    return fill_empty_result(tool.name, result)


def fill_empty_result(name: str, result: Result) -> Result:
    """The result; one without content gets a sentence, because models misread an empty answer."""
    if result.structured or any(c.text or c.data or c.uri for c in result.content):
        return result
    message = "failed without saying why" if result.is_error else "ran and returned nothing"
    return Result(
        content=(Content(text=f"{name} {message}."),),
        is_error=result.is_error,
        code=result.code,
        raw=result.raw,
    )


_log = logging.getLogger(__name__)
# `call_tool` may name a search tool or `call_tool` itself, as models sometimes do. One level of
# that is answered; below it the name is resolved in the catalog, which ends the recursion.
_MAX_DEPTH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CallExecutor:
    """Runs the calls of one conversation; any number of them in parallel."""

    stored: StoredSession
    live: LiveCatalog
    profile: Profile
    features: Features
    allow: Allow | None
    approval_gate: ApprovalGate
    sink: Sink
    timeout_seconds: float
    clock: Callable[[], float]
    principal: str = ""
    client: str = ""

    async def call(self, name: str, arguments: object) -> Result:
        """Run a call and return its result; whatever goes wrong becomes an error result."""
        # The event that says how the call ended gets this id; all its other events are parts of it.
        with part_of(new_id()):
            return await self._run_call(name, arguments)

    def emit(self, event: Event) -> None:
        """Send an event of this conversation to the sink, with its envelope filled in."""
        if self.sink is ignore:  # nobody listens, so nothing is spent
            return
        self.sink(
            stamp(
                event,
                session=self.stored.session.id,
                principal=self.principal,
                client=self.client,
                parent=current_parent(event.id),
                clock=self.clock,
            )
        )

    async def _run_call(self, name: str, arguments: object) -> Result:
        try:
            return await self._dispatch(read_tool_name(name), arguments)
        except ToolscoutError as error:
            return self._emit_refusal(name, error)
        except Exception as error:  # noqa: BLE001 - a bug here must not end the model loop
            _log.exception("A call of %s failed inside Toolscout.", name)
            return self._emit_refusal(name, ToolscoutError(f"{name} failed: {error!r}."))

    async def _dispatch(self, name: str, arguments: object, *, depth: int = 0) -> Result:
        """Look for the tool among discovery tools, then features, then the catalog."""
        role = role_of(self.profile, name, self.live.catalog)
        metatool = (self.profile.tool_for(role) or self.profile.dispatcher()) if role else None
        if metatool is not None and depth < _MAX_DEPTH:
            return await self._discover(name, read_arguments(metatool.tool, arguments), depth=depth)
        if name in self.features.callable_tools:
            feature, tool = self.features.callable_tools[name]
            return await self._run_feature_tool(feature, tool, read_arguments(tool, arguments))
        resolution = await self._resolve(name, is_inner=depth > 0)
        if resolution.tool is None:
            return self._emit_not_found(name, resolution)
        return await self._run_catalog_tool(
            resolution.tool, read_arguments(resolution.tool, arguments)
        )

    # Discovery

    async def _discover(self, name: str, arguments: Mapping[str, Any], *, depth: int) -> Result:
        self.emit(DiscoveryStartEvent(tool=name, arguments=arguments))
        started = time.perf_counter()
        is_quick = role_of(self.profile, name, self.live.catalog) == "call"
        outcome, rules, failure = await self._apply_move(
            lambda session: self._apply_discovery(session, name, arguments), is_quick=is_quick
        )
        if failure is not None:
            self._emit_feature_failure("rules", name, failure)
        if outcome.call is not None:
            return await self._call_inner(outcome.call, depth=depth + 1)
        if is_quick:  # `call_tool` without a tool that can be run: a refusal, not a search
            refusal = outcome.result
            self.emit(ToolRefusedEvent(tool=name, code=refusal.code, why=refusal.text))
            return fill_empty_result(name, refusal)
        search = next((e for e in outcome.events if isinstance(e, SearchEvent)), None)
        self.emit(
            DiscoveryResultEvent(
                id=current_id(),
                tool=name,
                queries=search.queries if search else (),
                confidence=search.confidence if search else 0.0,
                names=tuple(t.name for t in outcome.found),
                is_error=outcome.result.is_error,
                rules_tokens=default_counter().count(rules) if rules else 0,
                took_ms=_ms_since(started),
            )
        )
        if outcome.loaded:
            self.emit(ToolsEnabledEvent(names=outcome.loaded))
        return fill_empty_result(name, outcome.result)

    async def _call_inner(self, call: InnerCall, *, depth: int) -> Result:
        """Run the tool that `call_tool` names; errors are reported for that tool."""
        try:
            return await self._dispatch(call.name, call.arguments, depth=depth)
        except ToolscoutError as error:
            return self._emit_refusal(call.name, error)

    def _apply_discovery(
        self, session: SessionState, name: str, arguments: Mapping[str, Any]
    ) -> tuple[SessionState, tuple[Outcome, str, Exception | None]]:
        rules = self.features.rules
        # Local to the move: it runs again on newer state if another writer saved first.
        section, delivered = session.sections.get(RULES), ""
        failure: Exception | None = None

        def deliver_rules(tools: Sequence[Tool]) -> str:
            nonlocal section, delivered, failure
            if rules is None:
                return ""
            try:
                delivered, section = rules.deliver(section, tools)
            except Exception as error:  # noqa: BLE001 - a failing feature must not lose the result
                failure = error
            return delivered

        outcome = discover(
            self.profile,
            name,
            arguments,
            session=session,
            engine=self.live.engine,
            catalog=self.live.catalog,
            allow=self.allow,
            rules=deliver_rules,
        )
        after = outcome.session
        if section is not None:
            after = after.with_section(RULES, section)
        return after, (outcome, delivered, failure)

    # Running

    async def _resolve(self, name: str, *, is_inner: bool) -> Resolution:
        # A profile with `call_tool` never puts the tools it runs into view, so they do not count as
        # unloaded when they are called that way.
        profile = self.profile
        if is_inner and profile.tool_for("call"):
            profile = replace(profile, on_unloaded="execute")

        def move(session: SessionState) -> tuple[SessionState, Resolution]:
            resolution = resolve_call(
                profile,
                name,
                session=session,
                engine=self.live.engine,
                catalog=self.live.catalog,
                allow=self.allow,
            )
            return resolution.session, resolution

        return await self._apply_move(move, is_quick=True)

    async def _apply_move(self, move: Move[T], *, is_quick: bool) -> T:
        """Apply a move in a thread, or right here if it is quick and changes nothing."""
        # A thread costs more than such a move, and only a change has to wait for the store.
        read = self.stored.try_read(move) if is_quick else None
        return read[0] if read else await asyncio.to_thread(self.stored.apply, move)

    async def _run_catalog_tool(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        valid = self._validate(tool, arguments)
        # After validation, so that the user approves exactly what will run.
        await self._require_approval(tool, valid)
        started = time.perf_counter()
        self._emit_call_start(tool, valid)
        source = self.live.source_of(tool)
        work = source.call(tool, valid)
        try:
            result = await run_tool(tool, work, timeout_seconds=self.timeout_seconds)
        except asyncio.CancelledError:
            self._emit_call(tool, _ms_since(started), is_error=True, code="cancelled")
            raise
        took = _ms_since(started)
        fitting = await self._offload(tool, result)
        # Memory gets the full result: the preview of a large one lacks most of its data.
        await self._remember(tool, result)
        self._emit_call(tool, took, is_error=result.is_error, code=result.code)
        return fitting

    async def _run_feature_tool(
        self, feature: ToolFeature, tool: Tool, arguments: Mapping[str, Any]
    ) -> Result:
        started = time.perf_counter()
        valid = arguments
        with suppress(InvalidArguments, SchemaError):
            # Invalid arguments are passed on: the feature words the better error message.
            valid = fit_arguments(arguments, tool.parameters)
        self._emit_call_start(tool, valid)
        work = feature.call(self.stored.session.id, tool, valid)
        result = await run_tool(tool, work, timeout_seconds=self.timeout_seconds)
        self._emit_call(tool, _ms_since(started), is_error=result.is_error, code=result.code)
        return result

    def _validate(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return fit_arguments(arguments, tool.parameters)
        except InvalidArguments as error:
            raise InvalidArguments(
                f"The arguments do not fit {tool.name}: {error.message}.",
                hint=signature_hint(tool),
            ) from error
        except SchemaError as error:
            raise SchemaError(
                f"{tool.name} cannot be run. {error.message}", hint=error.hint
            ) from error

    async def _require_approval(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        verdict = self.approval_gate.caution(tool)
        if verdict == "run":
            return
        why = approval_reason(tool)
        session = self.stored.session.id
        approval = ApprovalRequest(tool=tool, arguments=arguments, why=why, session=session)
        answer = await self.approval_gate.decide(approval, verdict)
        self.emit(ApprovalEvent(tool=tool.name, approved=answer.is_approved, why=why))
        if not answer.is_approved:
            raise approval_refusal(tool, answer)

    async def _offload(self, tool: Tool, result: Result) -> Result:
        offload = self.features.offload
        if offload is None:
            return result
        try:
            fitting = await offload.keep(self.stored.session.id, tool, result)
        except Exception as error:  # noqa: BLE001 - a failing feature must not lose the result
            self._emit_feature_failure("offload", tool.name, error)
            return result
        if fitting is not result:
            before, after = len(result.text), len(fitting.text)
            self.emit(OffloadEvent(tool=tool.name, before=before, after=after))
        return fitting

    async def _remember(self, tool: Tool, result: Result) -> None:
        memory = self.features.memory

        def move(session: SessionState) -> tuple[SessionState, Exception | None]:
            session = session.record_uses(tool.name)
            if memory is None:
                return session, None
            before = session.sections.get(MEMORY)
            try:
                section = memory.observe(before, tool, result, now=self.clock())
            except Exception as error:  # noqa: BLE001 - a failing feature must not lose the result
                return session, error
            return session.with_section(MEMORY, section), None

        failure = await asyncio.to_thread(self.stored.apply, move)
        if failure is not None:
            self._emit_feature_failure("memory", tool.name, failure)

    # Events

    def _emit_not_found(self, name: str, resolution: Resolution) -> Result:
        refusal = resolution.refusal
        assert refusal is not None
        is_unknown = refusal.code == "unknown_tool"
        self.emit(ToolNotFoundEvent(tool=name) if is_unknown else ToolRefusedEvent(tool=name))
        return refusal

    def _emit_refusal(self, name: str, error: ToolscoutError) -> Result:
        self.emit(ToolRefusedEvent(tool=name, code=error.code, why=error.message))
        return Result.error(str(error), code=error.code)

    def _emit_call_start(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        self.emit(ToolCallStartEvent(tool=tool.name, server=tool.server, arguments=arguments))

    def _emit_call(self, tool: Tool, took_ms: float, *, is_error: bool, code: str) -> None:
        self.emit(
            ToolCallEvent(
                id=current_id(),
                tool=tool.name,
                server=tool.server,
                is_error=is_error,
                code=code,
                took_ms=took_ms,
            )
        )

    def _emit_feature_failure(self, feature: str, tool: str, error: Exception) -> None:
        self.emit(FeatureFailureEvent(feature=feature, tool=tool, why=repr(error)))


def _ms_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1_000, 3)
