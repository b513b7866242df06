"""Which surface a view is on, and by which mechanism tools are found there."""

from __future__ import annotations

from collections.abc import Mapping

from .lineup import Plan
from .native import is_hosted, mechanism
from .profile import Profile
from .scope import Scope
from .surface import Surface
from .target import Target

AUTO: Mapping[str, Surface] = {
    "anthropic": "dispatch",
    "openai-chat": "dispatch",
    "openai-responses": "dispatch",
    "gemini": "dispatch",
    "mcp": "dispatch",
    "plain": "load",
}
"""What `auto` means where a model has no native search; docs/decisions has the figures."""


def plan(profile: Profile, target: Target, scope: Scope) -> Plan:
    """The way of this view; a model without native search falls back as the profile says."""
    if not profile.metatools or (scope.is_small and profile.surface != "dispatch"):
        return Plan("direct")
    if profile.surface in ("auto", "native"):
        name = mechanism(target, profile.native, tools=len(scope.catalog))
        if name:
            return Plan("native", name, is_hosted(name))
        if profile.surface == "native" and profile.native.fallback == "everything":
            return Plan("direct")
    match profile.surface:
        case "load" | "dispatch":
            return Plan(profile.surface)
        case "auto" | "native":
            wanted = AUTO[target.provider.name]
            return Plan(wanted if _can(profile, wanted) else "load")


def _can(profile: Profile, surface: Surface) -> bool:
    """Whether the profile has the tools that a surface needs."""
    return surface != "dispatch" or profile.tool_for("call") is not None
