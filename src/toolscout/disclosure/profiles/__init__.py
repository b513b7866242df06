"""Profiles by name: the default, the five published designs, everything, and your own."""

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
"""From this number of tools on, a search costs less than showing them all."""

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
"""The profiles that ship with Toolscout."""

_PROFILES: dict[str, Profile] = {p.name: p for p in BUILT_IN}


def get_profile(name: str) -> Profile:
    """The profile with this name; raises ConfigError for an unknown one."""
    try:
        return _PROFILES[name]
    except KeyError:
        raise ConfigError(
            f"There is no profile {name!r}.",
            hint=f"Choose from: {', '.join(_PROFILES)}; or register your own.",
        ) from None


def register_profile(own: Profile) -> Profile:
    """Register a profile under its name; built-in profiles cannot be replaced."""
    if any(own.name == p.name for p in BUILT_IN):
        raise ConfigError(
            f"{own.name!r} is a built-in profile.",
            hint="Give yours another name: dataclasses.replace(profile, name='mine').",
        )
    _PROFILES[own.name] = own
    return own


def profile_names() -> tuple[str, ...]:
    """The names of all registered profiles."""
    return tuple(_PROFILES)


def recommend_profile(tools: int) -> Profile:
    """A profile for a catalog of this size: all tools at once, or a search."""
    return EVERYTHING if tools < MIN_TOOLS_FOR_SEARCH else DEFAULT
