"""Rows out of JSON: one a line, or a whole document, which may be half written."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from json import JSONDecodeError
from typing import cast

from .envelope import LISTS, is_tool, server_of
from .jsonsalvage import Salvage
from .row import CUT_OFF, MEND_ITEM, MEND_REST, Row, in_server

_SPACE = re.compile(r"[ \t\r\n]*")
_BEGUN = re.compile(r"(?:-|tr?u?|fa?l?s?|nu?l?|\\?u?[0-9a-fA-F]{0,4})\s*")


def line_rows(text: str) -> Iterator[Row]:
    """JSON Lines: each line stands for itself, so a bad one costs only itself."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        try:
            yield Row(number, json.loads(line))
        except (ValueError, RecursionError) as error:
            is_cut = number == len(lines) and _is_cut_off(error)
            remedy = CUT_OFF if is_cut else "Mend the line, or delete it."
            yield Row(number, fault=_fault(error, 1), remedy=remedy)


def document_rows(text: str) -> Iterator[Row]:
    """JSON documents: the elements of a list of tools one by one, anything else whole."""
    document = _Document(text)
    at = document.skip(0)
    while at < len(text):
        try:
            at = document.skip((yield from document.rows(at)))
        except (ValueError, RecursionError) as error:
            line = document.line(error.pos if isinstance(error, JSONDecodeError) else at)
            remedy = CUT_OFF if _is_cut_off(error) else MEND_REST
            yield Row(line, fault=_fault(error, line), remedy=remedy)
            return


def begins_with_value(text: str) -> bool:
    """Whether the text starts with one whole JSON value, over however many lines."""
    document = _Document(text)
    try:
        document.decode(document.skip(0))
    except (ValueError, RecursionError):
        return False
    return True


def _is_cut_off(error: Exception) -> bool:
    """Whether the text ends where more was to come: in a text, in a word, or before a value."""
    if not isinstance(error, JSONDecodeError):
        return False
    is_open = error.msg.startswith("Unterminated string")
    return is_open or _BEGUN.fullmatch(error.doc, error.pos) is not None


def _fault(error: Exception, line: int) -> str:
    """What is wrong, in words; the line is told only where it is another."""
    if isinstance(error, RecursionError):
        return "Nested too deeply to be read."
    if not isinstance(error, JSONDecodeError):
        return f"Not valid JSON: {error}."
    place = "" if error.lineno == line else f"line {error.lineno}, "
    return f"Not valid JSON: {error.msg.removesuffix(' at')} at {place}column {error.colno}."


class _Document:
    """A text that is read from front to back, knowing its lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._counted = (0, 1)
        self._decoder = json.JSONDecoder()
        self._salvage = Salvage(text)

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
                at = yield from self._item(start)
            except (ValueError, RecursionError) as error:
                resumed = self._salvage.next_item(start)
                if resumed is None:
                    raise
                line = self.line(start)
                yield Row(line, fault=_fault(error, line), remedy=MEND_ITEM)
                at = resumed
        return at + 1

    def _item(self, start: int) -> Generator[Row, None, int]:
        """One item of a list; where only the comma after it is missing, it is good itself."""
        value, end = self.decode(start)
        at = self.skip(end)
        is_unparted = self._is(at, "{")
        if not is_unparted and at < len(self._text):
            at = self._after(at, "]")
        yield Row(self.line(start), value)
        if is_unparted:
            fault = "Not valid JSON: a comma is missing before this item."
            yield Row(self.line(at), fault=fault, remedy="Put one there.")
        return at

    def _object(self, at: int) -> Generator[Row, None, int]:
        start = at
        members: dict[str, object] = {}
        inner: list[Row] = []
        is_envelope = False
        try:
            at = self.skip(at + 1)
            while not self._is(at, "}"):
                key, at = self._key(at)
                if reading := self._inner(key, at):
                    is_envelope = True
                    at = _gathered(reading, inner)
                else:
                    members[key], at = self.decode(at)
                at = self._after(at, "}")
        except (ValueError, RecursionError):
            yield from () if is_tool(members) else in_server(inner, server_of(members))
            raise
        if is_envelope and not is_tool(members):
            yield from in_server(inner, server_of(members))
        else:
            value = self.decode(start)[0] if is_envelope else members
            yield Row(self.line(start), value)
        return at + 1

    def _inner(self, key: str, at: int) -> Generator[Row, None, int] | None:
        """The rows that a member holds; what is around them may be said before or after."""
        if key in LISTS and self._is(at, "["):
            return self._list(at)
        if key == "result" and self._is(at, "{"):
            return self._object(at)
        return None

    def _key(self, at: int) -> tuple[str, int]:
        if not self._is(at, '"'):
            raise JSONDecodeError("Expecting a property name in double quotes", self._text, at)
        key, at = self.decode(at)
        at = self.skip(at)
        if not self._is(at, ":"):
            raise JSONDecodeError("Expecting ':'", self._text, at)
        return str(key), self.skip(at + 1)


def _gathered(reading: Generator[Row, None, int], into: list[Row]) -> int:
    """Where what is read ends; whatever stops the reading, the rows so far are kept."""
    while True:
        try:
            into.append(next(reading))
        except StopIteration as done:
            return int(done.value)
