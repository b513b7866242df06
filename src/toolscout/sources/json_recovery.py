"""Where to read on in a JSON list after an item that cannot be read."""

from __future__ import annotations

import json
import re
from json import JSONDecodeError

_TOKEN = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|[\[\]{},]')
_AFTER_TEXT = ("", " ", "\t", "\r", "\n", ",", ":", "]", "}")
_OPENING = re.compile(r'\{\s*("[^"\\\n]*")\s*:')
_NEXT = re.compile(r",\s*(?=\{)")
_FOLLOWED = re.compile(r"\s*[,\]]")
_PATIENCE = 8
_FAULT_SHARE = 8  # telling where a fault is counts lines: so many bits quicker than looking on


class JSONRecovery:
    """Looks for the next good item of a list; all looking together takes time linear in the text.

    Brackets outside of texts tell where an item ends, even if one of them is missing. Where quotes
    do not pair up, the next item is one that begins as this one does, and can be read.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = _PATIENCE * len(text)
        self._decoder = json.JSONDecoder()

    def next_item(self, start: int) -> int | None:
        """Past the bad item that starts here: another item, or the list's closing bracket."""
        self._left -= len(self._text) >> _FAULT_SHARE
        if self._left < 0:
            return None
        at, is_sure = self._find_boundary(start)
        if is_sure:
            return at
        return self._next_item_by_indent(start) or self._next_item_by_key(start) or at

    def _find_boundary(self, start: int) -> tuple[int | None, bool]:
        """Where the item's brackets say that it ends, and whether they are to be believed."""
        brackets = _BracketStack()
        for token in _TOKEN.finditer(self._text, start):
            mark, end = token[0], token.end()
            self._left -= end - start
            start = end
            if mark[0] == '"':
                if self._text[end : end + 1] not in _AFTER_TEXT:
                    return None, False  # quotes do not pair up: what is text cannot be told
            elif mark in "[{":
                brackets.open(mark)
            elif mark == ",":
                follows = _NEXT.match(self._text, token.start())
                if follows is not None and brackets.unwind_to_list():
                    return follows.end(), True
            elif not brackets.close(mark):
                return token.start(), brackets.are_balanced
        return None, False

    def _next_item_by_indent(self, start: int) -> int | None:
        """The next item, if each begins on a line of its own, equally far in."""
        indent = self._text[self._text.rfind("\n", 0, start) + 1 : start]
        if indent and not indent.isspace():
            return None
        match = re.compile(rf"\n{indent}(?=\{{)").search(self._text, start)
        self._left -= (len(self._text) if match is None else match.end()) - start
        return None if match is None else match.end()

    def _next_item_by_key(self, start: int) -> int | None:
        """The next item that begins with the same key as this one, and can be read."""
        opening = _OPENING.match(self._text, start)
        key = '"' if opening is None else re.escape(opening[1])
        for match in re.compile(rf",\s*(?=\{{\s*{key})").finditer(self._text, start):
            at = match.end()
            self._left -= at - start
            start = at
            if self._left < 0:
                return None
            if self._is_readable_item(at):
                return at
        return None

    def _is_readable_item(self, at: int) -> bool:
        try:
            _, end = self._decoder.raw_decode(self._text, at)
        except (ValueError, RecursionError) as error:
            self._left -= _failure_offset(error, len(self._text)) - at
            self._left -= len(self._text) >> _FAULT_SHARE
            return False
        self._left -= end - at
        return _FOLLOWED.match(self._text, end) is not None


class _BracketStack:
    """The brackets that are open inside an item; one that was never closed is forgiven."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._count = {"[": 0, "{": 0}
        self._is_forgiven = False

    @property
    def are_balanced(self) -> bool:
        """Whether each had its counterpart, and none is open."""
        return not self._open and not self._is_forgiven

    def open(self, bracket: str) -> None:
        self._open.append(bracket)
        self._count[bracket] += 1

    def close(self, bracket: str) -> bool:
        """Close the last one of its kind; without one, a square bracket closes the list."""
        kind = "[" if bracket == "]" else "{"
        if not self._count[kind]:
            self._is_forgiven = self._is_forgiven or bracket == "}"
            return bracket == "}"
        while self._pop() != kind:
            self._is_forgiven = True
        return True

    def unwind_to_list(self) -> bool:
        """Whether an object after a comma is the list's next item.

        Inside an object a key would follow, so that objects still open were never closed.
        """
        while self._open and self._open[-1] == "{":
            self._pop()
            self._is_forgiven = True
        return not self._open

    def _pop(self) -> str:
        bracket = self._open.pop()
        self._count[bracket] -= 1
        return bracket


def _failure_offset(error: Exception, end: int) -> int:
    """How far was read before the fault showed."""
    if not isinstance(error, JSONDecodeError) or error.msg.startswith("Unterminated"):
        return end
    return error.pos
