"""Session: one conversation with a toolbox, its view of the tools, its calls and its state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..catalog.result import Result
from ..catalog.tool import Tool
from ..disclosure.discovery import role_of
from ..disclosure.scope import Scope, Visibility, is_allowed
from ..disclosure.session_state import SessionState
from ..disclosure.snapshot import carry_loaded_tools
from ..disclosure.target import Target
from ..disclosure.view import View, view, why
from ..events import Event, FeatureFailureEvent, ToolsDisabledEvent, ToolsEnabledEvent
from .argument_checks import check_tool_names
from .executor import CallExecutor
from .features import INTRODUCTIONS, MEMORY, RULES, TurnBudgetFeature, TurnListener

if TYPE_CHECKING:
    from ..models.messages import Call

# How many calls of one model turn run at the same time; the others wait for a free slot.
_MAX_PARALLEL_CALLS = 8


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

    @property
    def id(self) -> str:
        """The key under which the session is stored."""
        return self._stored.session.id

    @property
    def state(self) -> SessionState:
        """What the conversation has loaded, searched and used, as a frozen value."""
        return self._stored.session

    def view(self, model: str | Target = "plain") -> View:
        """Exactly what the model sees now, in its provider's format.

        `model` is a provider (`anthropic`), a provider and a model (`openai:gpt-5.4`), a known
        model id, or a Target. The next call saves what was shown, so that later views only append.
        """
        executor = self._executor

        def move(session: SessionState) -> tuple[SessionState, View]:
            new_view = view(
                executor.profile,
                executor.live.catalog,
                session,
                target=model,
                allow=executor.allow,
                extras=[tool for _, tool in executor.features.visible_tools.values()],
            )
            new_view = self._add_introduction(new_view)
            return new_view.session, new_view

        # Locally, because this method is synchronous and writing to the store may block.
        self._last_view = self._stored.apply_locally(move)
        return self._last_view

    def _add_introduction(self, current: View) -> View:
        """Add the introductions of the features, worded as in the first view of the session."""
        # A provider caches the prompt by its prefix, so a feature that changes must not change it.
        stored = current.session.sections.get(INTRODUCTIONS)
        introduction = stored or self._executor.features.introduction
        if not introduction:
            return current
        session = current.session.with_section(INTRODUCTIONS, introduction)
        # In front, because the profile's instructions may grow when the catalog does.
        parts = (part for part in (introduction, current.instructions) if part)
        return replace(current, instructions="\n\n".join(parts), session=session)

    async def call(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> Result:
        """Call a tool: a discovery tool, a tool of the catalog, or one that a feature adds.

        Never raises for a mistake of the model; the result then is an error that says what to do
        next. Arguments may be JSON text, as models write them.
        """
        return await self._executor.call(name, arguments)

    async def answer(self, response: object) -> list[Any]:
        """Run every call in a model's reply, and return the messages for the next request.

        `response` is what an SDK returned (Messages, Responses, Chat Completions, Gemini), or its
        dictionary. The messages are the model's own turn and the results of its calls, in the
        format of that API. The list is empty if the model called nothing: its reply is final.
        """
        from ..models.sdk_replies import read_sdk_reply

        reply = read_sdk_reply(response)
        if not reply.message.calls:
            return []
        provider = reply.format.provider
        last_view = self._last_view
        # The last view may be for another provider, which names tools and references differently.
        if last_view is None or last_view.target.provider.name != provider:
            last_view = self.view(f"{provider}:{reply.model}")
        results = await self._run_calls(reply.message.calls, last_view)
        return reply.next_messages(results, tools=self.view(last_view.target).tools)

    async def _run_calls(self, calls: Sequence[Call], current: View) -> list[tuple[Result, str]]:
        """Run discovery first and in order, because it changes the view; then all others."""
        done: dict[str, tuple[Result, str]] = {}
        for call in calls:
            if self._is_discovery(current.real_name(call.name)):
                before = self.state.loaded
                result = await self.call(call.name, call.arguments)
                new = [name for name in self.state.loaded if name not in before]
                done[call.id] = result, current.native_answer(self.tools(*new)) if new else ""
        others = [call for call in calls if call.id not in done]
        slots = asyncio.Semaphore(_MAX_PARALLEL_CALLS)

        async def run_call(call: Call) -> tuple[str, Result]:
            async with slots:
                return current.real_name(call.name), await self.call(call.name, call.arguments)

        fitted = await self.fit(*await asyncio.gather(*map(run_call, others)))
        done |= {c.id: (result, "") for c, result in zip(others, fitted, strict=True)}
        return [done[call.id] for call in calls]

    def _is_discovery(self, name: str) -> bool:
        executor = self._executor
        return role_of(executor.profile, name, executor.live.catalog) not in (None, "call")

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

    def recall(self) -> str:
        """The memory of this conversation as text for the model."""
        memory, state = self._executor.features.memory, self.state
        if memory is None:
            return ""
        return memory.render(state.sections.get(MEMORY), discovered=state.loaded)

    async def fit(self, *results: tuple[str, Result]) -> tuple[Result, ...]:
        """Shrink the results of one turn, each with its tool's name, to the budget of a turn.

        Each result is within the limit for one call, but many together may still be too much.
        """
        offload = self._executor.features.offload
        if not isinstance(offload, TurnBudgetFeature):
            return tuple(result for _, result in results)
        catalog = self._executor.live.catalog
        pairs = [(catalog.get(name) or Tool(name=name), result) for name, result in results]
        try:
            return tuple(await offload.keep_turn(self.id, pairs))
        except Exception as error:  # noqa: BLE001 - a failing feature must not lose the result
            self.emit(FeatureFailureEvent(feature="offload", why=repr(error)))
            return tuple(result for _, result in results)

    async def finish(self) -> None:
        """Mark the end of a turn, so that memory can process the whole turn."""
        memory = self._executor.features.memory
        if isinstance(memory, TurnListener) and MEMORY in self.state.sections:
            await self.update_section(MEMORY, memory.finish)

    def tools(self, *names: str) -> tuple[Tool, ...]:
        """The tools of these names that this conversation may use."""
        executor = self._executor
        found = (executor.live.catalog.get(name) for name in names)
        return tuple(t for t in found if t is not None and is_allowed(t, executor.allow))

    def emit(self, event: Event) -> None:
        """Send an event to the sink of the toolbox, as one of this conversation.

        It may be of a class of your own. What is empty in its envelope is filled in.
        """
        self._executor.emit(event)

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
        await self._apply_move(
            lambda s: carry_loaded_tools(s.mark_compacted(clear=clear).without_section(RULES))
        )

    async def save(self) -> None:
        """Write pending changes, such as a view that no call followed."""
        await asyncio.to_thread(self._stored.save)

    async def forget(self) -> None:
        """End the conversation and delete everything stored for it."""
        await asyncio.to_thread(self._stored.forget)
        await self._executor.features.forget(self.id)

    async def _apply_move(self, move: Callable[[SessionState], SessionState]) -> None:
        await asyncio.to_thread(self._stored.apply, lambda s: (move(s), None))
