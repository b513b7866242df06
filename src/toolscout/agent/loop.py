"""One run: ask for the view, call the model, run its calls, feed the results back, again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from ..catalog.clean import encodable
from ..disclosure.discovery import role_of
from ..disclosure.metatools import Role
from ..disclosure.providers import provider
from ..disclosure.target import Target
from ..disclosure.view import View
from ..errors import ModelError, ToolscoutError
from ..models.deltas import Delta, Reply, Restart, TextDelta, ThoughtDelta, Usage, collect
from ..models.messages import Call, Message, notice, returned, user
from ..models.model import AUTO, Model, Request
from ..toolbox.box import Toolbox
from ..toolbox.handle import Handle
from .calls import Batch, Limits, bounded
from .happenings import Finished, Happening, Retried, Said, Stepped, Thought
from .history import SECTION, appended, kept
from .hooks import Hooks
from .repeats import STOPPED_AT, Repeats, warning
from .restating import restated
from .steps import Progress, Run, Step
from .stops import Halt, Stop, first
from .trimming import Trimmer

ANSWERED = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that is the same for every run of an agent."""

    box: Toolbox
    model: Model
    instructions: str
    stops: tuple[Stop, ...]
    hooks: Hooks
    limits: Limits
    trim: Trimmer
    clock: Callable[[], float]


