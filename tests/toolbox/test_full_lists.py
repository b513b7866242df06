"""A provider's list takes so many tools; what is found beyond that runs all the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from toolscout.disclosure.profile import Profile
from toolscout.disclosure.profiles import CMS, CORTEX, DEFAULT
from toolscout.disclosure.rebuild import rebuild_session
from toolscout.sources.functions import tool
from toolscout.toolbox.toolbox import Toolbox

SEARCHES = {"default": "tool_search", "cms": "tool_search", "cortex": "ToolSearch"}


def counter(number: int) -> Callable[..., Any]:
    def counted(times: int = 1) -> str:
        return f"{number} counted {times} times"

    options: Any = {"name": f"count_{number}", "description": f"Count to {number}."}
    return tool(**options)(counted)


@pytest.fixture
async def counting(open_box: Callable[..., Any]) -> Callable[[Profile], Any]:
    async def opened(profile: Profile) -> Toolbox:
        functions = [counter(number) for number in range(160)]
        policy = replace(profile.policy, rule="all")
        return await open_box(*functions, profile=replace(profile, surface="load", policy=policy))

    return opened


@pytest.mark.parametrize("profile", [DEFAULT, CMS, CORTEX], ids=lambda p: p.name)
async def test_tools_beyond_a_full_list_run_through_call_tool(
    counting: Callable[[Profile], Any], profile: Profile
):
    box = await counting(profile)
    session = await box.session("s")
    await session.load(*(f"count_{number}" for number in range(130)))
    before = session.view("openai:gpt-4o")
    assert len(before.names) == 128
    found = await session.call(SEARCHES[profile.name], {"query": "count_150"})
    assert "Your tool list is full. Run with call_tool:\ncount_150: Count to 150." in found.text
    after = session.view("openai:gpt-4o")
    assert after.text == before.text
    asked = {"name": "count_150", "arguments": {"times": 3}}
    assert (await session.call("call_tool", asked)).text == "150 counted 3 times"
    wrong = await session.call("call_tool", {"name": "count_150", "arguments": {"times": "x"}})
    assert wrong.is_error
    assert "times" in wrong.text
    unloaded = await session.call("call_tool", {"name": "count_155", "arguments": {}})
    assert unloaded.is_error == (profile.on_unloaded == "reject")


async def test_calls_beyond_a_full_list_are_rebuilt_from_the_messages(
    counting: Callable[[Profile], Any],
):
    box = await counting(DEFAULT)
    session = await box.session("s")
    await session.load(*(f"count_{number}" for number in range(125)))
    session.view("openai:gpt-4o")
    asked = {"query": "select:count_140,count_141,count_142"}
    found = await session.call("tool_search", asked)
    call = {"name": "tool_search", "arguments": json.dumps(asked)}
    messages = [
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "1", "content": found.text},
    ]
    again = rebuild_session("s", messages, profile=box.profile, catalog=box.catalog)
    assert again.loaded == ("count_140", "count_141", "count_142")
