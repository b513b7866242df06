"""Decide whether the hits of a search are likely, and say so where they are not.

Three verdicts: the hits are likely; the search is unsure, and its hits come below a heading that
says so; or nothing fits, and only near names are shown (`disclosure/noise.py`). The confidence
follows the verdict, so that a reader of either acts alike.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..catalog.deprecation import is_deprecated
from ..search.analyzer import terms
from ..search.engine import Allow, Engine
from ..search.hit import Results, Verdict
from .noise import drop_noise
from .small_talk import is_small_talk

MIN_LIKELY = 0.5
"""The confidence of likely hits is at least this; that of others is lower."""

# Hits with less are unsure. Between this and MIN_LIKELY most real requests find the right tool, so
# they are likely, and their confidence is too low.
_MIN_CONFIDENCE = 0.37
# Shown with two digits, so that no unsure search looks likely.
_MAX_UNSURE = 0.34

# `python -m bench.off_topic` prints what these values catch, and which real requests they doubt.
_MIN_SIMILARITY = 0.22
# For a request without any keyword of the hits. Other languages share few keywords with a catalog.
_MIN_SIMILARITY_ALONE = 0.35
# Among a few tools the nearest is less often near by chance.
_MIN_SIMILARITY_AMONG_FEW = 0.3
# Without vectors, one rare word that matches by chance looks like a good hit.
_MIN_KEYWORD_CONFIDENCE = 0.5
# Among so few tools one that has every word of the request is not found by chance.
_FEW_TOOLS = 10

_WORD = re.compile(r"\w+")
_MAX_NAME_WORDS = 20

_ROUNDING = 1e-6


def judge_results(results: Results, engine: Engine, *, allow: Allow | None = None) -> Results:
    """The results with their verdict; where nothing fits, the names of the hits are only `near`."""
    kept = drop_noise(_judge_by_replaced(results, engine), engine, allow=allow)
    return set_verdict(kept, engine)


def set_verdict(results: Results, engine: Engine) -> Results:
    """The results with the verdict on their hits, and the confidence bounded to its range."""
    verdict: Verdict = "likely"
    confidence = max(results.confidence, MIN_LIKELY)
    if not results.hits:
        verdict, confidence = "nothing fits", 0.0
    elif _is_unsure(results, engine):
        verdict, confidence = "unsure", min(results.confidence, _MAX_UNSURE)
    is_answered = confidence >= engine.min_confidence
    return replace(results, verdict=verdict, confidence=confidence, is_answered=is_answered)


def _judge_by_replaced(results: Results, engine: Engine) -> Results:
    """The results with the evidence of a deprecated tool, where its successor took its place."""
    if results.evidence is None or len(results.hits) < 2 or results.confidence == 1:
        return results
    first, second = results.hits[:2]
    # The successor has the score of the tool that it replaces, and perhaps no word of the request.
    if first.score > second.score or not is_deprecated(second.tool):
        return results
    own = engine.search(results.query, limit=1, allow=frozenset({second.name}))
    if own.confidence <= results.confidence:
        return results
    return replace(
        results,
        evidence=own.evidence,
        confidence=own.confidence,
        is_answered=own.is_answered,
    )


def _is_unsure(results: Results, engine: Engine) -> bool:
    """Whether the hits are likely wrong, by the similarity of the best one and the confidence."""
    # Until all vectors are there, similarity says nothing about tools without one.
    if _similarity(results) is None or not engine.status.is_complete:
        is_weak = results.confidence < _MIN_KEYWORD_CONFIDENCE
        return is_weak and not _fits_among_few(results, engine)
    if results.confidence == 1 or _has_all_words(results):  # requested by name
        return False
    if _is_in_a_name(results):
        return False
    if results.confidence < _MIN_CONFIDENCE or _is_far(results, _MIN_SIMILARITY_ALONE):
        return True
    return is_small_talk(results, engine)


def is_far(results: Results) -> bool:
    """Whether the best hit is far from the query in words and meaning, whatever the confidence.

    For searches among a few tools, where the confidence says little.
    """
    return _is_far(results, _MIN_SIMILARITY_AMONG_FEW)


def _is_far(results: Results, min_alone: float) -> bool:
    similarity = _similarity(results)
    if results.confidence == 1:  # requested by name
        return False
    if similarity is None:
        return not _has_keyword(results)
    if similarity < _MIN_SIMILARITY:
        return True
    is_alone = results.query.isascii() and not _has_keyword(results)
    return is_alone and similarity < min_alone


def _similarity(results: Results) -> float | None:
    """How similar the best hit is to the query; None if nothing can tell."""
    evidence = results.evidence
    return evidence.similarity if evidence and evidence.has_meaning else None


def _has_all_words(results: Results) -> bool:
    """Whether the request and the name of the best hit have the same words, typos corrected."""
    # A vector of misspelled words says nothing about what they mean.
    evidence = results.evidence
    return evidence is not None and evidence.named == 1 and evidence.missing < _ROUNDING


def _is_in_a_name(results: Results) -> bool:
    """Whether the name of a hit has every word of the request, stop words included."""
    words = [set(terms(word)) for word in _WORD.findall(results.query)[:_MAX_NAME_WORDS]]
    if not all(words):  # a stop word: "what is your name?" does not ask for `get_name`
        return False
    wanted = set[str]().union(*words)
    return bool(wanted) and any(wanted <= {*terms(hit.tool.local_name)} for hit in results.hits)


def _fits_among_few(results: Results, engine: Engine) -> bool:
    """Whether the best of a few tools has every word of the request."""
    # Not in a large catalog: there, "what is your name?" finds some tool with "name".
    evidence = results.evidence
    is_few = len(engine.catalog) <= _FEW_TOOLS
    return is_few and evidence is not None and evidence.missing < _ROUNDING


def _has_keyword(results: Results) -> bool:
    return any(reason.arm == "words" for hit in results.hits for reason in hit.why)
