"""Agent loop: builds the view, asks the model, runs its calls and repeats until it stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TypedDict

from ..catalog.result import Result
from ..catalog.sanitization import replace_surrogates
from ..disclosure.providers import get_provider
from ..disclosure.target import Target
from ..disclosure.view import View
from ..errors import ModelError, ToolscoutError
from ..events import (
    CompactionEvent,
    ModelCallEvent,
    ModelFailureEvent,
    ModelRetryEvent,
    RepeatWarningEvent,
    RunStartEvent,
    RunSummaryEvent,
    StepStartEvent,
    new_id,
    part_of,
)
from ..models.deltas import Delta, Reply, RetryDelta, TextDelta, ThoughtDelta, Usage, collect
from ..models.messages import (
    CONVERSATION_SECTION,
    Call,
    CallResult,
    Message,
    Part,
    append_messages,
    build_call_result,
    load_history,
    notice_message,
    results_message,
    user_message,
)
from ..models.model import AUTO, Model, ModelRequest
from ..toolbox.call_record import CallRecord
from ..toolbox.repeats import STOPPED_AT, RepeatTracker, repeat_warning
from ..toolbox.session import Session
from ..toolbox.step import Step, StepHooks, StepLimits
from ..toolbox.toolbox import Toolbox
from .compaction import Compactor, restore_tool_references
from .hooks import Hooks
from .steps import Run, RunLimits, RunProgress, RunStep
from .stop_conditions import Halt, StopCondition, first_halt
from .stream_events import (
    CallEndEvent,
    CallStartEvent,
    LoadEvent,
    RetryEvent,
    RunEndEvent,
    StepEndEvent,
    StreamEvent,
    TextEvent,
    ThoughtEvent,
)

ANSWERED = "answer"


class _ModelFacts(TypedDict):
    model: str
    provider: str
    profile: str
    tool_search: bool


class _TokenCounts(TypedDict):
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    written_tokens: int


_MAX_ECHO_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """The settings that all runs of an agent share."""

    box: Toolbox
    model: Model
    instructions: str
    stops: tuple[StopCondition, ...]
    hooks: Hooks
    limits: RunLimits
    compactor: Compactor
    clock: Callable[[], float]


@dataclass(slots=True, kw_only=True)
class AgentLoop:
    """The state of one run; messages are saved to the session after each step."""

    settings: LoopSettings
    session: Session
    emit: Callable[[StreamEvent], None]
    _messages: tuple[Message, ...] = ()
    _unsaved: list[Message] = field(default_factory=list[Message])
    _steps: list[RunStep] = field(default_factory=list[RunStep])
    _started: float = 0.0

    async def run(self, text: str) -> Run:
        """Run until a stop condition holds; the session is saved even after a failure."""
        run_id = new_id()
        with part_of(run_id):
            return await self._run(text, run_id)

    async def _run(self, text: str, run_id: str) -> Run:
        self._started = self.settings.clock()
        self._messages = load_history(self.session.state.sections.get(CONVERSATION_SECTION))
        self._add_memory_notice()
        self._add(user_message(text))
        self.session.emit(
            RunStartEvent(id=run_id, messages=len(self._messages), **self._model_facts())
        )
        try:
            halt = await self._run_with_timeout()
        except BaseException as failure:
            code = failure.code if isinstance(failure, ToolscoutError) else type(failure).__name__
            self._emit_end("an error", error=code)
            raise
        finally:
            await self._save()
            await self.session.finish()
        self._emit_end(halt.reason)
        run = self._build_run(halt)
        self._stream(RunEndEvent(run=run))
        return run

    async def _run_with_timeout(self) -> Halt:
        seconds = self.settings.limits.seconds
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._run_until_stopped()
        except TimeoutError:
            # A tool or a hook may raise TimeoutError too; only the limit of the run ends it.
            if not limit.expired():
                raise
            return Halt(f"a limit of {seconds:g} seconds")

    async def _run_until_stopped(self) -> Halt:
        while True:
            reply = await self._run_step()
            if halt := self._check_halt(reply, self._steps[-1]):
                return halt
            if warning := repeat_warning([step.outcomes for step in self._steps]):
                self.session.emit(RepeatWarningEvent(step=len(self._steps) - 1, why=warning))
                self._add(notice_message(warning))
            await self._save()

    def _check_halt(self, reply: Reply, step: RunStep) -> Halt | None:
        # A paused reply has no calls, but the provider asks to be called again to continue it.
        if not step.outcomes and reply.reason != "paused":
            return Halt(ANSWERED if reply.reason in ("stop", "calls") else reply.reason)
        repeats = RepeatTracker([s.outcomes for s in self._steps])
        count = max((repeats.count_repeats(o.call) for o in step.outcomes), default=0)
        if count >= STOPPED_AT:
            return Halt(f"the same call {count} times")
        return first_halt(self.settings.stops, self._progress)

    async def _run_step(self) -> Reply:
        number = len(self._steps)
        await self._compact()
        model_step = self._open_step()
        view = model_step.view
        await self._restore_references(view)
        request = await self.settings.hooks.run_before_model(
            self._build_request(view), self._progress
        )
        active = tuple(dict.fromkeys(view.names.values()))
        self.session.emit(StepStartEvent(step=number, active=active))
        reply = await self._ask_model(request, number)
        self._add(truncate_arguments(reply.message, self.settings.limits.argument_chars))
        step = RunStep(
            number=number,
            text=reply.message.text,
            active=active,
            usage=reply.usage,
            reason=reply.reason,
        )
        self._steps.append(step)
        if reply.message.calls:
            await self._run_calls(reply.message.calls, model_step)
        self._stream(StepEndEvent(step=self._steps[-1]))
        return reply

    async def _run_calls(self, calls: tuple[Call, ...], step: Step) -> None:
        """Run the calls; each gets a result in the conversation even if the run is cancelled."""
        records = step.records_for(calls)
        try:
            records = await step.answer(calls)
        except BaseException:
            records = step.records_for(calls)
            raise
        finally:
            # Providers reject a conversation with a call that has no result.
            self._add(results_message(*_call_results(calls, records, step)))
            loaded = tuple(dict.fromkeys(name for r in records for name in r.enabled))
            self._steps[-1] = replace(self._steps[-1], outcomes=records, loaded=loaded)

    def _open_step(self) -> Step:
        limits = self.settings.limits
        return self.session.step(
            target_of(self.settings.model),
            limits=StepLimits(
                calls=limits.calls, parallel=limits.parallel, argument_chars=limits.argument_chars
            ),
            hooks=_RunHooks(self.settings.hooks, self._progress, self._stream),
            approvals="ask",
        )

    def _build_request(self, view: View) -> ModelRequest:
        slots = tuple(user_message(text) for _, text in view.slots if text)
        # The slots are messages here, so that a change of one does not change the system prompt.
        parts = (self.settings.instructions, view.instructions_without_slots)
        return ModelRequest(
            messages=(*slots, *self._messages),
            instructions="\n\n".join(part for part in parts if part),
            tools=tuple(view.tools),
            choice=view.force or AUTO,
        )

    async def _ask_model(self, request: ModelRequest, number: int) -> Reply:
        started = self.settings.clock()
        deltas: list[Delta] = []
        try:
            async with aclosing(self.settings.model.stream(request)) as stream:
                async for delta in stream:
                    deltas.append(delta)
                    self._emit_delta(delta)
        except ModelError as error:
            self.session.emit(
                ModelFailureEvent(step=number, why=error.message, status=error.status)
            )
            raise
        reply = collect(deltas)
        self.session.emit(
            ModelCallEvent(
                step=number,
                took_ms=self._ms_since(started),
                reason=reply.reason,
                **self._model_facts(),
                **_token_counts(reply.usage),
            )
        )
        return reply

    def _stream(self, event: StreamEvent) -> None:
        self.emit(self.session.stamp(event))

    def _emit_delta(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                self._stream(TextEvent(text=replace_surrogates(text)))
            case ThoughtDelta(text):
                self._stream(ThoughtEvent(text=replace_surrogates(text)))
            case RetryDelta(attempt, reason, wait):
                self.session.emit(ModelRetryEvent(attempt=attempt, why=reason, wait_seconds=wait))
                self._stream(RetryEvent(attempt=attempt, reason=reason, wait_seconds=wait))
            case _:
                pass

    async def _compact(self) -> None:
        """Shorten a long conversation, here and in the session; loaded tools stay loaded."""
        compacted = self.settings.compactor(self._messages)
        if len(compacted) == len(self._messages):
            return
        before = len(self._messages)
        await self._replace_messages(compacted)
        await self.session.mark_compacted()
        self.session.emit(CompactionEvent(before=before, after=len(compacted)))

    async def _restore_references(self, view: View) -> None:
        """Restore references to loaded tools that compaction removed from the messages."""
        restored = restore_tool_references(self._messages, view)
        if len(restored) != len(self._messages):
            await self._replace_messages(restored)

    async def _replace_messages(self, messages: tuple[Message, ...]) -> None:
        """Replace the conversation, here and in the session."""
        self._messages = messages
        self._unsaved.clear()
        text = append_messages(None, messages)
        await self.session.update_section(CONVERSATION_SECTION, lambda _: text)

    def _add_memory_notice(self) -> None:
        """Add the memory of the session, unless the conversation has the same text already."""
        # At the end of the messages: a change further up would lose the provider's prefix cache.
        memory = self.session.render_memory()
        if memory and all(m.text != memory for m in self._messages):
            self._add(notice_message(memory))

    def _add(self, message: Message) -> None:
        if message.parts:
            self._messages = (*self._messages, message)
            self._unsaved.append(message)

    async def _save(self) -> None:
        if self._unsaved:
            new, self._unsaved = tuple(self._unsaved), []
            await self.session.update_section(
                CONVERSATION_SECTION, lambda text: append_messages(text, new)
            )

    @property
    def _progress(self) -> RunProgress:
        steps = tuple(self._steps)
        return RunProgress(session=self.session.id, steps=steps, usage=_total_usage(steps))

    def _build_run(self, halt: Halt) -> Run:
        steps = tuple(self._steps)
        return Run(
            session=self.session.id,
            text=halt.text or (steps[-1].text if steps else ""),
            stopped_by=halt.reason,
            steps=steps,
            usage=_total_usage(steps),
            messages=self._messages,
        )

    def _model_facts(self) -> _ModelFacts:
        model, profile = self.settings.model, self.settings.box.profile
        return {
            "model": model.name,
            "provider": model.provider,
            "profile": profile.name,
            "tool_search": bool(profile.metatools),
        }

    def _emit_end(self, stopped_by: str, *, error: str = "") -> None:
        run = self._build_run(Halt(stopped_by))
        self.session.emit(
            RunSummaryEvent(
                steps=len(run.steps),
                searches=run.searches,
                discovered=len(run.tools_loaded),
                stopped_by=stopped_by,
                took_ms=self._ms_since(self._started),
                error=error,
                **_token_counts(run.usage),
            )
        )

    def _ms_since(self, started: float) -> float:
        return round((self.settings.clock() - started) * 1000, 3)


class _RunHooks(StepHooks):
    """Calls the hooks of the program, and turns what happens into stream events."""

    def __init__(
        self, hooks: Hooks, progress: RunProgress, emit: Callable[[StreamEvent], None]
    ) -> None:
        self._hooks = hooks
        self._progress = progress
        self._emit = emit

    async def before_call(self, call: Call) -> Call | Result | None:
        return await self._hooks.run_before_call(call, self._progress)

    async def after_call(self, call: Call, result: Result) -> Result | None:
        return await self._hooks.run_after_call(call, result)

    def on_start(self, call: Call, *, is_discovery: bool) -> None:
        self._emit(CallStartEvent(call=call, is_discovery=is_discovery))

    def on_end(self, record: CallRecord) -> None:
        self._emit(CallEndEvent(outcome=record))
        if record.enabled:
            self._emit(LoadEvent(names=record.enabled))


def _call_results(
    calls: Sequence[Call], records: Sequence[CallRecord], step: Step
) -> Iterable[CallResult]:
    """The results as the model gets them, under the names it used."""
    for call, record in zip(calls, records, strict=True):
        yield build_call_result(call, record.result, native=step.native_answer(record))


def target_of(model: Model) -> Target:
    """The target of the views for this model."""
    return Target(
        provider=get_provider(model.provider), model=model.name, transport=model.transport
    )


def _total_usage(steps: Iterable[RunStep]) -> Usage:
    return sum((step.usage for step in steps), Usage())


def _token_counts(usage: Usage) -> _TokenCounts:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "written_tokens": usage.written_tokens,
    }


def truncate_arguments(message: Message, max_chars: int) -> Message:
    """Replace arguments that are too large to run by their beginning, as JSON."""
    # They would be sent back to the model with every later request.
    if all(len(call.arguments) <= max_chars for call in message.calls):
        return message
    return replace(message, parts=tuple(_truncate_part(part, max_chars) for part in message.parts))


def _truncate_part(part: Part, max_chars: int) -> Part:
    if not isinstance(part, Call) or len(part.arguments) <= max_chars:
        return part
    return replace(
        part, arguments=json.dumps({"too_large": part.arguments[:_MAX_ECHO_CHARS] + "…"})
    )
