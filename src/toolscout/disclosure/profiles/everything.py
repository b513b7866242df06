"""Every tool at once, nothing to search: what all savings are measured against."""

from __future__ import annotations

from ..matching.hybrid import Hybrid
from ..policy import Policy
from ..profile import Profile
from ..replies.brief import brief

EVERYTHING = Profile(
    name="everything",
    summary="All tools in view, no discovery tools.",
    metatools=(),
    matcher=Hybrid(),
    reply=brief,
    policy=Policy(rule="none"),
)
