"""Feature: the base class of extensions of a toolbox.

Rules, skills, memory and large results are features. A feature knows neither the toolbox nor other
features. It stores one section of text per conversation in the session: the toolbox passes it in
and saves the text that comes back.
"""

# ruff: noqa: ARG002 - methods that do nothing by default use no argument
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from ..catalog.problem import Problem
from ..catalog.result import Result
from ..catalog.tool import Tool
from ..errors import UnknownToolError
from ..events import Event
from ..search.hit import Results

HealthStatus = Literal["ok", "degraded", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureCall:
    """A call that a feature made, with its whole result.

    `needs` is the id of an approval or a question of the tool, without which it cannot continue.
    """

    result: Result
    needs: str = ""


class CallerSession(Protocol):
    """The conversation that a feature acts for, with exactly the permissions of its caller.

    A feature gets it for one call and does not keep it.
    """

    @property
    def id(self) -> str:
        """The key of the conversation, under which a feature may store data of its own."""
        ...

    @property
    def principal(self) -> str:
        """Who calls; empty if the program does not say."""
        ...

    def tools(self, *names: str) -> tuple[Tool, ...]:
        """The tools of these names that the caller may use."""
        ...

    def search(self, query: str | Sequence[str], *, limit: int = 5) -> Results:
        """The best tools for a query among those that the caller may use."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> Result:
        """Call a tool as the caller would: with its permissions, approvals, limits and events.

        Never raises for a failure of the tool. A tool runs even if it was not loaded.
        """
        ...

    async def call_in_full(
        self, name: str, arguments: Mapping[str, Any] | str | None = None
    ) -> FeatureCall:
        """Call a tool as `call` does, with its result as the tool returned it, however large."""
        ...

    async def read_section(self) -> str | None:
        """The text that the feature has stored for the conversation."""
        ...

    async def update_section(self, change: Callable[[str | None], str | None]) -> None:
        """Replace that text by a function of it, which may run again on newer text."""
        ...

    async def wait_for(self, *needs: str) -> None:
        """Report that the current call waits for one of these approvals or answers."""
        ...

    def emit(self, event: Event) -> None:
        """Send an event of this conversation to the sink of the toolbox."""
        ...


@dataclass(frozen=True, slots=True)
class DetachedSession:
    """A session without a toolbox, to test or measure a feature alone; it runs no tool."""

    id: str
    principal: str = ""
    allowed: tuple[Tool, ...] = ()

    def tools(self, *names: str) -> tuple[Tool, ...]:
        """The allowed tools of these names."""
        return tuple(tool for tool in self.allowed if tool.name in names)

    def search(self, query: str | Sequence[str], *, limit: int = 5) -> Results:
        """Nothing is found."""
        return Results(query=query if isinstance(query, str) else " · ".join(query))

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
    ) -> Result:
        """There is no tool to call."""
        return Result.error(f"There is no tool {name!r}.", code=UnknownToolError.code)

    async def call_in_full(
        self, name: str, arguments: Mapping[str, Any] | str | None = None
    ) -> FeatureCall:
        """There is no tool to call."""
        return FeatureCall(result=await self.call(name, arguments))

    async def read_section(self) -> str | None:
        """Nothing is stored."""
        return None

    async def update_section(self, change: Callable[[str | None], str | None]) -> None:
        """Nothing is stored."""

    async def wait_for(self, *needs: str) -> None:
        """Nothing waits."""

    def emit(self, event: Event) -> None:
        """Events are ignored."""


class Feature:
    """An extension of a toolbox; override the methods that it needs.

    An exception in a method is reported as a `feature_failed` event, and the call continues without
    the feature. The methods with a `section` are functions of the text that was stored for a
    conversation, None at first: they may run in a thread, and again on newer text if another
    writer saved first.
    """

    health_key: ClassVar[str] = ""
    """Its name in health reports, events and stored sessions; empty means its class name."""

    runs_programs: ClassVar[bool] = False
    """Whether its tools call others at length: they end by themselves, may wait for a person
    between calls, and their large results are stored."""

    # The toolbox

    async def start(self) -> None:
        """The toolbox opens."""

    async def close(self) -> None:
        """The toolbox closes."""

    def update_tools(self, tools: Iterable[Tool]) -> Sequence[Problem]:
        """Take over a changed catalog; the problems appear in the health of the toolbox."""
        return ()

    def health(self) -> tuple[HealthStatus, Mapping[str, Any]]:
        """Its status and the facts behind it."""
        return "ok", {}

    # Its own tools and text

    def tools(self) -> Sequence[Tool]:
        """Tools that it adds; they are always in view and never filtered."""
        return ()

    def alias_tools(self) -> Sequence[Tool]:
        """Tools under further names, which are answered but not shown."""
        return ()

    def introduction(self) -> str:
        """Text for the instructions of every conversation; empty for none."""
        return ""

    async def call(
        self,
        session: CallerSession,
        tool: Tool,
        arguments: Mapping[str, Any],
    ) -> Result:
        """Run one of its tools for a conversation."""
        return Result.error(f"{tool.name} does nothing: its feature does not implement `call`.")

    def waits_for(self, section: str | None, need: str, *, principal: str) -> bool:
        """Whether one of its calls waits for this approval or answer, for this principal."""
        return False

    async def resume(
        self, session: CallerSession, need: str, result: Result, *, still_needs: str = ""
    ) -> Result | None:
        """Continue the call that waits, with the result of what it waited for.

        With `still_needs` the tool has asked again, and the call waits for that. None if
        nothing waits any more.
        """
        return None

    # The calls of a conversation

    def deliver(self, section: str | None, tools: Sequence[Tool]) -> tuple[str, str | None]:
        """Text to go with tools that were found or described, and the section after it."""
        return "", section

    async def keep(self, session: CallerSession, tool: Tool, result: Result) -> Result:
        """The result as the model gets it: itself, or a preview that says how to read the rest."""
        return result

    async def keep_turn(
        self,
        session: CallerSession,
        results: Sequence[tuple[Tool, Result]],
    ) -> Sequence[Result]:
        """The results of one turn in the same order, so that together they are not too large."""
        return [result for _, result in results]

    def observe(
        self,
        section: str | None,
        tool: Tool,
        result: Result,
        *,
        now: float,
    ) -> str | None:
        """The section after one more result."""
        return section

    def render(self, section: str | None, *, discovered: Sequence[str] = ()) -> str:
        """What it remembers, as text for the model; `discovered` are the loaded tools."""
        return ""

    def finish(self, section: str | None) -> str | None:
        """The section after a turn."""
        return section

    def mark_compacted(self, section: str | None) -> str | None:
        """The section after the messages of the conversation were shortened."""
        return section

    async def forget(self, session_id: str) -> int:
        """Delete what it stores for a conversation; return how many things were deleted."""
        return 0
