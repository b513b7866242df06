"""Runs the calls of one step: discovery first and in order, the others in parallel."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..catalog.result import Result
from ..disclosure.profile import Role
from ..disclosure.view import View
from ..errors import CallRefused, InvalidArguments, NotLoaded, SchemaError, SourceError, UnknownTool
from ..models.messages import Call, CallResult, Message, Part, build_call_result
from ..toolbox.session import Session
from .hooks import Hooks
from .repeats import REFUSED_AT, RepeatTracker, repeat_refusal
from .steps import CallOutcome, RunProgress
from .stream_events import CallEndEvent, CallStartEvent, LoadEvent, StreamEvent

RoleOf = Callable[[str], Role | None]
"""The role of a discovery tool by its name; None for every other tool."""


def unwrap_call(call: Call, role_of: RoleOf) -> Call:
    """The call inside a `call_tool` call; the call itself if it is another or invalid."""
    if role_of(call.name) != "call":
        return call
    values = call.values() or {}
    name, arguments = values.get("name"), values.get("arguments", {})
    if not isinstance(name, str) or not name.strip():
        return call
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return replace(call, name=name.strip(), arguments=text)


def wrap_call(inner: Call, dispatcher: str) -> Call:
    """The call of a dispatcher such as `call_tool` that makes an inner call."""
    values = inner.values()
    arguments = {"name": inner.name, "arguments": inner.arguments if values is None else values}
    return replace(inner, name=dispatcher, arguments=json.dumps(arguments, ensure_ascii=False))


_MAX_ECHO_CHARS = 500
# Errors that are raised before a tool starts, so the tool had no effect.
_NOT_RUN_ERRORS = (UnknownTool, InvalidArguments, NotLoaded, CallRefused, SchemaError, SourceError)
_NOT_RUN_CODES = frozenset(error.code for error in _NOT_RUN_ERRORS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of a run: calls per step, parallel calls, size of arguments, seconds."""

    calls: int = 64
    parallel: int = 8
    argument_chars: int = 1_000_000
    seconds: float | None = None


