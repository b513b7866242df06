"""Step: one request to a model as a value, with its tools and the calls that it leads to.

The plain SDK loop, the agent, the gateway and adapters of other frameworks all run on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Literal

from ..catalog.result import Result
from ..disclosure.discovery import role_of
from ..disclosure.view import View
from ..errors import ConfigError, ToolscoutError, UnknownToolError
from ..events import ToolRefusedEvent
from ..models.messages import Call
from .arguments import encode_arguments, read_tool_name
from .call_record import CallOptions, CallRecord
from .executor import CallExecutor
from .repeats import REFUSED_AT, RepeatTracker, StepRecords, repeat_refusal

ToolRole = Literal["discovery", "pinned", "loaded", "deferred"]
"""Why a step has a tool: to find others, because it is always in view, because it was loaded, or
for a search of the provider's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTool:
    """A tool of a step, in no provider's format.

    `name` is one that the provider accepts; `tool` is the name in the catalog. With `is_deferred`
    the provider should load the definition only when its own search finds it.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    role: ToolRole
    tool: str
    is_deferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimits:
    """Limits of a step: calls in all and in parallel, size of arguments, repeats of a call.

    A call is refused when that many steps in a row made it with the same result; 0 means never.
    """

    calls: int = 64
    parallel: int = 8
    argument_chars: int = 1_000_000
    repeats: int = REFUSED_AT

    def __post_init__(self) -> None:
        if self.parallel < 1 or min(self.calls, self.argument_chars, self.repeats) < 0:
            raise ConfigError(
                f"{self} would allow no call.",
                hint="Allow at least one call at a time, and use no negative limit.",
            )


class StepHooks:
    """Hooks of a program around the calls of a step; every method does nothing by default."""

    async def before_call(self, call: Call) -> Call | Result | None:  # noqa: ARG002 - for overriding
        """A call to make instead, a result that answers the call, or None to leave it."""
        return None

    async def after_call(self, call: Call, result: Result) -> Result | None:  # noqa: ARG002
        """A result to give instead, or None to leave it."""
        return None

    def on_start(self, call: Call, *, is_discovery: bool) -> None:
        """A call begins, under the real name of its tool."""

    def on_end(self, record: CallRecord) -> None:
        """A call ended, successfully or not."""


NO_HOOKS = StepHooks()


@dataclass(slots=True)
class _StepCall:
    """One call of a step: as the model made it, and under the real name of its tool."""

    given: Call
    real: Call
    dispatcher: str
    is_discovery: bool
    done: asyncio.Future[CallRecord]
    is_started: bool = False


FinishStep = Callable[[Sequence[CallRecord]], Awaitable[tuple[CallRecord, ...]]]
"""Fits the results of a step, remembers and saves; returns the records as they are then."""


class Step:
    """The tools for one request to the model, and the calls of its reply.

    Calls may be made from several tasks at once. Discovery runs first and in order, because it
    changes what is callable; all other calls run in parallel. A call with an id that was used
    before is not run again.
    """

    def __init__(
        self,
        executor: CallExecutor,
        view: View,
        *,
        limits: StepLimits,
        hooks: StepHooks,
        options: CallOptions,
        history: Sequence[StepRecords],
        finish: FinishStep,
    ) -> None:
        self.view = view
        self._executor = executor
        self._limits = limits
        self._hooks = hooks
        self._options = options
        self._finish = finish
        self._repeats = RepeatTracker(history) if history and limits.repeats else None
        self._calls: dict[str, _StepCall] = {}
        self._ids = count(1)
        self._slots = asyncio.Semaphore(limits.parallel)
        self._discovery = asyncio.Lock()
        self._is_finished = False

    @property
    def tools(self) -> tuple[StepTool, ...]:
        """The tools for the model, in no provider's format; `view.tools` are in that of its API."""
        loaded = {*self.view.session.loaded}
        own = {m.name for m in self._executor.profile.metatools}
        return tuple(
            StepTool(
                name=item.definition.name,
                description=item.definition.description,
                schema=item.definition.schema,
                role=_tool_role(item.tool.name, item.is_hidden, own=own, loaded=loaded),
                tool=item.tool.name,
                is_deferred=item.is_deferred,
            )
            for item in self.view.rendered
        )

    @property
    def instructions(self) -> str:
        """The text for the model about how to find tools, and which tools exist."""
        return self.view.instructions

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        id: str = "",  # noqa: A002 - as providers call it
        approval: str = "",
    ) -> CallRecord:
        """Call a tool by the name in this step, or by its name in the catalog.

        Never raises for a mistake of the model or a failure of the tool: the result is then an
        error that says what to do next. `approval` is the id of an approval that was needed.
        """
        call_id, text = id or f"step-call-{next(self._ids)}", encode_arguments(arguments)
        try:
            call = Call(call_id, read_tool_name(name), text)
        except UnknownToolError as error:
            return self._refuse(Call(call_id, repr(name), text), error.code, str(error))
        return await self._call(call, arguments, approval=approval)

    async def run(self, calls: Sequence[Call]) -> tuple[CallRecord, ...]:
        """Make all calls of a model's reply; the records are in the same order."""
        if not calls:
            return ()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._call(call, call.arguments)) for call in calls]
        except BaseExceptionGroup as failures:
            # Only hooks and exceptions that are passed on get here. Callers expect the exception as
            # it was raised, without the group around it.
            first = failures.exceptions[0]
            raise first from first.__cause__
        return tuple(task.result() for task in tasks)

    async def finish(self) -> tuple[CallRecord, ...]:
        """End the step: fit its results to the budget of a turn, remember, and save.

        Returns all records in the order of the calls, with results that fit.
        """
        self._check_open()
        self._is_finished = True
        await _wait_for(self._calls.values())
        return await self._finish(self.records)

    async def answer(self, calls: Sequence[Call]) -> tuple[CallRecord, ...]:
        """Make all calls of a model's reply and end the step; the records are in that order."""
        ran = await self.run(calls)
        before = self.records
        after = await self.finish()
        fitted = {id(old): new for old, new in zip(before, after, strict=True)}
        # A call that shares its id with another has a record of its own, outside of the step.
        return tuple(fitted.get(id(record), record) for record in ran)

    @property
    def records(self) -> tuple[CallRecord, ...]:
        """The records so far; a call that did not finish has an error that says so."""
        return tuple(_record_of(call) for call in self._calls.values())

    def records_for(self, calls: Sequence[Call]) -> tuple[CallRecord, ...]:
        """The records of these calls, including those that never started because of an
        interruption."""
        return tuple(
            _record_of(self._calls[call.id])
            if call.id in self._calls
            else _refused(call, _interruption_error(call.name))
            for call in calls
        )

    def native_answer(self, record: CallRecord) -> str:
        """The tools that a call enabled, in the format that this provider loads, if it has one."""
        if not record.enabled:
            return ""
        return self.view.native_answer(self._executor.allowed_tools(*record.enabled))

    # One call

    async def _call(self, call: Call, arguments: object, *, approval: str = "") -> CallRecord:
        self._check_open()
        known = self._calls.get(call.id)
        if known is not None:
            return await self._answer_again(known, call)
        entry = self._register(call)
        try:
            record = await self._run_entry(entry, arguments, approval)
        except BaseException:
            entry.done.cancel()
            raise
        entry.done.set_result(record)
        self._hooks.on_end(record)
        return record

    def _register(self, call: Call) -> _StepCall:
        # Hooks, repeat detection and events see the real call; it is wrapped again to run it.
        named = replace(call, name=self.view.real_name(call.name))
        inner = unwrap_call(named, self._role_of)
        entry = _StepCall(
            given=call,
            real=inner,
            dispatcher=named.name if inner is not named else "",
            is_discovery=self._role_of(inner.name) not in (None, "call"),
            done=asyncio.get_running_loop().create_future(),
        )
        self._calls[call.id] = entry
        return entry

    def _role_of(self, name: str) -> Any:
        return role_of(self._executor.profile, name, self._executor.live.catalog)

    async def _answer_again(self, known: _StepCall, call: Call) -> CallRecord:
        """The record of a call whose id was used before; it is not run again."""
        if (known.given.name, known.given.arguments) != (call.name, call.arguments):
            return self._refuse(call, "refused", _duplicate_id_error(call))
        await asyncio.wait([known.done])
        return _record_of(known)

    async def _run_entry(self, entry: _StepCall, arguments: object, approval: str) -> CallRecord:
        if len(self._calls) > self._limits.calls:
            return self._refuse(entry.real, "refused", _call_limit_error(self._limits.calls))
        if entry.is_discovery:
            async with self._discovery:
                return await self._run_hooked(entry, arguments, approval)
        # Calls that were made together get here one after the other. One round of the event loop
        # lets all of them register, so that a discovery among them still comes first.
        await asyncio.sleep(0)
        await _wait_for(c for c in self._calls.values() if c.is_discovery)
        async with self._slots:
            return await self._run_hooked(entry, arguments, approval)

    async def _run_hooked(self, entry: _StepCall, arguments: object, approval: str) -> CallRecord:
        call, is_discovery = entry.real, entry.is_discovery
        self._hooks.on_start(call, is_discovery=is_discovery)
        repeats = self._repeats.count_repeats(call) if self._repeats else 0
        if repeats and repeats >= self._limits.repeats:
            record = self._refuse(call, "repeated", repeat_refusal(call, repeats))
            return replace(record, is_discovery=is_discovery, is_repeat=True)
        hooked = await self._hooks.before_call(call)
        if isinstance(hooked, Result):
            record, final = _refused(call, hooked), call
        else:
            # A hook may return another call, but the result must carry the id that the model used.
            final = call if hooked is None else replace(hooked, id=call.id)
            record = await self._execute(entry, final, arguments, approval)
        changed = await self._hooks.after_call(final, record.result)
        result = record.result if changed is None else changed
        return replace(record, call=final, result=result, is_discovery=is_discovery)

    async def _execute(
        self, entry: _StepCall, call: Call, arguments: object, approval: str
    ) -> CallRecord:
        size = len(call.arguments)
        if size > self._limits.argument_chars:
            text = _argument_size_error(call.name, size, self._limits.argument_chars)
            return self._refuse(call, "invalid_arguments", text)
        entry.is_started = not entry.is_discovery
        if call is not entry.real:  # a hook changed it
            call = wrap_call(call, entry.dispatcher) if entry.dispatcher else call
            arguments = call.arguments
        name = entry.dispatcher or call.name
        options = replace(self._options, approval=approval, loaded_now=self._loaded_now())
        return await self._executor.call(name, arguments, options=options)

    def _refuse(self, call: Call, code: str, text: str) -> CallRecord:
        """The record of a call that the step itself refuses, and the event that says so."""
        arguments = call.values() or {}
        self._executor.emit(
            ToolRefusedEvent(tool=call.name, code=code, why=text, arguments=arguments)
        )
        return _refused(call, Result.error(text, code=code))

    def _loaded_now(self) -> frozenset[str]:
        """The tools that the discovery calls of this step have loaded."""
        finished = (c.done for c in self._calls.values() if c.is_discovery and c.done.done())
        records = (done.result() for done in finished if not done.cancelled())
        return frozenset(name for record in records for name in record.enabled)

    def _check_open(self) -> None:
        if self._is_finished:
            raise ToolscoutError(
                "This step is finished.", hint="Open one for the next request: session.step(model)."
            )


