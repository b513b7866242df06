"""How often tools and servers were called lately, counted in the journal."""

from __future__ import annotations

from dataclasses import dataclass

from ..store.log_contract import EVERY_ROW, LogFilter, LogStore

RECENT_ROWS = 100_000
"""Calls among this many of the newest rows are counted: all of a million would take too long."""


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Counts calls in the newest rows of a journal."""

    log: LogStore
    after: int

    @classmethod
    def of(cls, log: LogStore) -> CallCounts:
        """Counts from the rows that are the newest now."""
        newest = log.read(EVERY_ROW, limit=1)
        return cls(log, max(0, newest[0].sequence - RECENT_ROWS) if newest else 0)

    def of_tool(self, tool: str) -> int:
        """How often a tool was called."""
        return self.log.count(LogFilter(kind="call", tool=tool, after=self.after))

    def of_server(self, server: str) -> int:
        """How often the tools of a server were called."""
        return self.log.count(LogFilter(kind="call", server=server, after=self.after))

    def last_call(self, tool: str) -> float | None:
        """When a tool was called last, in all rows."""
        rows = self.log.read(LogFilter(kind="call", tool=tool), limit=1)
        return rows[0].time if rows else None
