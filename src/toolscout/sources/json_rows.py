"""Rows of JSON Lines and JSON documents with their lines; a bad item does not affect the others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .tool_formats import TOOL_LIST_KEYS, is_tool

CUT_OFF = "The file seems to be cut off: write it again, or complete its end."
FIX_ITEM = "Fix or delete this item."
FIX_REST = "Fix the file from here on."
FIX_LINE = "Fix the line, or delete it."

_ERRORS = (ValueError, RecursionError)  # ValueError also for a number with too many digits
_SPACE = re.compile(r"[ \t\r\n]*")
# Strings, which end on their line, and the brackets outside of them.
_TOKEN = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|[\[\]{}]')
_AFTER_STRING = ("", " ", "\t", "\r", "\n", ",", ":", "]", "}")
_BOUNDARY = re.compile(r"\s*(?:,\s*(?=\{)|(?=[\]{]))")
# How an item begins: its indent, or on one line its first key.
_OPENING = re.compile(r'\{(?:\s*\n\s*"|\s*"[^"\\\n]*"\s*:(?:\s*"function")?)')
# What is left of a text that ends in a string, a number, `true`, `false`, `null` or an escape.
_INCOMPLETE = re.compile(r'(?:"(?:[^"\\]|\\.)*+\\?|-|tr?u?|fa?l?s?|nu?l?|\\?u?[0-9a-fA-F]{0,4})\s*')
# The decoder counts all lines above an error, so without a limit bad items take quadratic time.
_MAX_BAD_ITEMS = 1_000


@dataclass(frozen=True, slots=True)
class Row:
    """A value with the line it starts on or, with a `fault`, a place that cannot be read."""

    line: int
    value: object = None
    fault: str = ""
    remedy: str = ""
    envelope: Mapping[str, object] = field(default_factory=dict[str, object])
    """The other members of the object that has the row in its list of tools."""


def read_json_lines(lines: Iterable[str]) -> Iterator[Row]:
    """Read JSON Lines: each line is a separate value, so a bad one does not affect the others."""
    rest = iter(lines)
    line = next(rest, None)
    number = 0
    while line is not None:
        number, following = number + 1, next(rest, None)
        try:
            if line and not line.isspace():
                yield Row(number, json.loads(line))
        except _ERRORS as error:
            yield _bad_row(error, number, FIX_LINE, is_last=following is None)
        line = following


def read_json_document(text: str) -> list[Row]:
    """Read JSON documents: the items of a list of tools one by one, anything else whole."""
    scanner = _JSONScanner(text)
    try:
        scanner.read_all()
    except _ERRORS as error:
        scanner.rows.append(_bad_row(error, scanner.line, FIX_REST))
    return [row for row in scanner.rows if not is_tool(row.envelope)]


def starts_with_json(text: str) -> bool:
    """Whether the text starts with a complete JSON value, on one line or several."""
    try:
        _JSONScanner(text).decode()
    except _ERRORS:
        return False
    return True


def _bad_row(error: Exception, line: int, remedy: str, *, is_last: bool = True) -> Row:
    """Explain an error; `is_last` means that nothing after it was read."""
    reason = "Nested too deeply" if isinstance(error, RecursionError) else str(error)
    if isinstance(error, json.JSONDecodeError):
        # In JSON Lines the decoder sees one line, and calls it the first.
        place = f"line {max(line, error.lineno)}, column {error.colno}"
        reason = f"{error.msg.removesuffix(' at')} at {place}"
        remedy = CUT_OFF if is_last and _INCOMPLETE.fullmatch(error.doc, error.pos) else remedy
    return Row(line, fault=f"Not valid JSON: {reason}.", remedy=remedy)


class _JSONScanner:
    """A position in a text, from which the standard decoder reads one item at a time."""

    def __init__(self, text: str) -> None:
        self.rows: list[Row] = []
        self._text, self._at, self.line, self._bad_items = text, 0, 1, 0
        self._budget = 4 * len(text)
        self._decode = json.JSONDecoder().raw_decode
        self._move_to(0)

    def read_all(self) -> None:
        while self._next:
            if self._next == "[":
                self._read_list({})
                continue
            start, line, count = self._at, self.line, len(self.rows)
            self._read_members(members := dict[str, object]())
            if is_tool(members) or len(self.rows) == count:
                self.rows[count:] = [Row(line, self._decode(self._text, start)[0])]

    def decode(self) -> object:
        value, end = self._decode(self._text, self._at)
        self._move_to(end)
        return value

    def _move_to(self, at: int) -> None:
        if space := _SPACE.match(self._text, at):
            self.line += self._text.count("\n", self._at, space.end())
            self._at = space.end()
            self._next = self._text[self._at : self._at + 1]

    def _skip(self, character: str, *, unless: str = "") -> None:
        if self._next == character:
            self._move_to(self._at + 1)
        elif not unless or self._next != unless:
            raise json.JSONDecodeError(f"Expecting '{character}'", self._text, self._at)

    def _read_members(self, members: dict[str, object]) -> None:
        self._skip("{")
        while self._next != "}":
            key = str(self.decode() if self._next == '"' else self._skip('"'))
            self._skip(":")
            if key in TOOL_LIST_KEYS and self._next == "[":
                self._read_list(members)
            elif key == "result" and self._next == "{":
                self._read_members(members)
            else:
                members[key] = self.decode()
            self._skip(",", unless="}")
        self._skip("}")

    def _read_list(self, envelope: dict[str, object]) -> None:
        self._skip("[")
        while self._next != "]":
            start, line = self._at, self.line
            try:
                # The envelope is read on after this: its server may come after the list.
                self.rows.append(Row(line, self.decode(), envelope=envelope))
                self._skip(",", unless="]")
            except json.JSONDecodeError as error:
                self._move_to(self._find_next_item(start, error))
                self.rows.append(_bad_row(error, line, FIX_ITEM, is_last=False))
        self._skip("]")

    def _find_next_item(self, start: int, error: json.JSONDecodeError) -> int:
        """Where the list continues: behind the item's last bracket, else at an item like it."""
        self._bad_items += 1
        if self._bad_items > _MAX_BAD_ITEMS:
            raise error
        if (end := self._find_item_end(start)) is not None:
            return end
        # Its brackets or quotes do not pair up, so the next item is one that begins as this does.
        opening = _OPENING.match(self._text, start)
        pattern = re.escape(opening[0]) if opening else r'\{\s*"'
        # A missing comma or bracket shows only at the next item, so go back to the last one.
        begin = max(start, *(self._text.rfind(mark, start, error.pos + 1) for mark in ",}"))
        found = re.compile(rf"[,}}]\s*(?={pattern})").search(self._text, begin)
        if not found:
            raise error
        return found.end()

    def _find_item_end(self, start: int) -> int | None:
        """Where the next item or the end of the list is, if the brackets of this item pair up."""
        if not self._text.startswith("{", start):
            return None
        depth = 0
        for token in _TOKEN.finditer(self._text, start):
            # All scans together stay linear in the text, for any brackets.
            self._budget -= 1
            if self._budget < 0:
                return None
            if token[0][0] == '"':
                if self._text[token.end() : token.end() + 1] not in _AFTER_STRING:
                    return None  # quotes do not pair up, so the ends of strings are unknown
                continue
            depth += 1 if token[0] in "{[" else -1
            if depth <= 0:
                following = _BOUNDARY.match(self._text, token.end()) if depth == 0 else None
                return following.end() if following else None
        return None
