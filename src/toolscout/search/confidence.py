"""How sure a search is: the chance that the right tool is among its hits, calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from .rankers.bm25f import Words
from .rankers.dense import Meaning
from .rankers.exact import PREFIX, Names
from .ranking import Fused, Ranking


@dataclass(frozen=True, slots=True)
class Evidence:
    """What confidence is judged by; each number is about the best hit."""

    similarity: float
    meaning: float
    words: float
    coverage: float
    share: float
    margin: float
    is_named: bool


def evidence(rankings: Sequence[Ranking], fused: Fused) -> Evidence:
    """Gather what speaks for the best hit."""
    best = fused.slots[:1]
    similarity = meaning = words = coverage = share = 0.0
    is_named = False
    for ranking in rankings:
        match ranking:
            case Meaning():
                similarity = max(similarity, float(ranking.similarity(best).max()))
                meaning = max(meaning, float(ranking.at(best)[0]))
            case Words():
                words = float(ranking.at(best)[0])
                coverage = ranking.coverage
                share = ranking.share(int(best[0]))
            case Names():
                is_named = float(ranking.at(best)[0]) >= PREFIX
            case _:
                pass
    margin = float(fused.scores[0] - fused.scores[1]) if len(fused.scores) > 1 else 0.0
    return Evidence(similarity, meaning, words, coverage, share, margin, is_named)


def confidence(found: Evidence) -> float:
    """The chance, by a logistic model fitted by bench/calibrate.py."""
    if found.is_named:
        return 1.0
    features = np.array([1.0, found.similarity, found.meaning, found.words, found.share])
    weights = np.array([-4.0, 5.0, 0.3, 0.1, 2.0])
    return round(1 / (1 + exp(-float(features @ weights))), 4)
