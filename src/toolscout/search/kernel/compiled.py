"""The inner loops of search as compiled code; importing it fails where nothing was compiled."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from ctypes import PyDLL, c_char_p, c_double, c_float, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from .posting_list import Floats, Ints, Mask, PostingList, ServerBoost, address, slot_error

LIBRARY = Path(__file__).with_name("loops.dll" if sys.platform == "win32" else "loops.so")


def _load_library() -> PyDLL:
    """The library; one that an earlier text was compiled to would read what it is given wrongly."""
    # The loops are short, so other threads wait meanwhile: letting them in takes longer.
    code = PyDLL(str(LIBRARY))
    try:
        code.edition.restype = c_uint32
        edition: int = code.edition()
    except AttributeError:
        edition = -1
    source = LIBRARY.with_name("loops.c")
    if source.is_file() and edition != crc32(source.read_bytes()):
        raise OSError(f"{LIBRARY} was compiled from another loops.c: install again.")
    return code


_code = _load_library()
_words = (c_char_p, c_int32)
_code.gather.argtypes = (*_words, c_void_p, c_int32, c_int32, c_void_p, c_void_p, c_void_p)
_code.held.argtypes = (*_words, c_int32)
_code.parted.argtypes = (
    *(*_words, c_char_p, c_int32),
    *(c_void_p, c_int32, c_int32, c_void_p, c_void_p, c_void_p),
)
_code.ordered.argtypes = (
    *(c_void_p, c_void_p, c_int32, c_int32, c_int32),
    *(c_void_p, c_void_p, c_int32, c_int32, c_float),
)
_code.turns.argtypes = (
    *(c_void_p, c_void_p, c_int32, c_int32, c_int32),
    *(c_double, c_double, c_void_p, c_void_p),
)
_code.letters.argtypes = (c_char_p, c_int32)
_code.alike.argtypes = (c_void_p, c_int32, *_code.letters.argtypes, c_int32, c_void_p)
_code.gather.restype = _code.parted.restype = _code.ordered.restype = _code.alike.restype = c_int32
_code.letters.restype = c_uint64
_code.held.restype = c_double
_code.turns.restype = None


def score_slots(words: Sequence[PostingList], allowed: Mask, depth: int) -> tuple[Floats, Ints]:
    """What words give every slot together, and the best allowed slots that have any."""
    size = len(allowed)
    scores = np.zeros(size, np.float32)
    found = np.empty(2 * size, np.int32)  # behind what is found there is room to look for it
    start = address(found)
    count = _code.gather(
        *_pack(words),
        *(address(allowed), size, max(1, depth), address(scores), start + 4 * size, start),
    )
    return scores, found[:count]


def idf_mass(words: Sequence[PostingList], slot: int) -> float:
    """How much of some words, by rarity, a tool has."""
    return _code.held(*_pack(words), slot)


def clause_scores(words: Sequence[PostingList], said: bytes, slots: Ints, size: int) -> Floats:
    """How the words of each clause alone see some of so many slots, in standard deviations.

    `said` has a row a clause: of each word, whether it is said there. So has what comes of it.
    """
    clauses = len(said) // len(words)
    slots = np.ascontiguousarray(slots, np.int32)
    fits = np.zeros((clauses, len(slots)), np.float32)
    if fits.size:
        ordered = np.empty(len(slots), np.int32)
        table = np.zeros((len(words), len(slots)), np.float32)
        found = _code.parted(
            *(*_pack(words), said, clauses),
            *(address(slots), len(slots), size, address(ordered), address(table), address(fits)),
        )
        if found < 0:
            raise slot_error(slots, size)
    return fits


def order_slots(
    slots: Ints, scores: Floats, size: int, seen: int, leaning: ServerBoost | None
) -> tuple[Ints, Floats, bool]:
    """The best of some of so many slots first, as many as are seen and what is equally good.

    And whether any two are equally good.
    """
    if not len(slots):
        return slots, scores, False
    slots, scores = np.array(slots, np.int32), np.array(scores, np.float32)
    lean: tuple[Any, ...] = (None, None, 0, -1, 0.0)
    if leaning is not None:
        best = np.empty(leaning.servers, np.float32)
        lean = (address(leaning.server), address(best), *leaning[1:])
    found = _code.ordered(address(slots), address(scores), len(slots), size, max(1, seen), *lean)
    if found < 0:
        raise slot_error(slots, size)
    return slots[: found // 2], scores[: found // 2], found % 2 == 1


def diverse_order(scores: Floats, fits: Floats, wanted: int, share: float, serves: float) -> Ints:
    """The order of slots once the first places are given by how they fit each clause."""
    scores, fits = np.ascontiguousarray(scores, np.float32), np.ascontiguousarray(fits, np.float32)
    clauses, count = fits.shape
    served = np.zeros(clauses, np.float64)
    turn = np.empty(count, np.int32)
    if fits.size:
        _code.turns(
            *(address(scores), address(fits), clauses, count, min(wanted, count)),
            *(share, serves, address(served), address(turn)),
        )
    return turn


class CompiledLetterSignatures:
    """The letters of words, by which most that are not alike can be told apart at once.

    One thread at a time may ask.
    """

    def __init__(self, words: Sequence[str]) -> None:
        bits = (_code.letters(_encode_utf32(word), len(word)) for word in words)
        self._words = np.fromiter(bits, np.uint64, len(words))
        self._found = np.empty(len(words), np.int32)
        self._places = (address(self._words), address(self._found)) if words else (0, 0)

    def find_similar(self, word: str, start: int, end: int, most: int) -> list[int]:
        """Which of some of the words differ from one in no more letters than that."""
        words, found = self._places
        told = words + 8 * start, end - start, _encode_utf32(word), len(word), most, found
        return self._found[: _code.alike(*told)].tolist()


def _encode_utf32(word: str) -> bytes:
    return word.encode("utf-32")[4:]  # as this machine writes numbers, without the mark of that


def _pack(words: Sequence[PostingList]) -> tuple[bytes, int]:
    return b"".join([word.packed for word in words]), len(words)


LetterSignatures = CompiledLetterSignatures
