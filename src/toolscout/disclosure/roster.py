"""The roster: a list of the tools that exist, within a token budget.

Models do not use what they cannot see. Best are names grouped by server or category. If they do
not fit, each group gets its count and topics, then its count alone; if even those do not fit,
only the largest groups are listed, with a count of the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..catalog.sanitization import clean_line
from ..catalog.tool import Tool, normalise_name
from ..tokens import TokenCounter

_GROUP_CHARS = 60
_NAME_CHARS = 64
# With more tools than this for each token of the budget, topics are not even collected: that
# keeps the roster of 100,000 tools fast.
_MAX_TOOLS_PER_TOKEN = 5
_NO_GROUP = "other"
# Words that most tool names share and that say nothing about the subject of a tool.
_VERBS_AND_PREPOSITIONS = (
    "add all apply call check clear copy create delete describe disable do download edit enable "
    "execute export fetch find generate get import insert list load make manage move open post "
    "publish put query read remove rename replace run save search send set show start stop "
    "submit sync tool trigger update upload validate view write by for from in of on the to with"
)
_NOT_TOPICS = frozenset(_VERBS_AND_PREPOSITIONS.split())


@dataclass(frozen=True, slots=True)
class Roster:
    """The text for the model, and how many tools of each group it covers."""

    text: str
    known: Mapping[str, int]


def build_roster(tools: Iterable[Tool], *, budget_tokens: int, counter: TokenCounter) -> Roster:
    """The most detailed roster of these tools that fits the budget."""
    groups = _group_by_server(tools)
    known = {group: len(found) for group, found in groups.items()}
    for render in (_render_names, _render_topics, _render_counts):
        text = render(groups, budget_tokens)
        if text is not None and counter.count(text) <= budget_tokens:
            return Roster(text, known)
    return Roster(_render_largest(known, budget_tokens=budget_tokens, counter=counter), known)


def group_counts(tools: Iterable[Tool]) -> dict[str, int]:
    """The number of tools in each group."""
    return {group: len(found) for group, found in _group_by_server(tools).items()}


def catalog_news(before: Mapping[str, int], now: Mapping[str, int], *, max_items: int = 8) -> str:
    """One line about the groups that changed between two counts; empty if none did."""
    added = [f"{g} ({n})" for g, n in now.items() if g not in before]
    resized = [f"{g} ({before[g]} → {n})" for g, n in now.items() if g in before and before[g] != n]
    removed = [g for g in before if g not in now]
    parts = [
        f"{label}: {_join_limited(items, max_items)}"
        for label, items in (("added", added), ("changed", resized), ("removed", removed))
        if items
    ]
    return f"Changes since the list above: {'; '.join(parts)}." if parts else ""


def _group_by_server(tools: Iterable[Tool]) -> dict[str, list[Tool]]:
    """Tools by server, else by category, under cleaned names."""
    raw: dict[str, list[Tool]] = {}
    for tool in tools:
        raw.setdefault(tool.server or tool.category or _NO_GROUP, []).append(tool)
    groups: dict[str, list[Tool]] = {}
    # Names come from upstream and go into the prompt, so they are cleaned and cut: once per group,
    # not once per tool. Two groups can have the same cleaned name, so there is a second dictionary.
    for group, found in raw.items():
        groups.setdefault(clean_line(group, cap=_GROUP_CHARS), []).extend(found)
    return groups


def _render_names(groups: Mapping[str, list[Tool]], budget_tokens: int) -> str | None:
    # A name takes at least one token, so more names than tokens cannot fit.
    if sum(map(len, groups.values())) > budget_tokens:
        return None
    lines = (f"{g}: {', '.join(_local_name(t) for t in tools)}" for g, tools in groups.items())
    return "\n".join(lines)


def _render_topics(groups: Mapping[str, list[Tool]], budget_tokens: int) -> str | None:
    """Each group with its count and its topics."""
    if sum(map(len, groups.values())) > _MAX_TOOLS_PER_TOKEN * budget_tokens:
        return None
    topics = {group: _topic_words(tools) for group, tools in groups.items()}
    lines = (f"{g} ({len(groups[g])}): {', '.join(words)}" for g, words in topics.items())
    return "\n".join(lines)


def _topic_words(tools: Iterable[Tool]) -> list[str]:
    """The first word of each name that is not a verb or a preposition; plurals count once."""
    found: dict[str, str] = {}
    for tool in tools:
        words = normalise_name(_local_name(tool)).split("_")
        word = next((w for w in words if w not in _NOT_TOPICS), words[0])
        found.setdefault(word.removesuffix("s"), word)
    return [*found.values()]


def _local_name(tool: Tool) -> str:
    return clean_line(tool.local_name, cap=_NAME_CHARS)


def _render_counts(groups: Mapping[str, list[Tool]], _: int) -> str:
    return ", ".join(f"{group} ({len(tools)})" for group, tools in groups.items())


def _render_largest(known: Mapping[str, int], *, budget_tokens: int, counter: TokenCounter) -> str:
    """The largest groups that fit, and how many groups and tools are left out."""
    order = sorted(known.items(), key=lambda pair: (-pair[1], pair[0]))
    # Binary search for the number of groups: counting tokens is the slow part.
    low, high = 0, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        if counter.count(_render_with_rest(order, middle)) <= budget_tokens:
            low = middle
        else:
            high = middle - 1
    return _render_with_rest(order, low)


def _render_with_rest(order: list[tuple[str, int]], size: int) -> str:
    head = ", ".join(f"{group} ({count})" for group, count in order[:size])
    rest = sum(count for _, count in order[size:])
    tail = f"{len(order) - size} more groups with {rest} tools" if rest else ""
    return ", ".join(part for part in (head, tail) if part)


def _join_limited(items: list[str], max_items: int) -> str:
    left = len(items) - max_items
    return ", ".join(items[:max_items]) + (f" and {left} more" if left > 0 else "")
