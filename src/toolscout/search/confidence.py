"""The confidence of a search: the probability that a right tool is among the hits."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log1p
from operator import mul

import numpy as np

from ..embedders.arrays import Ints
from .analyzer import terms
from .hit import Evidence
from .rankers.bm25f import LexicalRanking, WordRanking
from .rankers.dense import DenseRanking
from .rankers.exact import WHOLE_SCORE, NameRanking
from .ranking import FusedRanking, Ranking, RankingRequest

# Logistic regression, fitted by bench/calibrate.py, which prints these rows. The columns:
# intercept, lead, meaning, matched, missing, named (see Evidence).
WITH_VECTORS = (-2.293, 3.919, 0.416, 0.917, -0.237, 1.438)
KEYWORDS_ONLY = (-1.233, 0.000, 0.000, 1.662, -0.289, 3.010)

# A longer run of characters is a token or a hash, not a word.
_MAX_WORD_CHARS = 64


def strongest_evidence(
    request: RankingRequest,
    rankings: Sequence[Ranking],
    fused: FusedRanking,
    *,
    lifts: Sequence[Ranking] = (),
) -> Evidence:
    """The evidence of the best hit, or of the one that is best without `lifts`, if stronger.

    A lift puts a tool first that has few words of the request, and must not make the search less
    sure for that. Of a text that no embedder can read, only the words themselves count.
    """
    if not request.is_readable:
        rankings = [r for r in rankings if isinstance(r, DenseRanking | WordRanking)]
    best = fused.slots[:1]
    evidence = gather_evidence(request, rankings, best)
    if not lifts:
        return evidence
    # Lifts are standard deviations, as the scores are that they are added to.
    lifted = np.add.reduce([r.scores_at(fused.slots) for r in lifts])
    evidence = evidence._replace(meaning=evidence.meaning + float(lifted[0]))
    place = int((fused.scores - lifted).argmax())
    other = gather_evidence(request, rankings, fused.slots[place : place + 1])
    stronger = max(evidence, other, key=confidence)
    nearest = max(evidence, other, key=lambda e: e.similarity or 0.0)
    return stronger._replace(similarity=nearest.similarity)


def gather_evidence(request: RankingRequest, rankings: Sequence[Ranking], best: Ints) -> Evidence:
    """Collect the facts about a tool from which the confidence is computed."""
    similarity: float | None = None
    lead = meaning = coverage = share = 0.0
    for ranking in rankings:
        match ranking:
            case DenseRanking():
                near = ranking.similarity(best)[0]
                above = near - ranking.mean
                similarity = max(float(near.max()), similarity or 0.0)
                lead = max(lead, float(above.max()))
                meaning = max(meaning, float((above / ranking.deviation).max()))
            # There are two lexical rankings if words were translated. The one that covers more of
            # the request counts, so translated words replace unknown ones.
            case LexicalRanking() if ranking.coverage > coverage:
                coverage = ranking.coverage
                share = ranking.idf_share(int(best[0]))
            case _:
                pass
    words = {*request.terms}
    name = set(terms(request.index.tool(int(best[0])).local_name))
    return Evidence(
        similarity,
        lead,
        meaning,
        matched=share * len(words),
        missing=(1 - share) * len(words),
        named=len(name & words) / max(1, len(name)),
        is_readable=request.is_readable,
    )


def confidence(evidence: Evidence) -> float:
    """The probability that a right tool is among the hits, by logistic regression."""
    weights = WITH_VECTORS if evidence.has_meaning else KEYWORDS_ONLY
    total = sum(map(mul, weights, confidence_features(evidence)))
    return round(1e4 / (1 + exp(-total))) / 1e4


def confidence_features(evidence: Evidence) -> tuple[float, ...]:
    """The inputs of the regression, in the order of its weights."""
    # Logarithms: the first words that match say most, and long requests must not look certain.
    words = log1p(evidence.matched), log1p(evidence.missing)
    return (1.0, evidence.lead, evidence.meaning, *words, evidence.named)


def has_words(request: RankingRequest) -> bool:
    """Whether a request contains anything that could be a word."""
    return min(map(len, request.terms), default=_MAX_WORD_CHARS + 1) <= _MAX_WORD_CHARS


def is_exact_name(rankings: Sequence[Ranking], fused: FusedRanking) -> bool:
    """Whether the whole request is the name of the best hit."""
    names = [r for r in rankings if isinstance(r, NameRanking)]
    return any(float(r.scores_at(fused.slots[:1])[0]) >= WHOLE_SCORE for r in names)
