"""Run the calls of one step: discovery first and in order, the others in parallel."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..catalog.result import Result
from ..disclosure.metatools import Role
from ..disclosure.view import View
from ..errors import CallRefused, InvalidArguments, NotLoaded, SchemaError, SourceError, UnknownTool
from ..models.messages import Call, CallResult, Message, Part, build_call_result
from ..toolbox.session import Session
from .hooks import Hooks
from .repeats import REFUSED_AT, RepeatTracker, repeat_refusal
from .steps import CallOutcome, RunProgress
from .stream_events import CallEndEvent, CallStartEvent, LoadEvent, StreamEvent

RoleOf = Callable[[str], Role | None]
"""What a name does as a discovery tool; None for every other tool."""


def unwrap_call(call: Call, role_of: RoleOf) -> Call:
    """The inner call; the call itself where it is no bridge, or does not say what it is for."""
    if role_of(call.name) != "call":
        return call
    values = call.values() or {}
    name, arguments = values.get("name"), values.get("arguments", {})
    if not isinstance(name, str) or not name.strip():
        return call
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return replace(call, name=name.strip(), arguments=text)


def wrap_call(inner: Call, bridge: str) -> Call:
    """The call that reaches an inner one through a bridge."""
    values = inner.values()
    given = {"name": inner.name, "arguments": inner.arguments if values is None else values}
    return replace(inner, name=bridge, arguments=json.dumps(given, ensure_ascii=False))


_MAX_ECHO_CHARS = 500
_NOT_RUN_ERRORS = (UnknownTool, InvalidArguments, NotLoaded, CallRefused, SchemaError, SourceError)
_NOT_RUN_CODES = frozenset(error.code for error in _NOT_RUN_ERRORS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """What one run may do: calls in a step, calls at a time, size of arguments, seconds."""

    calls: int = 64
    parallel: int = 8
    argument_chars: int = 1_000_000
    seconds: float | None = None


@dataclass(slots=True, kw_only=True)
class CallBatch:
    """The calls of one step. What has finished stays even when the rest is given up."""

    session: Session
    view: View
    calls: Sequence[Call]
    progress: RunProgress
    hooks: Hooks
    limits: RunLimits
    role_of: RoleOf
    tell: Callable[[StreamEvent], None]
    _ran: dict[str, CallOutcome] = field(default_factory=dict[str, CallOutcome])
    _native: dict[str, str] = field(default_factory=dict[str, str])
    _repeats: RepeatTracker = field(init=False)
    _meant: tuple[Call, ...] = field(init=False)
    _bridges: dict[str, str] = field(default_factory=dict[str, str])
    _begun: set[str] = field(default_factory=set[str])
    loaded: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self._repeats = RepeatTracker(self.progress.steps)
        self._meant = tuple(self._resolve_call(call) for call in self.calls)

    async def run(self) -> None:
        """Make all calls."""
        for call in self._meant[self.limits.calls :]:
            self._record_outcome(call, _call_limit_error(self.limits.calls))
        allowed = self._meant[: self.limits.calls]
        for call in allowed:
            if self._is_discovery(call):
                await self._discover(call)
        gate = asyncio.Semaphore(self.limits.parallel)
        async with asyncio.TaskGroup() as group:
            for call in allowed:
                if not self._is_discovery(call):
                    group.create_task(self._run_gated(call, gate))
        await self._fit_results()

    @property
    def outcomes(self) -> tuple[CallOutcome, ...]:
        """Every call, in the order asked for; those that did not finish say so."""
        return tuple(
            self._ran.get(c.id)
            or CallOutcome(c, _interruption_error(c.name), is_run=c.id in self._begun)
            for c in self._meant
        )

    @property
    def results(self) -> tuple[CallResult, ...]:
        """The results as the model gets them, under the names it used."""
        pairs = zip(self.calls, self.outcomes, strict=True)
        return tuple(
            build_call_result(call, ran.result, native=self._native.get(call.id, ""))
            for call, ran in pairs
        )

    def _resolve_call(self, call: Call) -> Call:
        """The call by its tool's real name; one through a bridge as the call it stands for."""
        named = replace(call, name=self.view.real_name(call.name))
        meant = unwrap_call(named, self.role_of)
        if meant is not named:
            self._bridges[call.id] = named.name
        return meant

    def _is_discovery(self, call: Call) -> bool:
        return self.role_of(call.name) not in (None, "call")

    async def _run_gated(self, call: Call, gate: asyncio.Semaphore) -> None:
        async with gate:
            await self._run_call(call)

    async def _discover(self, call: Call) -> None:
        before = self.session.state.loaded
        await self._run_call(call, is_discovery=True)
        new = tuple(n for n in self.session.state.loaded if n not in before)
        if new:
            self.loaded += new
            self._native[call.id] = self.view.native_answer(self.session.tools(*new))
            self.tell(LoadEvent(new))

    async def _run_call(self, call: Call, *, is_discovery: bool = False) -> None:
        self.tell(CallStartEvent(call, is_discovery))
        times = self._repeats.count_repeats(call)
        if times >= REFUSED_AT:
            self._record_outcome(
                call, repeat_refusal(call, times), is_discovery=is_discovery, is_repeat=True
            )
            return
        asked = await self.hooks.run_before_call(call, self.progress)
        made = call if isinstance(asked, Result) else replace(asked, id=call.id)
        answer = asked if isinstance(asked, Result) else await self._execute(made)
        if answer.code in _NOT_RUN_CODES:
            self._begun.discard(call.id)
        result = await self.hooks.run_after_call(made, answer)
        self._record_outcome(made, result, is_discovery=is_discovery)

    async def _execute(self, call: Call) -> Result:
        size = len(call.arguments)
        if size > self.limits.argument_chars:
            return _argument_size_error(call.name, size, self.limits.argument_chars)
        if not self._is_discovery(call):
            self._begun.add(call.id)
        if bridge := self._bridges.get(call.id):
            call = wrap_call(call, bridge)
        return await self.session.call(call.name, call.arguments)

    async def _fit_results(self) -> None:
        """See that the results of this step are not too much together."""
        done = [(place, ran) for place, ran in self._ran.items() if not ran.is_discovery]
        fitted = await self.session.fit(*((ran.call.name, ran.result) for _, ran in done))
        for (place, ran), result in zip(done, fitted, strict=True):
            self._ran[place] = replace(ran, result=result)

    def _record_outcome(
        self, call: Call, result: Result, *, is_discovery: bool = False, is_repeat: bool = False
    ) -> None:
        ran = CallOutcome(call, result, is_discovery, is_repeat, call.id in self._begun)
        self._ran[call.id] = ran
        self.tell(CallEndEvent(ran))


def truncate_arguments(message: Message, most: int) -> Message:
    """Arguments too large to run are too large to send back: their beginning stands for them."""
    if all(len(call.arguments) <= most for call in message.calls):
        return message
    return replace(message, parts=tuple(_truncate_part(part, most) for part in message.parts))


def _truncate_part(part: Part, most: int) -> Part:
    if not isinstance(part, Call) or len(part.arguments) <= most:
        return part
    return replace(
        part, arguments=json.dumps({"too_large": part.arguments[:_MAX_ECHO_CHARS] + "…"})
    )


def _call_limit_error(most: int) -> Result:
    return Result.error(
        f"Not run: one step may have at most {most} calls. Go on with the results you have, and "
        "make this call in a later step if it is still needed.",
        code="refused",
    )


def _argument_size_error(name: str, size: int, most: int) -> Result:
    return Result.error(
        f"{name} was not run: its arguments have {size} characters, and at most {most} are taken. "
        "Send less, or send it in parts.",
        code="invalid_arguments",
    )


def _interruption_error(name: str) -> Result:
    return Result.error(
        f"{name} did not finish: the run was stopped. It may or may not have had an effect; check "
        "before trying again.",
        code="cancelled",
    )
