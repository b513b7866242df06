"""Profiles by name: the default, five published designs, everything at once, and your own."""

from __future__ import annotations

from ...errors import ConfigError
from ..designs.cms import CMS
from ..designs.cortex import CORTEX
from ..designs.everruns import EVERRUNS
from ..designs.mcpagent import MCPAGENT
from ..designs.solaris import SOLARIS
from ..profile import Profile
from .default import COMPACT, DEFAULT, EVERYTHING

__all__ = [
    "BUILT_IN",
    "CMS",
    "COMPACT",
    "CORTEX",
    "DEFAULT",
    "EVERRUNS",
    "EVERYTHING",
    "MCPAGENT",
    "SOLARIS",
    "get_profile",
    "profile_names",
    "recommend_profile",
    "register_profile",
]

MIN_TOOLS_FOR_SEARCH = 30
"""From so many tools on, searching for them costs less than showing them all."""

BUILT_IN: tuple[Profile, ...] = (
    DEFAULT,
    COMPACT,
    SOLARIS,
    MCPAGENT,
    CORTEX,
    EVERRUNS,
    CMS,
    EVERYTHING,
)
"""The profiles that come with Toolscout."""

_PROFILES: dict[str, Profile] = {p.name: p for p in BUILT_IN}


def get_profile(name: str) -> Profile:
    """The profile of this name."""
    try:
        return _PROFILES[name]
    except KeyError:
        raise ConfigError(
            f"There is no profile {name!r}.",
            hint=f"Choose from: {', '.join(_PROFILES)}; or register your own.",
        ) from None


def register_profile(own: Profile) -> Profile:
    """Make a profile known by its name; the built-in ones cannot be replaced."""
    if any(own.name == p.name for p in BUILT_IN):
        raise ConfigError(
            f"{own.name!r} is a built-in profile.",
            hint="Give yours another name: dataclasses.replace(profile, name='mine').",
        )
    _PROFILES[own.name] = own
    return own


def profile_names() -> tuple[str, ...]:
    """The names that `profile` knows."""
    return tuple(_PROFILES)


def recommend_profile(tools: int) -> Profile:
    """A sensible profile for a catalog of so many tools: all of them at once, or a search."""
    return EVERYTHING if tools < MIN_TOOLS_FOR_SEARCH else DEFAULT
