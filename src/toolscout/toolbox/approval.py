"""Which calls need somebody's yes, and asking for it.

The policy stands here and not in an agent, because a call must be judged as what it is: the inner
tool of a `call_tool`, with the arguments it will really run with, from whichever side it comes.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from ..catalog.failure import is_cancelled
from ..catalog.tool import Tool
from ..errors import CallRefused

_log = logging.getLogger(__name__)

Verdict = Literal["run", "ask", "refuse"]

Caution = Callable[[Tool], Verdict]
"""The one policy: what may run, what needs a yes, what is never run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A call that waits for a yes: the real tool, not a bridge to it, and its arguments."""

    tool: Tool
    arguments: Mapping[str, Any]
    why: str
    session: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Yes or no, and what the model should know about it."""

    is_approved: bool
    reason: str = ""


Approver = Callable[[Approval], Awaitable[Answer | bool] | Answer | bool]
"""Asks whoever decides. An async one may take as long as it takes; a plain one answers at once."""


def is_destructive(tool: Tool) -> bool:
    """What the catalog's owner says counts; where he says nothing, the server's own hint does."""
    if tool.risk is not None:
        return tool.risk == "destructive"
    hints = tool.annotations
    return hints is not None and hints.destructive is True and hints.read_only is not True


def careful(tool: Tool) -> Verdict:
    """The default: destructive tools and those that want confirmation need a yes."""
    return "ask" if tool.requires_confirmation or is_destructive(tool) else "run"


def wary(tool: Tool) -> Verdict:
    """Stricter: everything needs a yes that is not known to be safe or read-only."""
    if careful(tool) == "ask":
        return "ask"
    hints = tool.annotations
    is_known = tool.risk == "safe" or (hints is not None and hints.read_only is True)
    return "run" if is_known else "ask"


def trusting(_: Tool) -> Verdict:
    """Everything runs: for sandboxes, and where whoever calls has asked already."""
    return "run"


def reason(tool: Tool) -> str:
    """Why a tool needs a yes, for whoever is asked."""
    if is_destructive(tool):
        source = "its owner" if tool.risk else f"the server {tool.server or 'it comes from'}"
        return f"{tool.name} is destructive, says {source}"
    if tool.requires_confirmation:
        return f"{tool.name} wants confirmation"
    return f"{tool.name} is not known to be safe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """How a conversation gets its yes: a policy, and somebody to ask."""

    caution: Caution = careful
    approver: Approver | None = None

    async def of(self, approval: Approval, verdict: Verdict) -> Answer:
        """Ask where asking is needed; without an approver, what needs a yes is not run."""
        if verdict == "run":
            return Answer(is_approved=True)
        if verdict == "refuse":
            return Answer(is_approved=False, reason="it is not allowed here")
        if self.approver is None:
            return Answer(
                is_approved=False, reason="it needs approval and nobody is there to give it"
            )
        return await _asked(self.approver, approval)


async def _asked(approver: Approver, approval: Approval) -> Answer:
    """What an approver says; where it fails or says neither yes nor no, that is a no."""
    try:
        answer = cast("object", approver(approval))
        if inspect.isawaitable(answer):
            answer = cast("object", await answer)
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise
        _log.exception("The approver failed when asked about %s.", approval.tool.name)
        return Answer(is_approved=False, reason="it needs approval, and asking for it failed")
    if isinstance(answer, Answer):
        return answer
    if isinstance(answer, bool):
        return Answer(answer)
    kind = type(answer).__name__
    _log.error("The approver answered with a %s, which is neither True, False nor Answer.", kind)
    return Answer(is_approved=False, reason="it needs approval, and the answer was not a clear yes")


def refusal(tool: Tool, answer: Answer) -> CallRefused:
    """What a model is told of a no."""
    return CallRefused(
        f"{tool.name} was not run: {answer.reason or 'the user said no'}.",
        hint="Do not try it again unless the user asks for it; go on without it, or ask the user.",
    )
