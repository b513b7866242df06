"""How sure a search is: the chance that the right tool is among its hits, calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, exp, log1p, log10
from operator import mul

from .analyzer import terms
from .hit import Evidence
from .rankers.bm25f import LexicalRanking
from .rankers.dense import DenseRanking
from .rankers.exact import WHOLE_SCORE, NameRanking
from .ranking import FusedRanking, Ranking, RankingRequest

# Fitted by bench/calibrate.py: constant, similarity, meaning, words, coverage, share, named, tools.
WITH_VECTORS = (-3.489, 2.878, 0.390, 1.265, -0.308, 0.870, -0.029, -0.774)
KEYWORDS_ONLY = (-3.452, 0.000, 0.000, 1.372, 0.013, 1.759, 2.581, -0.521)

_LONGEST_WORD = 64


def gather_evidence(
    request: RankingRequest, rankings: Sequence[Ranking], fused: FusedRanking
) -> Evidence:
    """Gather what speaks for the best hit."""
    best = fused.slots[:1]
    slot = int(best[0])
    similarity: float | None = None
    meaning = words = coverage = share = 0.0
    for ranking in rankings:
        match ranking:
            case DenseRanking():
                closest, standard = ranking.similarity_and_score(slot)
                similarity = max(closest, similarity or 0.0)
                meaning = max(meaning, standard)
            case LexicalRanking() if (
                ranking.coverage > coverage
            ):  # foreign words, where they know more
                words = ranking.score(slot)
                coverage = ranking.coverage
                share = ranking.idf_share(slot)
            case _:
                pass
    name = set(terms(request.index.tool(slot).local_name))
    named = len(name.intersection(request.terms)) / max(1, len(name))
    return Evidence(similarity, meaning, words, coverage, share, named, len(request.index))


def confidence(found: Evidence) -> float:
    """The chance that the best hit is right, by a logistic model."""
    weights = KEYWORDS_ONLY if found.similarity is None else WITH_VECTORS
    total = sum(map(mul, weights, features(found)))
    return round(1e4 / (1 + exp(-total))) / 1e4


def features(found: Evidence) -> tuple[float, ...]:
    """Evidence as the model takes it; words count less and less the more there are."""
    words = copysign(log1p(abs(found.words)), found.words)
    similarity = found.similarity or 0.0
    known = (found.coverage, found.share, found.named)
    return (1.0, similarity, found.meaning, words, *known, log10(max(1, found.tools)))


def has_words(request: RankingRequest) -> bool:
    """Whether a request says anything that could be a word."""
    return min(map(len, request.terms), default=_LONGEST_WORD + 1) <= _LONGEST_WORD


def is_exact_name(rankings: Sequence[Ranking], fused: FusedRanking) -> bool:
    """Whether the request simply is the best hit's name."""
    names = [r for r in rankings if isinstance(r, NameRanking)]
    return any(float(r.scores_at(fused.slots[:1])[0]) >= WHOLE_SCORE for r in names)
