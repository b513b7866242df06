"""Blocks of names: loaded now, loaded before, not there (the cortex reply)."""

from __future__ import annotations

from ...catalog.result import Result
from .reply import Found, spoken

LOADED = "Loaded; callable on the next turn:"
"""The line above what came into view."""


def blocks(found: Found) -> Result:
    """What became of each name, in blocks of lines with one blank line between them."""
    parts = [
        _block(LOADED, found.loaded),
        _block("Already loaded, no action needed:", found.already),
        _block("Not in the deferred tool list:", found.missing),
    ]
    if not (found.tools or found.already or found.missing):
        parts = [f'No tools matched the query: "{found.query}"']
        if found.remaining:
            parts.append(
                f"{found.remaining} more tools can be loaded; their names are in the"
                ' "Available Tools" section.'
            )
    details = {
        "query": found.query,
        "loaded": [*found.loaded],
        "alreadyAvailable": [*found.already],
        "notFound": [*found.missing],
        "totalDeferred": found.remaining,
    }
    return spoken("\n\n".join(p for p in parts if p), details)


def _block(heading: str, names: tuple[str, ...]) -> str:
    return "\n".join([heading, *(f"- {n}" for n in names)]) if names else ""
