"""What one caller may know of: the catalog through an allow rule, and where each tool stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ..catalog.catalog import Catalog
from ..catalog.tool import Tool
from ..search.engine import Allow
from ..tokens import Counter, count_json, default_counter
from .policy import Policy, Standing
from .session import Session
from .snapshot import read


def is_allowed(tool: Tool, allow: Allow | None) -> bool:
    """Whether a rule, or a collection of names, lets a caller have a tool."""
    if allow is None:
        return True
    return allow(tool) if callable(allow) else tool.name in allow


@dataclass(frozen=True)
class Scope:
    """A catalog as one conversation may see it; what is costly is worked out once, when asked."""

    policy: Policy
    catalog: Catalog
    session: Session
    allow: Allow | None = None
    was_small: bool | None = None
    standing: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, policy: Policy, catalog: Catalog, session: Session, allow: Allow | None = None
    ) -> Scope:
        """The scope of a conversation as its last view left it."""
        before = read(session)
        if before is None:
            return cls(policy, catalog, session, allow)
        return cls(policy, catalog, session, allow, before.is_direct, before.standing)

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """Every allowed tool, in the order of arrival."""
        return tuple(t for t in self.catalog if is_allowed(t, self.allow))

    @cached_property
    def is_small(self) -> bool:
        """Whether everything is in view: as it was decided before, else by the policy."""
        if self.was_small is not None:
            return self.was_small
        return is_small(self.policy, self.catalog, self.allow)

    @cached_property
    def waiting(self) -> tuple[Tool, ...]:
        """The allowed tools that are not in view."""
        return tuple(t for t in self.tools if not self.stand(t))

    @cached_property
    def pool(self) -> tuple[Tool, ...]:
        """The allowed tools that wait, or would if they were not loaded."""
        small = self.is_small
        return tuple(t for t in self.tools if not self.policy.stand(t, is_small=small))

    def get(self, name: str) -> Tool | None:
        """The tool of exactly this name, if the caller may have it."""
        tool = self.catalog.get(name)
        return tool if tool is not None and is_allowed(tool, self.allow) else None

    def stand(self, tool: Tool) -> Standing:
        """Where a tool stands in this conversation; what was shown at the start stays in view."""
        loaded = tool.name in self.loaded
        standing = self.policy.stand(tool, is_loaded=loaded, is_small=self.is_small)
        if standing or tool.name not in self.standing:
            return standing
        return Standing(tool.name, "shown")

    @cached_property
    def loaded(self) -> frozenset[str]:
        """The names this conversation has loaded."""
        return frozenset(self.session.loaded)


def is_small(policy: Policy, catalog: Catalog, allow: Allow | None) -> bool:
    """Whether the allowed part of a catalog goes straight into view."""
    few: list[Tool] = []
    for tool in catalog:
        if is_allowed(tool, allow):
            few.append(tool)
            if len(few) >= policy.threshold:
                return False
    return policy.is_small(len(few), lambda: size(few, by=default_counter()))


def size(tools: Iterable[Tool], *, by: Counter) -> int:
    """The tokens of whole definitions, as plain JSON."""
    return sum(
        by.count(f"{t.name}{t.description}") + count_json(t.parameters.value, by=by) for t in tools
    )
