"""Why a caller may or may not reach a tool: what each policy says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..catalog.tool import Tool
from .access import AccessRule, applies_to
from .identity.roles import Identity
from .settings import AccessPolicy

NO_POLICIES = "There are no policies, so every caller may use every tool."
UNNAMED = "No policy is for this caller, so it may use nothing."


@dataclass(frozen=True, slots=True)
class PolicyReason:
    """What one policy says of one tool; `is_for_caller` says whether it counts."""

    policy: str
    is_for_caller: bool
    is_admitted: bool
    text: str


@dataclass(frozen=True, slots=True)
class AccessReason:
    """Whether a caller may use a tool; `text` names the setting that decides."""

    is_allowed: bool
    text: str
    policies: tuple[PolicyReason, ...] = ()


def explain_access(
    policies: Mapping[str, AccessPolicy], caller: Identity, tool: Tool
) -> AccessReason:
    """The decision on a tool, and the policy that decides: the first that refuses it, if any."""
    if not policies:
        return AccessReason(is_allowed=True, text=NO_POLICIES)
    reasons = tuple(_ask_policy(name, policy, caller, tool) for name, policy in policies.items())
    counting = [reason for reason in reasons if reason.is_for_caller]
    if not counting:
        return AccessReason(is_allowed=False, text=UNNAMED, policies=reasons)
    refusing = next((reason for reason in counting if not reason.is_admitted), None)
    deciding = refusing or counting[0]
    text = f"[policies.{deciding.policy}] {deciding.text}"
    return AccessReason(is_allowed=refusing is None, text=text, policies=reasons)


def _ask_policy(name: str, policy: AccessPolicy, caller: Identity, tool: Tool) -> PolicyReason:
    # The rule itself decides; the text below only says why.
    is_admitted = AccessRule((policy,))(tool)
    return PolicyReason(
        policy=name,
        is_for_caller=applies_to(policy, caller),
        is_admitted=is_admitted,
        text=_describe_admission(policy, tool) if is_admitted else _describe_refusal(policy, tool),
    )


def _describe_admission(policy: AccessPolicy, tool: Tool) -> str:
    pattern = _find_pattern(tool.name, policy.tools)
    if pattern:
        return f"admits it: tools has {pattern!r}"
    if policy.servers:
        return f"admits it: servers has {_find_pattern(tool.server, policy.servers)!r}"
    return "admits it: it sets no limit that concerns this tool"


def _describe_refusal(policy: AccessPolicy, tool: Tool) -> str:
    if policy.servers and not _find_pattern(tool.server, policy.servers):
        return f"refuses it: servers does not have {tool.server!r}"
    if policy.tools and not _find_pattern(tool.name, policy.tools):
        return "refuses it: no pattern of tools matches"
    if pattern := _find_pattern(tool.name, policy.deny):
        return f"refuses it: deny has {pattern!r}"
    return "refuses it: read_only, and the tool is not annotated as read-only"


def _find_pattern(name: str, patterns: Sequence[str]) -> str:
    return next((pattern for pattern in patterns if fnmatchcase(name, pattern)), "")
