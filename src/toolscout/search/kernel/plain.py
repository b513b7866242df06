"""The inner loops of search in NumPy, for installations without a C compiler."""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Ints, Mask
from ..postings import PostingList

MIN_VARIANCE = 1e-6
"""Lower bound of a variance, against division by zero: a term that all tools have equally."""

_SCORE_DIGITS = 4


class ServerBoost(NamedTuple):
    """How much a tool gains from the best tool of its server.

    `server` holds the server number of every slot, each below `servers`. Tools of the server
    `nameless` gain nothing; it is -1 if every tool has a server.
    """

    server: Ints
    servers: int
    nameless: int
    share: float


def score_slots(terms: Sequence[PostingList], allowed: Mask, depth: int) -> tuple[Floats, Ints]:
    """The summed score of every slot, and the `depth` best allowed slots with a score.

    Slots that tie with the last of them are included. The slots are in no particular order.
    """
    slots = np.concatenate([term.slots for term in terms])
    summed = np.bincount(slots, np.concatenate([t.gains for t in terms]), minlength=len(allowed))
    scores: Floats = summed.astype(np.float32)
    found = np.flatnonzero(allowed & (scores > 0)).astype(np.int32)
    if len(found) > depth:
        values = scores[found]
        found = found[values >= np.partition(values, len(values) - depth)[len(values) - depth]]
    return scores, found


def idf_mass(terms: Sequence[PostingList], slot: int) -> float:
    """The sum of idf over the terms that a tool has."""
    only = np.array([slot], np.int32)
    return sum(term.idf for term in terms if _gains_at(term, only)[0])


def clause_scores(
    terms: Sequence[PostingList], membership: bytes, slots: Ints, size: int
) -> Floats:
    """The z-scores of some slots for each clause alone: a row per clause, a column per slot.

    `membership` has a row per clause and a byte per term: whether the clause contains it.
    """
    _check_slots(slots, size)
    has = np.frombuffer(membership, np.uint8).reshape(-1, len(terms)).astype(np.float64)
    table = np.array([_gains_at(term, slots) for term in terms])
    # Means and variances of terms add up as if terms occurred independently of each other.
    mean, variance = has @ [t.mean for t in terms], has @ [t.variance for t in terms]
    deviation = np.sqrt(np.maximum(variance, MIN_VARIANCE))
    return ((has @ table - mean[:, None]) / deviation[:, None]).astype(np.float32)


def order_slots(
    slots: Ints, scores: Floats, size: int, count: int, boost: ServerBoost | None
) -> tuple[Ints, Floats, bool]:
    """The best `count` slots in descending order, with their scores, plus ties with the last.

    The flag says whether any two of the scores are equal.
    """
    _check_slots(slots, size)
    slots, scores = np.array(slots, np.int32), np.array(scores, np.float32)
    if boost is not None:
        groups = boost.server[slots]
        best = np.full(boost.servers, -np.inf, np.float32)
        np.maximum.at(best, groups, scores)
        if boost.nameless >= 0:
            best[boost.nameless] = 0
        bonus: Floats = np.float32(boost.share) * best[groups]
        scores = scores + bonus
    # Rounded before sorting: what looks equal to a reader is a tie, and ties are broken by name.
    ranks: Floats = -scores.round(_SCORE_DIGITS)
    order = ranks.argsort(kind="stable")
    ranks = ranks[order]
    if count < len(order):
        order = order[: ranks.searchsorted(ranks[max(1, count) - 1], side="right")]
    ranks = ranks[: len(order)]
    return slots[order], -ranks, bool((ranks[1:] == ranks[:-1]).any())


def diverse_order(scores: Floats, fits: Floats, wanted: int, share: float, penalty: float) -> Ints:
    """The order of slots after greedy diversification of the first `wanted` places.

    `fits` has a row per clause and a column per slot. Each chosen slot adds `penalty` to the clause
    that it fits best; the others lose `share` of what that takes from their own best fit.
    """
    # Greedy selection as in maximal marginal relevance, with clauses in place of pairwise
    # similarity: a tool is redundant if it mainly serves a clause that has its tool already.
    worth, fit = scores.tolist(), fits.T.tolist()
    served = [0.0] * len(fits)
    order = list(range(len(worth)))

    def fit_left(slot: int) -> list[float]:
        return list(map(sub, fit[slot], served))

    for place in range(min(wanted, len(order)) - 1):
        left = fit_left(order[place])
        served[left.index(max(left))] += penalty
        waiting = order[place + 1 :]
        values = [worth[s] - share * (max(fit[s]) - max(fit_left(s))) for s in waiting]
        if values:
            order.insert(place + 1, order.pop(place + 1 + values.index(max(values))))
    return np.array(order, np.int32)


class PlainLetterSignatures:
    """Bit signatures of words, to discard most dissimilar words without an edit distance."""

    def __init__(self, words: Sequence[str]) -> None:
        self._signatures = np.fromiter(map(_signature, words), np.uint64, len(words))

    def find_similar(self, word: str, start: int, end: int, max_bits: int) -> list[int]:
        """The words of a range whose signature differs in at most `max_bits` bits.

        The result counts from `start`.
        """
        apart = np.bitwise_count(self._signatures[start:end] ^ np.uint64(_signature(word)))
        return np.flatnonzero(apart <= max_bits).tolist()


def _signature(word: str) -> int:
    """A 64-bit signature: which letters a word has, and which it has more than once."""
    # Letters fall into 32 buckets; the upper half marks buckets that are hit twice. An edit adds or
    # removes at most one letter on each side, so it changes at most two bits, and half the number
    # of differing bits is a lower bound of the edit distance.
    once = twice = 0
    for letter in word:
        bit = 1 << (ord(letter) % 32)
        twice |= once & bit
        once |= bit
    return twice << 32 | once


def slot_error(slots: Ints, size: int) -> IndexError:
    """The error for slots that do not exist, which a custom ranker may return."""
    bad = slots[(slots < 0) | (slots >= size)]
    return IndexError(f"A ranker offered slot {bad[0]}, but there are only 0 to {size - 1}.")


def _check_slots(slots: Ints, size: int) -> None:
    if ((slots < 0) | (slots >= size)).any():
        raise slot_error(slots, size)


def _gains_at(term: PostingList, slots: Ints) -> Floats:
    places = np.minimum(term.slots.searchsorted(slots), len(term.slots) - 1)
    return term.gains[places] * (term.slots[places] == slots)


LetterSignatures = PlainLetterSignatures
