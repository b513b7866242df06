"""Walking through JSON of any size in small windows, so that it is never in memory as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

WINDOW = 1 << 18
Reader = Callable[[int], str]
"""Gives up to so many more characters, and nothing at the end, as a text file's `read` does."""

_decode = json.JSONDecoder().raw_decode
_GAP = re.compile(r"[ \t\r\n]*")
_SEPARATOR = re.compile(r"\S[ \t\r\n]*,[ \t\r\n]*\S")
_SCALARS = re.compile(r"(?:[-+.\w]++[ \t\r\n]*+,[ \t\r\n]*+)+")
_DELIMITERS = frozenset(" \t\r\n,]}")
_TRIES = 3
_PATIENCE = 64


class NotJSON(ValueError):
    """The text stops being JSON somewhere."""


class WindowOverflow(Exception):
    """A value does not end within a window; walk into it instead."""


class Cursor:
    """A place in JSON text that moves from value to value."""

    def __init__(self, read: Reader, *, window: int = WINDOW) -> None:
        self._read = read
        self._window = window
        self._text = ""
        self._at = 0
        self._began = 0
        self._is_over = False

    def peek(self) -> str:
        """The next character that is not a gap; nothing at the end."""
        while True:
            gap = _GAP.match(self._text, self._at)
            self._at = gap.end() if gap else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._fill(self._window):
                return ""

    def skip(self, character: str) -> None:
        """Step over a character that must be here."""
        if self.peek() != character:
            raise NotJSON(f"Expected {character!r}.")
        self._at += 1

    def read_small(self) -> Any:
        """The next value, decoded, if it ends within a window; Larger if not."""
        self.peek()
        while True:
            try:
                value, end = _decode(self._text, self._at)
            except ValueError as error:
                if not self._fill(self._window):
                    raise WindowOverflow from error
                continue
            if self._is_complete(value, end) or not self._fill(self._window):
                self._began, self._at = self._at, end
                return value

    def read_whole(self) -> Any:
        """The next value, decoded, however far it reaches."""
        while True:
            try:
                return self.read_small()
            except WindowOverflow as larger:
                ahead = len(self._text) - self._at
                if not self._fill(2 * max(ahead, self._window)):
                    raise NotJSON("The text ends, or breaks, within a value.") from larger

    def read_raw(self) -> str:
        """The next value as the text it is written in."""
        self.read_whole()
        return self._text[self._began : self._at]

    def peek_separator(self) -> str:
        """How the member just taken meets the next one: as in `}, {`, if there is a next one."""
        found = _SEPARATOR.match(self._text, self._at - 1) if self._at else None
        return found.group() if found else ""

    def skip_members(self, brackets: str, joint: str) -> int:
        """Step over many members at once, up to the last such joint ahead; say how many."""
        self._fill(self._window)
        end = len(self._text)
        for _ in range(_TRIES if joint else 0):
            end = self._text.rfind(joint, self._at, end)
            if end < 0:
                break
            try:
                # The joint's first character still belongs to the member before it.
                passed = json.loads(brackets[0] + self._text[self._at : end + 1] + brackets[1])
            except ValueError:
                continue
            self._at = end + 1
            return len(passed)
        return self._skip_scalars() if brackets == "[]" else 0

    def _skip_scalars(self) -> int:
        """Step over a run of numbers and literals, but for the last one."""
        run = _SCALARS.match(self._text, self._at)
        if run is None:
            return 0
        text = run.group().rstrip().removesuffix(",")
        try:
            count = len(json.loads(f"[{text}]"))
        except ValueError as error:
            raise NotJSON(str(error)) from error
        self._at += len(text)
        return count

    def _is_complete(self, value: object, end: int) -> bool:
        """A number may go on beyond what is here, as in `1` of `1.5e3`; nothing else may."""
        return not isinstance(value, int | float) or self._text[end : end + 1] in _DELIMITERS

    def _fill(self, reach: int) -> bool:
        """See that so much text lies ahead; False if it did already, or nothing is left."""
        ahead = len(self._text) - self._at
        if self._is_over or ahead >= reach:
            return False
        more = self._read(reach - ahead)
        if not more:  # then all places that somebody holds stay what they are
            self._is_over = True
            return False
        self._text = self._text[self._at :] + more
        self._at = 0
        return True


def read_key(cursor: Cursor) -> str:
    """Take an object's next key; the cursor is then before its value."""
    if cursor.peek() != '"':
        raise NotJSON("A key must be a string.")
    name: str = cursor.read_whole()
    cursor.skip(":")
    return name


def walk_members(cursor: Cursor, brackets: str) -> Iterator[None]:
    """Walk into an object or array; before each member, which must be taken, there is a stop."""
    cursor.skip(brackets[0])
    if cursor.peek() != brackets[1]:
        yield
        while cursor.peek() == ",":
            cursor.skip(",")
            yield
    cursor.skip(brackets[1])


def skip_rest(cursor: Cursor, brackets: str) -> int:
    """Right after a member, step over all others and the bracket; say how many they are."""
    joint = cursor.peek_separator()
    count = patience = 0
    while cursor.peek() == ",":
        cursor.skip(",")
        passed = 0 if patience else cursor.skip_members(brackets, joint)
        if not passed:
            # Where leaping fails it fails often: take some steps before the next attempt.
            patience = (patience or _PATIENCE) - 1
            _skip_member(cursor, brackets)
            joint = cursor.peek_separator() or joint
        count += passed or 1
    cursor.skip(brackets[1])
    return count


def skip_value(cursor: Cursor) -> None:
    """Step over the next value, of any size."""
    try:
        cursor.read_small()
    except WindowOverflow:
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
                raise NotJSON("Neither a value nor the end.") from None


def _skip_member(cursor: Cursor, brackets: str) -> None:
    if brackets == "{}":
        read_key(cursor)
    skip_value(cursor)


def stream_items(cursor: Cursor, path: Sequence[str]) -> Iterator[str]:
    """Every element of the array at a path of keys, as text; NotJSON if there is no such array."""
    for wanted in path:
        if not any(_advance_to_key(cursor, wanted) for _ in walk_members(cursor, "{}")):
            raise NotJSON(f"There is no key {wanted!r} on that path.")
    for _ in walk_members(cursor, "[]"):
        yield cursor.read_raw()


def _advance_to_key(cursor: Cursor, wanted: str) -> bool:
    if read_key(cursor) == wanted:
        return True
    skip_value(cursor)
    return False
