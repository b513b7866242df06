"""Recognise small talk: a request that is nearer to a greeting than to any tool."""

from __future__ import annotations

from ..embedders.embedder import is_cross_lingual
from ..errors import EmbedderError
from ..search.engine import Engine
from ..search.hit import Results
from ..search.rankers.dense import Dense
from ..search.ranking import unwrap

# English stands for every language: the embedder places a greeting near its translations.
PHRASES = (
    *("hello", "good morning", "good night", "goodbye"),
    *("thank you", "how are you?", "nice to meet you"),
)
# An odd request may be far from every tool, and by chance a little nearer to a greeting.
_MIN_SIMILARITY = 0.45
# A longer request may begin with a greeting, but asks for something.
_MAX_CHARS = 30
_ROUNDING = 1e-6


def is_small_talk(results: Results, engine: Engine) -> bool:
    """Whether a short request is nearer to a greeting or to thanks than to the best tool."""
    evidence = results.evidence
    if evidence is None or evidence.similarity is None or not evidence.has_meaning:
        return False
    # "Translate hello" names its tool, and a tool may be there to greet.
    if len(results.query) > _MAX_CHARS or evidence.named or evidence.missing < _ROUNDING:
        return False
    for vector in results.vectors:
        for ranker in map(unwrap, engine.rankers):
            if not isinstance(ranker, Dense) or ranker.embedder.id != vector.embedder:
                continue
            if not is_cross_lingual(ranker.embedder):
                continue
            try:
                similarity = ranker.queries.encode(PHRASES) @ vector.values
            except EmbedderError:
                continue
            return float(similarity.max()) > max(_MIN_SIMILARITY, evidence.similarity)
    return False
