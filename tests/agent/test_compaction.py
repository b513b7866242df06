"""What Claude is sent over a whole conversation, cut again and again, through its own SDK."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.office import Agent, Office, open_office
from tests.toolbox.test_live import Notes
from tests.wire.server import Seen, Wire
from tests.wire.turns import Say

from toolscout.agent.compaction import Compactor, by_count
from toolscout.disclosure.profiles.default import DEFAULT
from toolscout.disclosure.rebuild import rebuild_session
from toolscout.disclosure.scope import ToolSelector
from toolscout.models.anthropic import AnthropicModel
from toolscout.models.messages import Message, user_message
from toolscout.toolbox.toolbox import Toolbox

POLICY = replace(
    DEFAULT.policy, threshold=0, share=0.0, pinned=ToolSelector(names=("notes__pinned",))
)
NATIVE = replace(DEFAULT, surface="native", policy=POLICY)
NAMES = ["send_email", "find_contact", "rate", "nothing", "notes__read", "more__write"]
MAIL = ("send_email", '{"to": "ann@example.com", "subject": "Invoice"}')


def searching(*names: str) -> Say:
    return Say(calls=(("tool_search", json.dumps({"query": f"select:{','.join(names)}"})),))


def claude(wire: Wire) -> AnthropicModel:
    return AnthropicModel("claude-opus-4-5", api_key="k", base_url=wire.url, transport="direct")


def tools(seen: Seen) -> list[str]:
    return [json.dumps(tool) for tool in seen.body["tools"]]


def blocks(seen: Seen) -> list[dict[str, Any]]:
    return [block for message in seen.body["messages"] for block in message["content"]]


def references(seen: Seen) -> list[str]:
    contents = [b.get("content", []) for b in blocks(seen) if b["type"] == "tool_result"]
    return [b["tool_name"] for content in contents for b in content if "tool_name" in b]


def waiting(seen: Seen) -> set[str]:
    return {tool["name"] for tool in seen.body["tools"] if tool.get("defer_loading")}


def check_that_lists_only_grow(requests: list[Seen]) -> None:
    for before, after in pairwise(requests):
        assert tools(after)[: len(tools(before))] == tools(before)
        assert after.body["system"] == before.body["system"]


async def test_a_compacted_conversation_with_claude_keeps_its_list_and_tools() -> None:
    office = Office()
    async with Wire() as wire, open_office(office, profile=NATIVE) as box:
        model = claude(wire)
        agent = Agent(box, model=model, compactor=by_count(after=6, keep=2))
        wire.then(searching("send_email"), searching("find_contact"), Say("Ready."))
        await agent.run("Find what you need", session="s")
        wire.then(Say("Yes."), Say(calls=(MAIL,)), Say("Sent."))
        await agent.run("All well?", session="s")
        run = await agent.run("Mail Ann", session="s")
        await model.close()
    assert (run.text, len(office.done)) == ("Sent.", 1)
    check_that_lists_only_grow(wire.seen)
    assert len({tuple(tools(seen)) for seen in wire.seen[2:]}) == 1
    cut = wire.seen[3].body["messages"]
    assert cut[0]["content"][0]["text"] == "Find what you need"
    assert cut[1]["content"][0]["input"] == {"query": "select:send_email,find_contact"}
    assert references(wire.seen[3]) == ["send_email", "find_contact"]
    again = rebuild_session("s", cut, profile=NATIVE, catalog=box.catalog)
    assert again.loaded == ("send_email", "find_contact")


def summed_up(messages: Any) -> tuple[Message, ...]:
    """A cut of a user's own: a summary and the newest message, results with their calls."""
    if len(messages) <= 5:
        return tuple(messages)
    start = len(messages) - (2 if messages[-1].results else 1)
    return (user_message("In short: …"), *messages[start:])


async def test_a_summary_is_followed_by_what_brings_the_tools_and_then_by_the_question() -> None:
    async with Wire() as wire, open_office(Office(), profile=NATIVE) as box:
        model = claude(wire)
        agent = Agent(box, model=model, compactor=summed_up)
        wire.then(searching("send_email"), Say("Ready."), Say("Yes."), Say("Yes."))
        for text in ("Find it", "All well?", "Still there?"):
            await agent.run(text, session="s")
        await model.close()
    said = wire.seen[-1].body["messages"]
    assert [m["role"] for m in said] == ["user", "assistant", "user", "assistant", "user"]
    assert [b["type"] for b in blocks(wire.seen[-1])] == [
        *("text", "tool_use", "tool_result", "text", "text")
    ]
    assert said[-1]["content"][0]["text"] == "Still there?"
    assert references(wire.seen[-1]) == ["send_email"]