@dataclass(slots=True, kw_only=True)
class CallBatch:
    """The calls of one step; finished outcomes stay even if the rest is cancelled."""

    session: Session
    view: View
    calls: Sequence[Call]
    progress: RunProgress
    hooks: Hooks
    limits: RunLimits
    role_of: RoleOf
    emit: Callable[[StreamEvent], None]
    _outcomes: dict[str, CallOutcome] = field(default_factory=dict[str, CallOutcome])
    _native: dict[str, str] = field(default_factory=dict[str, str])
    _repeats: RepeatTracker = field(init=False)
    _resolved: tuple[Call, ...] = field(init=False)
    _dispatchers: dict[str, str] = field(default_factory=dict[str, str])
    _started_ids: set[str] = field(default_factory=set[str])
    loaded: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self._repeats = RepeatTracker(self.progress.steps)
        self._resolved = tuple(self._resolve_call(call) for call in self.calls)

    async def run(self) -> None:
        """Run all calls."""
        for call in self._resolved[self.limits.calls :]:
            self._record_outcome(call, _call_limit_error(self.limits.calls))
        allowed = self._resolved[: self.limits.calls]
        for call in allowed:
            if self._is_discovery(call):
                await self._discover(call)
        slots = asyncio.Semaphore(self.limits.parallel)
        async with asyncio.TaskGroup() as group:
            for call in allowed:
                if not self._is_discovery(call):
                    group.create_task(self._run_in_slot(call, slots))
        await self._fit_results()

    @property
    def outcomes(self) -> tuple[CallOutcome, ...]:
        """Every call in the order of the model; unfinished ones have an error that says so."""
        return tuple(
            self._outcomes.get(c.id)
            or CallOutcome(c, _interruption_error(c.name), is_run=c.id in self._started_ids)
            for c in self._resolved
        )

    @property
    def results(self) -> tuple[CallResult, ...]:
        """The results as the model gets them, under the names it used."""
        pairs = zip(self.calls, self.outcomes, strict=True)
        return tuple(
            build_call_result(call, outcome.result, native=self._native.get(call.id, ""))
            for call, outcome in pairs
        )

    def _resolve_call(self, call: Call) -> Call:
        """The call under its tool's real name, taken out of `call_tool` if it is in one."""
        # Hooks, repeat detection and events see the real call; it is wrapped again to run it.
        named = replace(call, name=self.view.real_name(call.name))
        inner = unwrap_call(named, self.role_of)
        if inner is not named:
            self._dispatchers[call.id] = named.name
        return inner

    def _is_discovery(self, call: Call) -> bool:
        return self.role_of(call.name) not in (None, "call")

    async def _run_in_slot(self, call: Call, slots: asyncio.Semaphore) -> None:
        async with slots:
            await self._run_call(call)

    async def _discover(self, call: Call) -> None:
        before = self.session.state.loaded
        await self._run_call(call, is_discovery=True)
        new = tuple(n for n in self.session.state.loaded if n not in before)
        if new:
            self.loaded += new
            self._native[call.id] = self.view.native_answer(self.session.tools(*new))
            self.emit(LoadEvent(new))

    async def _run_call(self, call: Call, *, is_discovery: bool = False) -> None:
        self.emit(CallStartEvent(call, is_discovery))
        repeats = self._repeats.count_repeats(call)
        if repeats >= REFUSED_AT:
            self._record_outcome(
                call, repeat_refusal(call, repeats), is_discovery=is_discovery, is_repeat=True
            )
            return
        hooked = await self.hooks.run_before_call(call, self.progress)
        # A hook may return another call, but the result must carry the id that the model used.
        final = call if isinstance(hooked, Result) else replace(hooked, id=call.id)
        answer = hooked if isinstance(hooked, Result) else await self._execute(final)
        if answer.code in _NOT_RUN_CODES:
            self._started_ids.discard(call.id)
        result = await self.hooks.run_after_call(final, answer)
        self._record_outcome(final, result, is_discovery=is_discovery)

    async def _execute(self, call: Call) -> Result:
        size = len(call.arguments)
        if size > self.limits.argument_chars:
            return _argument_size_error(call.name, size, self.limits.argument_chars)
        if not self._is_discovery(call):
            self._started_ids.add(call.id)
        if dispatcher := self._dispatchers.get(call.id):
            call = wrap_call(call, dispatcher)
        return await self.session.call(call.name, call.arguments)

    async def _fit_results(self) -> None:
        """Shrink the results of this step to the budget of a turn."""
        done = [(key, o) for key, o in self._outcomes.items() if not o.is_discovery]
        fitted = await self.session.fit(*((o.call.name, o.result) for _, o in done))
        for (key, outcome), result in zip(done, fitted, strict=True):
            self._outcomes[key] = replace(outcome, result=result)

    def _record_outcome(
        self, call: Call, result: Result, *, is_discovery: bool = False, is_repeat: bool = False
    ) -> None:
        outcome = CallOutcome(call, result, is_discovery, is_repeat, call.id in self._started_ids)
        self._outcomes[call.id] = outcome
        self.emit(CallEndEvent(outcome))


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


def _call_limit_error(max_calls: int) -> Result:
    return Result.error(
        f"Not run: one step may have at most {max_calls} calls. Go on with the results you have, "
        "and make this call in a later step if it is still needed.",
        code="refused",
    )


def _argument_size_error(name: str, size: int, max_chars: int) -> Result:
    return Result.error(
        f"{name} was not run: its arguments have {size} characters, and at most {max_chars} are "
        "taken. Send less, or send it in parts.",
        code="invalid_arguments",
    )


def _interruption_error(name: str) -> Result:
    return Result.error(
        f"{name} did not finish: the run was stopped. It may or may not have had an effect; check "
        "before trying again.",
        code="cancelled",
    )
