"""Which surface a view is on, and by which mechanism tools are found there."""

from __future__ import annotations

from .lineup import Plan
from .native import is_hosted, mechanism
from .profile import Profile
from .scope import Scope
from .snapshot import Snapshot
from .surface import Surface
from .target import Target

AUTO: Surface = "dispatch"
"""What `auto` means where a model has no native search: over recorded conversations it is billed
least with every provider's prices (docs/decisions/surfaces.md has the figures)."""


def plan(profile: Profile, target: Target, scope: Scope, before: Snapshot | None) -> Plan:
    """The way of this view; a model without native search falls back as the profile says."""
    if not profile.metatools:
        return Plan("direct", is_whole=True)
    if scope.is_small and profile.surface != "dispatch":
        return Plan("direct")
    if profile.surface in ("auto", "native"):
        was = before.mechanism if before else ""
        name = mechanism(target, profile.native, tools=len(scope.tools), before=was)
        if name:
            return Plan("native", name, is_hosted(name))
        if profile.surface == "native" and profile.native.fallback == "everything":
            return Plan("direct", is_whole=True)
    match profile.surface:
        case "load" | "dispatch":
            return Plan(profile.surface)
        case "auto" | "native":
            return Plan(AUTO if profile.tool_for("call") else "load")
