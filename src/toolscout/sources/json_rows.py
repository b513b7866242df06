"""Rows out of JSON: one a line, or a whole document, which may be half written."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from json import JSONDecodeError
from typing import cast

from .json_recovery import JSONRecovery
from .rows import (
    CUT_OFF,
    FIX_ITEM,
    FIX_REST,
    TOOL_LIST_KEYS,
    Row,
    assign_server,
    is_tool,
    server_of,
)

_SPACE = re.compile(r"[ \t\r\n]*")
_INCOMPLETE_VALUE = re.compile(r"(?:-|tr?u?|fa?l?s?|nu?l?|\\?u?[0-9a-fA-F]{0,4})\s*")


def read_json_lines(text: str) -> Iterator[Row]:
    """JSON Lines: each line stands for itself, so a bad one costs only itself."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        try:
            yield Row(number, json.loads(line))
        except (ValueError, RecursionError) as error:
            is_cut = number == len(lines) and _is_truncated(error)
            remedy = CUT_OFF if is_cut else "Mend the line, or delete it."
            yield Row(number, fault=_describe_error(error, 1), remedy=remedy)


def read_json_document(text: str) -> Iterator[Row]:
    """JSON documents: the elements of a list of tools one by one, anything else whole."""
    document = _JSONScanner(text)
    at = document.skip_space(0)
    while at < len(text):
        try:
            at = document.skip_space((yield from document.rows(at)))
        except (ValueError, RecursionError) as error:
            line = document.line_at(error.pos if isinstance(error, JSONDecodeError) else at)
            remedy = CUT_OFF if _is_truncated(error) else FIX_REST
            yield Row(line, fault=_describe_error(error, line), remedy=remedy)
            return


def starts_with_json(text: str) -> bool:
    """Whether the text starts with one whole JSON value, over however many lines."""
    document = _JSONScanner(text)
    try:
        document.decode(document.skip_space(0))
    except (ValueError, RecursionError):
        return False
    return True


def _is_truncated(error: Exception) -> bool:
    """Whether the text ends where more was to come: in a text, in a word, or before a value."""
    if not isinstance(error, JSONDecodeError):
        return False
    is_open = error.msg.startswith("Unterminated string")
    return is_open or _INCOMPLETE_VALUE.fullmatch(error.doc, error.pos) is not None


def _describe_error(error: Exception, line: int) -> str:
    """What is wrong, in words; the line is told only where it is another."""
    if isinstance(error, RecursionError):
        return "Nested too deeply to be read."
    if not isinstance(error, JSONDecodeError):
        return f"Not valid JSON: {error}."
    place = "" if error.lineno == line else f"line {error.lineno}, "
    return f"Not valid JSON: {error.msg.removesuffix(' at')} at {place}column {error.colno}."


class _JSONScanner:
    """A text that is read from front to back, knowing its lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._counted = (0, 1)
        self._decoder = json.JSONDecoder()
        self._salvage = JSONRecovery(text)

    def skip_space(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return at if match is None else match.end()

    def line_at(self, at: int) -> int:
        last, number = self._counted if self._counted[0] <= at else (0, 1)
        number += self._text.count("\n", last, at)
        self._counted = (at, number)
        return number

    def decode(self, at: int) -> tuple[object, int]:
        value, end = self._decoder.raw_decode(self._text, at)
        return cast("object", value), end

    def rows(self, at: int) -> Generator[Row, None, int]:
        """Yield the rows of the value that starts here; return where it ends."""
        if self._starts_with(at, "["):
            return (yield from self._list_rows(at))
        if self._starts_with(at, "{"):
            return (yield from self._object_rows(at))
        value, end = self.decode(at)
        yield Row(self.line_at(at), value)
        return end

    def _starts_with(self, at: int, character: str) -> bool:
        return self._text.startswith(character, at)

    def _skip_comma(self, at: int, closing: str) -> int:
        """Past the comma after an item, or at the closing bracket."""
        at = self.skip_space(at)
        if self._starts_with(at, ","):
            return self.skip_space(at + 1)
        if not self._starts_with(at, closing):
            raise JSONDecodeError(f"Expecting ',' or '{closing}'", self._text, at)
        return at

    def _list_rows(self, at: int) -> Generator[Row, None, int]:
        at = self.skip_space(at + 1)
        while not self._starts_with(at, "]"):
            start = at
            try:
                at = yield from self._item_rows(start)
            except (ValueError, RecursionError) as error:
                resumed = self._salvage.next_item(start)
                if resumed is None:
                    raise
                line = self.line_at(start)
                yield Row(line, fault=_describe_error(error, line), remedy=FIX_ITEM)
                at = resumed
        return at + 1

    def _item_rows(self, start: int) -> Generator[Row, None, int]:
        """One item of a list; where only the comma after it is missing, it is good itself."""
        value, end = self.decode(start)
        at = self.skip_space(end)
        is_unparted = self._starts_with(at, "{")
        if not is_unparted and at < len(self._text):
            at = self._skip_comma(at, "]")
        yield Row(self.line_at(start), value)
        if is_unparted:
            fault = "Not valid JSON: a comma is missing before this item."
            yield Row(self.line_at(at), fault=fault, remedy="Put one there.")
        return at

    def _object_rows(self, at: int) -> Generator[Row, None, int]:
        start = at
        members: dict[str, object] = {}
        inner: list[Row] = []
        is_envelope = False
        try:
            at = self.skip_space(at + 1)
            while not self._starts_with(at, "}"):
                key, at = self._read_key(at)
                if reading := self._member_rows(key, at):
                    is_envelope = True
                    at = _collect_rows(reading, inner)
                else:
                    members[key], at = self.decode(at)
                at = self._skip_comma(at, "}")
        except (ValueError, RecursionError):
            yield from () if is_tool(members) else assign_server(inner, server_of(members))
            raise
        if is_envelope and not is_tool(members):
            yield from assign_server(inner, server_of(members))
        else:
            value = self.decode(start)[0] if is_envelope else members
            yield Row(self.line_at(start), value)
        return at + 1

    def _member_rows(self, key: str, at: int) -> Generator[Row, None, int] | None:
        """The rows that a member holds; what is around them may be said before or after."""
        if key in TOOL_LIST_KEYS and self._starts_with(at, "["):
            return self._list_rows(at)
        if key == "result" and self._starts_with(at, "{"):
            return self._object_rows(at)
        return None

    def _read_key(self, at: int) -> tuple[str, int]:
        if not self._starts_with(at, '"'):
            raise JSONDecodeError("Expecting a property name in double quotes", self._text, at)
        key, at = self.decode(at)
        at = self.skip_space(at)
        if not self._starts_with(at, ":"):
            raise JSONDecodeError("Expecting ':'", self._text, at)
        return str(key), self.skip_space(at + 1)


def _collect_rows(reading: Generator[Row, None, int], into: list[Row]) -> int:
    """Where what is read ends; whatever stops the reading, the rows so far are kept."""
    while True:
        try:
            into.append(next(reading))
        except StopIteration as done:
            return int(done.value)
