"""Access rules: what one caller may reach of everything that the servers offer.

`AccessRule.admits` decides for everything: tools, prompts, resources, and whether a server exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..catalog.tool import Tool, qualify_name
from .identity.roles import Identity
from .settings import AccessPolicy

# The fields of a policy that version 0.1 had, in its order. See `AccessRule.session_key_text`.
_POLICY_FIELDS = ("principals", "servers", "tools", "deny", "read_only")
# Stands for any name: only a pattern that matches everything of a server matches it.
_ANY_NAME = "\uffff"


@dataclass(frozen=True, slots=True)
class AccessRule:
    """What one caller may reach: what every policy for this caller admits."""

    policies: tuple[AccessPolicy, ...]

    def admits(self, server: str, names: Sequence[str], *, is_read_only: bool) -> bool:
        """Whether the caller may see and use something of a server that has these names."""
        return all(
            _admits_name(policy, server, names) and (is_read_only or not policy.read_only)
            for policy in self.policies
        )

    def __call__(self, tool: Tool) -> bool:
        """Whether the tool may be seen and called."""
        # Only an explicit annotation counts as read-only; a tool without one may write.
        hints = tool.annotations
        is_read_only = hints is not None and hints.read_only is True
        return self.admits(tool.server, (tool.name,), is_read_only=is_read_only)

    def admits_content(self, server: str, names: Sequence[str]) -> bool:
        """Whether a prompt or resource with these names may be seen and got."""
        return self.admits(server, names, is_read_only=True)

    def admits_unlisted(self, server: str) -> bool:
        """Whether the caller may know of a server whose tools are not known yet.

        Nothing but its name can be judged: it must be selected as a whole, or be named by a pattern
        for its tools.
        """
        start = qualify_name(server, "")
        return all(
            _admits_name(policy, server, (start + _ANY_NAME,))
            or (
                any(pattern.startswith(start) for pattern in policy.tools)
                and not _matches((start + _ANY_NAME,), policy.deny)
                and _admits_server_name(policy, server)
            )
            for policy in self.policies
        )

    @property
    def denied_patterns(self) -> tuple[str, ...]:
        """The patterns that some policy denies."""
        return tuple(pattern for policy in self.policies for pattern in policy.deny)

    @property
    def is_unlimited(self) -> bool:
        """Whether the rule hides nothing."""
        return not any(p.servers or p.tools or p.deny or p.read_only for p in self.policies)

    @property
    def session_key_text(self) -> str:
        """The rule as the text that is hashed into session keys."""
        # Version 0.1 hashed repr(rule), and sessions are stored under these hashes. This is the
        # text that repr gave then, with the old class names. It does not depend on names in
        # the code, so a rename does not make every caller start a new session.
        # A new field of AccessPolicy has to be added here only where it differs from its default.
        policies = ", ".join(_policy_text(policy) for policy in self.policies)
        comma = "," if len(self.policies) == 1 else ""  # as Python writes a tuple of one
        return f"Rule(policies=({policies}{comma}))"


DENY_ALL = AccessRule((AccessPolicy(deny=("*",)),))
"""The rule for a caller that no policy names."""


def applies_to(policy: AccessPolicy, caller: Identity) -> bool:
    """Whether a policy is for a caller, by its name and role."""
    has_role = not policy.roles or caller.role in policy.roles
    return has_role and _matches((caller.name or "anonymous",), policy.principals)


def _admits_name(policy: AccessPolicy, server: str, names: Sequence[str]) -> bool:
    if not _admits_server_name(policy, server):
        return False
    if policy.tools and not _matches(names, policy.tools):
        return False
    return not _matches(names, policy.deny)


def _admits_server_name(policy: AccessPolicy, server: str) -> bool:
    return not policy.servers or _matches((server,), policy.servers)


def _matches(names: Sequence[str], patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _policy_text(policy: AccessPolicy) -> str:
    fields = ", ".join(f"{name}={getattr(policy, name)!r}" for name in _POLICY_FIELDS)
    roles = f", roles={policy.roles!r}" if policy.roles else ""
    return f"Policy({fields}{roles})"