def unwrap_call(call: Call, role_of: Callable[[str], Any]) -> Call:
    """The call inside a `call_tool` call; the call itself if it is another or invalid."""
    if role_of(call.name) != "call":
        return call
    values = call.values() or {}
    name, arguments = values.get("name"), values.get("arguments", {})
    if not isinstance(name, str) or not name.strip():
        return call
    return replace(call, name=name.strip(), arguments=encode_arguments(arguments))


def wrap_call(inner: Call, dispatcher: str) -> Call:
    """The call of a dispatcher such as `call_tool` that makes an inner call."""
    values = inner.values()
    arguments = {"name": inner.name, "arguments": inner.arguments if values is None else values}
    return replace(inner, name=dispatcher, arguments=encode_arguments(arguments))


def _tool_role(name: str, is_hidden: bool, *, own: set[str], loaded: set[str]) -> ToolRole:  # noqa: FBT001
    if name in own:
        return "discovery"
    if name in loaded:
        return "loaded"
    return "deferred" if is_hidden else "pinned"


async def _wait_for(calls: Iterable[_StepCall]) -> None:
    """Wait until these calls are done, however they end."""
    if pending := [call.done for call in calls if not call.done.done()]:
        await asyncio.wait(pending)


def _record_of(entry: _StepCall) -> CallRecord:
    if entry.done.done() and not entry.done.cancelled():
        return entry.done.result()
    record = _refused(entry.real, _interruption_error(entry.real.name))
    return replace(record, is_run=entry.is_started, is_discovery=entry.is_discovery)


def _refused(call: Call, result: Result) -> CallRecord:
    """The record of a call that reached no tool."""
    return CallRecord(call=call, result=result, full=result)


def _duplicate_id_error(call: Call) -> str:
    return (
        f"{call.name} was not run: another call of this step has the id {call.id!r}. Make it again "
        f"with its own id."
    )


def _call_limit_error(max_calls: int) -> str:
    return (
        f"Not run: one step may have at most {max_calls} calls. Continue with the results you "
        f"have, and make this call in a later step if it is still needed."
    )


def _argument_size_error(name: str, size: int, max_chars: int) -> str:
    return (
        f"{name} was not run: its arguments have {size} characters, and at most {max_chars} are "
        f"allowed. Send less, or send it in parts."
    )


def _interruption_error(name: str) -> Result:
    return Result.error(
        f"{name} did not finish: the run was stopped. It may or may not have had an effect; check "
        "before trying again.",
        code="cancelled",
    )
