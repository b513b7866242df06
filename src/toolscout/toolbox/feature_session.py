"""The session that a feature gets: the caller's own, with the caller's permissions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..catalog.result import Result
from ..catalog.tool import Tool
from ..disclosure.doubt import judge_results
from ..errors import CallRefusedError
from ..events import Event
from ..search.hit import Results
from .argument_checks import check_search
from .call_context import CallContext
from .call_record import CallRecord, PendingQuestion
from .pending_approvals import PendingApproval

RunCall = Callable[[str, object], Awaitable[CallRecord]]
"""Runs a call of a feature with the rule, the approvals and the limits of its caller."""


@dataclass(slots=True)
class FeatureSession:
    """The session of a feature: it can do nothing that the caller could not do itself.

    It ends with the call that it was made for. A feature that keeps it would act for one caller
    with the permissions of another.
    """

    _context: CallContext
    _run: RunCall
    _records: list[CallRecord] = field(default_factory=list[CallRecord])
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
        return next((record.needs for record in self._records if record.needs), None)
