"""Searches a stored result with RE2, with context lines and a time limit."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, BinaryIO

from .passages import CHUNK, count_characters

re2: Any = import_module("re2")  # it brings no types

MAX_PATTERN_CHARS = 200
CONTEXT_LINES = 2
# A longer line is shown as an excerpt around each match: minified JSON is one endless line.
_MAX_LINE_BYTES = 2_000
_EXCERPT_BYTES = 200
# RE2 is linear, but the factor can be large: 10 s per megabyte for `a.{900}q`. So it gets windows,
# and the clock is read between them. Wider windows than these made greedy patterns on one endless
# line ten times slower (docs/decisions/large-results.md).
_MIN_WINDOW = 1 << 16
_MAX_WINDOW = 1 << 18
# Windows within one long line overlap, so that a match at their border is found. A match that is
# longer than the overlap can be missed there.
_OVERLAP = 1 << 12
_QUICK_SECONDS = 0.05


class PatternError(ValueError):
    """The pattern is invalid; the text says why."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line to show; of a very long line the part around a match, from `character` on."""

    number: int
    text: str
    is_match: bool = False
    character: int = 0


@dataclass(frozen=True, slots=True)
class GrepResult:
    """The lines of a search; `stopped` says why it ended early, if it did."""

    lines: tuple[Line, ...] = ()
    matches: int = 0
    stopped: str = ""


def compile_pattern(pattern: str, *, case_sensitive: bool) -> Any:
    """Compile a pattern that a model wrote; PatternError if it is invalid."""
    if "\0" in pattern:
        raise PatternError("A pattern cannot hold a NUL character.")
    if not pattern:
        raise PatternError("The pattern is empty.")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternError(
            f"The pattern has {len(pattern):,} characters; {MAX_PATTERN_CHARS} are allowed."
        )
    options: Any = re2.Options()
    options.case_sensitive = case_sensitive
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(f"(?m){pattern}", options)
    except UnicodeEncodeError as error:
        raise PatternError("The pattern is not valid Unicode.") from error
    except re2.error as error:
        message = error.args[0]
        text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
        raise PatternError(f"The pattern is not RE2: {text}.") from error


def grep(stream: BinaryIO, pattern: Any, *, max_results: int, seconds: float) -> GrepResult:
    """Find matching lines with context, up to a number of matches and a time limit."""
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
    """Finds the next match window by window, so that a costly pattern stops in time."""

    def __init__(self, view: mmap.mmap, pattern: Any, deadline: float) -> None:
        self._view = view
        self._pattern = pattern
        self._deadline = deadline
        self._width = _MIN_WINDOW
        self.is_late = False

    def find(self, position: int) -> tuple[int, int] | None:
        """The byte range of the first match at or after a position."""
        size = len(self._view)
        while position < size:
            stop, next_position = self._window(position, size)
            started = time.monotonic()
            match = self._pattern.search(self._view, position, stop)
            if match is not None:
                return None if self._is_past_end(match.start(), size) else match.span()
            self._adjust_window(started)
            if self.is_late or stop == size:
                return None
            position = next_position
        return None

    def _is_past_end(self, begin: int, size: int) -> bool:
        # An empty match after the final newline is in no line.
        return begin == size and self._view[size - 1 : size] == b"\n"

    def _window(self, position: int, size: int) -> tuple[int, int]:
        """Where a window ends and the next begins: after a line, or else overlapping."""
        stop = position + self._width
        if stop >= size:
            return size, size
        newline = self._view.rfind(b"\n", position, stop)
        return (newline + 1, newline + 1) if newline >= 0 else (stop, stop - _OVERLAP)

    def _adjust_window(self, started: float) -> None:
        now = time.monotonic()
        self.is_late = now > self._deadline
        is_quick = now - started < _QUICK_SECONDS
        self._width = min(self._width * 2, _MAX_WINDOW) if is_quick else _MIN_WINDOW


class _LineCollector:
    """Collects the lines to show, with their numbers and character positions."""

    def __init__(self, view: mmap.mmap) -> None:
        self._view = view
        # By line number and start of the excerpt, 0 for a whole line. A match replaces the same
        # line shown as context.
        self._lines: dict[tuple[int, int], Line] = {}
        self._line = _PositionCounter(view, lambda piece: piece.count(b"\n"))
        self._character = _PositionCounter(view, count_characters)
        self._bounds = (0, -1)

    def lines(self) -> tuple[Line, ...]:
        """All lines so far, in file order."""
        return tuple(self._lines[key] for key in sorted(self._lines))

    def add_match(self, begin: int, end: int) -> int:
        """Add a match and its context; return where to look for the next one."""
        start, stop = self._line_bounds(begin)
        number = self._line.count_to(start) + 1
        if stop - start <= _MAX_LINE_BYTES:
            self._lines[number, 0] = Line(
                number, _decode_line(self._view[start:stop]), is_match=True
            )
            next_position = stop + 1
        else:
            next_position = self._add_excerpt(number, begin, min(end, begin + _EXCERPT_BYTES), stop)
        self._add_context(number, start, stop)
        return next_position

    def _add_excerpt(self, number: int, begin: int, end: int, stop: int) -> int:
        left = max(self._bounds[0], begin - _EXCERPT_BYTES)
        # Move to the first byte of a character: continuation bytes in UTF-8 are 10xxxxxx.
        while left > self._bounds[0] and self._view[left] & 0xC0 == 0x80:
            left -= 1
        right = min(stop, end + _EXCERPT_BYTES)
        character = self._character.count_to(left) + 1
        text = _decode_line(self._view[left:right])
        self._lines[number, left + 1] = Line(number, text, is_match=True, character=character)
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
        self._lines.setdefault((number, 0), Line(number, text + "…" if is_cut else text))

    def _line_bounds(self, position: int) -> tuple[int, int]:
        if not self._bounds[0] <= position <= self._bounds[1]:
            start = self._view.rfind(b"\n", 0, position) + 1
            self._bounds = (start, self._end_of_line(position))
        return self._bounds

    def _end_of_line(self, position: int) -> int:
        end = self._view.find(b"\n", position)
        return len(self._view) if end < 0 else end


class _PositionCounter:
    """Counts lines or characters up to a position; positions only move forward."""

    def __init__(self, view: mmap.mmap, count: Callable[[bytes], int]) -> None:
        self._view = view
        self._count = count
        self._position = 0
        self._total = 0

    def count_to(self, position: int) -> int:
        while self._position < position:
            piece = self._view[self._position : min(position, self._position + CHUNK)]
            self._total += self._count(piece)
            self._position += len(piece)
        return self._total


def _decode_line(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")
