"""The figures of one hour or day: counted in a process, and added to a text in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from .latency import RANGES, find_range

FORMAT: Final = 1
WIDTH: Final = 1 + RANGES
"""The numbers that are counted of calls: errors, then how many took a time in each range."""

OTHER_TOOLS: Final = ""
"""Stands for the tools of a server that have no figures of their own."""

# Ids of the last additions: one whose answer was lost is recognised, and not added again.
_MAX_WRITES = 64
_MAX_NAME_CHARS = 200

Counts = NDArray[np.int64]
"""One row of numbers, or several."""

ToolName = tuple[str, str]
"""A server and one of its tools."""


class Tally:
    """Counts calls, searches and saved tokens; not thread-safe."""

    def __init__(self) -> None:
        self.tokens_saved = 0
        self.searches = [0] * WIDTH
        self.calls: dict[ToolName, list[int]] = {}

    def add_call(self, name: ToolName, milliseconds: float, *, is_error: bool) -> None:
        """Count one call of a tool."""
        row = self.calls.get(name)
        if row is None:
            row = self.calls[name] = [0] * WIDTH
        _count(row, milliseconds, is_error=is_error)

    def add_search(self, milliseconds: float, *, is_error: bool) -> None:
        """Count one search."""
        _count(self.searches, milliseconds, is_error=is_error)


def _count(row: list[int], milliseconds: float, *, is_error: bool) -> None:
    row[0] += is_error
    row[1 + find_range(milliseconds)] += 1


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsRecord:
    """The figures of an hour or day as they are stored: for each of `tools` a row of numbers."""

    tokens_saved: int = 0
    searches: Counts = field(default_factory=lambda: np.zeros(WIDTH, np.int64))
    tools: tuple[ToolName, ...] = ()
    calls: Counts = field(default_factory=lambda: np.zeros((0, WIDTH), np.int64))


def parse_record(text: str) -> StatisticsRecord:
    """The figures in a text; none if they cannot be read, since they are only a statistic."""
    values = _load(text)
    try:
        found = cast("Mapping[str, Mapping[str, list[int]]]", values["calls"])
        tools = tuple((server, tool) for server, rows in found.items() for tool in rows)
        numbers = [row for rows in found.values() for row in rows.values()]
        return StatisticsRecord(
            int(values["tokens_saved"]),
            np.array(values["searches"], np.int64).reshape(WIDTH),
            tools,
            np.array(numbers, np.int64).reshape(len(tools), WIDTH),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return StatisticsRecord()


def add_tally(text: str, tally: Tally, *, id: str, max_tools: int) -> str | None:  # noqa: A002 - as events call it
    """A text with the counts of a tally added under an id; None if it has them already.

    Tools beyond the limit count for their server only.
    """
    values = _load(text)
    if id in values["writes"]:
        return None
    calls: dict[str, dict[str, list[int]]] = values["calls"]
    size = sum(map(len, calls.values()))
    for (server, tool), row in tally.calls.items():
        of_server = calls.setdefault(server[:_MAX_NAME_CHARS], {})
        name = tool[:_MAX_NAME_CHARS]
        if name not in of_server and size >= max_tools:
            name = OTHER_TOOLS
        size += name not in of_server
        of_server[name] = _add(of_server.get(name), row)
    values["tokens_saved"] += tally.tokens_saved
    values["searches"] = _add(values["searches"], tally.searches)
    values["writes"] = [*values["writes"], id][-_MAX_WRITES:]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _add(old: list[int] | None, new: list[int]) -> list[int]:
    return [*new] if old is None else [a + b for a, b in zip(old, new, strict=True)]


def _load(text: str) -> dict[str, Any]:
    """The values of a text; those of an empty record if it is damaged or of another format."""
    try:
        values: dict[str, Any] = json.loads(text)
        if values["format"] == FORMAT and _is_whole(values):
            return values
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    counts: dict[str, Any] = {"tokens_saved": 0, "searches": [0] * WIDTH, "calls": {}}
    return {"format": FORMAT, **counts, "writes": []}


def _is_whole(values: Mapping[str, Any]) -> bool:
    rows = [row for of_server in values["calls"].values() for row in of_server.values()]
    sizes = {len(row) for row in (values["searches"], *rows)}
    are_lists = isinstance(values["writes"], list) and all(isinstance(row, list) for row in rows)
    return are_lists and sizes == {WIDTH} and isinstance(values["tokens_saved"], int)
