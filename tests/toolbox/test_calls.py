"""Every call gets an answer: it runs, or says what to do instead, and never raises."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.disclosure.profiles import DEFAULT
from toolscout.events import Event
from toolscout.toolbox.permissions import (
    ApprovalDecision,
    ApprovalRequest,
    ask_unless_safe,
    never_ask,
)


def names(view: Any) -> list[str]:
    return [t["name"] for t in view.tools]


async def test_a_tool_of_the_catalog_runs_and_its_use_is_remembered(open_box: Any):
    session = await (await open_box()).session("s")
    result = await session.call("get_weather", {"city": "Oslo"})
    assert not result.is_error
    assert result.value == {"city": "Oslo", "sky": "clear"}
    assert session.state.uses == ("get_weather",)


@pytest.mark.behaviour("A22")
async def test_with_the_solaris_profile_a_tool_runs_that_was_never_searched(open_box: Any):
    session = await (await open_box(profile="solaris")).session("s")
    assert (await session.call("get_weather", {"city": "Oslo"})).value["sky"] == "clear"
    assert session.state.searches == ()


@pytest.mark.behaviour("B53")
async def test_with_the_mcpagent_profile_discovery_only_controls_what_is_visible(open_box: Any):
    session = await (await open_box(profile="mcpagent")).session("s")
    assert "get_weather" not in names(session.view())
    assert not (await session.call("get_weather", {"city": "Oslo"})).is_error
    assert "get_weather" not in names(session.view())


@pytest.mark.parametrize("profile", ["cortex", "cms"])
async def test_profiles_that_want_loading_first_refuse_with_the_schema_and_the_way(
    open_box: Any, profile: str
):
    box = await open_box(
        *(Tool(name=f"s__t{n}", server="s", description=f"Thing {n}") for n in range(3)),
        profile=profile,
    )
    session = await box.session("s")
    result = await session.call("s__t1", {})
    assert (result.is_error, result.code) == (True, "not_loaded")
    assert "s__t1" in result.text
    assert box.profile.tool_for("search").name in result.text


async def test_a_profile_may_load_what_is_called_and_have_it_called_again(open_box: Any):
    healing = replace(DEFAULT, name="healing", on_unloaded="load")
    session = await (await open_box(profile=healing)).session("s")
    first = await session.call("send_email", {"to": "ann", "subject": "Hi"})
    assert (first.is_error, first.code) == (True, "not_loaded")
    assert "subject" in first.text
    assert session.state.loaded == ("send_email",)
    assert session.state.uses == ()
    again = await session.call("send_email", {"to": "ann", "subject": "Hi"})
    assert again.text == "1 sent to ann: Hi"


@pytest.mark.behaviour("B75")
async def test_an_unknown_name_gets_the_nearest_ones_and_the_loop_continues(open_box: Any):
    events: list[Event] = []
    session = await (await open_box(sink=events.append)).session("s")
    result = await session.call("send_mail_message", {"to": "ann"})
    assert (result.is_error, result.code) == (True, "unknown_tool")
    assert "send_mail_message" in result.text
    assert "send_email" in result.text
    assert [e.kind for e in events if e.session] == ["tool_not_found"]
    assert not (await session.call("get_weather", {"city": "Oslo"})).is_error


@pytest.mark.parametrize("name", ["SendEmail", "sendEmail", "send-email", "send.email"])
async def test_another_spelling_of_one_tool_is_that_tool(open_box: Any, name: str):
    session = await (await open_box()).session("s")
    assert not (await session.call(name, {"to": "ann", "subject": "Hi"})).is_error
    assert session.state.uses == ("send_email",)


async def test_a_search_is_advised_only_where_one_is_in_view(open_box: Any, office: Any):
    for sources, profile, is_there in (
        (office, "default", True),
        (office[:3], "default", False),
        (office[:3], replace(DEFAULT, surface="dispatch"), True),
        (office, "everything", False),
    ):
        session = await (await open_box(*sources, profile=profile)).session("s")
        for _ in range(2):
            result = await session.call("paint_a_wall", {})
            assert result.code == "unknown_tool"
            assert ("a search" in result.text) == is_there
            assert any("search" in name for name in names(session.view())) == is_there


async def test_a_spelling_that_several_tools_have_is_asked_back(open_box: Any):
    tools = (Tool(name=f"{server}__list", server=server) for server in ("github", "gitlab"))
    session = await (await open_box(*tools)).session("s")
    result = await session.call("list", {})
    assert result.is_error
    assert "github__list" in result.text
    assert "gitlab__list" in result.text


@pytest.mark.behaviour("B73")
async def test_every_discovery_tool_answers_by_its_name_and_by_other_designs_spellings(
    open_box: Any,
):
    session = await (await open_box(profile="mcpagent")).session("s")
    assert json.loads((await session.call("search_tools", {"query": "weather"})).text)["found"]
    assert "Added" in (await session.call("add_tool", {"tool_names": ["get_weather"]})).text
    assert json.loads((await session.call("show_all_tools", {})).text)["total"]
    assert "Removed" in (await session.call("remove_tool", {"tool_names": ["get_weather"]})).text
    assert not (await session.call("tool_search", {"query": "weather"})).is_error
    assert (await session.call("query_everything", {})).code == "unknown_tool"


async def test_a_call_through_the_dispatcher_is_the_inner_call(open_box: Any):
    events: list[Event] = []
    session = await (await open_box(sink=events.append)).session("s")
    inner = {"name": "send_email", "arguments": {"to": "ann", "subject": "Hi", "copies": "2"}}
    assert (await session.call("call_tool", inner)).text == "2 sent to ann: Hi"
    assert session.state.uses == ("send_email",)
    assert [e.facts["tool"] for e in events if e.kind == "tool_call"] == ["send_email"]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"name": 3},
        {"name": "send_email", "arguments": "nonsense"},
        {"name": "send_email", "arguments": [1]},
        {
            "name": "call_tool",
            "arguments": {"name": "call_tool", "arguments": {"name": "call_tool"}},
        },
    ],
)
async def test_a_broken_dispatch_is_an_error_that_shows_the_way(open_box: Any, arguments: Any):
    session = await (await open_box()).session("s")
    result = await session.call("call_tool", arguments)
    assert result.is_error
    assert result.text


async def test_arguments_may_be_json_text_and_are_repaired_losslessly(open_box: Any):
    session = await (await open_box()).session("s")
    text = json.dumps({"to": "ann", "subject": 7, "copies": "3"})
    assert (await session.call("send_email", text)).text == "3 sent to ann: 7"


async def test_wrong_arguments_come_back_with_the_place_and_the_schema(open_box: Any):
    session = await (await open_box()).session("s")
    result = await session.call("send_email", {"to": "ann", "copies": "many"})
    assert (result.is_error, result.code) == (True, "invalid_arguments")
    assert "'subject' is a required property" in result.text
    assert "copies: 'many' is not of type 'integer'" in result.text
    assert "The address it goes to" in result.text
    assert "to: string" in result.text
    assert "properties" not in result.text
    assert session.state.uses == ()


@pytest.mark.parametrize("arguments", ["{", "[1, 2]", '"x"', [1], 5, "[" * 100_000])
async def test_arguments_that_are_not_an_object_are_refused(open_box: Any, arguments: Any):
    session = await (await open_box()).session("s")
    result = await session.call("send_email", arguments)
    assert (result.is_error, result.code) == (True, "invalid_arguments")
    assert "one JSON object" in result.text
    assert "to: string" in result.text
    assert "The address it goes to" in result.text
    search = await session.call("tool_search", arguments)
    assert search.code == "invalid_arguments"
    assert "query" in search.text
    assert (await session.call("no_such_tool", arguments)).code == "unknown_tool"


async def test_a_tool_with_an_invalid_schema_is_reported_and_others_work(open_box: Any):
    broken = Tool(name="broken", parameters=Schema.of({"type": "object", "properties": 7}))
    box = await open_box(broken, profile="everything")
    session = await box.session("s")
    result = await session.call("broken", {"x": 1})
    assert (result.is_error, result.code) == (True, "schema")
    assert "not valid JSON Schema" in result.text
    assert "Report it to the tool's author" in result.text


async def test_a_five_megabyte_argument_passes_through(open_box: Any):
    session = await (await open_box()).session("s")
    text = "x" * 5_000_000
    result = await session.call("update_workspace_file", {"path": "a", "text": text})
    assert result.text == "5000000 characters in a"


async def fails() -> str:
    """Fails."""
    raise ValueError("no ink left")


async def hangs() -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return ""


async def says_nothing() -> None:
    """Returns nothing."""


def returns_an_object() -> object:
    """Returns what JSON does not know."""
    return {"when": asyncio, 1: {2, 3}}


@pytest.fixture
async def trouble(open_box: Any) -> Any:
    config = Config.read(call_timeout_seconds=0.05)
    box = await open_box(fails, hangs, says_nothing, returns_an_object, config=config)
    return await box.session("s")


async def test_a_tool_that_raises_is_a_result_with_its_words(trouble: Any):
    result = await trouble.call("fails", {})
    assert result.is_error
    assert "no ink left" in result.text


async def test_a_tool_that_hangs_ends_at_the_timeout_and_says_what_that_means(trouble: Any):
    result = await trouble.call("hangs", {})
    assert (result.is_error, result.code) == (True, "timeout")
    assert "may still take effect" in result.text


@pytest.mark.behaviour("B74")
async def test_a_tool_that_returns_nothing_is_said_to_have_run(trouble: Any):
    result = await trouble.call("says_nothing", {})
    assert not result.is_error
    assert result.text == "says_nothing ran and returned nothing."


async def test_a_result_that_json_cannot_encode_is_still_returned_as_text(trouble: Any):
    result = await trouble.call("returns_an_object", {})
    assert not result.is_error
    assert result.text


async def test_a_tool_that_is_only_described_says_that_it_cannot_run(open_box: Any):
    session = await (await open_box(Tool(name="paper"))).session("s")
    result = await session.call("paper", {})
    assert (result.is_error, result.code) == (True, "source")
    assert "only described here" in result.text


async def test_a_hundred_calls_at_once_all_count(open_box: Any):
    box = await open_box()
    session = await box.session("s")
    topics = [t for t in box.catalog.tools if t.startswith("archive_")]
    calls = [session.call(t, {"name": str(n)}) for n in range(8) for t in topics]
    results = await asyncio.gather(*calls)
    assert not any(r.is_error for r in results)
    assert sorted(session.state.uses) == sorted(topics)


async def test_a_cancelled_call_leaves_the_session_as_it_was(open_box: Any):
    session = await (await open_box(hangs)).session("s")
    before = session.state
    task = asyncio.create_task(session.call("hangs", {}))
    while not task.done() and session.state == before:
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert session.state.uses == ()
    assert (await session.call("no such tool", {})).code == "unknown_tool"


# What a caller may use


async def test_a_tool_that_is_not_allowed_is_unknown_to_search_view_and_call(open_box: Any):
    box = await open_box(allow=lambda tool: tool.category != "mail")
    session = await box.session("s")
    assert "send_email" not in box.search("send an email message", limit=20).names
    found = await session.call("tool_search", {"query": "send an email message"})
    assert "send_email" not in found.text
    assert "send_email" not in session.view().instructions
    result = await session.call("send_email", {"to": "ann", "subject": "Hi"})
    assert (result.is_error, result.code) == (True, "unknown_tool")
    assert not session.why("send_email").in_view
    through = await session.call("call_tool", {"name": "send_email", "arguments": {}})
    assert through.code == "unknown_tool"


async def test_a_session_narrows_what_its_box_allows_and_never_widens_it(open_box: Any):
    box = await open_box(allow=lambda tool: tool.category != "mail")
    narrow = await box.session("s", allow={"get_weather", "send_email"})
    assert not (await narrow.call("get_weather", {"city": "Oslo"})).is_error
    assert (await narrow.call("read_workspace_file", {"path": "a"})).code == "unknown_tool"
    assert (await narrow.call("send_email", {"to": "a", "subject": "b"})).code == "unknown_tool"
    assert narrow.stats().tools == ("get_weather",)


async def test_without_anybody_to_ask_a_destructive_tool_does_not_run(open_box: Any):
    events: list[Event] = []
    session = await (await open_box(sink=events.append)).session("s")
    result = await session.call("delete_page", {"page": 3})
    assert (result.is_error, result.code) == (True, "refused")
    assert "no approver to ask" in result.text
    asked = [e.facts["approved"] for e in events if e.kind == "approval"]
    assert asked == [False]


async def test_an_approver_sees_the_real_tool_with_the_arguments_it_will_run_with(open_box: Any):
    seen: list[ApprovalRequest] = []

    async def approve(approval: ApprovalRequest) -> bool:
        seen.append(approval)
        return True

    session = await (await open_box(approver=approve)).session("s")
    inner = {"name": "delete_page", "arguments": {"page": "3"}}
    assert (await session.call("call_tool", inner)).text == "page 3 is gone"
    assert [(a.tool.name, a.arguments, a.session) for a in seen] == [
        ("delete_page", {"page": 3}, "s")
    ]
    assert "destructive" in seen[0].why


async def test_a_refusal_is_reported_with_its_reason_and_nothing_runs(open_box: Any):
    async def refuse(approval: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(is_approved=False, reason="that page is the home page")

    session = await (await open_box()).session("s", approver=refuse)
    result = await session.call("delete_page", {"page": 3})
    assert (result.is_error, result.code) == (True, "refused")
    assert "that page is the home page" in result.text
    assert session.state.uses == ()


async def fail(approval: ApprovalRequest) -> bool:
    raise RuntimeError("the desk is closed")


async def shrug(approval: ApprovalRequest) -> Any:
    return None


async def mumble(approval: ApprovalRequest) -> Any:
    return "yes"


async def hang_up(approval: ApprovalRequest) -> bool:
    raise asyncio.CancelledError


@pytest.mark.parametrize("approver", [fail, shrug, mumble, hang_up, lambda _: 1])
async def test_an_approver_that_gives_no_answer_has_not_said_yes(open_box: Any, approver: Any):
    events: list[Event] = []
    session = await (await open_box(approver=approver, sink=events.append)).session("s")
    result = await session.call("delete_page", {"page": 3})
    assert (result.is_error, result.code) == (True, "refused")
    assert "delete_page was not run: it needs approval, and" in result.text
    assert "desk" not in result.text
    assert [e.facts["approved"] for e in events if e.kind == "approval"] == [False]


async def test_an_approver_may_be_a_plain_function(open_box: Any):
    box = await open_box(approver=lambda approval: approval.arguments["page"] != 1)
    session = await box.session("s")
    assert (await session.call("delete_page", {"page": 3})).text == "page 3 is gone"
    assert (await session.call("delete_page", {"page": 1})).code == "refused"
    told = await box.session(
        "s", approver=lambda _: ApprovalDecision(is_approved=False, reason="not today")
    )
    assert "not today" in (await told.call("delete_page", {"page": 3})).text


async def test_nobody_is_asked_about_a_call_that_cannot_run_anyway(open_box: Any):
    async def never(approval: ApprovalRequest) -> bool:
        raise AssertionError

    session = await (await open_box(approver=never)).session("s")
    assert (await session.call("delete_page", {"page": "home"})).code == "invalid_arguments"


async def test_how_careful_a_box_is_is_one_policy(open_box: Any):
    free = await (await open_box(approval_policy=never_ask)).session("s")
    assert not (await free.call("delete_page", {"page": 3})).is_error
    strict = await (await open_box(approval_policy=ask_unless_safe)).session("s")
    assert (await strict.call("send_email", {"to": "a", "subject": "b"})).code == "refused"


async def test_events_tell_a_search_and_a_call_in_order(open_box: Any):
    events: list[Event] = []
    session = await (await open_box(sink=events.append)).session("s")
    await session.call("tool_search", {"query": "send_email"})
    await session.call("send_email", {"to": "ann", "subject": "Hi"})
    mine = [e for e in events if e.session == "s"]
    assert [e.kind for e in mine] == [
        "tool_discovery_start",
        "tool_discovery_result",
        "tools_enabled",
        "tool_call_start",
        "tool_call",
    ]
    assert mine[1].facts["names"][0] == "send_email"
    assert mine[2].facts["names"] == ("send_email",)
    assert mine[4].facts["is_error"] is False


async def test_a_sink_that_fails_breaks_nothing(open_box: Any, caplog: pytest.LogCaptureFixture):
    def broken(event: Event) -> None:
        raise RuntimeError("deaf")

    session = await (await open_box(sink=broken)).session("s")
    assert not (await session.call("get_weather", {"city": "Oslo"})).is_error
    assert len([r for r in caplog.records if "sink failed" in r.message]) == 1
