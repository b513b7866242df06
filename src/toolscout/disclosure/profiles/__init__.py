"""Profiles by name: the default, the five published designs, everything, and your own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from inspect import signature
from typing import Any

from pydantic import ConfigDict, ValidationError, validate_call

from ...errors import ConfigError
from ..designs.cms import CMS, cms_profile
from ..designs.cortex import CORTEX, cortex_profile
from ..designs.everruns import EVERRUNS, everruns_profile
from ..designs.mcpagent import MCPAGENT, mcpagent_profile
from ..designs.solaris import SOLARIS, solaris_profile
from ..profile import Profile
from .code import CODE, with_code
from .default import COMPACT, DEFAULT, EVERYTHING

__all__ = [
    "BUILT_IN",
    "CMS",
    "CODE",
    "COMPACT",
    "CORTEX",
    "DEFAULT",
    "EVERRUNS",
    "EVERYTHING",
    "MCPAGENT",
    "SOLARIS",
    "get_profile",
    "profile_names",
    "profile_options",
    "recommend_profile",
    "register_profile",
    "with_code",
]

MIN_TOOLS_FOR_SEARCH = 30
"""From this number of tools on, a search costs less than showing them all."""

BUILT_IN: tuple[Profile, ...] = (
    DEFAULT,
    COMPACT,
    CODE,
    SOLARIS,
    MCPAGENT,
    CORTEX,
    EVERRUNS,
    CMS,
    EVERYTHING,
)
"""The profiles that ship with Toolscout."""

# Pydantic's error types for a value that is not a list, such as a single string.
_LIST_ERRORS = ("tuple_type", "list_type", "sequence_str", "is_instance_of")
_PROFILES: dict[str, Profile] = {p.name: p for p in BUILT_IN}
_FACTORIES: Mapping[str, Callable[..., Profile]] = {
    "cms": cms_profile,
    "cortex": cortex_profile,
    "everruns": everruns_profile,
    "mcpagent": mcpagent_profile,
    "solaris": solaris_profile,
}


def get_profile(name: str, options: Mapping[str, Any] | None = None) -> Profile:
    """The profile with this name and options; raises ConfigError for unknown ones."""
    if name not in _PROFILES:
        raise ConfigError(
            f"There is no profile {name!r}.",
            hint=f"Choose from: {', '.join(_PROFILES)}; or register your own.",
        )
    return _build_profile(name, options) if options else _PROFILES[name]


def profile_options(name: str) -> tuple[str, ...]:
    """The names of the options that a profile has."""
    factory = _FACTORIES.get(name)
    return tuple(signature(factory).parameters) if factory else ()


def _build_profile(name: str, options: Mapping[str, Any]) -> Profile:
    known = profile_options(name)
    for option in options:
        if option not in known:
            near = get_close_matches(option, known, 1)
            choice = f"It has: {', '.join(known)}." if known else "It has no options."
            raise ConfigError(
                f"The profile {name!r} has no option {option!r}.",
                hint=f"Did you mean {near[0]}?" if near else choice,
            )
    build = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(_FACTORIES[name])
    try:
        return build(**options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        is_list = first["type"] in _LIST_ERRORS
        problem = "it takes a list of names" if is_list else first["msg"]
        raise ConfigError(
            f"The option {place} of the profile {name!r} is invalid: {problem}.",
            hint="See docs/profiles.md for its values.",
        ) from error


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
