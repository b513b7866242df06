"""The inner loops of search as compiled C; raises OSError on import if there is no library."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from ctypes import PyDLL, c_char_p, c_double, c_float, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from ..arrays import Floats, Ints, Mask
from ..postings import PostingList, address
from .plain import ServerBoost, slot_error

LIBRARY = Path(__file__).with_name("loops.dll" if sys.platform == "win32" else "loops.so")


def _load_library() -> PyDLL:
    """Load the library, unless it was compiled from another version of loops.c."""
    # PyDLL keeps the GIL: the loops take microseconds, less than releasing and regaining it.
    code = PyDLL(str(LIBRARY))
    try:
        code.edition.restype = c_uint32
        edition: int = code.edition()
    except AttributeError:
        edition = -1
    # After a `git pull` without a new install the library is older than this file. Called with
    # other arguments than it expects, it would read wrong memory.
    source = LIBRARY.with_name("loops.c")
    if source.is_file() and edition != crc32(source.read_bytes()):
        raise OSError(f"{LIBRARY} was compiled from another loops.c: install again.")
    return code


_code = _load_library()
_terms = (c_char_p, c_int32)
_code.score_slots.argtypes = (*_terms, c_void_p, c_int32, c_int32, c_void_p, c_void_p, c_void_p)
_code.idf_mass.argtypes = (*_terms, c_int32)
_code.clause_scores.argtypes = (
    *(*_terms, c_char_p, c_int32),
    *(c_void_p, c_int32, c_int32, c_void_p, c_void_p, c_void_p),
)
_code.order_slots.argtypes = (
    *(c_void_p, c_void_p, c_int32, c_int32, c_int32),
    *(c_void_p, c_void_p, c_int32, c_int32, c_float),
)
_code.diverse_order.argtypes = (
    *(c_void_p, c_void_p, c_int32, c_int32, c_int32),
    *(c_double, c_double, c_void_p, c_void_p),
)
_code.signature.argtypes = (c_char_p, c_int32)
_code.find_similar.argtypes = (c_void_p, c_int32, *_code.signature.argtypes, c_int32, c_void_p)
_code.score_slots.restype = _code.clause_scores.restype = c_int32
_code.order_slots.restype = _code.find_similar.restype = c_int32
_code.signature.restype = c_uint64
_code.idf_mass.restype = c_double
_code.diverse_order.restype = None


def score_slots(terms: Sequence[PostingList], allowed: Mask, depth: int) -> tuple[Floats, Ints]:
    """The summed score of every slot, and the `depth` best allowed slots with a score.

    Slots that tie with the last of them are included. The slots are in no particular order.
    """
    size = len(allowed)
    scores = np.zeros(size, np.float32)
    found = np.empty(2 * size, np.int32)  # the second half is scratch space for the selection
    start = address(found)
    count = _code.score_slots(
        *_pack(terms),
        *(address(allowed), size, max(1, depth), address(scores), start + 4 * size, start),
    )
    return scores, found[:count]


def idf_mass(terms: Sequence[PostingList], slot: int) -> float:
    """The sum of idf over the terms that a tool has."""
    return _code.idf_mass(*_pack(terms), slot)


def clause_scores(
    terms: Sequence[PostingList], membership: bytes, slots: Ints, size: int
) -> Floats:
    """The z-scores of some slots for each clause alone: a row per clause, a column per slot.

    `membership` has a row per clause and a byte per term: whether the clause contains it.
    """
    clauses = len(membership) // len(terms)
    slots = np.ascontiguousarray(slots, np.int32)
    fits = np.zeros((clauses, len(slots)), np.float32)
    if fits.size:
        ordered = np.empty(len(slots), np.int32)
        table = np.zeros((len(terms), len(slots)), np.float32)
        status = _code.clause_scores(
            *(*_pack(terms), membership, clauses),
            *(address(slots), len(slots), size, address(ordered), address(table), address(fits)),
        )
        if status < 0:
            raise slot_error(slots, size)
    return fits


def order_slots(
    slots: Ints, scores: Floats, size: int, count: int, boost: ServerBoost | None
) -> tuple[Ints, Floats, bool]:
    """The best `count` slots in descending order, with their scores, plus ties with the last.

    The flag says whether any two of the scores are equal.
    """
    if not len(slots):
        return slots, scores, False
    slots, scores = np.array(slots, np.int32), np.array(scores, np.float32)
    server: tuple[Any, ...] = (None, None, 0, -1, 0.0)
    if boost is not None:
        best = np.empty(boost.servers, np.float32)
        server = (address(boost.server), address(best), *boost[1:])
    found = _code.order_slots(
        address(slots), address(scores), len(slots), size, max(1, count), *server
    )
    if found < 0:
        raise slot_error(slots, size)
    # One number carries both results: twice the count, plus one if there are ties.
    return slots[: found // 2], scores[: found // 2], found % 2 == 1


def diverse_order(scores: Floats, fits: Floats, wanted: int, share: float, penalty: float) -> Ints:
    """The order of slots after greedy diversification of the first `wanted` places.

    `fits` has a row per clause and a column per slot. Each chosen slot adds `penalty` to the clause
    that it fits best; the others lose `share` of what that takes from their own best fit.
    """
    scores, fits = np.ascontiguousarray(scores, np.float32), np.ascontiguousarray(fits, np.float32)
    clauses, count = fits.shape
    served = np.zeros(clauses, np.float64)
    order = np.empty(count, np.int32)
    if fits.size:
        _code.diverse_order(
            *(address(scores), address(fits), clauses, count, min(wanted, count)),
            *(share, penalty, address(served), address(order)),
        )
    return order


class CompiledLetterSignatures:
    """Bit signatures of words, to discard most dissimilar words without an edit distance.

    Not thread-safe: all calls share one result buffer.
    """

    def __init__(self, words: Sequence[str]) -> None:
        bits = (_code.signature(_encode_utf32(word), len(word)) for word in words)
        self._signatures = np.fromiter(bits, np.uint64, len(words))
        self._found = np.empty(len(words), np.int32)
        self._addresses = (address(self._signatures), address(self._found)) if words else (0, 0)

    def find_similar(self, word: str, start: int, end: int, max_bits: int) -> list[int]:
        """The words of a range whose signature differs in at most `max_bits` bits.

        The result counts from `start`.
        """
        signatures, found = self._addresses
        # A signature takes eight bytes.
        count = _code.find_similar(
            *(signatures + 8 * start, end - start),
            *(_encode_utf32(word), len(word), max_bits, found),
        )
        return self._found[:count].tolist()


def _encode_utf32(word: str) -> bytes:
    return word.encode("utf-32")[4:]  # in native byte order, without the byte order mark


def _pack(terms: Sequence[PostingList]) -> tuple[bytes, int]:
    return b"".join([term.packed for term in terms]), len(terms)


LetterSignatures = CompiledLetterSignatures
