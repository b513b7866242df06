"""The session that a feature gets: the caller's own, with the caller's permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..catalog.result import Result
from ..catalog.tool import Tool
from ..disclosure.doubt import judge_results
from ..disclosure.feature import FeatureCall
from ..disclosure.session_state import SessionState
from ..errors import CallRefusedError
from ..events import Event
from ..search.hit import Results
from .argument_checks import check_search
from .call_context import CallContext
from .call_record import CallRecord, PendingQuestion
from .pending_approvals import PendingApproval


class RunCall(Protocol):
    """Runs a call of a feature with the rule, the approvals and the limits of its caller."""

    def __call__(
        self, name: str, arguments: object, *, keeps_full: bool = False
    ) -> Awaitable[CallRecord]:
        """The record of the call."""
        ...


@dataclass(slots=True)
class FeatureSession:
    """The session of a feature: it can do nothing that the caller could not do itself.

    It ends with the call that it was made for. A feature that keeps it would act for one caller
    with the permissions of another.
    """

    _context: CallContext
    _run: RunCall
    _section: str = ""
    _records: list[CallRecord] = field(default_factory=list[CallRecord])
    _waits_for: tuple[str, ...] = ()
    _has_ended: bool = False

    def end(self) -> None:
        """Refuse all further use."""
        self._has_ended = True

    def _check(self) -> None:
        if self._has_ended:
            raise CallRefusedError(
                "This session was for a call that has ended.",
                hint="Use the session that the current call was given.",
            )

    @property
    def id(self) -> str:
        """The key of the conversation."""
        return self._context.stored.session.id

    @property
    def principal(self) -> str:
        """Who calls; empty if the program does not say."""
        return self._context.principal

    def tools(self, *names: str) -> tuple[Tool, ...]:
        """The tools of these names that the caller may use."""
        self._check()
        return self._context.allowed_tools(*names)

    def search(self, query: str | Sequence[str], *, limit: int = 5) -> Results:
        """The best tools for a query among those that the caller may use."""
        self._check()
        check_search(query, limit, "auto")
        engine, allow = self._context.live.engine, self._context.allow
        results = engine.search(query, limit=limit, allow=allow)
        return judge_results(results, engine, allow=allow)

    async def call(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> Result:
        """Call a tool as the caller would; a failure of the tool is an error result."""
        self._check()
        record = await self._run(name, arguments)
        self._records.append(record)
        return record.result

    async def call_in_full(
        self, name: str, arguments: Mapping[str, Any] | str | None = None
    ) -> FeatureCall:
        """Call a tool as the caller would, and get the whole result."""
        self._check()
        record = await self._run(name, arguments, keeps_full=True)
        self._records.append(record)
        return FeatureCall(result=record.full, needs=record.needs.id if record.needs else "")

    async def read_section(self) -> str | None:
        """The text that the feature has stored for the conversation."""
        self._check()
        await asyncio.to_thread(self._context.stored.refresh)
        return self._context.stored.session.sections.get(self._section)

    async def update_section(self, change: Callable[[str | None], str | None]) -> None:
        """Replace that text, durably."""
        self._check()

        def move(state: SessionState) -> tuple[SessionState, None]:
            text = change(state.sections.get(self._section))
            if text is None:
                return state.without_section(self._section), None
            return state.with_section(self._section, text), None

        await asyncio.to_thread(self._context.stored.apply_durably, move)

    async def wait_for(self, *needs: str) -> None:
        """Report that the current call waits for one of these approvals or answers."""
        self._waits_for = needs

    def emit(self, event: Event) -> None:
        """Send an event of this conversation to the sink of the toolbox."""
        self._context.emit(event)

    @property
    def enabled(self) -> tuple[str, ...]:
        """The tools that calls of the feature have made callable."""
        return tuple(dict.fromkeys(name for record in self._records for name in record.enabled))

    @property
    def needs(self) -> PendingApproval | PendingQuestion | None:
        """The first approval or answer that is missing for a call of the feature."""
        pending = {need.id: need for need in self._context.pending_needs()}
        for need in self._waits_for:
            if need in pending:
                return pending[need]
        return next((record.needs for record in self._records if record.needs), None)
