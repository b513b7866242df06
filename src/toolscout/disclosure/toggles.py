"""Categories of tools that a user may switch off, as settings keep them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ..catalog.tool import Tool
from .policy import Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One switch of a settings page: what it is called, which tools it governs, if it is locked."""

    id: str
    name: str
    tools: Listing
    description: str = ""
    is_core: bool = False

    def is_on(self, stored: Mapping[str, object]) -> bool:
        """Core switches are always on; others unless what was stored says exactly false."""
        return self.is_core or stored.get(self.id) is not False


DISCOVERY = Switch(
    id="discovery",
    name="Discovery Tools",
    description="Find tools and skills.",
    tools=Listing(names=("searchTools", "searchSkills", "readSkill")),
    is_core=True,
)
"""The switch that cannot be turned off."""


def allowed(
    switches: Collection[Switch],
    stored: Mapping[str, object],
    *,
    selected: Collection[str] = (),
) -> Callable[[Tool], bool]:
    """A rule that lets through what is switched on and, if any are selected, only those.

    Tools that no switch governs are on, and switches that settings do not know are on.
    """
    off = [s.tools for s in switches if not s.is_on(stored)]
    core = [s.tools for s in switches if s.is_core]
    chosen = frozenset(selected)

    def allow(tool: Tool) -> bool:
        if any(listing.covers(tool) for listing in core):
            return True
        if any(listing.covers(tool) for listing in off):
            return False
        return not chosen or tool.name in chosen

    return allow
