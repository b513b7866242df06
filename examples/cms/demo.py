"""Plays the three example conversations and counts their tokens."""

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

from .cms import WORKFLOWS, Cms, open_cms
from .conversations import CONVERSATIONS, Conversation
from .costs import EXPECTED, ConversationCost, RequestCost, count_request
from .prompt import core_prompt, full_prompt

__all__ = ["EXPECTED", "play"]

TODAY = date(2026, 3, 2)

EventCallback = Callable[[Conversation, StreamEvent | None], None]
"""Called when a conversation starts, with None, and for each of its events."""


async def play(
    folder: Path, *, by: TokenCounter, on_event: EventCallback
) -> tuple[ConversationCost, ...]:
    """Open the site in a folder, run the conversations, and count their tokens."""
    async with open_cms(folder) as cms:
        everything = await _count_everything(cms, by)
        return tuple(
            [
                await _count_conversation(cms, conversation, everything, by, on_event)
                for conversation in CONVERSATIONS
            ]
        )


async def _count_conversation(
    cms: Cms,
    conversation: Conversation,
    everything: RequestCost,
    by: TokenCounter,
    on_event: EventCallback,
) -> ConversationCost:
    model = ScriptedModel(conversation.script())
    run = await _run(cms, conversation, model, on_event)
    return ConversationCost(
        kind=conversation.kind,
        requests=tuple(count_request(request, by=by) for request in model.requests),
        searches=sum(_only_searched(step) for step in run.steps),
        baseline=everything,
    )


async def _run(
    cms: Cms, conversation: Conversation, model: ScriptedModel, on_event: EventCallback
) -> Run:
    on_event(conversation, None)
    runs: list[Run] = []
    async with cms.toolbox(store="memory", engine=Engine(), approver=_approve) as box:
        agent = Agent(
            box,
            model=model,
            instructions=core_prompt(TODAY),
            compactor=by_count(after=20, keep=10),
            stops=[],
        )
        async for event in agent.stream(conversation.message, session=conversation.kind):
            on_event(conversation, event)
            if isinstance(event, RunEndEvent):
                runs.append(event.run)
    return runs[0]


async def _approve(_: ApprovalRequest) -> bool:
    """In a demonstration the user says yes."""
    return True


def _only_searched(step: RunStep) -> bool:
    return bool(step.outcomes) and all(o.is_discovery for o in step.outcomes)


async def _count_everything(cms: Cms, by: TokenCounter) -> RequestCost:
    """The tokens of one request with every definition and the six workflows."""
    async with cms.toolbox(profile=EVERYTHING, store="memory", engine=Engine()) as box:
        everything = view(EVERYTHING, box.catalog, SessionState("everything"))
        request = ModelRequest(
            messages=(),
            tools=tuple(everything.tools),
            instructions=full_prompt(TODAY, Rules(WORKFLOWS)),
        )
    return count_request(request, by=by)
