"""The inner loops of search in NumPy, for where nothing could be compiled."""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub

import numpy as np

from .posting_list import MIN_VARIANCE, Floats, Ints, Mask, PostingList, ServerBoost, slot_error

_DIGITS = 4


def score_slots(words: Sequence[PostingList], allowed: Mask, depth: int) -> tuple[Floats, Ints]:
    """What words give every slot together, and the best allowed slots that have any."""
    slots = np.concatenate([word.slots for word in words])
    summed = np.bincount(slots, np.concatenate([w.gains for w in words]), minlength=len(allowed))
    scores: Floats = summed.astype(np.float32)
    found = np.flatnonzero(allowed & (scores > 0)).astype(np.int32)
    if len(found) > depth:
        held = scores[found]
        found = found[held >= np.partition(held, len(held) - depth)[len(held) - depth]]
    return scores, found


def idf_mass(words: Sequence[PostingList], slot: int) -> float:
    """How much of some words, by rarity, a tool has."""
    only = np.array([slot], np.int32)
    return sum(word.idf for word in words if _gains_at(word, only)[0])


def clause_scores(words: Sequence[PostingList], said: bytes, slots: Ints, size: int) -> Floats:
    """How the words of each clause alone see some of so many slots, in standard deviations.

    `said` has a row a clause: of each word, whether it is said there. So has what comes of it.
    """
    _check_slots(slots, size)
    has = np.frombuffer(said, np.uint8).reshape(-1, len(words)).astype(np.float64)
    table = np.array([_gains_at(word, slots) for word in words])
    mean, variance = has @ [w.mean for w in words], has @ [w.variance for w in words]
    deviation = np.sqrt(np.maximum(variance, MIN_VARIANCE))
    return ((has @ table - mean[:, None]) / deviation[:, None]).astype(np.float32)


def order_slots(
    slots: Ints, scores: Floats, size: int, seen: int, leaning: ServerBoost | None
) -> tuple[Ints, Floats, bool]:
    """The best of some of so many slots first, as many as are seen and what is equally good.

    And whether any two are equally good.
    """
    _check_slots(slots, size)
    slots, scores = np.array(slots, np.int32), np.array(scores, np.float32)
    if leaning is not None:
        groups = leaning.server[slots]
        best = np.full(leaning.servers, -np.inf, np.float32)
        np.maximum.at(best, groups, scores)
        if leaning.nameless >= 0:
            best[leaning.nameless] = 0
        bonus: Floats = np.float32(leaning.share) * best[groups]
        scores = scores + bonus
    ranks: Floats = -scores.round(_DIGITS)
    order = ranks.argsort(kind="stable")
    ranks = ranks[order]
    if seen < len(order):
        order = order[: ranks.searchsorted(ranks[max(1, seen) - 1], side="right")]
    ranks = ranks[: len(order)]
    return slots[order], -ranks, bool((ranks[1:] == ranks[:-1]).any())


def diverse_order(scores: Floats, fits: Floats, wanted: int, share: float, serves: float) -> Ints:
    """The order of slots once the first places are given by how they fit each clause."""
    worth, fit = scores.tolist(), fits.T.tolist()
    served = [0.0] * len(fits)
    turn = list(range(len(worth)))

    def fit_left(slot: int) -> list[float]:
        return list(map(sub, fit[slot], served))

    for place in range(min(wanted, len(turn)) - 1):
        rest = fit_left(turn[place])
        served[rest.index(max(rest))] += serves
        waiting = turn[place + 1 :]
        values = [worth[s] - share * (max(fit[s]) - max(fit_left(s))) for s in waiting]
        if values:
            turn.insert(place + 1, turn.pop(place + 1 + values.index(max(values))))
    return np.array(turn, np.int32)


class PlainLetterSignatures:
    """The letters of words, by which most that are not alike can be told apart at once."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = np.fromiter(map(_signature, words), np.uint64, len(words))

    def find_similar(self, word: str, start: int, end: int, most: int) -> list[int]:
        """Which of some of the words differ from one in no more letters than that."""
        apart = np.bitwise_count(self._words[start:end] ^ np.uint64(_signature(word)))
        return np.flatnonzero(apart <= most).tolist()


def _signature(word: str) -> int:
    """The letters of a word as bits, and again those that it has more than once."""
    once = again = 0
    for letter in word:
        bit = 1 << (ord(letter) % 32)
        again |= once & bit
        once |= bit
    return again << 32 | once


def _check_slots(slots: Ints, size: int) -> None:
    if ((slots < 0) | (slots >= size)).any():
        raise slot_error(slots, size)


def _gains_at(word: PostingList, slots: Ints) -> Floats:
    places = np.minimum(word.slots.searchsorted(slots), len(word.slots) - 1)
    return word.gains[places] * (word.slots[places] == slots)


LetterSignatures = PlainLetterSignatures
