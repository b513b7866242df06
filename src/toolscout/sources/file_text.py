"""The text of a file, as a whole or line by line."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8, getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_PIECE_BYTES = 1 << 20
# `surrogateescape` decodes an invalid byte to one of these.
_INVALID_BYTE = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True)
class FileText:
    """A file's text as UTF-8; invalid bytes become surrogates, and cost only the rows they are in.

    One rare character makes a text take four bytes for each of its characters. So a large file is
    decoded line by line where that is possible.
    """

    data: bytes

    @classmethod
    def of(cls, data: bytes) -> FileText:
        """The text of a file in UTF-8, or in UTF-16 with a byte order mark."""
        if has_utf16_mark(data):
            return cls(data.decode("utf-16", errors="replace").encode())
        return cls(data.removeprefix(BOM_UTF8))

    def lines(self) -> Iterator[str]:
        """The lines without their ends; the last one is empty if the text ends with its line."""
        for line in BytesIO(self.data):
            yield _decode(line.removesuffix(b"\n"))
        if not self.data or self.data.endswith(b"\n"):
            yield ""

    def whole(self) -> str:
        """All lines together."""
        return _decode(self.data)

    def has_invalid_bytes(self, value: object) -> bool:
        """Whether a JSON value of this file was not valid UTF-8 there."""
        if self._is_valid:
            return False
        return _INVALID_BYTE.search(json.dumps(value, ensure_ascii=False)) is not None

    @cached_property
    def _is_valid(self) -> bool:
        decoder = getincrementaldecoder("utf-8")()
        try:
            for start in range(0, len(self.data), _PIECE_BYTES):
                decoder.decode(self.data[start : start + _PIECE_BYTES])
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
        return True


def has_utf16_mark(data: bytes) -> bool:
    """Whether a file begins as one in UTF-16."""
    return data.startswith(_UTF16_MARKS)


def _decode(data: bytes) -> str:
    return data.decode(errors="surrogateescape")
