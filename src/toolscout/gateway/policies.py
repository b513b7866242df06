"""What each principal may see and call: one rule, for search and for calls alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..catalog.tool import Tool
from .settings import AccessPolicy


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Admits a tool if every policy that concerns the principal does; a callable like any."""

    policies: tuple[AccessPolicy, ...]

    def __call__(self, tool: Tool) -> bool:
        """Whether the tool may be seen and called."""
        return all(admits(policy, tool) for policy in self.policies)

    def admits_server(self, server: str) -> bool:
        """Whether anything of a server may be reached: its prompts and resources too."""
        return all(
            (not p.servers or _matches(server, p.servers)) and "*" not in p.deny
            for p in self.policies
        )


def admits(policy: AccessPolicy, tool: Tool) -> bool:
    """One policy's word on a tool; what only an annotation vouches for is believed of it."""
    if policy.servers and not _matches(tool.server, policy.servers):
        return False
    if policy.tools and not _matches(tool.name, policy.tools):
        return False
    if _matches(tool.name, policy.deny):
        return False
    hints = tool.annotations
    return not policy.read_only or (hints is not None and hints.read_only is True)


def rule_for(principal: str, policies: Mapping[str, AccessPolicy]) -> AccessRule | None:
    """The rule of a principal. Where there are policies, nobody is without one."""
    if not policies:
        return None
    mine = tuple(p for p in policies.values() if _matches(principal or "anonymous", p.principals))
    return AccessRule(mine or (_DENY_ALL,))


_DENY_ALL = AccessPolicy(deny=("*",))


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
