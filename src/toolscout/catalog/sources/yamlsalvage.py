"""A YAML text without the items of its lists that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import yaml

from .envelope import LISTS
from .row import CUT_OFF, MEND_ITEM, Row
from .yamlevents import FAULTS, events, place_of, told

_ASIDE = re.compile(r"\s*(?:#.*|---\s*|%.*)?$")
_ITEM = re.compile(r"(?P<indent> *)-(?:\s|$)")
_KEY = re.compile(rf"(?P<indent> *(?:- +)*)[\"']?(?:{'|'.join(LISTS)})[\"']?\s*:\s*(?:#.*)?$")
_OPEN_KEY = re.compile(r"\s*[^\s#-][^#]*:\s*(?:#.*)?$")
_ANCHOR = re.compile(r"(?<!\S)&([^\s,\[\]{}]+)")
_DEEPEST = 3
_MOST_LISTS = 50


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines from `start` up to, without it, `end`."""

    start: int
    end: int


def without_broken(text: str) -> tuple[str, list[Row]]:
    """The text with each item blanked out that is no YAML by itself, and what is wrong with it.

    Lines keep their numbers, and aliases their anchors, so that the rest is read as ever.
    """
    lines = _Lines(text)
    lines.blank_broken(lines.whole, depth=0)
    return lines.text(lines.whole), lines.faults


def without_dangling(text: str) -> tuple[str, list[Row]]:
    """The text without items that refer to an anchor which is not there, or was in a bad item."""
    lines = _Lines(text)
    lines.blank_dangling()
    return lines.text(lines.whole), lines.faults


class _Lines:
    """The lines of a text, of which more and more are blank."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self.faults: list[Row] = []
        self.whole = _Block(0, len(self._lines))
        last = max((n for n, line in enumerate(self._lines) if line.strip()), default=0)
        self._end = (last, len(self._lines[last].rstrip()))

    def text(self, block: _Block) -> str:
        return "\n".join(self._lines[block.start : block.end])

    def blank_broken(self, within: _Block, *, depth: int) -> None:
        """Blank what is broken; of a group with some good tools, only the others."""
        for items in list(self._lists(within, is_inner=depth > 0)):
            for item, error in list(self._broken(items)):
                if depth == _DEEPEST or not self._is_saved_in_part(item, depth + 1):
                    fault = told(error, above=item.start)
                    self._blank(item, fault, is_cut=self._is_cut_off(item, error))

    def _is_saved_in_part(self, item: _Block, depth: int) -> bool:
        lines, faults = self._lines[item.start : item.end], list(self.faults)
        self.blank_broken(item, depth=depth)
        is_saved = len(self.faults) > len(faults) and self._error(item) is None
        if is_saved and any(self._lists(item, is_inner=True)):
            return True
        self._lines[item.start : item.end], self.faults = lines, faults
        return False

    def blank_dangling(self) -> None:
        """Blank each item with an alias that nothing before it, and nothing in it, explains."""
        items = [item for items in self._lists(self.whole, is_inner=False) for item in items]
        around = list(self._lines)
        for item in items:
            around[item.start : item.end] = [""] * (item.end - item.start)
        known = set(_ANCHOR.findall("\n".join(around)))
        for item in items:
            own: set[str] = set()
            fault = self._loose(item, known, own)
            if fault:
                self._blank(item, fault)
            else:
                known |= own

    def _loose(self, item: _Block, known: set[str], own: set[str]) -> str:
        try:
            for event in events(self.text(item)):
                anchor: str | None = getattr(event, "anchor", None)
                if anchor is None:
                    continue
                is_known = anchor in known or anchor in own
                if isinstance(event, yaml.AliasEvent) != is_known:
                    why = f"&{anchor} is there already" if is_known else f"there is no &{anchor}"
                    return f"Not valid YAML: {why}."
                own.add(anchor)
        except FAULTS as error:
            return told(error, above=item.start)
        return ""

    def _blank(self, item: _Block, fault: str, *, is_cut: bool = False) -> None:
        remedy = CUT_OFF if is_cut else MEND_ITEM
        self.faults.append(Row(item.start + 1, fault=fault, remedy=remedy))
        self._lines[item.start : item.end] = [""] * (item.end - item.start)

    def _is_cut_off(self, item: _Block, error: Exception) -> bool:
        """Whether the text ends where more was to come."""
        place = place_of(error)
        return place is not None and (item.start + place[0], place[1]) >= self._end

    def _error(self, block: _Block) -> Exception | None:
        try:
            for _ in events(self.text(block)):
                pass
        except FAULTS as error:
            return error
        return None

    def _broken(self, items: Sequence[_Block]) -> Iterator[tuple[_Block, Exception]]:
        """The broken ones; halving finds a few among many without reading each by itself."""
        error = self._error(_Block(items[0].start, items[-1].end))
        if error is None:
            return
        if len(items) == 1:
            yield items[0], error
            return
        middle = len(items) // 2
        yield from self._broken(items[:middle])
        yield from self._broken(items[middle:])

    def _lists(self, within: _Block, *, is_inner: bool) -> Iterator[list[_Block]]:
        """The items of each outermost list of tools."""
        for _ in range(_MOST_LISTS):
            found = self._top_list(within) if not is_inner else None
            found = found or self._keyed_list(within)
            if found is None:
                return
            items = self._items(*found, within.end)
            yield items
            within = _Block(items[-1].end, within.end)

    def _top_list(self, within: _Block) -> tuple[int, int, int] | None:
        """Where a list begins that is a document itself, how far in, and what is around it."""
        first = self._content(within)
        match = None if first is None else _ITEM.match(self._lines[first])
        return None if first is None or match is None else (first, match.end("indent"), -1)

    def _keyed_list(self, within: _Block) -> tuple[int, int, int] | None:
        """The same for the list under the key that stands farthest out."""
        best: tuple[int, int, int] | None = None
        for number in range(within.start, within.end):
            key = _KEY.match(self._lines[number])
            if key is None or (best is not None and key.end("indent") >= best[2]):
                continue
            outer = key.end("indent")
            first = self._content(_Block(number + 1, within.end))
            match = None if first is None else _ITEM.match(self._lines[first])
            if first is not None and match is not None and match.end("indent") >= outer:
                best = (first, match.end("indent"), outer)
                if outer == 0:
                    break
        return best

    def _content(self, within: _Block) -> int | None:
        numbers = range(within.start, within.end)
        return next((n for n in numbers if not _ASIDE.match(self._lines[n])), None)

    def _items(self, first: int, indent: int, outer: int, end: int) -> list[_Block]:
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
        return [_Block(*pair) for pair in pairwise([*starts, end if perhaps is None else perhaps])]
