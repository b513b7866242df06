"""One conversation with a toolbox: what it sees, what it calls, and what is kept of it."""

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
from ..errors import ToolscoutError
from ..events import Event
from .executor import CallExecutor
from .features import INTRODUCTIONS, MEMORY, RULES, TurnBudgetFeature, TurnListener

if TYPE_CHECKING:
    from ..models.messages import Call

_MAX_PARALLEL_CALLS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStats:
    """Where a conversation stands, in names: what exists for it, is in view, waits, is loaded."""

    profile: str
    tools: tuple[str, ...]
    in_view: tuple[str, ...]
    deferred: tuple[str, ...]
    loaded: tuple[str, ...]


class Session:
    """A session to work with: every move is saved, and calls may run side by side."""

    def __init__(self, caller: CallExecutor) -> None:
        self._caller = caller
        self._kept = caller.stored
        self._shown: View | None = None

    @property
    def id(self) -> str:
        """The name the session is kept under."""
        return self._kept.session.id

    @property
    def state(self) -> SessionState:
        """What the conversation has loaded, searched and used, as a value."""
        return self._kept.session

    def view(self, model: str | Target = "plain") -> View:
        """Exactly what the model sees now, in its provider's form.

        `model` is a provider (`anthropic`), a provider and a model (`openai:gpt-5.4`), a model id
        whose maker is known, or a Target. What was shown is fixed in the session and saved with
        the next call, so that later views only append.
        """
        caller = self._caller

        def move(session: SessionState) -> tuple[SessionState, View]:
            shown = view(
                caller.profile,
                caller.live.catalog,
                session,
                target=model,
                allow=caller.allow,
                extras=[tool for _, tool in caller.features.visible_tools.values()],
            )
            shown = self._add_introduction(shown)
            return shown.session, shown

        self._shown = self._kept.apply_locally(move)
        return self._shown

    def _add_introduction(self, shown: View) -> View:
        """The view with what features say from the start, in the words of the first time."""
        said = shown.session.sections.get(INTRODUCTIONS)
        if said is None:
            said = self._caller.features.introduction
        if not said:
            return shown
        session = shown.session.with_section(INTRODUCTIONS, said)
        # First, since a catalog that outgrows its list has more to say later.
        parts = (part for part in (said, shown.instructions) if part)
        return replace(shown, instructions="\n\n".join(parts), session=session)

    async def call(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> Result:
        """Call a tool: a discovery tool, a tool of the catalog, or one that a feature adds.

        Never raises for what a model did; the result says whether it is an error and how to go
        on. Arguments may be JSON text, as models write them.
        """
        return await self._caller.call(name, arguments)

    async def answer(self, response: object) -> list[Any]:
        """Run every call in a model's reply, and give the messages to append before asking again.

        `response` is what an SDK returned (Messages, Responses, Chat Completions, Gemini), or its
        dictionary. The messages are the model's own turn and the results of its calls, in the form
        of that API: references to tools that a search found, images, errors marked as such. There
        are none when the model called nothing: its reply is then the answer.
        """
        from ..models.sdk_replies import read_sdk_reply

        reply = read_sdk_reply(response)
        if not reply.message.calls:
            return []
        provider = reply.form.provider
        shown = self._shown
        if shown is None or shown.target.provider.name != provider:
            shown = self.view(f"{provider}:{reply.model}")
        results = await self._run_calls(reply.message.calls, shown)
        return reply.next_messages(results, tools=self.view(shown.target).tools)

    async def _run_calls(self, calls: Sequence[Call], shown: View) -> list[tuple[Result, str]]:
        """Discovery first and in order, since it changes what is in view; the others together."""
        done: dict[str, tuple[Result, str]] = {}
        for call in calls:
            if self._is_discovery(shown.real_name(call.name)):
                before = self.state.loaded
                result = await self.call(call.name, call.arguments)
                new = [name for name in self.state.loaded if name not in before]
                done[call.id] = result, shown.native_answer(self.tools(*new)) if new else ""
        others = [call for call in calls if call.id not in done]
        gate = asyncio.Semaphore(_MAX_PARALLEL_CALLS)

        async def run_gated(call: Call) -> tuple[str, Result]:
            async with gate:
                return shown.real_name(call.name), await self.call(call.name, call.arguments)

        fitted = await self.fit(*await asyncio.gather(*map(run_gated, others)))
        done |= {c.id: (result, "") for c, result in zip(others, fitted, strict=True)}
        return [done[call.id] for call in calls]

    def _is_discovery(self, name: str) -> bool:
        caller = self._caller
        return role_of(caller.profile, name, caller.live.catalog) not in (None, "call")

    def why(self, name: str) -> Visibility:
        """Whether a tool is in view or waits, and by which rule."""
        caller = self._caller
        _check_names([name])
        if name in caller.features.visible_tools:
            return Visibility(name, "feature")
        catalog = caller.live.catalog
        return why(caller.profile, name, session=self.state, catalog=catalog, allow=caller.allow)

    def stats(self) -> SessionStats:
        """Every tool this conversation may have, sorted by where it stands."""
        caller = self._caller
        scope = Scope.of(caller.profile.policy, caller.live.catalog, self.state, caller.allow)
        return SessionStats(
            profile=caller.profile.name,
            tools=tuple(t.name for t in scope.tools),
            in_view=tuple(t.name for t in scope.tools if scope.visibility(t)),
            deferred=tuple(t.name for t in scope.tools_out_of_view),
            loaded=self.state.loaded,
        )

    def recall(self) -> str:
        """What the memory has of this conversation, as text for the model."""
        memory, state = self._caller.features.memory, self.state
        if memory is None:
            return ""
        return memory.render(state.sections.get(MEMORY), discovered=state.loaded)

    async def fit(self, *results: tuple[str, Result]) -> tuple[Result, ...]:
        """The results of one turn, by the tools they came from, so that together they fit.

        Each fits by itself already; many at once may still be more than a context should take.
        """
        keeper = self._caller.features.offload
        if not isinstance(keeper, TurnBudgetFeature):
            return tuple(result for _, result in results)
        known = [(self._caller.live.catalog.get(name) or Tool(name=name), r) for name, r in results]
        try:
            return tuple(await keeper.keep_turn(self.id, known))
        except Exception as error:  # noqa: BLE001 - a feature never costs a call its outcome
            self.emit("feature_failed", feature="offload", tool="", why=repr(error))
            return tuple(result for _, result in results)

    async def finish(self) -> None:
        """Say that a turn is over, so that the memory can look back on it."""
        memory = self._caller.features.memory
        if isinstance(memory, TurnListener) and MEMORY in self.state.sections:
            await self.update_section(MEMORY, memory.finish)

    def tools(self, *names: str) -> tuple[Tool, ...]:
        """The tools of these names that this conversation may have."""
        caller = self._caller
        found = (caller.live.catalog.get(name) for name in names)
        return tuple(t for t in found if t is not None and is_allowed(t, caller.allow))

    def emit(self, kind: str, **facts: Any) -> None:
        """Tell whoever listens to the toolbox of something that happened in this conversation."""
        self._caller.sink(Event(kind, self.id, facts))

    async def update_section(self, section: str, change: Callable[[str | None], str]) -> None:
        """Change a section of the session by a function of what it holds, and save it.

        The function may be called again on newer text, where another writer was first.
        """
        await self._apply_move(lambda s: s.with_section(section, change(s.sections.get(section))))

    async def load(self, *names: str) -> None:
        """Bring tools into view without a search; names not in the catalog wait for it."""
        most = self._caller.profile.limits.loaded
        _check_names(names)
        await self._apply_move(lambda s: s.load(*names, at_most=most))
        self.emit("tools_enabled", names=names)

    async def unload(self, *names: str) -> None:
        """Take tools out of view again."""
        await self._apply_move(lambda s: s.unload(*names))
        self.emit("tools_disabled", names=names)

    async def mark_compacted(self) -> None:
        """Say that the conversation's messages were shortened.

        Loaded tools stay in view, whatever the messages still show of them, unless the settings
        or the profile clear them; send `view(…).restore_references(messages)`, since with some
        providers it is messages that bring them. Rules of use are given again: they went with
        the messages.
        """
        clear = self._caller.profile.clears_on_compaction
        await self._apply_move(
            lambda s: carry_loaded_tools(s.mark_compacted(clear=clear).without_section(RULES))
        )

    async def save(self) -> None:
        """Write what is not written yet: after a view that no call followed."""
        await asyncio.to_thread(self._kept.save)

    async def forget(self) -> None:
        """End the conversation: all that was kept of it is deleted."""
        await asyncio.to_thread(self._kept.forget)
        await self._caller.features.forget(self.id)

    async def _apply_move(self, move: Callable[[SessionState], SessionState]) -> None:
        await asyncio.to_thread(self._kept.apply, lambda s: (move(s), None))


def _check_names(names: Sequence[object]) -> None:
    """Refuse what is no name before it is kept, since a session with it could not be read back."""
    for name in names:
        if not isinstance(name, str):
            raise ToolscoutError(
                f"{name!r} is not the name of a tool.", hint="Give names as text, one by one."
            )
