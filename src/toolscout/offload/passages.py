"""Reads a range of characters from a UTF-8 file without decoding the text before it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import numpy as np

CHUNK = 1 << 20
# Text from tools may contain half a surrogate pair, and must be read back as it was written.
ERRORS = "surrogatepass"


class OutOfRangeError(ValueError):
    """The requested range is not in the text."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Characters `start` to `end`, counted from 1 and inclusive, of `total`."""

    text: str
    start: int
    end: int
    total: int


class _ByteRange(NamedTuple):
    first: int | None
    last: int | None
    total: int


def read_passage(stream: BinaryIO, *, start: int, end: int, chunk: int = CHUNK) -> Passage:
    """The characters from `start` to `end`; an end beyond the text means its end."""
    if start < 1:
        raise OutOfRangeError(f"start is {start}, but characters are counted from 1.")
    if end < start:
        raise OutOfRangeError(f"end ({end}) is before start ({start}).")
    span = _locate(stream, start, end, chunk)
    if span.first is None:
        raise OutOfRangeError(f"start ({start:,}) is beyond the last of {span.total:,} characters.")
    stream.seek(span.first)
    size = -1 if span.last is None else span.last - span.first
    text = stream.read(size).decode("utf-8", ERRORS)
    return Passage(text, start, min(end, span.total), span.total)


def count_characters(data: bytes | memoryview) -> int:
    """The number of characters that begin in this piece of UTF-8."""
    return int(np.count_nonzero(_character_starts(data)))


def _character_starts(data: bytes | memoryview) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """A mask of the bytes that begin a character: all but continuation bytes (10xxxxxx)."""
    return (np.frombuffer(data, np.uint8) & 0xC0) != 0x80


def _locate(stream: BinaryIO, start: int, end: int, size: int) -> _ByteRange:
    """The byte at which `start` begins, the byte after `end`, and the number of characters."""
    first = last = None
    seen = offset = 0
    stream.seek(0, os.SEEK_SET)
    while chunk := stream.read(size):
        leads = _character_starts(chunk)
        here = int(np.count_nonzero(leads))
        if first is None and seen + here >= start:
            first = offset + int(np.flatnonzero(leads)[start - seen - 1])
        if last is None and seen + here > end:
            last = offset + int(np.flatnonzero(leads)[end - seen])
        seen += here
        offset += len(chunk)
    return _ByteRange(first, last, seen)
