"""Running the calls of one step: discovery first and in order, the others side by side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..catalog.result import Result
from ..disclosure.view import View
from ..errors import (
    CallRefused,
    InvalidArguments,
    NotLoaded,
    SchemaError,
    SourceError,
    UnknownTool,
)
from ..models.messages import Call, CallResult, Message, Part, answered
from ..toolbox.handle import Handle
from .happenings import Called, Calling, Happening, Loaded
from .hooks import Hooks
from .inner import RoleOf, unwrapped, wrapped
from .repeats import REFUSED_AT, Repeats, refusal
from .steps import Progress, Ran

_SHOWN = 500
_ENDED_BEFORE = (UnknownTool, InvalidArguments, NotLoaded, CallRefused, SchemaError, SourceError)
_NOT_RUN = frozenset(error.code for error in _ENDED_BEFORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may do: calls in a step, calls at a time, size of arguments, seconds."""

    calls: int = 64
    parallel: int = 8
    argument_chars: int = 1_000_000
    seconds: float | None = None


@dataclass(slots=True, kw_only=True)
class Batch:
    """The calls of one step. What has finished stays even when the rest is given up."""

    handle: Handle
    view: View
    calls: Sequence[Call]
    progress: Progress
    hooks: Hooks
    limits: Limits
    role_of: RoleOf
    tell: Callable[[Happening], None]
    _ran: dict[str, Ran] = field(default_factory=dict[str, Ran])
    _native: dict[str, str] = field(default_factory=dict[str, str])
    _repeats: Repeats = field(init=False)
    _meant: tuple[Call, ...] = field(init=False)
    _bridges: dict[str, str] = field(default_factory=dict[str, str])
    _begun: set[str] = field(default_factory=set[str])
    loaded: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self._repeats = Repeats(self.progress.steps)
        self._meant = tuple(self._named(call) for call in self.calls)

    async def run(self) -> None:
        """Make all calls."""
        for call in self._meant[self.limits.calls :]:
            self._finish(call, _too_many(self.limits.calls))
        allowed = self._meant[: self.limits.calls]
        for call in allowed:
            if self._is_discovery(call):
                await self._discover(call)
        gate = asyncio.Semaphore(self.limits.parallel)
        async with asyncio.TaskGroup() as group:
            for call in allowed:
                if not self._is_discovery(call):
                    group.create_task(self._gated(call, gate))
        await self._fit()

    @property
    def ran(self) -> tuple[Ran, ...]:
        """Every call, in the order asked for; those that did not finish say so."""
        return tuple(
            self._ran.get(c.id) or Ran(c, _unfinished(c.name), is_run=c.id in self._begun)
            for c in self._meant
        )

    @property
    def results(self) -> tuple[CallResult, ...]:
        """The results as the model gets them, under the names it used."""
        pairs = zip(self.calls, self.ran, strict=True)
        return tuple(
            answered(call, ran.result, native=self._native.get(call.id, "")) for call, ran in pairs
        )

    def _named(self, call: Call) -> Call:
        """The call by its tool's real name; one through a bridge as the call it stands for."""
        named = replace(call, name=self.view.real(call.name))
        meant = unwrapped(named, self.role_of)
        if meant is not named:
            self._bridges[call.id] = named.name
        return meant

    def _is_discovery(self, call: Call) -> bool:
        return self.role_of(call.name) not in (None, "call")

    async def _gated(self, call: Call, gate: asyncio.Semaphore) -> None:
        async with gate:
            await self._one(call)

    async def _discover(self, call: Call) -> None:
        before = self.handle.state.loaded
        await self._one(call, is_discovery=True)
        new = tuple(n for n in self.handle.state.loaded if n not in before)
        if new:
            self.loaded += new
            self._native[call.id] = self.view.found(self.handle.tools(*new))
            self.tell(Loaded(new))

    async def _one(self, call: Call, *, is_discovery: bool = False) -> None:
        self.tell(Calling(call, is_discovery))
        times = self._repeats.times(call)
        if times >= REFUSED_AT:
            self._finish(call, refusal(call, times), is_discovery=is_discovery, is_repeat=True)
            return
        asked = await self.hooks.call(call, self.progress)
        made = call if isinstance(asked, Result) else replace(asked, id=call.id)
        answer = asked if isinstance(asked, Result) else await self._called(made)
        if answer.code in _NOT_RUN:
            self._begun.discard(call.id)
        result = await self.hooks.result(made, answer)
        self._finish(made, result, is_discovery=is_discovery)

    async def _called(self, call: Call) -> Result:
        size = len(call.arguments)
        if size > self.limits.argument_chars:
            return _too_large(call.name, size, self.limits.argument_chars)
        if not self._is_discovery(call):
            self._begun.add(call.id)
        if bridge := self._bridges.get(call.id):
            call = wrapped(call, bridge)
        return await self.handle.call(call.name, call.arguments)

    async def _fit(self) -> None:
        """See that the results of this step are not too much together."""
        done = [(place, ran) for place, ran in self._ran.items() if not ran.is_discovery]
        fitted = await self.handle.fit(*((ran.call.name, ran.result) for _, ran in done))
        for (place, ran), result in zip(done, fitted, strict=True):
            self._ran[place] = replace(ran, result=result)

    def _finish(
        self, call: Call, result: Result, *, is_discovery: bool = False, is_repeat: bool = False
    ) -> None:
        ran = Ran(call, result, is_discovery, is_repeat, call.id in self._begun)
        self._ran[call.id] = ran
        self.tell(Called(ran))


def bounded(message: Message, most: int) -> Message:
    """Arguments too large to run are too large to send back: their beginning stands for them."""
    if all(len(call.arguments) <= most for call in message.calls):
        return message
    return replace(message, parts=tuple(_cut(part, most) for part in message.parts))


def _cut(part: Part, most: int) -> Part:
    if not isinstance(part, Call) or len(part.arguments) <= most:
        return part
    return replace(part, arguments=json.dumps({"too_large": part.arguments[:_SHOWN] + "…"}))


def _too_many(most: int) -> Result:
    return Result.error(
        f"Not run: one step may have at most {most} calls. Go on with the results you have, and "
        "make this call in a later step if it is still needed.",
        code="refused",
    )


def _too_large(name: str, size: int, most: int) -> Result:
    return Result.error(
        f"{name} was not run: its arguments have {size} characters, and at most {most} are taken. "
        "Send less, or send it in parts.",
        code="invalid_arguments",
    )


def _unfinished(name: str) -> Result:
    return Result.error(
        f"{name} did not finish: the run was stopped. It may or may not have had an effect; check "
        "before trying again.",
        code="cancelled",
    )
