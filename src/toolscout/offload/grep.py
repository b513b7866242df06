"""Searching a file by RE2: line numbers, the lines around, and no longer than it may take."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, BinaryIO

from .passages import CHUNK, count_characters

re2: Any = import_module("re2")  # it brings no types

PATTERN_CAP = 200
CONTEXT_LINES = 2
_LONG_LINE = 2_000
_EXCERPT_BYTES = 200
_WINDOW = 1 << 16
_WIDEST = 1 << 18
_OVERLAP = 1 << 12
_QUICK_SECONDS = 0.05


class BadPattern(ValueError):
    """The pattern is not one; the text says why."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line to show; of a very long one the part around a match, which begins at `character`."""

    number: int
    text: str
    is_match: bool = False
    character: int = 0


@dataclass(frozen=True, slots=True)
class GrepResult:
    """What a search came to; `stopped` says why it did not reach the end, if it did not."""

    lines: tuple[Line, ...] = ()
    matches: int = 0
    stopped: str = ""


def compile_pattern(pattern: str, *, case_sensitive: bool) -> Any:
    """Compile a pattern that a model wrote, or say what is wrong with it."""
    if "\0" in pattern:
        raise BadPattern("A pattern cannot hold a NUL character.")
    if not pattern:
        raise BadPattern("The pattern is empty.")
    if len(pattern) > PATTERN_CAP:
        raise BadPattern(f"The pattern has {len(pattern):,} characters; {PATTERN_CAP} are allowed.")
    options: Any = re2.Options()
    options.case_sensitive = case_sensitive
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(f"(?m){pattern}", options)
    except UnicodeEncodeError as error:
        raise BadPattern("The pattern is not valid Unicode.") from error
    except re2.error as error:
        told = error.args[0]
        text = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
        raise BadPattern(f"The pattern is not RE2: {text}.") from error


def grep(stream: BinaryIO, pattern: Any, *, max_results: int, seconds: float) -> GrepResult:
    """Lines that match, with the lines around them, up to a number and a time."""
    try:
        view = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        return GrepResult()  # an empty file cannot be mapped, and has no lines
    with view:
        scan = _Scanner(view, pattern, time.monotonic() + seconds)
        page = _LineCollector(view)
        position = matches = 0
        while (span := scan.find(position)) is not None:
            if matches == max_results:
                return GrepResult(
                    page.lines(), matches, f"stopped at the first {matches:,} matches"
                )
            position = page.add_match(*span)
            matches += 1
        late = f"stopped after {seconds:g} seconds; a simpler pattern is quicker"
        return GrepResult(page.lines(), matches, late if scan.is_late else "")


class _Scanner:
    """Looks for the next match in windows, so that a costly pattern is noticed in time."""

    def __init__(self, view: mmap.mmap, pattern: Any, deadline: float) -> None:
        self._view = view
        self._pattern = pattern
        self._deadline = deadline
        self._width = _WINDOW
        self.is_late = False

    def find(self, position: int) -> tuple[int, int] | None:
        """The bytes of the first match from here on."""
        size = len(self._view)
        while position < size:
            stop, onward = self._window(position, size)
            began = time.monotonic()
            match = self._pattern.search(self._view, position, stop)
            if match is not None:
                return None if self._is_past_end(match.start(), size) else match.span()
            self._adjust_window(began)
            if self.is_late or stop == size:
                return None
            position = onward
        return None

    def _is_past_end(self, begin: int, size: int) -> bool:
        return begin == size and self._view[size - 1 : size] == b"\n"

    def _window(self, position: int, size: int) -> tuple[int, int]:
        """Where a window ends and where the next begins: after a line, or else overlapping."""
        stop = position + self._width
        if stop >= size:
            return size, size
        newline = self._view.rfind(b"\n", position, stop)
        return (newline + 1, newline + 1) if newline >= 0 else (stop, stop - _OVERLAP)

    def _adjust_window(self, began: float) -> None:
        now = time.monotonic()
        self.is_late = now > self._deadline
        is_quick = now - began < _QUICK_SECONDS
        self._width = min(self._width * 2, _WIDEST) if is_quick else _WINDOW


class _LineCollector:
    """Collects the lines to show, and knows where in the file it is."""

    def __init__(self, view: mmap.mmap) -> None:
        self._view = view
        self._shown: dict[tuple[int, int], Line] = {}
        self._line = _PositionCounter(view, lambda piece: piece.count(b"\n"))
        self._character = _PositionCounter(view, count_characters)
        self._bounds = (0, -1)

    def lines(self) -> tuple[Line, ...]:
        """All lines so far, in the file's order."""
        return tuple(self._shown[key] for key in sorted(self._shown))

    def add_match(self, begin: int, end: int) -> int:
        """Show a match and its surroundings; say where to look for the next one."""
        start, stop = self._line_bounds(begin)
        number = self._line.count_to(start) + 1
        if stop - start <= _LONG_LINE:
            self._shown[number, 0] = Line(
                number, _decode_line(self._view[start:stop]), is_match=True
            )
            onward = stop + 1
        else:
            onward = self._add_excerpt(number, begin, min(end, begin + _EXCERPT_BYTES), stop)
        self._add_context(number, start, stop)
        return onward

    def _add_excerpt(self, number: int, begin: int, end: int, stop: int) -> int:
        left = max(self._bounds[0], begin - _EXCERPT_BYTES)
        while left > self._bounds[0] and self._view[left] & 0xC0 == 0x80:
            left -= 1
        right = min(stop, end + _EXCERPT_BYTES)
        character = self._character.count_to(left) + 1
        text = _decode_line(self._view[left:right])
        self._shown[number, left + 1] = Line(number, text, is_match=True, character=character)
        return right if right > begin else begin + 1

    def _add_context(self, number: int, start: int, stop: int) -> None:
        for back in range(1, CONTEXT_LINES + 1):
            if start == 0:
                break
            end, start = start - 1, self._view.rfind(b"\n", 0, start - 1) + 1
            self._add_context_line(number - back, start, end)
        size = len(self._view)
        for ahead in range(1, CONTEXT_LINES + 1):
            if stop + 1 >= size:
                break
            start, stop = stop + 1, self._end_of_line(stop + 1)
            self._add_context_line(number + ahead, start, stop)

    def _add_context_line(self, number: int, start: int, stop: int) -> None:
        text = _decode_line(self._view[start : min(stop, start + 2 * _EXCERPT_BYTES)])
        is_cut = stop - start > 2 * _EXCERPT_BYTES
        self._shown.setdefault((number, 0), Line(number, text + "…" if is_cut else text))

    def _line_bounds(self, position: int) -> tuple[int, int]:
        if not self._bounds[0] <= position <= self._bounds[1]:
            start = self._view.rfind(b"\n", 0, position) + 1
            self._bounds = (start, self._end_of_line(position))
        return self._bounds

    def _end_of_line(self, position: int) -> int:
        end = self._view.find(b"\n", position)
        return len(self._view) if end < 0 else end


class _PositionCounter:
    """Counts something from the beginning of a file up to places that only move forward."""

    def __init__(self, view: mmap.mmap, count: Callable[[bytes], int]) -> None:
        self._view = view
        self._count = count
        self._at = 0
        self._total = 0

    def count_to(self, position: int) -> int:
        while self._at < position:
            piece = self._view[self._at : min(position, self._at + CHUNK)]
            self._total += self._count(piece)
            self._at += len(piece)
        return self._total


def _decode_line(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")