@dataclass(slots=True, kw_only=True)
class Loop:
    """The state of one run; everything it may lose is in the session before it goes on."""

    settings: Settings
    handle: Handle
    tell: Callable[[Happening], None]
    _messages: tuple[Message, ...] = ()
    _unsaved: list[Message] = field(default_factory=list[Message])
    _steps: list[Step] = field(default_factory=list[Step])
    _started: float = 0.0

    async def go(self, text: str) -> Run:
        """Run until something stops it; the session is saved whatever that is."""
        self._started = self.settings.clock()
        self._messages = kept(self.handle.state.sections.get(SECTION))
        self._recall()
        self._add(user(text))
        self.handle.emit("run_start", messages=len(self._messages), **self._about())
        try:
            halt = await self._within_time()
        except BaseException as failure:
            code = failure.code if isinstance(failure, ToolscoutError) else type(failure).__name__
            self._emit_end("an error", error=code)
            raise
        finally:
            await self._save()
            await self.handle.finish()
        self._emit_end(halt.reason)
        run = self._run(halt)
        self.tell(Finished(run))
        return run

    async def _within_time(self) -> Halt:
        seconds = self.settings.limits.seconds
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._until_stopped()
        except TimeoutError:
            if not limit.expired():
                raise
            return Halt(f"a limit of {seconds:g} seconds")

    async def _until_stopped(self) -> Halt:
        while True:
            reply = await self._step()
            if halt := self._end(reply, self._steps[-1]):
                return halt
            if warned := warning(self._steps):
                self.handle.emit("stuck", step=len(self._steps) - 1, why=warned)
                self._add(notice(warned))
            await self._save()

    def _end(self, reply: Reply, step: Step) -> Halt | None:
        if not step.ran and reply.reason != "paused":
            return Halt(ANSWERED if reply.reason in ("stop", "calls") else reply.reason)
        repeats = Repeats(self._steps)
        again = max((repeats.times(r.call) for r in step.ran), default=0)
        if again >= STOPPED_AT:
            return Halt(f"the same call {again} times")
        return first(self.settings.stops, self._progress)

    async def _step(self) -> Reply:
        number = len(self._steps)
        await self._shorten()
        view = self.handle.view(target_of(self.settings.model))
        await self._restate(view)
        request = await self.settings.hooks.request(self._request(view), self._progress)
        active = tuple(dict.fromkeys(view.names.values()))
        self.handle.emit("step_start", step=number, active=active)
        reply = await self._ask(request, number)
        self._add(bounded(reply.message, self.settings.limits.argument_chars))
        step = Step(
            number=number,
            text=reply.message.text,
            active=active,
            usage=reply.usage,
            reason=reply.reason,
        )
        self._steps.append(step)
        if reply.message.calls:
            await self._call(reply.message.calls, view)
        self.tell(Stepped(self._steps[-1]))
        return reply

    async def _call(self, calls: tuple[Call, ...], view: View) -> None:
        """Make the calls; even when this is broken off, each has a result in the conversation."""
        batch = Batch(
            handle=self.handle,
            view=view,
            calls=calls,
            progress=replace(self._progress, steps=tuple(self._steps[:-1])),
            hooks=self.settings.hooks,
            limits=self.settings.limits,
            role_of=self._role_of,
            tell=self.tell,
        )
        try:
            await batch.run()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        finally:
            self._add(returned(*batch.results))
            ran, loaded = batch.ran, tuple(batch.loaded)
            self._steps[-1] = replace(self._steps[-1], ran=ran, loaded=loaded)

    def _role_of(self, name: str) -> Role | None:
        return role_of(self.settings.box.profile, name, self.settings.box.catalog)

    def _request(self, view: View) -> Request:
        slots = tuple(user(text) for _, text in view.slots if text)
        parts = (self.settings.instructions, view.instructions)
        return Request(
            messages=(*slots, *self._messages),
            instructions="\n\n".join(part for part in parts if part),
            tools=tuple(view.tools),
            choice=view.force or AUTO,
        )

    async def _ask(self, request: Request, number: int) -> Reply:
        started = self.settings.clock()
        deltas: list[Delta] = []
        try:
            async with aclosing(self.settings.model.stream(request)) as stream:
                async for delta in stream:
                    deltas.append(delta)
                    self._watch(delta)
        except ModelError as error:
            facts = {"step": number, "why": error.message, "status": error.status}
            self.handle.emit("model_failed", **facts)
            raise
        reply = collect(deltas)
        self.handle.emit(
            "model_call",
            step=number,
            took_ms=self._since(started),
            reason=reply.reason,
            **self._about(),
            **_counted(reply.usage),
        )
        return reply

    def _watch(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                self.tell(Said(encodable(text)))
            case ThoughtDelta(text):
                self.tell(Thought(encodable(text)))
            case Restart(attempt, reason, wait):
                self.handle.emit("model_retry", attempt=attempt, why=reason, wait_seconds=wait)
                self.tell(Retried(attempt, reason, wait))
            case _:
                pass

    async def _shorten(self) -> None:
        """Cut a long conversation for good, here and in the session; loaded tools stay loaded."""
        trimmed = self.settings.trim(self._messages)
        if len(trimmed) == len(self._messages):
            return
        before = len(self._messages)
        await self._replace(trimmed)
        await self.handle.compacted()
        self.handle.emit("context_trimmed", before=before, after=len(trimmed))

    async def _restate(self, view: View) -> None:
        """See that the conversation has all that brings its loaded tools, also after a cut."""
        whole = restated(self._messages, view)
        if len(whole) != len(self._messages):
            await self._replace(whole)

    async def _replace(self, messages: tuple[Message, ...]) -> None:
        """Go on with another conversation, here and in the session."""
        self._messages = messages
        self._unsaved.clear()
        text = appended(None, messages)
        await self.handle.keep(SECTION, lambda _: text)

    def _recall(self) -> None:
        """Remind the model of what is remembered, where it has not read just that already.

        It goes behind all that was said, since a changed prefix would cost the provider's cache.
        """
        remembered = self.handle.recall()
        if remembered and all(m.text != remembered for m in self._messages):
            self._add(notice(remembered))

    def _add(self, message: Message) -> None:
        if message.parts:
            self._messages = (*self._messages, message)
            self._unsaved.append(message)

    async def _save(self) -> None:
        if self._unsaved:
            new, self._unsaved = tuple(self._unsaved), []
            await self.handle.keep(SECTION, lambda text: appended(text, new))

    @property
    def _progress(self) -> Progress:
        steps = tuple(self._steps)
        return Progress(session=self.handle.id, steps=steps, usage=_total(steps))

    def _run(self, halt: Halt) -> Run:
        steps = tuple(self._steps)
        return Run(
            session=self.handle.id,
            text=halt.text or (steps[-1].text if steps else ""),
            stopped_by=halt.reason,
            steps=steps,
            usage=_total(steps),
            messages=self._messages,
        )

    def _about(self) -> dict[str, object]:
        model, profile = self.settings.model, self.settings.box.profile
        return {
            "model": model.name,
            "provider": model.provider,
            "profile": profile.name,
            "tool_search": bool(profile.metatools),
        }

    def _emit_end(self, stopped_by: str, *, error: str = "") -> None:
        run = self._run(Halt(stopped_by))
        facts = {"error": error} if error else {}
        self.handle.emit(
            "run_end",
            steps=len(run.steps),
            searches=run.searches,
            discovered=len(run.found),
            stopped_by=stopped_by,
            took_ms=self._since(self._started),
            **_counted(run.usage),
            **facts,
        )

    def _since(self, started: float) -> float:
        return round((self.settings.clock() - started) * 1000, 3)


def target_of(model: Model) -> Target:
    """Whom a view is for when this model is asked."""
    return Target(provider=provider(model.provider), model=model.name, transport=model.transport)


def _total(steps: Iterable[Step]) -> Usage:
    return sum((step.usage for step in steps), Usage())


def _counted(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "written_tokens": usage.written_tokens,
    }
