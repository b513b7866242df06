"""Session: one conversation with a toolbox, its view of the tools, its calls and its state."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ..catalog.questions import Answer, AnswerAction
from ..catalog.result import Result
from ..catalog.tool import Tool
from ..disclosure.scope import Scope, Visibility
from ..disclosure.session_state import SessionState
from ..disclosure.snapshot import carry_loaded_tools
from ..disclosure.target import Target
from ..disclosure.view import View, view, why
from ..errors import ToolscoutError
from ..events import E, Event, ToolsDisabledEvent, ToolsEnabledEvent
from ..search.hit import Results
from .argument_checks import check_tool_names
from .call_record import CallOptions, CallRecord, PendingQuestion
from .executor import CallExecutor
from .features import INTRODUCTIONS, FeatureFailure
from .pending_approvals import PendingApproval
from .pending_questions import is_owned_by
from .repeats import STOPPED_AT, StepRecords
from .step import NO_HOOKS, Step, StepHooks, StepLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStats:
    """The tool names of a conversation: all, those in view, those deferred, those loaded."""

    profile: str
    tools: tuple[str, ...]
    in_view: tuple[str, ...]
    deferred: tuple[str, ...]
    loaded: tuple[str, ...]


class Session:
    """One conversation: every change of its state is saved, and calls may run in parallel."""

    def __init__(self, executor: CallExecutor) -> None:
        self._executor = executor
        self._stored = executor.stored
        self._last_view: View | None = None
        # The calls of the newest steps, to notice a model that repeats itself.
        self._history: deque[StepRecords] = deque(maxlen=STOPPED_AT)
        self._has_reported_introduction = False
        # The memory as the current turn shows it; None until its first view.
        self._turn_memory: str | None = None

    @property
    def id(self) -> str:
        """The key under which the session is stored."""
        return self._stored.session.id

    @property
    def principal(self) -> str:
        """Who calls; empty if the program does not say."""
        return self._executor.principal

    @property
    def state(self) -> SessionState:
        """What the conversation has loaded, searched and used, as a frozen value."""
        return self._stored.session

    async def refresh(self) -> None:
        """Take over what other processes wrote to the conversation; raises if the store fails."""
        await asyncio.to_thread(self._stored.refresh)

    def view(self, model: str | Target = "plain", *, with_memory: bool = True) -> View:
        """Exactly what the model sees now, in its provider's format.

        `model` is a provider (`anthropic`), a provider and a model (`openai:gpt-5.4`), a known
        model id, or a Target. The next call saves what was shown, so that later views only append.
        Where the profile remembers, the instructions end with the memory of earlier turns.
        """
        current = self._build_view(model)
        if not (with_memory and self._executor.profile.remembers):
            return current
        # Fixed for the turn, so that the requests of one turn share a cached prefix.
        if self._turn_memory is None:
            self._turn_memory = self.render_memory()
        parts = (part for part in (current.instructions, self._turn_memory) if part)
        return replace(current, instructions="\n\n".join(parts))

    def _build_view(self, model: str | Target) -> View:
        executor = self._executor
        introduction = self._introduction()

        def move(session: SessionState) -> tuple[SessionState, View]:
            new_view = view(
                executor.profile,
                executor.live.catalog,
                session,
                target=model,
                allow=executor.allow,
                extras=[tool for _, tool in executor.features.visible_tools.values()],
            )
            new_view = _add_introduction(new_view, introduction)
            return new_view.session, new_view

        # Locally, because this method is synchronous and writing to the store may block.
        self._last_view = self._stored.apply_locally(move)
        return self._last_view

    def replace_view(self, view: View) -> None:
        """Keep an equal view in place of the last one, so that sessions can share its texts."""
        self._last_view = view

    def _introduction(self) -> str:
        """The introductions of the features; empty if the session has stored them already."""
        if INTRODUCTIONS in self.state.sections:
            return ""
        introduction, failures = self._executor.features.introduction()
        # Once: a view is built for every request.
        if failures and not self._has_reported_introduction:
            self._has_reported_introduction = True
            self._executor.emit_failures(failures)
        return introduction

    async def call(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> Result:
        """Call a tool: a discovery tool, a tool of the catalog, or one that a feature adds.

        Never raises for a mistake of the model; the result then is an error that says what to do
        next. Arguments may be JSON text, as models write them.
        """
        return (await self._executor.call(name, arguments)).result

    async def answer(self, response: object) -> list[Any]:
        """Run every call in a model's reply, and return the messages for the next request.

        `response` is what an SDK returned (Messages, Responses, Chat Completions, Gemini), or its
        dictionary. The messages are the model's own turn and the results of its calls, in the
        format of that API. The list is empty if the model called nothing: its reply is final.
        """
        from ..models.sdk_replies import read_sdk_reply

        reply = read_sdk_reply(response)
        if not reply.message.calls:
            await self.finish()
            return []
        provider = reply.format.provider
        last_view = self._last_view
        # The last view may be for another provider, which names tools and references differently.
        if last_view is None or last_view.target.provider.name != provider:
            last_view = self._build_view(f"{provider}:{reply.model}")
        step = self._open_step(last_view, CallOptions())
        records = await step.answer(reply.message.calls)
        results = [(record.result, step.native_answer(record)) for record in records]
        return reply.next_messages(results, tools=self._build_view(last_view.target).tools)

    def step(
        self,
        model: str | Target | View = "plain",
        *,
        limits: StepLimits | None = None,
        hooks: StepHooks = NO_HOOKS,
        passes: Iterable[type[BaseException]] = (),
        approvals: Literal["return", "ask"] = "return",
    ) -> Step:
        """The next request to the model as a value: its tools, and the calls of its reply.

        With a view instead of a model, the step is of what the model was shown already.

        A call that needs approval, or whose tool asks the user something, comes back with `needs`
        set; with `approvals="ask"` the approver or the asker of the session is asked while the call
        waits. Exceptions of the types in `passes`, raised by
        a tool, go through to the caller untouched.
        """
        self._executor.live.check_open()
        options = CallOptions(passes=tuple(passes), defers=approvals == "return")
        current = model if isinstance(model, View) else self._build_view(model)
        return self._open_step(current, options, limits=limits, hooks=hooks)

    def _open_step(
        self,
        current: View,
        options: CallOptions,
        *,
        limits: StepLimits | None = None,
        hooks: StepHooks = NO_HOOKS,
    ) -> Step:
        return Step(
            self._executor,
            current,
            limits=limits or StepLimits(),
            hooks=hooks,
            options=options,
            history=tuple(self._history),
            finish=self._finish_step,
        )

    async def _finish_step(self, records: Sequence[CallRecord]) -> tuple[CallRecord, ...]:
        """Fit the results of a step, remember its calls, and save the session."""
        others = [record for record in records if not record.is_discovery]
        fitted = await self.fit(*((r.tool or r.call.name, r.result) for r in others))
        results = {id(r): result for r, result in zip(others, fitted, strict=True)}
        done = tuple(replace(r, result=results.get(id(r), r.result)) for r in records)
        if done:
            self._history.append(done)
        else:  # the model called nothing, so its turn is over
            await self.finish()
        await self.save()
        return done

    # Approvals that are given later

    def approvals(self) -> tuple[PendingApproval, ...]:
        """The calls of this session that are held for an approval of this principal."""
        return self._executor.approvals.pending()

    async def approve(self, approval: PendingApproval | str) -> CallRecord:
        """Run a call that is held for approval, exactly as it was made, at most once.

        This may be another process than the one that made the call. An approval that was used
        before, has expired, or belongs to another principal gives a result that says so.
        """
        return await self._executor.run_approved(approval)

    async def refuse(self, approval: PendingApproval | str, *, reason: str = "") -> CallRecord:
        """Refuse a call that is held for approval; the result is for the model, with the reason."""
        return await self._executor.refuse(approval, reason)

    # Questions that tools ask the user

    def questions(self) -> tuple[PendingQuestion, ...]:
        """The calls of this session that wait for an answer of this principal, oldest first."""
        return self._executor.questions.pending()

    async def reply(
        self,
        question: PendingQuestion | str,
        content: Mapping[str, Any] | None = None,
        *,
        action: AnswerAction = "accept",
    ) -> CallRecord:
        """Answer the question of a tool, and continue its call until it is done or asks again.

        A call waits only in the process that made it, for `question_ttl_minutes`. If it is not
        waiting, or waits for another principal, the result says so and nothing is run. Content that
        does not fit the question leaves it open.
        """
        if action not in get_args(AnswerAction):
            raise ToolscoutError(
                f"{action!r} is not an answer to a question.",
                hint=f"Choose from: {', '.join(get_args(AnswerAction))}.",
            )
        answer = Answer(action=action, content=content or {})
        return await self._executor.reply(question, answer)

    def why(self, name: str) -> Visibility:
        """Whether a tool is in view or deferred, and by which rule."""
        executor = self._executor
        check_tool_names([name])
        if name in executor.features.visible_tools:
            return Visibility(name, "feature")
        catalog = executor.live.catalog
        return why(
            executor.profile, name, session=self.state, catalog=catalog, allow=executor.allow
        )

    def knows(self, name: str) -> bool:
        """Whether a call of this name finds a tool now."""
        return self._executor.knows(name)

    def is_program(self, name: str) -> bool:
        """Whether a tool of this name runs a program, which may wait for a person between calls."""
        found = self._executor.features.callable_tools.get(name)
        return found is not None and found[0].runs_programs

    def stats(self) -> SessionStats:
        """Every tool this conversation may use, grouped by its state."""
        executor = self._executor
        scope = Scope.of(executor.profile.policy, executor.live.catalog, self.state, executor.allow)
        return SessionStats(
            profile=executor.profile.name,
            tools=tuple(t.name for t in scope.tools),
            in_view=tuple(t.name for t in scope.tools if scope.visibility(t)),
            deferred=tuple(t.name for t in scope.tools_out_of_view),
            loaded=self.state.loaded,
        )

    def render_memory(self) -> str:
        """The memory of this conversation as text for the model."""
        executor, state = self._executor, self.state
        # A caller with a narrower rule may continue a conversation that has loaded more.
        discovered = [name for name in state.loaded if not executor.is_forbidden(name)]
        text, failures = executor.features.render(state, discovered=discovered)
        executor.emit_failures(failures)
        return text

    async def fit(self, *results: tuple[str, Result]) -> tuple[Result, ...]:
        """Shrink the results of one turn, each with its tool's name, to the budget of a turn.

        Each result is within the limit for one call, but many together may still be too much.
        """
        executor = self._executor
        catalog = executor.live.catalog
        pairs = [(catalog.get(name) or Tool(name=name), result) for name, result in results]
        session = executor.feature_session()
        fitted, failures = await executor.features.keep_turn(session, pairs)
        session.end()
        executor.emit_failures(failures)
        return fitted

    async def finish(self) -> None:
        """Mark the end of a turn, so that memory can process the whole turn."""
        self._history.clear()
        self._turn_memory = None
        await self._update_features(self._executor.features.finish)

    def tools(self, *names: str) -> tuple[Tool, ...]:
        """The tools of these names that this conversation may use."""
        return self._executor.allowed_tools(*names)

    def search(self, query: str | Sequence[str], *, limit: int = 5) -> Results:
        """The best tools for a query among those that this conversation may use."""
        return self._executor.feature_session().search(query, limit=limit)

    def emit(self, event: Event) -> None:
        """Send an event to the sink of the toolbox, as one of this conversation.

        It may be of a class of your own. Empty fields of its envelope are filled in.
        """
        self._executor.emit(event)

    def stamp(self, event: E) -> E:
        """An event as one of this conversation: empty fields of its envelope are filled in."""
        return self._executor.stamp(event)

    async def update_section(self, section: str, change: Callable[[str | None], str]) -> None:
        """Replace a section of the session by a function of its text, and save it.

        The function may run again on newer text if another writer saved first.
        """
        await self._apply_move(lambda s: s.with_section(section, change(s.sections.get(section))))

    async def load(self, *names: str) -> None:
        """Load tools without a search; a name not in the catalog takes effect when it appears."""
        limit = self._executor.profile.limits.loaded
        check_tool_names(names)
        await self._apply_move(lambda s: s.load(*names, at_most=limit))
        self.emit(ToolsEnabledEvent(names=names))

    async def unload(self, *names: str) -> None:
        """Remove tools from view."""
        await self._apply_move(lambda s: s.unload(*names))
        self.emit(ToolsDisabledEvent(names=names))

    async def mark_compacted(self) -> None:
        """Record that the messages of the conversation were shortened.

        Loaded tools stay in view unless the settings or the profile clear them. Send
        `view(…).restore_references(messages)` next, because some providers take loaded tools from
        references in the messages. Rules are delivered again, since they were in lost messages.
        """
        clear = self._executor.profile.clears_on_compaction
        features = self._executor.features

        def move(state: SessionState) -> tuple[SessionState, tuple[FeatureFailure, ...]]:
            state, failures = features.mark_compacted(state.mark_compacted(clear=clear))
            return carry_loaded_tools(state), failures

        await self._update_features(move)

    async def save(self) -> None:
        """Write pending changes, such as a view that no call followed."""
        if self._stored.has_unsaved:
            await asyncio.to_thread(self._stored.save)

    async def forget(self) -> None:
        """End the conversation, and delete everything stored for it."""
        await self._executor.waiting.cancel(is_owned_by(self.id))
        await asyncio.to_thread(self._stored.forget)
        self._executor.emit_failures(await self._executor.features.forget(self.id))

    async def _apply_move(self, move: Callable[[SessionState], SessionState]) -> None:
        await asyncio.to_thread(self._stored.apply, lambda s: (move(s), None))

    async def _update_features(
        self, move: Callable[[SessionState], tuple[SessionState, tuple[FeatureFailure, ...]]]
    ) -> None:
        self._executor.emit_failures(await self._executor.apply_move(move, is_quick=False))


def _add_introduction(current: View, introduction: str) -> View:
    """Add the introductions of the features, worded as in the first view of the session."""
    # A provider caches the prompt by its prefix, so a feature that changes must not change it.
    introduction = current.session.sections.get(INTRODUCTIONS) or introduction
    if not introduction:
        return current
    session = current.session.with_section(INTRODUCTIONS, introduction)
    # In front, because the profile's instructions may grow when the catalog does.
    return replace(current.with_introduction(introduction), session=session)
