"""Call executor: resolves, checks, approves and runs one call; failures become results."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ..catalog.failure import is_passed, pass_exceptions
from ..catalog.principals import bind_principal
from ..catalog.questions import Answer, bind_user
from ..catalog.result import Result
from ..catalog.tool import Tool
from ..disclosure.discovery import InnerCall, role_of
from ..disclosure.feature import Feature
from ..disclosure.resolution import Resolution, resolve_call
from ..disclosure.scope import is_allowed
from ..disclosure.session_state import SessionState
from ..errors import (
    CallRefusedError,
    InvalidArgumentsError,
    NotLoadedError,
    SchemaError,
    ToolscoutError,
    UnknownToolError,
)
from ..events import (
    ApprovalEvent,
    OffloadEvent,
    ToolCallEvent,
    ToolCallStartEvent,
    ToolNotFoundEvent,
    ToolRefusedEvent,
    current_id,
    new_id,
    part_of,
)
from .arguments import (
    fit_arguments,
    read_arguments,
    read_tool_name,
    signature_hint,
)
from .call_context import CallContext
from .call_record import (
    INLINE,
    CallAttempt,
    CallOptions,
    CallQueue,
    CallRecord,
    PendingQuestion,
)
from .discovery_calls import newly_loaded, run_discovery
from .feature_session import FeatureSession
from .features import FeatureFailure
from .pending_approvals import PendingApproval, pending_result, unknown_approval
from .permissions import (
    ApprovalDecision,
    ApprovalRequest,
    approval_reason,
    approval_refusal,
)
from .tool_runner import fill_empty_result, run_tool

_log = logging.getLogger(__name__)
# `call_tool` may name a search tool or `call_tool` itself, as models sometimes do. One level of
# that is answered; below it the name is resolved in the catalog, which ends the recursion.
_MAX_DEPTH = 2
_LOST_CALL = Result.error(
    "The tool did not finish: it waited for an answer when its process ended. It may or may not "
    "have had an effect; check before trying again.",
    code="cancelled",
)
# A feature may call tools, also those of features, and so itself again and again.
_MAX_FEATURE_DEPTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CallExecutor(CallContext):
    """Runs the calls of one conversation; any number of them in parallel."""

    async def call(
        self, name: str, arguments: object, *, options: CallOptions = INLINE
    ) -> CallRecord:
        """Run a call and record what happened; every failure becomes an error result."""
        attempt = CallAttempt(name, arguments, options, id=new_id())
        if not options.defers:
            return await self._record_call(attempt)
        queue = CallQueue(answer_at_end=None)
        return await self.questions.run(self._record_call(replace(attempt, queue=queue)), queue)

    async def _record_call(self, attempt: CallAttempt) -> CallRecord:
        started = time.perf_counter()
        # The event that says how the call ended gets this id; all its other events are parts of it.
        with part_of(attempt.id), pass_exceptions(attempt.options.passes):
            record = await self._run_call(attempt)
        return replace(record, id=attempt.id, took_ms=_ms_since(started))

    async def run_approved(self, approval: PendingApproval | str) -> CallRecord:
        """Run the call that an approval was asked for, exactly as it was then."""
        try:
            found = await self.approvals.find(approval)
        except ToolscoutError as error:  # the store cannot be read
            return self._emit_refusal(CallAttempt("", {}, INLINE), error)
        feature = self._find_waiting(found.id)
        options = CallOptions(
            approval=found.id, is_resumed=True, defers=True, keeps_full=feature is not None
        )
        record = await self.call(found.tool, found.arguments, options=options)
        return await self._resume_feature(feature, found.id, record) if feature else record

    async def reply(self, question: PendingQuestion | str, answer: Answer) -> CallRecord:
        """Continue a call with the answer to its question, until it is done or asks again."""
        key = question if isinstance(question, str) else question.id
        record = await self.questions.reply(question, answer)
        is_open = isinstance(record.needs, PendingQuestion) and record.needs.id == key
        feature = None if is_open else self._find_waiting(key)
        if feature is None:
            return record
        if record.result.code == "expired":  # another process made the call, and has ended
            record = replace(record, full=_LOST_CALL)
        return await self._resume_feature(feature, key, record)

    def _find_waiting(self, need: str) -> Feature | None:
        """The feature with a call of this conversation that waits for this approval or answer."""
        state = self.stored.session
        return self.features.find_waiting(state, need, principal=self.principal)

    async def _resume_feature(self, feature: Feature, need: str, record: CallRecord) -> CallRecord:
        """Continue the call of a feature with the result of the call that it waited for."""
        tool = next(t for f, t in self.features.callable_tools.values() if f is feature)
        attempt = CallAttempt(tool.name, {}, CallOptions(defers=True), id=new_id())
        started = time.perf_counter()
        with part_of(attempt.id):
            self._emit_call_start(tool, {})
            session = self.feature_session(attempt.options, feature)
            still = record.needs.id if record.needs else ""
            try:
                work = self._continue(feature, session, need, record.full, still)
                full = await run_tool(tool, work, timeout_seconds=None)
            finally:
                session.end()
            result = await self._offload(attempt.options, tool, full)
            self._emit_call(tool, _ms_since(started), is_error=result.is_error, code=result.code)
        return replace(
            attempt.record(result, full=full, tool=tool, is_run=True),
            id=attempt.id,
            took_ms=_ms_since(started),
            enabled=session.enabled,
            needs=session.needs,
        )

    async def _continue(
        self, feature: Feature, session: FeatureSession, need: str, result: Result, still: str
    ) -> Result:
        continued = await feature.resume(session, need, result, still_needs=still)
        return result if continued is None else continued

    async def refuse(self, approval: PendingApproval | str, reason: str) -> CallRecord:
        """Refuse a call that is held for approval, and record that for the model."""
        attempt = CallAttempt("", {}, INLINE)
        try:
            found = await self.approvals.find(approval)
            attempt = CallAttempt(found.tool, found.arguments, INLINE)
            await self.approvals.refuse(found)
        except ToolscoutError as error:
            return attempt.record(Result.error(str(error), code=error.code))
        refusal = approval_refusal(found.tool, ApprovalDecision(is_approved=False, reason=reason))
        record = attempt.record(Result.error(str(refusal), code=refusal.code), tool=found.tool)
        feature = self._find_waiting(found.id)
        return await self._resume_feature(feature, found.id, record) if feature else record

    def feature_session(
        self, options: CallOptions = INLINE, feature: Feature | None = None
    ) -> FeatureSession:
        """This conversation for a feature, with the permissions of its caller and no others."""
        depth = options.feature_depth + 1
        # An approval is for one call, and that is the one the feature was called by.
        # A feature reads no view, so what it calls need not be in one.
        inner = replace(
            options, approval="", is_resumed=False, feature_depth=depth, loaded_now=frozenset()
        )
        section = self.features.section_of(feature) if feature is not None else ""

        def run(name: str, arguments: object, *, keeps_full: bool = False) -> Awaitable[CallRecord]:
            return self.call(name, arguments, options=replace(inner, keeps_full=keeps_full))

        return FeatureSession(self, run, section)

    async def _run_call(self, attempt: CallAttempt) -> CallRecord:
        try:
            self.live.check_open()
            _check_depth(attempt)
            return await self._dispatch(replace(attempt, name=read_tool_name(attempt.name)))
        except ToolscoutError as error:
            if is_passed(error):
                raise
            return self._emit_refusal(attempt, error)
        except Exception as error:
            if is_passed(error):
                raise
            _log.exception("A call of %s failed inside Toolscout.", attempt.name)
            return self._emit_refusal(attempt, ToolscoutError(f"{attempt.name} failed: {error!r}."))

    async def _dispatch(self, attempt: CallAttempt, *, depth: int = 0) -> CallRecord:
        """Look for the tool among discovery tools, then features, then the catalog."""
        name = attempt.name
        if attempt.options.is_resumed:
            return await self._run_resumed(attempt)
        role = role_of(self.profile, name, self.live.catalog)
        metatool = (self.profile.tool_for(role) or self.profile.dispatcher()) if role else None
        if metatool is not None and depth < _MAX_DEPTH:
            arguments = read_arguments(metatool.tool, attempt.arguments)
            return await self._discover(attempt, arguments, depth=depth)
        if name in self.features.callable_tools:
            feature, tool = self.features.callable_tools[name]
            arguments = read_arguments(tool, attempt.arguments)
            return await self._run_feature_tool(attempt, feature, tool, arguments)
        is_from_feature = attempt.options.feature_depth > 0
        loaded_now = attempt.options.loaded_now
        resolution, enabled = await self._resolve(
            name, is_inner=depth > 0, is_from_feature=is_from_feature
        )
        if resolution.tool is None:
            record = self._emit_not_found(attempt, resolution)
        elif self.profile.runs_loaded_next_step and resolution.tool.name in loaded_now:
            raise _called_too_early(resolution.tool)
        else:
            arguments = read_arguments(resolution.tool, attempt.arguments)
            record = await self._run_catalog_tool(attempt, resolution.tool, arguments)
        return replace(record, enabled=enabled)

    async def _run_resumed(self, attempt: CallAttempt) -> CallRecord:
        """Run an approved call; it was resolved when the approval was asked for."""
        if not attempt.name:
            raise unknown_approval(attempt.options.approval)
        tool = self.live.catalog.get(attempt.name)
        # The permissions of the caller are checked again: they may have changed since.
        if tool is None or not is_allowed(tool, self.allow):
            gone = UnknownToolError(f"{attempt.name} no longer exists, so it was not run.")
            raise self.explain(attempt.name) or gone
        return await self._run_catalog_tool(attempt, tool, read_arguments(tool, attempt.arguments))

    # Discovery

    async def _discover(
        self, attempt: CallAttempt, arguments: Mapping[str, Any], *, depth: int
    ) -> CallRecord:
        name = attempt.name
        reply = await run_discovery(self, name, arguments)
        outcome = reply.outcome
        if outcome.call is not None:
            return await self._call_inner(attempt, outcome.call, depth=depth + 1)
        role = role_of(self.profile, name, self.live.catalog)
        return attempt.record(
            fill_empty_result(name, outcome.result),
            tool="" if role == "call" else name,
            enabled=reply.enabled,
            found=tuple(t.name for t in outcome.found),
            is_discovery=role != "call",
        )

    async def _call_inner(self, attempt: CallAttempt, call: InnerCall, *, depth: int) -> CallRecord:
        """Run the tool that `call_tool` names; errors are reported for that tool."""
        inner = replace(attempt, name=call.name, arguments=call.arguments)
        try:
            return await self._dispatch(inner, depth=depth)
        except ToolscoutError as error:
            if is_passed(error):
                raise
            return self._emit_refusal(inner, error)

    # Running

    async def _resolve(
        self, name: str, *, is_inner: bool, is_from_feature: bool
    ) -> tuple[Resolution, tuple[str, ...]]:
        """The tool that a name means, and the tools that looking it up has loaded."""
        # A profile with `call_tool` never puts the tools it runs into view, so they do not count as
        # unloaded when they are called that way. A feature reads no view at all.
        profile = self.profile
        if is_from_feature or (is_inner and profile.tool_for("call")):
            profile = replace(profile, on_unloaded="execute")

        def move(
            session: SessionState,
        ) -> tuple[SessionState, tuple[Resolution, tuple[str, ...]]]:
            resolution = resolve_call(
                profile,
                name,
                session=session,
                engine=self.live.engine,
                catalog=self.live.catalog,
                allow=self.allow,
            )
            return resolution.session, (resolution, newly_loaded(session, resolution.session))

        return await self.apply_move(move, is_quick=True)

    async def _run_catalog_tool(
        self, attempt: CallAttempt, tool: Tool, arguments: Mapping[str, Any]
    ) -> CallRecord:
        valid = self._validate(tool, arguments)
        self.live.check_content(tool, valid, self.allow)
        # After validation, so that the user approves exactly what will run.
        needs = await self._require_approval(attempt.options, tool, valid)
        if needs is not None:
            return attempt.record(pending_result(needs), tool=tool, needs=needs)
        started = time.perf_counter()
        self._emit_call_start(tool, valid)
        work = self.live.source_of(tool).call(tool, valid)
        user = self.questions.user_for(attempt, tool)
        try:
            with bind_user(user), bind_principal(self.principal):
                result = await run_tool(tool, work, timeout_seconds=self.timeout_seconds)
        except BaseException as error:  # cancelled, or an exception that is passed on
            code = "cancelled" if isinstance(error, asyncio.CancelledError) else "interrupted"
            self._emit_call(tool, _ms_since(started), is_error=True, code=code)
            raise
        took = _ms_since(started, without=user.waited_seconds if user else 0.0)
        fitting = await self._offload(attempt.options, tool, result)
        # Memory gets the full result: the preview of a large one lacks most of its data.
        await self._remember(tool, result)
        self._emit_call(tool, took, is_error=result.is_error, code=result.code)
        return attempt.record(fitting, full=result, tool=tool, is_run=True)

    async def _run_feature_tool(
        self, attempt: CallAttempt, feature: Feature, tool: Tool, arguments: Mapping[str, Any]
    ) -> CallRecord:
        started = time.perf_counter()
        valid = arguments
        with suppress(InvalidArgumentsError, SchemaError):
            # Invalid arguments are passed on: the feature gives the better error message.
            valid = fit_arguments(arguments, tool.parameters)
        self._emit_call_start(tool, valid)
        session = self.feature_session(attempt.options, feature)
        limit = None if feature.runs_programs else self.timeout_seconds
        try:
            work = feature.call(session, tool, valid)
            result = await run_tool(tool, work, timeout_seconds=limit)
        finally:
            session.end()
        self._emit_call(tool, _ms_since(started), is_error=result.is_error, code=result.code)
        full = result
        if feature.runs_programs:
            result = await self._offload(attempt.options, tool, result)
        record = attempt.record(result, full=full, tool=tool, is_run=True)
        return replace(record, enabled=session.enabled, needs=session.needs)

    def _validate(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return fit_arguments(arguments, tool.parameters)
        except InvalidArgumentsError as error:
            raise InvalidArgumentsError(
                f"The arguments do not fit {tool.name}: {error.message}.",
                hint=signature_hint(tool),
            ) from error
        except SchemaError as error:
            raise SchemaError(
                f"{tool.name} cannot be run. {error.message}", hint=error.hint
            ) from error

    async def _require_approval(
        self, options: CallOptions, tool: Tool, arguments: Mapping[str, Any]
    ) -> PendingApproval | None:
        """The approval that the call needs before it may run; None if it needs none. Raises if it
        may not run."""
        verdict = self.approval_gate.approval_policy(tool)
        # The policy comes first: it may have become stricter since the approval was asked for.
        if options.approval and verdict != "refuse":
            await self.approvals.use(options.approval, tool, arguments)
            return None
        if verdict == "run":
            return None
        why = approval_reason(tool)
        if verdict == "ask" and options.defers:
            return await self.approvals.ask_later(tool, arguments, why)
        session = self.stored.session.id
        approval = ApprovalRequest(tool=tool, arguments=arguments, why=why, session=session)
        answer = await self.approval_gate.decide(approval, verdict)
        self.emit(ApprovalEvent(tool=tool.name, approved=answer.is_approved, why=why))
        if not answer.is_approved:
            raise approval_refusal(tool.name, answer)
        return None

    async def _offload(self, options: CallOptions, tool: Tool, result: Result) -> Result:
        if options.keeps_full:
            return result
        session = self.feature_session(options)
        fitting, failures = await self.features.keep(session, tool, result)
        session.end()
        self.emit_failures(failures, tool=tool.name)
        if fitting is not result:
            before, after = len(result.text), len(fitting.text)
            self.emit(OffloadEvent(tool=tool.name, before=before, after=after))
        return fitting

    async def _remember(self, tool: Tool, result: Result) -> None:
        def move(state: SessionState) -> tuple[SessionState, tuple[FeatureFailure, ...]]:
            state = state.record_uses(tool.name)
            return self.features.observe(state, tool, result, now=self.clock())

        failures = await asyncio.to_thread(self.stored.apply, move)
        self.emit_failures(failures, tool=tool.name)

    # Events

    def _emit_not_found(self, attempt: CallAttempt, resolution: Resolution) -> CallRecord:
        refusal, name = resolution.refusal, attempt.name
        assert refusal is not None
        reason = self.explain(name)
        if reason is not None:
            return self._emit_refusal(attempt, reason)
        arguments = attempt.values()
        if refusal.code == "unknown_tool":
            self.emit(ToolNotFoundEvent(tool=name, arguments=arguments))
        else:
            self.emit(ToolRefusedEvent(tool=name, arguments=arguments))
        return attempt.record(refusal)

    def _emit_refusal(self, attempt: CallAttempt, error: ToolscoutError) -> CallRecord:
        arguments = attempt.values()
        self.emit(
            ToolRefusedEvent(
                tool=attempt.name, code=error.code, why=error.message, arguments=arguments
            )
        )
        return attempt.record(Result.error(str(error), code=error.code))

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


def _check_depth(attempt: CallAttempt) -> None:
    depth = attempt.options.feature_depth
    if depth > _MAX_FEATURE_DEPTH:
        raise CallRefusedError(
            f"{attempt.name} was not run: features have called one another {depth} times in a row,"
            f" and at most {_MAX_FEATURE_DEPTH} are allowed.",
            hint="Answer with the results so far, or call the tool directly.",
        )


def _called_too_early(tool: Tool) -> NotLoadedError:
    return NotLoadedError(
        f"{tool.name} was loaded in this turn, so it did not run.",
        hint="It is callable on the next turn: call it again then, with arguments that fit its"
        " schema.",
    )


def _ms_since(started: float, *, without: float = 0.0) -> float:
    return round((time.perf_counter() - started - without) * 1_000, 3)
