"""What a search says that found nothing, or nothing likely: the same words for every reader."""

from __future__ import annotations

from collections.abc import Sequence

# Without imports of the engine: the lines of a gateway use these words before it is loaded.
NOTHING_FITS = "Nothing fits"
"""How every such answer begins, and the verdict of such a search in lower case."""

_OTHER_WORDS = "Describe the action in other words"

NOTHING_NOTE = f"{NOTHING_FITS}. {_OTHER_WORDS}, or use fewer filters."
"""The line of a search without hits, for a person."""

UNSURE_NOTE = f"Unsure: perhaps {NOTHING_FITS.lower()}. {_OTHER_WORDS}, as in: send an email."
"""The line above the hits of an unsure search, for a person."""

UNSURE_HEADING = (
    f"Unsure: {NOTHING_FITS.lower()} well. The nearest are these; if none of them does it, say so:"
)
"""The line above the hits of an unsure search, for a model."""

_MAX_QUERY_CHARS = 200


def note_unmatched(queries: Sequence[str]) -> str:
    """The line about the queries of several that found nothing; empty without any."""
    return f"{NOTHING_FITS} {', '.join(map(repr, queries))}." if queries else ""


def note_doubtful(queries: Sequence[str]) -> str:
    """The line about the queries of several whose hits are unsure; empty without any."""
    named = ", ".join(map(repr, queries))
    return f"Unsure about {named}: {NOTHING_FITS.lower()} well." if queries else ""


def explain_no_match(query: str) -> str:
    """The reply to a search without hits, for a model: what to do next is part of it."""
    shown = query[:_MAX_QUERY_CHARS]
    return f"{note_unmatched([shown])} {_OTHER_WORDS}, or continue without a tool."
