"""Permissions: allow rules for what a caller may see, and approval of risky calls."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from ..catalog.failure import is_cancelled, is_passed
from ..catalog.filters import Filter
from ..catalog.tool import Tool
from ..disclosure.scope import is_allowed
from ..errors import CallRefusedError, ConfigError
from ..search.engine import Allow

AllowRule = Allow | Filter
"""Tool names, a predicate over tools, or a Filter of servers and tools."""


def normalize_rule(rule: AllowRule | None) -> Allow | None:
    """The rule as a set of names or a predicate; None allows everything."""
    if isinstance(rule, Filter):
        return rule.allows
    if rule is None or callable(rule):
        return rule
    # A string is a collection too, of its letters, and would silently allow nothing.
    if isinstance(rule, str) or not isinstance(rule, Collection):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may pass anything
        raise ConfigError(
            f"A {type(rule).__name__} is not an allow rule.",
            hint="Give names as a list or a set, a function of a tool, or a Filter.",
        )
    return rule


def intersect(first: Allow | None, second: Allow | None) -> Allow | None:
    """A rule that allows what both allow; None allows everything."""
    if first is None or second is None:
        return second if first is None else first

    def allow(tool: Tool) -> bool:
        return is_allowed(tool, first) and is_allowed(tool, second)

    return allow


_log = logging.getLogger(__name__)

ApprovalVerdict = Literal["run", "ask", "refuse"]

ApprovalPolicy = Callable[[Tool], ApprovalVerdict]
"""Decides for a tool: run it, ask first, or refuse it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call that needs approval: the real tool, even if called through `call_tool`."""

    tool: Tool
    arguments: Mapping[str, Any]
    why: str
    session: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """Approved or not, and a reason for the model."""

    is_approved: bool
    reason: str = ""


Approver = Callable[[ApprovalRequest], Awaitable[ApprovalDecision | bool] | ApprovalDecision | bool]
"""Asks the user. An async approver may wait for an answer; a plain function answers at once."""


def is_destructive(tool: Tool) -> bool:
    """Whether a tool is destructive, by its `risk` or else by the hints of its server."""
    # The owner of the catalog sets `risk`; the hints are an untrusted server's own claims.
    if tool.risk is not None:
        return tool.risk == "destructive"
    hints = tool.annotations
    # MCP gives destructiveHint a meaning only for tools that are not read-only.
    return hints is not None and hints.destructive is True and hints.read_only is not True


def ask_if_destructive(tool: Tool) -> ApprovalVerdict:
    """The default policy: destructive tools and those that require confirmation need approval."""
    return "ask" if tool.requires_confirmation or is_destructive(tool) else "run"


def ask_unless_safe(tool: Tool) -> ApprovalVerdict:
    """A stricter policy: everything not known to be safe or read-only needs approval."""
    if ask_if_destructive(tool) == "ask":
        return "ask"
    hints = tool.annotations
    is_known = tool.risk == "safe" or (hints is not None and hints.read_only is True)
    return "run" if is_known else "ask"


def never_ask(_: Tool) -> ApprovalVerdict:
    """A policy for sandboxes, and for callers that ask for approval themselves."""
    return "run"


def approval_reason(tool: Tool) -> str:
    """Why a tool needs approval, for the person who decides."""
    if is_destructive(tool):
        source = "its owner" if tool.risk else f"the server {tool.server or 'it comes from'}"
        return f"{tool.name} is destructive according to {source}"
    if tool.requires_confirmation:
        return f"{tool.name} requires confirmation"
    return f"{tool.name} is not known to be safe"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGate:
    """How a conversation gets approvals: a policy, and an approver to ask."""

    approval_policy: ApprovalPolicy = ask_if_destructive
    approver: Approver | None = None

    async def decide(self, approval: ApprovalRequest, verdict: ApprovalVerdict) -> ApprovalDecision:
        """Ask the approver if needed; without one, a call that needs approval is refused."""
        if verdict == "run":
            return ApprovalDecision(is_approved=True)
        if verdict == "refuse":
            return ApprovalDecision(is_approved=False, reason="it is not allowed here")
        if self.approver is None:
            return ApprovalDecision(
                is_approved=False, reason="it needs approval, and there is no approver to ask"
            )
        return await _ask_approver(self.approver, approval)


async def _ask_approver(approver: Approver, approval: ApprovalRequest) -> ApprovalDecision:
    """Ask an approver; a failure or an unclear answer counts as no."""
    try:
        answer = cast("object", approver(approval))
        if inspect.isawaitable(answer):
            answer = cast("object", await answer)
    except (Exception, asyncio.CancelledError) as error:
        if is_passed(error):
            raise
        # The approver may raise CancelledError itself, for a dialog that was closed, say. Only a
        # cancellation of this task ends the call.
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise
        _log.exception("The approver failed when asked about %s.", approval.tool.name)
        return ApprovalDecision(
            is_approved=False, reason="it needs approval, and asking for it failed"
        )
    if isinstance(answer, ApprovalDecision):
        return answer
    if isinstance(answer, bool):
        return ApprovalDecision(answer)
    kind = type(answer).__name__
    # Not truthiness: a string "no" must not approve anything.
    _log.error(
        "The approver answered with a %s, which is neither a bool nor an ApprovalDecision.", kind
    )
    return ApprovalDecision(
        is_approved=False, reason="it needs approval, and the approver's answer was not valid"
    )


def approval_refusal(tool: str, answer: ApprovalDecision) -> CallRefusedError:
    """The error for the model that a call was not approved."""
    return CallRefusedError(
        f"{tool} was not run: {answer.reason or 'the user refused it'}.",
        hint="Do not try it again unless the user asks for it. Continue without it, or ask them.",
    )
