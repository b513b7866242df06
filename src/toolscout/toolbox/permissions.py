"""What a caller may see and call, and which calls need approval."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from ..catalog.failure import is_cancelled
from ..catalog.filters import Filter
from ..catalog.tool import Tool
from ..disclosure.scope import is_allowed
from ..errors import CallRefused, ConfigError
from ..search.engine import Allow

AllowRule = Allow | Filter
"""Names, a rule over tools, or a choice of servers and tools."""


def normalize_rule(given: AllowRule | None) -> Allow | None:
    """What was given, as something that says yes or no to a tool."""
    if isinstance(given, Filter):
        return given.allows
    if given is None or callable(given):
        return given
    # A text is a collection of its letters, which nobody means.
    if isinstance(given, str) or not isinstance(given, Collection):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may give anything
        raise ConfigError(
            f"A {type(given).__name__} says nothing of which tools are allowed.",
            hint="Give names as a list or a set, a function of a tool, or a Filter.",
        )
    return given


def intersect(first: Allow | None, second: Allow | None) -> Allow | None:
    """What both rules allow; no rule allows everything."""
    if first is None or second is None:
        return second if first is None else first

    def allow(tool: Tool) -> bool:
        return is_allowed(tool, first) and is_allowed(tool, second)

    return allow


_log = logging.getLogger(__name__)

Verdict = Literal["run", "ask", "refuse"]

ApprovalPolicy = Callable[[Tool], Verdict]
"""The one policy: what may run, what needs a yes, what is never run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call that waits for a yes: the real tool, not a bridge to it, and its arguments."""

    tool: Tool
    arguments: Mapping[str, Any]
    why: str
    session: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """Yes or no, and what the model should know about it."""

    is_approved: bool
    reason: str = ""


Approver = Callable[[ApprovalRequest], Awaitable[ApprovalDecision | bool] | ApprovalDecision | bool]
"""Asks whoever decides. An async one may take as long as it takes; a plain one answers at once."""


def is_destructive(tool: Tool) -> bool:
    """What the catalog's owner says counts; where he says nothing, the server's own hint does."""
    if tool.risk is not None:
        return tool.risk == "destructive"
    hints = tool.annotations
    return hints is not None and hints.destructive is True and hints.read_only is not True


def ask_if_destructive(tool: Tool) -> Verdict:
    """The default: destructive tools and those that want confirmation need a yes."""
    return "ask" if tool.requires_confirmation or is_destructive(tool) else "run"


def ask_unless_safe(tool: Tool) -> Verdict:
    """Stricter: everything needs a yes that is not known to be safe or read-only."""
    if ask_if_destructive(tool) == "ask":
        return "ask"
    hints = tool.annotations
    is_known = tool.risk == "safe" or (hints is not None and hints.read_only is True)
    return "run" if is_known else "ask"


def never_ask(_: Tool) -> Verdict:
    """Everything runs: for sandboxes, and where whoever calls has asked already."""
    return "run"


def approval_reason(tool: Tool) -> str:
    """Why a tool needs a yes, for whoever is asked."""
    if is_destructive(tool):
        source = "its owner" if tool.risk else f"the server {tool.server or 'it comes from'}"
        return f"{tool.name} is destructive, says {source}"
    if tool.requires_confirmation:
        return f"{tool.name} wants confirmation"
    return f"{tool.name} is not known to be safe"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGate:
    """How a conversation gets its yes: a policy, and somebody to ask."""

    caution: ApprovalPolicy = ask_if_destructive
    approver: Approver | None = None

    async def decide(self, approval: ApprovalRequest, verdict: Verdict) -> ApprovalDecision:
        """Ask where asking is needed; without an approver, what needs a yes is not run."""
        if verdict == "run":
            return ApprovalDecision(is_approved=True)
        if verdict == "refuse":
            return ApprovalDecision(is_approved=False, reason="it is not allowed here")
        if self.approver is None:
            return ApprovalDecision(
                is_approved=False, reason="it needs approval and nobody is there to give it"
            )
        return await _ask_approver(self.approver, approval)


async def _ask_approver(approver: Approver, approval: ApprovalRequest) -> ApprovalDecision:
    """What an approver says; where it fails or says neither yes nor no, that is a no."""
    try:
        answer = cast("object", approver(approval))
        if inspect.isawaitable(answer):
            answer = cast("object", await answer)
    except (Exception, asyncio.CancelledError) as error:
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
    _log.error("The approver answered with a %s, which is neither True, False nor Answer.", kind)
    return ApprovalDecision(
        is_approved=False, reason="it needs approval, and the answer was not a clear yes"
    )


def approval_refusal(tool: Tool, answer: ApprovalDecision) -> CallRefused:
    """What a model is told of a no."""
    return CallRefused(
        f"{tool.name} was not run: {answer.reason or 'the user said no'}.",
        hint="Do not try it again unless the user asks for it; go on without it, or ask the user.",
    )
