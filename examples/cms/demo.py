"""The three conversations, played and counted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

from toolscout import Agent, Engine
from toolscout.agent.compaction import by_count
from toolscout.agent.steps import Run, RunStep
from toolscout.agent.stream_events import RunEndEvent, StreamEvent
from toolscout.disclosure.profiles import EVERYTHING
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.view import view
from toolscout.guidance.rules import Rules
from toolscout.models.model import ModelRequest
from toolscout.models.scripted import ScriptedModel
from toolscout.tokens import TokenCounter
from toolscout.toolbox.permissions import ApprovalRequest

from .accounting import EXPECTED, Account, weigh
from .cms import RULES, Cms, open_cms
from .conversations import CONVERSATIONS, Conversation
from .prompt import core, whole

__all__ = ["EXPECTED", "play"]

TODAY = date(2026, 3, 2)

Watch = Callable[[Conversation, StreamEvent | None], None]
"""Hears of every conversation when it begins (None) and of all that happens in it."""


async def play(folder: Path, *, by: TokenCounter, watch: Watch) -> tuple[Account, ...]:
    """Open the site in a folder, hold the conversations, and say what they cost."""
    async with open_cms(folder) as cms:
        everything = await _everything(cms, by)
        return tuple(
            [
                await _account(cms, conversation, everything, by, watch)
                for conversation in CONVERSATIONS
            ]
        )


async def _account(
    cms: Cms, conversation: Conversation, everything: int, by: TokenCounter, watch: Watch
) -> Account:
    model = ScriptedModel(conversation.script())
    run = await _hold(cms, conversation, model, watch)
    return Account(
        kind=conversation.kind,
        weights=tuple(weigh(request, by=by) for request in model.requests),
        searches=sum(_only_searched(step) for step in run.steps),
        everything=everything,
    )


async def _hold(cms: Cms, conversation: Conversation, model: ScriptedModel, watch: Watch) -> Run:
    watch(conversation, None)
    runs: list[Run] = []
    async with cms.toolbox(store="memory", engine=Engine(), approver=_agrees) as box:
        agent = Agent(
            box,
            model=model,
            instructions=core(TODAY),
            trim=by_count(after=20, keep=10),
            stops=[],
        )
        async for happening in agent.stream(conversation.message, session=conversation.kind):
            watch(conversation, happening)
            if isinstance(happening, RunEndEvent):
                runs.append(happening.run)
    return runs[0]


async def _agrees(_: ApprovalRequest) -> bool:
    """In a demonstration the user says yes."""
    return True


def _only_searched(step: RunStep) -> bool:
    return bool(step.ran) and all(ran.is_discovery for ran in step.ran)


async def _everything(cms: Cms, by: TokenCounter) -> int:
    """One request with every definition and every rule, as the site's agent once was."""
    async with cms.toolbox(profile=EVERYTHING, store="memory", engine=Engine()) as box:
        shown = view(EVERYTHING, box.catalog, SessionState("everything"))
        request = ModelRequest(
            messages=(),
            tools=tuple(shown.tools),
            instructions=whole(TODAY, Rules(RULES), cms.tools),
        )
    return weigh(request, by=by).total
