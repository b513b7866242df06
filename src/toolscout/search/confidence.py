"""The confidence of a search: the probability that the best hit is right."""

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

# Logistic regression, fitted by bench/calibrate.py, which prints these rows. The columns:
# intercept, similarity, meaning, words, coverage, share, named, log10 of the number of tools.
WITH_VECTORS = (-3.489, 2.878, 0.390, 1.265, -0.308, 0.870, -0.029, -0.774)
KEYWORDS_ONLY = (-3.452, 0.000, 0.000, 1.372, 0.013, 1.759, 2.581, -0.521)

# A longer run of characters is a token or a hash, not a word.
_MAX_WORD_CHARS = 64


def gather_evidence(
    request: RankingRequest, rankings: Sequence[Ranking], fused: FusedRanking
) -> Evidence:
    """Collect the facts about the best hit from which the confidence is computed."""
    best = fused.slots[:1]
    slot = int(best[0])
    similarity: float | None = None
    meaning = words = coverage = share = 0.0
    for ranking in rankings:
        match ranking:
            case DenseRanking():
                similarity = max(float(ranking.similarity(best).max()), similarity or 0.0)
                meaning = max(meaning, float(ranking.scores_at(best)[0]))
            # There are two lexical rankings if words were translated. The one that covers more of
            # the request counts, so translated words replace unknown ones.
            case LexicalRanking() if ranking.coverage > coverage:
                words = float(ranking.scores_at(best)[0])
                coverage = ranking.coverage
                share = ranking.idf_share(slot)
            case _:
                pass
    name = set(terms(request.index.tool(slot).local_name))
    named = len(name.intersection(request.terms)) / max(1, len(name))
    return Evidence(similarity, meaning, words, coverage, share, named, len(request.index))


def confidence(evidence: Evidence) -> float:
    """The probability that the best hit is right, by logistic regression."""
    weights = KEYWORDS_ONLY if evidence.similarity is None else WITH_VECTORS
    total = sum(map(mul, weights, confidence_features(evidence)))
    return round(1e4 / (1 + exp(-total))) / 1e4


def confidence_features(evidence: Evidence) -> tuple[float, ...]:
    """The inputs of the regression, in the order of its weights."""
    # The lexical z-score grows with the number of matching words; the logarithm keeps long requests
    # from looking certain.
    words = copysign(log1p(abs(evidence.words)), evidence.words)
    similarity = evidence.similarity or 0.0
    shares = (evidence.coverage, evidence.share, evidence.named)
    return (1.0, similarity, evidence.meaning, words, *shares, log10(max(1, evidence.tools)))


def has_words(request: RankingRequest) -> bool:
    """Whether a request contains anything that could be a word."""
    return min(map(len, request.terms), default=_MAX_WORD_CHARS + 1) <= _MAX_WORD_CHARS


def is_exact_name(rankings: Sequence[Ranking], fused: FusedRanking) -> bool:
    """Whether the whole request is the name of the best hit."""
    names = [r for r in rankings if isinstance(r, NameRanking)]
    return any(float(r.scores_at(fused.slots[:1])[0]) >= WHOLE_SCORE for r in names)