async def test_a_tool_unloaded_after_it_was_found_is_referred_to_no_more() -> None:
    async with Wire() as wire, open_office(Office(), profile=NATIVE) as box:
        model = claude(wire)
        agent = Agent(box, model=model)
        wire.then(searching("send_email", "find_contact"), Say("Ready."), Say("Yes."))
        await agent.run("Find it", session="s")
        await (await box.session("s")).unload("send_email")
        assert (await agent.run("And now?", session="s")).text == "Yes."
        await model.close()
    assert references(wire.seen[-1]) == ["find_contact"]


async def test_a_tool_found_outside_the_run_is_brought_to_the_model_by_it() -> None:
    """Whoever searches through the session itself leaves nothing of it in the conversation."""
    async with Wire() as wire, open_office(Office(), profile=NATIVE) as box:
        model = claude(wire)
        agent = Agent(box, model=model)
        wire.then(Say("Hello."), Say("Yes."))
        await agent.run("Hi", session="s")
        await (await box.session("s")).call("tool_search", {"query": "select:send_email"})
        await agent.run("And now?", session="s")
        await model.close()
    assert references(wire.seen[-1]) == ["send_email"]
    check_that_lists_only_grow(wire.seen)


EVENT = st.one_of(
    st.tuples(st.just("search"), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)),
    st.tuples(st.just("call"), st.sampled_from(NAMES)),
    st.tuples(st.just("say"), st.none()),
    st.tuples(st.just("come"), st.sampled_from(["notes", "more"])),
    st.tuples(st.just("lose"), st.sampled_from(["notes", "more"])),
    st.tuples(st.just("resume"), st.none()),
    st.tuples(st.just("compact"), st.none()),
)
TRIMMERS = [by_count(after=5, keep=2), by_count(after=8, keep=4), summed_up]
SOURCES = {"notes": ("read", "pinned"), "more": ("write",)}


async def change(box: Toolbox, kind: str, name: str) -> None:
    if kind == "come":
        await box.add(Notes(*SOURCES[name], name=name))
    elif name in {tool.server for tool in box.catalog}:
        await box.remove(name)


async def led(events: list[tuple[str, Any]], trim: Compactor, store: Path) -> list[Seen]:
    """Lead a conversation through events; the service refuses what the real one would refuse."""
    async with Wire() as wire:
        model = claude(wire)
        box = await open_office(Office(), profile=NATIVE, store=store).__aenter__()
        for kind, value in [("say", None), *events, ("say", None)]:
            match kind:
                case "search":
                    wire.then(searching(*value))
                case "call":
                    wire.then(Say(calls=((value, "{}"),)))
                case "come" | "lose":
                    await change(box, kind, value)
                case "resume":
                    await box.close()
                    box = await open_office(Office(), profile=NATIVE, store=store).__aenter__()
                case "compact":
                    await (await box.session("s")).mark_compacted()
                case _:
                    pass
            wire.then(Say("Done."))
            run = await Agent(box, model=model, compactor=trim).run(f"Now {kind}", session="s")
            assert run.text == "Done."
            loaded = {*(await box.session("s")).state.loaded}
            assert loaded >= waiting(wire.seen[-1]) - {"notes__pinned"}
        await box.close()
        await model.close()
    return wire.seen


@pytest.mark.parametrize("trim", TRIMMERS, ids=["often", "seldom", "to a summary"])
@settings(max_examples=8)
@given(events=st.lists(EVENT, min_size=4, max_size=12))
def test_whatever_happens_claude_s_list_only_grows_and_found_tools_stay_in_view(
    trim: Compactor, events: list[tuple[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = tmp_path_factory.mktemp("kept") / "sessions.db"
    requests = asyncio.run(led(events, trim, store))
    check_that_lists_only_grow(requests)
    for seen in requests:
        assert waiting(seen) - {"notes__pinned"} <= {*references(seen)}
