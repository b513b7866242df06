"""The roster: what exists, by name, within a budget of tokens.

Models do not reach for what they cannot see. Names grouped by server or category are best; when
they do not fit, each group with its count and what its tools are about, then with its count
alone; when even those do not fit, the largest groups and a count of the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..catalog.names import normalise_name
from ..catalog.sanitization import clean_line
from ..catalog.tool import Tool
from ..tokens import TokenCounter

_GROUP_CHARS = 60
_NAME_CHARS = 64
_TOPICS_WORTH = 5
_NO_GROUP = "other"
_PLAIN_WORDS = (
    "add all apply call check clear copy create delete describe disable do download edit enable "
    "execute export fetch find generate get import insert list load make manage move open post "
    "publish put query read remove rename replace run save search send set show start stop "
    "submit sync tool trigger update upload validate view write by for from in of on the to with"
)
_VERBS = frozenset(_PLAIN_WORDS.split())


@dataclass(frozen=True, slots=True)
class Roster:
    """The text as the model reads it, and how many tools of each group it speaks of."""

    text: str
    known: Mapping[str, int]


def build_roster(tools: Iterable[Tool], *, budget_tokens: int, by: TokenCounter) -> Roster:
    """As much about these tools as fits the budget."""
    groups = _group_by_server(tools)
    known = {group: len(found) for group, found in groups.items()}
    for level in (_render_names, _render_topics, _render_counts):
        text = level(groups, budget_tokens)
        if text is not None and by.count(text) <= budget_tokens:
            return Roster(text, known)
    return Roster(_render_largest(known, budget_tokens=budget_tokens, by=by), known)


def group_counts(tools: Iterable[Tool]) -> dict[str, int]:
    """How many tools each group has."""
    return {group: len(found) for group, found in _group_by_server(tools).items()}


def catalog_news(before: Mapping[str, int], now: Mapping[str, int], *, most: int = 8) -> str:
    """What changed since the model was told, in a line; nothing when nothing did."""
    come = [f"{g} ({n})" for g, n in now.items() if g not in before]
    more = [f"{g} ({before[g]} → {n})" for g, n in now.items() if g in before and before[g] != n]
    gone = [g for g in before if g not in now]
    parts = [
        f"{label} {_join_limited(items, most)}"
        for label, items in (("new:", come), ("changed:", more), ("gone:", gone))
        if items
    ]
    return f"Since the list above, {'; '.join(parts)}." if parts else ""


def _group_by_server(tools: Iterable[Tool]) -> dict[str, list[Tool]]:
    """Tools by server, else by category, under names fit to be read."""
    raw: dict[str, list[Tool]] = {}
    for tool in tools:
        raw.setdefault(tool.server or tool.category or _NO_GROUP, []).append(tool)
    groups: dict[str, list[Tool]] = {}
    for group, found in raw.items():
        groups.setdefault(clean_line(group, cap=_GROUP_CHARS), []).extend(found)
    return groups


def _render_names(groups: Mapping[str, list[Tool]], budget_tokens: int) -> str | None:
    # No name is under a token, so a catalog with more names than tokens need not be written out.
    if sum(map(len, groups.values())) > budget_tokens:
        return None
    lines = (f"{g}: {', '.join(_local_name(t) for t in tools)}" for g, tools in groups.items())
    return "\n".join(lines)


def _render_topics(groups: Mapping[str, list[Tool]], budget_tokens: int) -> str | None:
    """Each group with its count and what its tools are about."""
    if sum(map(len, groups.values())) > _TOPICS_WORTH * budget_tokens:
        return None
    about = {group: _topic_words(tools) for group, tools in groups.items()}
    lines = (f"{g} ({len(groups[g])}): {', '.join(words)}" for g, words in about.items())
    return "\n".join(lines)


def _topic_words(tools: Iterable[Tool]) -> list[str]:
    """The first word of each name that is not merely what is done; plurals count once."""
    found: dict[str, str] = {}
    for tool in tools:
        words = normalise_name(_local_name(tool)).split("_")
        word = next((w for w in words if w not in _VERBS), words[0])
        found.setdefault(word.removesuffix("s"), word)
    return [*found.values()]


def _local_name(tool: Tool) -> str:
    return clean_line(tool.local_name, cap=_NAME_CHARS)


def _render_counts(groups: Mapping[str, list[Tool]], _: int) -> str:
    return ", ".join(f"{group} ({len(tools)})" for group, tools in groups.items())


def _render_largest(known: Mapping[str, int], *, budget_tokens: int, by: TokenCounter) -> str:
    """The largest groups that fit, and how many groups and tools are left."""
    order = sorted(known.items(), key=lambda pair: (-pair[1], pair[0]))
    low, high = 0, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        if by.count(_render_with_rest(order, middle)) <= budget_tokens:
            low = middle
        else:
            high = middle - 1
    return _render_with_rest(order, low)


def _render_with_rest(order: list[tuple[str, int]], shown: int) -> str:
    head = ", ".join(f"{group} ({count})" for group, count in order[:shown])
    rest = sum(count for _, count in order[shown:])
    tail = f"{len(order) - shown} more groups with {rest} tools" if rest else ""
    return ", ".join(part for part in (head, tail) if part)


def _join_limited(items: list[str], most: int) -> str:
    left = len(items) - most
    return ", ".join(items[:most]) + (f" and {left} more" if left > 0 else "")
