"""Fusion: sum the rankings, diversify over the clauses of a request, estimate the confidence."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, exp, log1p, log10
from operator import mul

import numpy as np

from . import kernel
from .analyzer import terms
from .arrays import Floats, Ints
from .hit import Evidence
from .rankers.bm25f import LexicalRanking
from .rankers.dense import DenseRanking
from .rankers.exact import WHOLE_SCORE, NameRanking
from .ranking import FusedRanking, Ranking, RankingRequest, has_clause_scores, unique_slots

SERVER_SHARE = 0.15
"""A tool gains this share of the best score among the tools of its server."""

# With one server the boost would change nothing, with two it would favour half of the catalog.
_MIN_SERVERS = 3

DIVERSITY_SHARE = 0.5
"""The part of a tool's lost fit that is taken off its score during diversification."""

SERVED_PENALTY = 3.0
"""The loss of a clause, in standard deviations, once it has a tool."""

SINGLE_NEED_CLAUSES = 2
"""Of this few clauses, one is usually a remark on the other; only further ones are new needs."""

_MAX_CANDIDATES = 40

# How many slots are put in order beyond the limit: enough for the names that `pipeline` lists after
# the hits, and, for several clauses at the usual limit of 5, enough for _MAX_CANDIDATES.
_EXTRA_HITS = 10
_EXTRA_HITS_FOR_CLAUSES = 35


def zscore(request: RankingRequest, rankings: Sequence[Ranking]) -> FusedRanking:
    """Sum the z-scores of all rankers, boost matching servers, diversify over the clauses."""
    return diversify(request, rankings, sum_rankings(request, rankings))


def sum_rankings(
    request: RankingRequest, rankings: Sequence[Ranking], *, server_share: float = SERVER_SHARE
) -> FusedRanking:
    """Sum the z-scores of all rankers, each weighted by its trust, without diversification."""
    # BM25 sums and cosines are on different scales. As z-scores over the whole catalog they can be
    # added, and a clear winner keeps its lead, which a fusion by rank would lose.
    if not rankings:
        return FusedRanking(np.zeros(0, np.int32), np.zeros(0, np.float32))
    candidates = [r.candidates for r in rankings]
    slots = candidates[0] if len(candidates) == 1 else unique_slots(np.concatenate(candidates))
    scores: Floats = rankings[0].scores_at(slots) * rankings[0].trust
    for ranking in rankings[1:]:
        scores += ranking.scores_at(slots) * ranking.trust
    return _order(request, slots, scores, _server_boost(request, server_share))


def _server_boost(request: RankingRequest, share: float) -> kernel.ServerBoost | None:
    """A server whose best tool fits well makes its other tools a little more likely."""
    index = request.index
    if index.server_count < _MIN_SERVERS:
        return None
    # Shared by all snapshots, and it only grows: at least as many numbers as this snapshot uses.
    numbers = index.shared.servers
    return kernel.ServerBoost(index.server, len(numbers), numbers.get("", -1), share)


def _order(
    request: RankingRequest, slots: Ints, scores: Floats, boost: kernel.ServerBoost | None
) -> FusedRanking:
    """Order by score, ties by name, so that the same query always gives the same result."""
    extra = _EXTRA_HITS_FOR_CLAUSES if len(request.clauses) > 1 else _EXTRA_HITS
    slots, scores, is_tied = kernel.order_slots(
        slots, scores, request.index.size, request.limit + extra, boost
    )
    if is_tied:
        equal: list[int] = (scores[1:] == scores[:-1]).nonzero()[0].tolist()
        tied = sorted({*equal, *(place + 1 for place in equal)})
        ranks: list[float] = (-scores[tied]).tolist()
        chosen: list[int] = slots[tied].tolist()
        names = [request.index.tool(slot).name for slot in chosen]
        slots[tied] = [slot for *_, slot in sorted(zip(ranks, names, chosen, strict=True))]
    return FusedRanking(slots, scores)


def diversify(
    request: RankingRequest,
    rankings: Sequence[Ranking],
    fused: FusedRanking,
    *,
    single_need_clauses: int = SINGLE_NEED_CLAUSES,
) -> FusedRanking:
    """Reorder the best tools so that each clause of a request has its tool near the top.

    The best hit stays the best. A tool that mainly serves a clause which has its tool already falls
    back by a share of what it would lose without that clause.
    """
    # Nothing for one or two clauses, half strength for three, full strength from four on. The
    # ablation in docs/decisions/ranking.md compares this ramp with others.
    share = DIVERSITY_SHARE * min(1.0, len(request.clauses) / single_need_clauses - 1)
    if share <= 0 or len(fused.slots) < 3:
        return fused
    slots, scores = fused.slots[:_MAX_CANDIDATES], fused.scores[:_MAX_CANDIDATES]
    parts = [r.clause_scores(slots) for r in rankings if has_clause_scores(r)]
    if not parts:
        return fused
    fits = parts[0] if len(parts) == 1 else np.sum(parts, axis=0)
    wanted = min(request.limit, len(slots))
    order = kernel.diverse_order(scores, fits, wanted, share, SERVED_PENALTY)
    # A tool that was moved up must not have a higher score than the one before it.
    slots, scores = slots.take(order), np.minimum.accumulate(scores.take(order))
    if len(fused.slots) > _MAX_CANDIDATES:
        slots = np.concatenate([slots, fused.slots[_MAX_CANDIDATES:]])
        scores = np.concatenate([scores, fused.scores[_MAX_CANDIDATES:]])
    return FusedRanking(slots, scores)


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
                closest, standard = ranking.similarity_and_score(slot)
                similarity = max(closest, similarity or 0.0)
                meaning = max(meaning, standard)
            # There are two lexical rankings if words were translated. The one that covers more of
            # the request counts, so translated words replace unknown ones.
            case LexicalRanking() if ranking.coverage > coverage:
                words = ranking.score(slot)
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
