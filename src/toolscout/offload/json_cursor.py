"""Cursor over JSON text of any size, which decodes it in small windows.

Decoding 58 MB of records as a whole takes 300 MB of Python objects; walking through the text in
windows takes a fraction of its size (docs/decisions/large-results.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

WINDOW = 1 << 18
Reader = Callable[[int], str]
"""Returns at most so many more characters, and "" at the end, like `read` of a text file."""

_decode = json.JSONDecoder().raw_decode
_WHITESPACE = re.compile(r"[ \t\r\n]*")
# The last character of a member up to the first one of the next: `}, {` in a list of records.
_SEPARATOR = re.compile(r"\S[ \t\r\n]*,[ \t\r\n]*\S")
_SCALARS = re.compile(r"(?:[-+.\w]++[ \t\r\n]*+,[ \t\r\n]*+)+")
_DELIMITERS = frozenset(" \t\r\n,]}")
# What looks like a separator may be inside a string or a nested list. Each failed attempt costs
# the decoding of a window, so only a few are made before continuing member by member.
_MAX_SKIP_ATTEMPTS = 3
_STEPS_AFTER_FAILED_SKIP = 64


class NotJSONError(ValueError):
    """The text is not valid JSON."""


class WindowOverflowError(Exception):
    """A value does not end within a window, so it must be walked into."""


class Cursor:
    """A position in JSON text that moves from value to value."""

    def __init__(self, read: Reader, *, window: int = WINDOW) -> None:
        self._read = read
        self._window = window
        self._text = ""
        self._position = 0
        self._value_start = 0
        self._at_end = False

    def peek(self) -> str:
        """The next character that is not whitespace; "" at the end."""
        while True:
            space = _WHITESPACE.match(self._text, self._position)
            self._position = space.end() if space else self._position
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._fill(self._window):
                return ""

    def skip(self, character: str) -> None:
        """Step over a character that must be here."""
        if self.peek() != character:
            raise NotJSONError(f"Expected {character!r}.")
        self._position += 1

    def read_small(self) -> Any:
        """Decode the next value if it ends within a window, else raise WindowOverflowError."""
        self.peek()
        while True:
            try:
                value, end = _decode(self._text, self._position)
            except ValueError as error:
                if not self._fill(self._window):
                    raise WindowOverflowError from error
                continue
            if self._is_complete(value, end) or not self._fill(self._window):
                self._value_start, self._position = self._position, end
                return value

    def read_whole(self) -> Any:
        """Decode the next value, whatever its size."""
        while True:
            try:
                return self.read_small()
            except WindowOverflowError as larger:
                ahead = len(self._text) - self._position
                # Doubling keeps the repeated decoding linear in the size of the value.
                if not self._fill(2 * max(ahead, self._window)):
                    raise NotJSONError("The text ends, or breaks, within a value.") from larger

    def read_raw(self) -> str:
        """The source text of the next value."""
        self.read_whole()
        return self._text[self._value_start : self._position]

    def peek_separator(self) -> str:
        """What separates the member just read from the next one, such as `}, {`; else ""."""
        found = _SEPARATOR.match(self._text, self._position - 1) if self._position else None
        return found.group() if found else ""

    def skip_members(self, brackets: str, separator: str) -> int:
        """Skip many members at once, up to the last such separator ahead; return how many.

        Members of one list tend to be alike, so a separator that was seen once very likely ends
        a member. The text up to it is decoded in one go, which both checks that and counts: that
        was eight times faster than decoding each member (docs/decisions/large-results.md).
        """
        self._fill(self._window)
        end = len(self._text)
        for _ in range(_MAX_SKIP_ATTEMPTS if separator else 0):
            end = self._text.rfind(separator, self._position, end)
            if end < 0:
                break
            try:
                # The first character of the separator belongs to the member before it.
                skipped = json.loads(
                    brackets[0] + self._text[self._position : end + 1] + brackets[1]
                )
            except ValueError:
                continue
            self._position = end + 1
            return len(skipped)
        return self._skip_scalars() if brackets == "[]" else 0

    def _skip_scalars(self) -> int:
        """Skip a run of numbers and literals, except the last one, which may be cut off."""
        run = _SCALARS.match(self._text, self._position)
        if run is None:
            return 0
        text = run.group().rstrip().removesuffix(",")
        try:
            count = len(json.loads(f"[{text}]"))
        except ValueError as error:
            raise NotJSONError(str(error)) from error
        self._position += len(text)
        return count

    def _is_complete(self, value: object, end: int) -> bool:
        """Whether a value ends here: a number may continue in the next window, as `1` of
        `1.5e3`."""
        return not isinstance(value, int | float) or self._text[end : end + 1] in _DELIMITERS

    def _fill(self, reach: int) -> bool:
        """Read until so much text lies ahead; False if it did already or nothing is left."""
        ahead = len(self._text) - self._position
        if self._at_end or ahead >= reach:
            return False
        more = self._read(reach - ahead)
        if not more:  # positions in the text stay valid then
            self._at_end = True
            return False
        self._text = self._text[self._position :] + more
        self._position = 0
        return True


def read_key(cursor: Cursor) -> str:
    """Read the next key of an object; the cursor is then before its value."""
    if cursor.peek() != '"':
        raise NotJSONError("A key must be a string.")
    name: str = cursor.read_whole()
    cursor.skip(":")
    return name


def walk_members(cursor: Cursor, brackets: str) -> Iterator[None]:
    """Walk into an object or array; yields before each member, which the caller must read."""
    cursor.skip(brackets[0])
    if cursor.peek() != brackets[1]:
        yield
        while cursor.peek() == ",":
            cursor.skip(",")
            yield
    cursor.skip(brackets[1])


def skip_rest(cursor: Cursor, brackets: str) -> int:
    """After a member, skip all others and the closing bracket; return how many."""
    separator = cursor.peek_separator()
    count = steps_left = 0
    while cursor.peek() == ",":
        cursor.skip(",")
        skipped = 0 if steps_left else cursor.skip_members(brackets, separator)
        if not skipped:
            # Skipping that failed once fails often: go step by step for a while.
            steps_left = (steps_left or _STEPS_AFTER_FAILED_SKIP) - 1
            _skip_member(cursor, brackets)
            separator = cursor.peek_separator() or separator
        count += skipped or 1
    cursor.skip(brackets[1])
    return count


def skip_value(cursor: Cursor) -> None:
    """Skip the next value, whatever its size."""
    try:
        cursor.read_small()
    except WindowOverflowError:
        match cursor.peek():
            case "{" | "[" as opening:
                brackets = "{}" if opening == "{" else "[]"
                cursor.skip(opening)
                if cursor.peek() == brackets[1]:
                    cursor.skip(brackets[1])
                    return
                _skip_member(cursor, brackets)
                skip_rest(cursor, brackets)
            case '"':
                cursor.read_whole()
            case _:
                raise NotJSONError("Neither a value nor the end.") from None


def _skip_member(cursor: Cursor, brackets: str) -> None:
    if brackets == "{}":
        read_key(cursor)
    skip_value(cursor)


def stream_items(cursor: Cursor, path: Sequence[str]) -> Iterator[str]:
    """The source text of every element of the array at a path of keys; NotJSONError if missing."""
    for key in path:
        if not any(_advance_to_key(cursor, key) for _ in walk_members(cursor, "{}")):
            raise NotJSONError(f"There is no key {key!r} on that path.")
    for _ in walk_members(cursor, "[]"):
        yield cursor.read_raw()


def _advance_to_key(cursor: Cursor, key: str) -> bool:
    if read_key(cursor) == key:
        return True
    skip_value(cursor)
    return False
