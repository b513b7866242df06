"""Which of the found tools a search loads: plain functions, chosen by a profile."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from ..catalog.tool import Tool
from .matching.matcher import Matches

Loading = Callable[[Matches], tuple[Tool, ...]]
"""Picks from the answer to one query what is to come into view."""

SURE = 0.25
"""The confidence from which the best hit is loaded without being asked for by name."""

CLOSE = 0.92
"""A second hit that scores this part of the first is loaded with it: one lookup more is dearer."""


def nothing(_: Matches) -> tuple[Tool, ...]:
    """A search only tells; loading is another call."""
    return ()


def everything(matches: Matches) -> tuple[Tool, ...]:
    """What is found is loaded."""
    return matches.tools


def strong(matches: Matches) -> tuple[Tool, ...]:
    """What scores at least half as well as the best: loading lasts, so weak hits must not."""
    floor = ceil(max(matches.scores, default=0) / 2)
    pairs = zip(matches.scores, matches.tools, strict=True)
    return tuple(t for score, t in pairs if score and score >= floor)


def best(matches: Matches) -> tuple[Tool, ...]:
    """What was asked for by name; else the first hit and a second as good, if not likely wrong."""
    if matches.is_named:
        return matches.tools
    if matches.confidence < SURE:
        return ()
    floor = CLOSE * max(matches.scores, default=0)
    pairs = zip(matches.scores[:2], matches.tools[:2], strict=True)
    return tuple(t for i, (score, t) in enumerate(pairs) if not i or score >= floor > 0)
