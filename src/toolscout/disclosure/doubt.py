"""Decide whether the hits of a search are likely, and say so where they are not.

Three verdicts: the hits are likely; the search is unsure, and its hits come below a heading that
says so; or nothing fits, and only near names are shown (`search/noise.py`).
"""

from __future__ import annotations

from dataclasses import replace

from ..search.deprecation import is_deprecated
from ..search.engine import Allow, Engine
from ..search.hit import Results
from ..search.noise import drop_noise

# `python -m bench.off_topic` prints what these values catch, and which real requests they doubt.
_MIN_SIMILARITY = 0.2
# For a request without any keyword of the hits. Other languages share few keywords with a catalog.
_MIN_SIMILARITY_ALONE = 0.3
_MIN_CONFIDENCE = 0.1
# Without vectors, one rare word that matches by chance looks like a good hit.
_MIN_KEYWORD_CONFIDENCE = 0.25

UNSURE_NOTE = "Perhaps nothing fits. Say what the tool should do, as in: send an email."
"""The line above the hits of an unsure search, for a person."""

NOTHING_NOTE = "Nothing fits. Try other words, or fewer filters."
"""The line of a search without hits, for a person."""

UNSURE_HEADING = "Nothing fits well; the nearest are these. If none of them does it, say so:"
"""The line above the hits of an unsure search, for a model."""


def judge_results(results: Results, engine: Engine, *, allow: Allow | None = None) -> Results:
    """The results with their verdict; where nothing fits, the names of the hits are only `near`."""
    kept = drop_noise(_judge_by_replaced(results, engine), engine, allow=allow)
    if not kept.hits:
        is_answered = kept.confidence >= engine.min_confidence
        return replace(kept, verdict="nothing fits", is_answered=is_answered)
    return replace(kept, verdict="unsure" if is_unsure(kept, engine) else "likely")


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


def is_unsure(results: Results, engine: Engine) -> bool:
    """Whether the hits are likely wrong, by the similarity of the best one and the confidence."""
    similarity = results.evidence.similarity if results.evidence else None
    # Until all vectors are there, similarity says nothing about tools without one.
    if similarity is None or not engine.status.is_complete:
        return is_weak(results.confidence)
    if results.confidence == 1 or _has_all_words(results):  # requested by name
        return False
    return results.confidence < _MIN_CONFIDENCE or is_far(results)


def is_far(results: Results) -> bool:
    """Whether the best hit is far from the query in words and meaning, whatever the confidence.

    For searches among a few tools, where the confidence says little.
    """
    similarity = results.evidence.similarity if results.evidence else None
    if results.confidence == 1:  # requested by name
        return False
    if similarity is None:
        return not _has_keyword(results)
    if similarity < _MIN_SIMILARITY:
        return True
    is_alone = results.query.isascii() and not _has_keyword(results)
    return is_alone and similarity < _MIN_SIMILARITY_ALONE


def is_weak(confidence: float) -> bool:
    """Whether hits are likely wrong, by the confidence alone."""
    return confidence < _MIN_KEYWORD_CONFIDENCE


def _has_all_words(results: Results) -> bool:
    """Whether the request and the name of the best hit have the same words, typos corrected."""
    # A vector of misspelled words says nothing about what they mean.
    evidence = results.evidence
    return evidence is not None and evidence.named == 1 and evidence.share == 1


def _has_keyword(results: Results) -> bool:
    return any(reason.arm == "words" for hit in results.hits for reason in hit.why)
