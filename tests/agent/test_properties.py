"""Whatever a model does, the conversation stays one that every provider takes."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.office import Agent, Office, open_office
from tests.wire import anthropic as anthropic_wire
from tests.wire import chat as chat_wire
from tests.wire import gemini as gemini_wire
from tests.wire import responses as responses_wire

from toolscout.agent.compaction import by_count
from toolscout.errors import ModelError
from toolscout.models import anthropic, google
from toolscout.models import openai_chat as chat
from toolscout.models import openai_responses as responses
from toolscout.models.messages import (
    CONVERSATION_SECTION,
    Message,
    dump_messages,
    load_history,
    load_messages,
)
from toolscout.models.retry import Backoff
from toolscout.models.scripted import ScriptedCall, ScriptedFailure, ScriptedModel, Turn

NAMES = st.sampled_from(
    [
        "tool_search",
        "send_email",
        "find_contact",
        "fail",
        "nothing",
        "delete_account",
        "no_such_tool",
    ]
)
ARGUMENTS = st.one_of(
    st.just({"query": "send an email"}),
    st.just({"name": "Ann"}),
    st.dictionaries(
        st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=3
    ),
    st.text(max_size=12),
)
CALLS = st.lists(st.builds(ScriptedCall, NAMES, ARGUMENTS), max_size=4).map(tuple)
FAULTS = st.none() | st.builds(
    ScriptedFailure, status=st.sampled_from([400, 429, 500]), is_cut=st.booleans()
)
TURNS = st.builds(
    Turn,
    say=st.text(max_size=8),
    calls=CALLS,
    error=FAULTS,
    reason=st.sampled_from([None, "length", "paused", "refused"]),
)


async def held(script: list[Turn], messages: list[str]) -> list[tuple[Message, ...]]:
    """Hold a conversation of several messages; give it as it was kept after each."""
    snapshots: list[tuple[Message, ...]] = []
    async with open_office(Office()) as box:
        agent = Agent(
            box,
            model=ScriptedModel(script),
            backoff=Backoff(first_seconds=0.0, attempts=2),
            compactor=by_count(after=8, keep=4),
        )
        for text in messages:
            with suppress(ModelError):
                await agent.run(text, session="s")
            state = (await box.session("s")).state
            snapshots.append(load_history(state.sections.get(CONVERSATION_SECTION)))
    return snapshots


@settings(max_examples=60)
@given(st.lists(TURNS, max_size=12))
def test_every_provider_accepts_a_stored_conversation(script: list[Turn]) -> None:
    for messages in asyncio.run(held(script, ["One", "Two", "Three"])):
        assert load_messages(dump_messages(messages)) == messages
        assert messages[0].role == "user"
        assert not _complaints(messages)


def _complaints(messages: tuple[Message, ...]) -> list[str]:
    found = (
        anthropic_wire.check({"max_tokens": 1, "messages": anthropic.render_messages(messages)}),
        chat_wire.check({"messages": chat.render_messages(messages)}),
        responses_wire.check({"input": responses.render_messages(messages)}),
        gemini_wire.check({"contents": google.render_messages(messages)}),
    )
    return [complaint for complaint in found if complaint]


@pytest.mark.parametrize("error", [ScriptedFailure(status=400), ScriptedFailure(is_cut=True)])
def test_a_failure_in_the_middle_leaves_the_steps_before_it(error: ScriptedFailure) -> None:
    script = [
        Turn(calls=(ScriptedCall("tool_search", {"query": "send an email"}),)),
        Turn(error=error),
    ]
    first, *_ = asyncio.run(held(script, ["One"]))
    assert [m.role for m in first] == ["user", "assistant", "tool"]
    assert not _complaints(first)
