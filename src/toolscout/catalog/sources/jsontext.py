"""Rows out of JSON: one a line, or a whole document, which may be half written."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from json import JSONDecodeError
from typing import cast

from .row import LISTS, Row

_SPACE = re.compile(r"[ \t\r\n]*")
_CUT_OFF = "The file seems to be cut off: write it again, or complete its end."


def line_rows(text: str) -> Iterator[Row]:
    """JSON Lines: each line stands for itself, so a bad one costs only itself."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        try:
            yield Row(number, json.loads(line))
        except (ValueError, RecursionError) as error:
            is_last = number == len(lines)
            remedy = _CUT_OFF if is_last else "Mend the line, or delete it."
            yield Row(number, fault=_fault(error), remedy=remedy)


def document_rows(text: str) -> Iterator[Row]:
    """JSON documents: the elements of a list of tools one by one, anything else whole."""
    document = _Document(text)
    at = document.skip(0)
    while at < len(text):
        try:
            at = document.skip((yield from document.rows(at)))
        except (ValueError, RecursionError) as error:
            at = error.pos if isinstance(error, JSONDecodeError) else len(text)
            remedy = _CUT_OFF if at >= len(text.rstrip()) else "Mend the file from here on."
            yield Row(document.line(at), fault=_fault(error), remedy=remedy)
            return


def begins_with_value(text: str) -> bool:
    """Whether the text starts with one whole JSON value, over however many lines."""
    document = _Document(text)
    try:
        document.decode(document.skip(0))
    except (ValueError, RecursionError):
        return False
    return True


def _fault(error: Exception) -> str:
    if isinstance(error, JSONDecodeError):
        return f"Not valid JSON: {error.msg} at column {error.colno}."
    if isinstance(error, RecursionError):
        return "Nested too deeply to be read."
    return f"Not valid JSON: {error}."


class _Document:
    """A text that is read from front to back, knowing its lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._counted = (0, 1)
        self._decoder = json.JSONDecoder()

    def skip(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return at if match is None else match.end()

    def line(self, at: int) -> int:
        last, number = self._counted if self._counted[0] <= at else (0, 1)
        number += self._text.count("\n", last, at)
        self._counted = (at, number)
        return number

    def decode(self, at: int) -> tuple[object, int]:
        value, end = self._decoder.raw_decode(self._text, at)
        return cast("object", value), end

    def rows(self, at: int) -> Generator[Row, None, int]:
        """Yield the rows of the value that starts here; return where it ends."""
        if self._is(at, "["):
            return (yield from self._list(at))
        if self._is(at, "{"):
            return (yield from self._object(at))
        value, end = self.decode(at)
        yield Row(self.line(at), value)
        return end

    def _is(self, at: int, character: str) -> bool:
        return self._text.startswith(character, at)

    def _after(self, at: int, closing: str) -> int:
        """Past the comma after an item, or at the closing bracket."""
        at = self.skip(at)
        if self._is(at, ","):
            return self.skip(at + 1)
        if not self._is(at, closing):
            raise JSONDecodeError(f"Expecting ',' or '{closing}'", self._text, at)
        return at

    def _list(self, at: int) -> Generator[Row, None, int]:
        at = self.skip(at + 1)
        while not self._is(at, "]"):
            start = at
            try:
                value, end = self.decode(start)
                at = self._after(end, "]")
            except (ValueError, RecursionError) as error:
                resumed = self._next_item(start)
                if resumed is None:
                    raise
                yield Row(self.line(start), fault=_fault(error), remedy="Mend or delete this item.")
                at = resumed
            else:
                yield Row(self.line(start), value)
        return at + 1

    def _next_item(self, start: int) -> int | None:
        """Where the next item stands, if each begins on a line of its own, equally far in."""
        indent = self._text[self._text.rfind("\n", 0, start) + 1 : start]
        if indent and not indent.isspace():
            return None
        match = re.compile(rf"\n{indent}(?=\{{)").search(self._text, start)
        return None if match is None else match.end()

    def _object(self, at: int) -> Generator[Row, None, int]:
        start = at
        members: dict[str, object] = {}
        is_list = False
        at = self.skip(at + 1)
        while not self._is(at, "}"):
            key, at = self._key(at)
            if "name" in members:
                members[key], at = self.decode(at)
            elif key in LISTS and self._is(at, "["):
                is_list = True
                at = yield from self._list(at)
            elif key == "result" and self._is(at, "{"):
                is_list = True
                at = yield from self._object(at)
            else:
                members[key], at = self.decode(at)
            at = self._after(at, "}")
        if not is_list:
            yield Row(self.line(start), members)
        return at + 1

    def _key(self, at: int) -> tuple[str, int]:
        if not self._is(at, '"'):
            raise JSONDecodeError("Expecting a property name in double quotes", self._text, at)
        key, at = self.decode(at)
        at = self.skip(at)
        if not self._is(at, ":"):
            raise JSONDecodeError("Expecting ':'", self._text, at)
        return str(key), self.skip(at + 1)
