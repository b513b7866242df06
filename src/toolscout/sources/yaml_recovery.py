"""A YAML text without the items of its lists that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import yaml

from .rows import CUT_OFF, FIX_ITEM, TOOL_LIST_KEYS, Row
from .yaml_events import YAML_ERRORS, describe_yaml_error, error_position, parse_events

_ASIDE = re.compile(r"\s*(?:#.*|---\s*|%.*)?$")
_ITEM = re.compile(r"(?P<indent> *)-(?:\s|$)")
_KEY = re.compile(
    rf"(?P<indent> *(?:- +)*)[\"']?(?:{'|'.join(TOOL_LIST_KEYS)})[\"']?\s*:\s*(?:#.*)?$"
)
_OPEN_KEY = re.compile(r"\s*[^\s#-][^#]*:\s*(?:#.*)?$")
_ANCHOR = re.compile(r"(?<!\S)&([^\s,\[\]{}]+)")
_DEEPEST = 3
_MOST_LISTS = 50


@dataclass(frozen=True, slots=True)
class _LineRange:
    """Lines from `start` up to, without it, `end`."""

    start: int
    end: int


def blank_broken_items(text: str) -> tuple[str, list[Row]]:
    """The text with each item blanked out that is no YAML by itself, and what is wrong with it.

    Lines keep their numbers, and aliases their anchors, so that the rest is read as ever.
    """
    lines = _YAMLLines(text)
    lines.blank_broken(lines.whole, depth=0)
    return lines.text(lines.whole), lines.faults


def blank_dangling_items(text: str) -> tuple[str, list[Row]]:
    """The text without items that refer to an anchor which is not there, or was in a bad item."""
    lines = _YAMLLines(text)
    lines.blank_dangling()
    return lines.text(lines.whole), lines.faults


class _YAMLLines:
    """The lines of a text, of which more and more are blank."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self.faults: list[Row] = []
        self.whole = _LineRange(0, len(self._lines))
        last = max((n for n, line in enumerate(self._lines) if line.strip()), default=0)
        self._end = (last, len(self._lines[last].rstrip()))

    def text(self, block: _LineRange) -> str:
        return "\n".join(self._lines[block.start : block.end])

    def blank_broken(self, within: _LineRange, *, depth: int) -> None:
        """Blank what is broken; of a group with some good tools, only the others."""
        for items in list(self._tool_lists(within, is_inner=depth > 0)):
            for item, error in list(self._find_broken(items)):
                if depth == _DEEPEST or not self._recover_part(item, depth + 1):
                    fault = describe_yaml_error(error, above=item.start)
                    self._blank(item, fault, is_cut=self._is_truncated(item, error))

    def _recover_part(self, item: _LineRange, depth: int) -> bool:
        lines, faults = self._lines[item.start : item.end], list(self.faults)
        self.blank_broken(item, depth=depth)
        is_saved = len(self.faults) > len(faults) and self._parse_error(item) is None
        if is_saved and any(self._tool_lists(item, is_inner=True)):
            return True
        self._lines[item.start : item.end], self.faults = lines, faults
        return False

    def blank_dangling(self) -> None:
        """Blank each item with an alias that nothing before it, and nothing in it, explains."""
        items = [item for items in self._tool_lists(self.whole, is_inner=False) for item in items]
        around = list(self._lines)
        for item in items:
            around[item.start : item.end] = [""] * (item.end - item.start)
        known = set(_ANCHOR.findall("\n".join(around)))
        for item in items:
            own: set[str] = set()
            fault = self._alias_fault(item, known, own)
            if fault:
                self._blank(item, fault)
            else:
                known |= own

    def _alias_fault(self, item: _LineRange, known: set[str], own: set[str]) -> str:
        try:
            for event in parse_events(self.text(item)):
                anchor: str | None = getattr(event, "anchor", None)
                if anchor is None:
                    continue
                is_known = anchor in known or anchor in own
                if isinstance(event, yaml.AliasEvent) != is_known:
                    why = f"&{anchor} is there already" if is_known else f"there is no &{anchor}"
                    return f"Not valid YAML: {why}."
                own.add(anchor)
        except YAML_ERRORS as error:
            return describe_yaml_error(error, above=item.start)
        return ""

    def _blank(self, item: _LineRange, fault: str, *, is_cut: bool = False) -> None:
        remedy = CUT_OFF if is_cut else FIX_ITEM
        self.faults.append(Row(item.start + 1, fault=fault, remedy=remedy))
        self._lines[item.start : item.end] = [""] * (item.end - item.start)

    def _is_truncated(self, item: _LineRange, error: Exception) -> bool:
        """Whether the text ends where more was to come."""
        place = error_position(error)
        return place is not None and (item.start + place[0], place[1]) >= self._end

    def _parse_error(self, block: _LineRange) -> Exception | None:
        try:
            for _ in parse_events(self.text(block)):
                pass
        except YAML_ERRORS as error:
            return error
        return None

    def _find_broken(self, items: Sequence[_LineRange]) -> Iterator[tuple[_LineRange, Exception]]:
        """The broken ones; halving finds a few among many without reading each by itself."""
        error = self._parse_error(_LineRange(items[0].start, items[-1].end))
        if error is None:
            return
        if len(items) == 1:
            yield items[0], error
            return
        middle = len(items) // 2
        yield from self._find_broken(items[:middle])
        yield from self._find_broken(items[middle:])

    def _tool_lists(self, within: _LineRange, *, is_inner: bool) -> Iterator[list[_LineRange]]:
        """The items of each outermost list of tools."""
        for _ in range(_MOST_LISTS):
            found = self._find_top_list(within) if not is_inner else None
            found = found or self._find_keyed_list(within)
            if found is None:
                return
            items = self._split_items(*found, within.end)
            yield items
            within = _LineRange(items[-1].end, within.end)

    def _find_top_list(self, within: _LineRange) -> tuple[int, int, int] | None:
        """Where a list begins that is a document itself, how far in, and what is around it."""
        first = self._first_content_line(within)
        match = None if first is None else _ITEM.match(self._lines[first])
        return None if first is None or match is None else (first, match.end("indent"), -1)

    def _find_keyed_list(self, within: _LineRange) -> tuple[int, int, int] | None:
        """The same for the list under the key that stands farthest out."""
        best: tuple[int, int, int] | None = None
        for number in range(within.start, within.end):
            key = _KEY.match(self._lines[number])
            if key is None or (best is not None and key.end("indent") >= best[2]):
                continue
            outer = key.end("indent")
            first = self._first_content_line(_LineRange(number + 1, within.end))
            match = None if first is None else _ITEM.match(self._lines[first])
            if first is not None and match is not None and match.end("indent") >= outer:
                best = (first, match.end("indent"), outer)
                if outer == 0:
                    break
        return best

    def _first_content_line(self, within: _LineRange) -> int | None:
        numbers = range(within.start, within.end)
        return next((n for n in numbers if not _ASIDE.match(self._lines[n])), None)

    def _split_items(self, first: int, indent: int, outer: int, end: int) -> list[_LineRange]:
        """The items of a list, each beginning equally far in; a key farther out ends the list.

        A key with its value is no end if more items follow: then it belongs to a bad one.
        """
        starts: list[int] = []
        perhaps: int | None = None
        for number in range(first, end):
            line = self._lines[number]
            width = len(line) - len(line.lstrip(" "))
            match = _ITEM.match(line)
            if width == indent and match is not None:
                starts.append(number)
                perhaps = None
            elif line.startswith(("---", "...")) or (width <= outer and not _ASIDE.match(line)):
                perhaps = number if perhaps is None else perhaps
                if outer < 0 or _OPEN_KEY.match(line):
                    break
        return [
            _LineRange(*pair) for pair in pairwise([*starts, end if perhaps is None else perhaps])
        ]
