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
    """The first hit, unless it is more likely wrong than useful."""
    return matches.tools[:1] if matches.confidence >= SURE else ()
