"""The providers' own tool search: who has it, what is sent, how we answer it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from anthropic.types import ToolResultBlockParam, ToolUnionParam
from openai.types.responses import ToolParam
from openai.types.responses.response_tool_search_output_item_param_param import (
    ResponseToolSearchOutputItemParamParam,
)
from pydantic import TypeAdapter

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.disclosure.discovery import discover
from toolscout.disclosure.namespaces import MAX_HOSTED_TOOLS
from toolscout.disclosure.native import search_output
from toolscout.disclosure.profile import NativeSearch, Profile
from toolscout.disclosure.profiles import CMS, CORTEX, DEFAULT, EVERRUNS
from toolscout.disclosure.providers import get_provider
from toolscout.disclosure.resolution import resolve_call
from toolscout.disclosure.scope import ToolSelector
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.snapshot import carry_loaded_tools
from toolscout.disclosure.target import ModelTransport, Target
from toolscout.disclosure.view import View, view
from toolscout.errors import SourceError
from toolscout.search.engine import Engine

CLAUDE = "anthropic:claude-opus-4-5"
GPT = "openai-responses:gpt-5.4"
PINNED = replace(DEFAULT.policy, pinned=ToolSelector(names=("pinned",)))
OURS = replace(DEFAULT, surface="native", policy=PINNED)
HOSTED = replace(OURS, native=NativeSearch(by="provider"))
ANTHROPIC = TypeAdapter(list[ToolUnionParam])
OPENAI = TypeAdapter(list[ToolParam])


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(
        [
            Tool(name="pinned", description="Always there."),
            Tool(name="loose", description="In no group."),
            *(
                Tool(name=f"{group}_{i}", description=f"Number {i} of {group}.", category=group)
                for group in ("mail", "crm")
                for i in range(9)
            ),
        ]
    )


def seen(
    profile: Profile, catalog: Catalog, target: Target | str, session: SessionState | None = None
):
    return view(profile, catalog, session or SessionState("s"), target=target)


def names(tools: list[dict[str, Any]]) -> list[str]:
    return [t["name"] if "name" in t else t["type"] for t in tools]


@pytest.mark.behaviour("A34", "D55", "D56", "D58", "S8", "S9")
@pytest.mark.parametrize(
    ("target", "mechanism"),
    [
        ("anthropic:claude-opus-4-5", "anthropic_client"),
        ("anthropic:claude-sonnet-4-5-20250929", "anthropic_client"),
        ("anthropic:claude-sonnet-5", "anthropic_client"),
        ("anthropic:claude-fable-5-1", "anthropic_client"),
        ("anthropic:claude-opus-4-20250514", ""),
        ("anthropic:claude-haiku-4-5", ""),
        ("anthropic:claude-3-5-sonnet-20241022", ""),
        ("anthropic", ""),
        ("openai-responses:gpt-5.4", "openai_client"),
        ("openai-responses:gpt-5.4-mini-2026-03-17", "openai_client"),
        ("openai-responses:gpt-6-sol", "openai_client"),
        ("openai-responses:gpt-5.4-nano", ""),
        ("openai-responses:gpt-5.2", ""),
        ("openai-responses:gpt-4o", ""),
        ("openai-chat:gpt-5.4", ""),
        ("openai-responses:openai/gpt-5.4", ""),
        ("anthropic:anthropic/claude-opus-4-5", ""),
        ("gemini:gemini-3-pro", ""),
        ("plain", ""),
        ("mcp", ""),
    ],
)
def test_a_table_of_facts_says_which_model_has_it(catalog, target, mechanism) -> None:
    shown = seen(OURS, catalog, target)
    assert shown.mechanism == mechanism
    assert (shown.surface == "native") == bool(mechanism)
    listed = json.dumps(shown.tools)
    assert ("defer_loading" in listed) is False
    assert listed.count('"tool_search"') == 1


@pytest.mark.behaviour("S9")
@pytest.mark.parametrize(
    ("transport", "mechanism"),
    [("direct", True), ("azure", True), ("vertex", True), ("bedrock", False), ("gateway", False)],
)
def test_the_way_a_request_travels_decides_too(
    catalog, transport: ModelTransport, mechanism: bool
) -> None:
    target = Target(
        provider=get_provider("anthropic"), model="claude-opus-4-5", transport=transport
    )
    assert bool(seen(OURS, catalog, target).mechanism) is mechanism


@pytest.mark.behaviour("D56", "S8", "D18", "D52")
@pytest.mark.parametrize("variant", ["bm25", "regex"])
def test_anthropics_own_search_gets_every_tool_deferred_but_the_pinned(catalog, variant) -> None:
    profile = replace(HOSTED, native=NativeSearch(by="provider", variant=variant))
    tools = seen(profile, catalog, CLAUDE).tools
    ANTHROPIC.validate_python(tools)
    assert tools[0] == {
        "type": f"tool_search_tool_{variant}_20251119",
        "name": f"tool_search_tool_{variant}",
    }
    assert names(tools)[1:] == list(catalog.tools)
    assert [t["name"] for t in tools[1:] if "defer_loading" not in t] == ["pinned"]
    assert all("properties" in t["input_schema"] for t in tools[1:])


@pytest.mark.behaviour("D55", "D59", "S17")
def test_openais_own_search_gets_namespaces_sorted_then_the_loose_then_itself(catalog) -> None:
    tools = seen(HOSTED, catalog, GPT).tools
    OPENAI.validate_python(tools)
    assert names(tools) == ["pinned", "crm", "mail", "loose", "tool_search"]
    assert [t["type"] for t in tools] == [
        *("function", "namespace", "namespace", "function", "tool_search"),
    ]
    assert [t["name"] for t in tools[1]["tools"]] == [f"crm_{i}" for i in range(9)]
    assert all(t["defer_loading"] for t in (*tools[1]["tools"], tools[3]))
    assert "defer_loading" not in tools[0]


@pytest.mark.behaviour("D55")
def test_late_tools_follow_everything_that_was_sent_including_the_search(catalog) -> None:
    first = seen(HOSTED, catalog, GPT)
    assert names(first.tools)[-1] == "tool_search"
    later = (
        catalog.add(Tool(name="a_1", category="archive"))
        .add(Tool(name="alone"))
        .add(Tool(name="crm_late", category="crm"))
    )
    second = seen(HOSTED, later, GPT, first.session)
    OPENAI.validate_python(second.tools)
    assert second.tools[: len(first.tools)] == first.tools
    assert names(second.tools)[len(first.tools) :] == ["archive", "crm_2", "alone"]
    assert second.tools[-2]["description"] == "Further tools of crm."
    assert [t["name"] for t in second.tools[-2]["tools"]] == ["crm_late"]
    third = seen(HOSTED, later.add(Tool(name="crm_last", category="crm")), GPT, second.session)
    assert names(third.tools) == [*names(second.tools), "crm_3"]


@pytest.mark.behaviour("D8", "D55", "D18", "D57")
def test_a_stubbing_profile_sends_no_stubs_where_the_provider_defers(catalog) -> None:
    hosted = replace(EVERRUNS, surface="native", native=NativeSearch(by="provider"))
    for target in (CLAUDE, GPT):
        text = seen(hosted, catalog, target).text
        assert "additionalProperties" not in text
        assert "defer_loading" in text
    few = Catalog(list(catalog)[:5])
    assert "defer_loading" not in seen(hosted, few, CLAUDE).text
    unable = seen(hosted, catalog, "anthropic:claude-3-opus")
    assert unable.mechanism == ""
    assert "additionalProperties" in unable.text
    for profile in (hosted, HOSTED):
        full = replace(profile, native=NativeSearch(by="provider", fallback="everything"))
        shown = seen(full, catalog, "openai-chat:gpt-4o")
        assert shown.surface == "direct"
        assert 'additionalProperties":true' not in shown.text
        assert set(catalog.tools) <= set(shown.names)


@pytest.mark.behaviour("D55")
def test_groups_whose_names_look_alike_when_sent_are_two_namespaces(catalog) -> None:
    spaced = catalog.add(Tool(name="a", category="my crm")).add(Tool(name="b", category="my_crm"))
    spaces = [t["name"] for t in seen(HOSTED, spaced, GPT).tools if t["type"] == "namespace"]
    assert len(set(spaces)) == len(spaces) == 4
    assert all(name.replace("_", "").isalnum() for name in spaces)


@pytest.mark.behaviour("D18")
@pytest.mark.parametrize("profile", [DEFAULT, CMS, CORTEX], ids=lambda p: p.name)
@pytest.mark.parametrize("target", [CLAUDE, GPT])
def test_tools_that_a_provider_found_run_and_outlast_their_server(catalog, profile, target) -> None:
    hosted = replace(profile, surface="native", native=NativeSearch(by="provider"), policy=PINNED)
    first = seen(hosted, catalog, target)
    called = resolve_call(
        hosted, "crm_3", session=first.session, engine=Engine(catalog), catalog=catalog
    )
    assert called.tool is not None, called.refusal
    second = seen(hosted, catalog, target, called.session)
    assert second.text == first.text
    left = catalog.remove("crm_3", "crm_4")
    lost = seen(hosted, left, target, second.session)
    assert lost.text == first.text
    for name in ("crm_3", "crm_4"):
        gone = resolve_call(hosted, name, session=lost.session, engine=Engine(left), catalog=left)
        assert gone.refusal.code == SourceError.code
        assert "not connected" in gone.refusal.text
    back = seen(hosted, catalog, target, lost.session)
    assert back.text == first.text
    again = resolve_call(
        hosted, "crm_4", session=back.session, engine=Engine(catalog), catalog=catalog
    )
    assert again.tool == catalog["crm_4"]


@pytest.mark.parametrize("target", [CLAUDE, GPT])
def test_tools_that_a_provider_may_have_found_outlast_a_restart_without_their_server(
    catalog, target
) -> None:
    first = seen(HOSTED, catalog, target)
    kept = SessionState.from_json(first.session.to_json())
    assert seen(HOSTED, catalog.remove("mail_1"), target, kept).text == first.text


@pytest.mark.parametrize("target", [CLAUDE, GPT])
def test_a_tool_that_is_no_longer_allowed_leaves_even_a_hosted_search(catalog, target) -> None:
    first = seen(HOSTED, catalog, target)
    narrowed = view(
        HOSTED,
        catalog,
        first.session,
        target=target,
        allow=lambda tool: tool.name != "mail_1",
    )
    assert "mail_1" in first.text
    assert "mail_1" not in narrowed.text


@pytest.mark.parametrize("target", [CLAUDE, GPT])
def test_a_compaction_leaves_a_hosted_search_as_it_is(catalog, target) -> None:
    first = seen(HOSTED, catalog, target)
    called = resolve_call(
        HOSTED, "crm_3", session=first.session, engine=Engine(catalog), catalog=catalog
    )
    after = seen(HOSTED, catalog, target, carry_loaded_tools(called.session))
    assert after.text == first.text
    assert "crm_3" in after.session.loaded


def test_the_instructions_name_the_search_that_is_really_there(catalog) -> None:
    assert "`tool_search`" in seen(OURS, catalog, CLAUDE).instructions
    assert "`tool_search_tool_bm25`" in seen(HOSTED, catalog, CLAUDE).instructions
    assert "`tool_search`" in seen(HOSTED, catalog, GPT).instructions


@pytest.mark.behaviour("E81")
@pytest.mark.parametrize(
    ("profile", "target", "force"),
    [
        (OURS, "openai-chat:gpt-4o", "tool_search"),
        (OURS, CLAUDE, "tool_search"),
        (OURS, GPT, None),
        (HOSTED, CLAUDE, None),
        (HOSTED, GPT, None),
    ],
)
def test_a_search_is_forced_only_where_a_request_can_name_it(
    catalog, profile, target, force
) -> None:
    insisting = replace(profile, forces_search=True)
    assert seen(insisting, catalog, target).force == force
    few = Catalog(list(catalog)[:5])
    assert seen(insisting, few, target).force is None


@pytest.mark.behaviour("S8")
def test_a_catalog_too_large_for_a_hosted_search_is_searched_by_us() -> None:
    large = Catalog(Tool(name=f"t{i}") for i in range(MAX_HOSTED_TOOLS + 1))
    ours = seen(HOSTED, large, CLAUDE)
    assert ours.mechanism == "anthropic_client"
    shrunk = seen(HOSTED, large.remove("t0", "t1"), CLAUDE, ours.session)
    assert shrunk.mechanism == "anthropic_client"


@pytest.mark.behaviour("S8")
def test_a_hosted_search_that_has_begun_continues_when_more_tools_come_than_it_takes() -> None:
    full = Catalog(Tool(name=f"t{i}") for i in range(MAX_HOSTED_TOOLS))
    first = seen(HOSTED, full, CLAUDE)
    assert first.notes == ()
    grown = seen(HOSTED, full.add(Tool(name="one_more")), CLAUDE, first.session)
    assert grown.text == first.text
    assert grown.notes == (f"A hosted search accepts {MAX_HOSTED_TOOLS} tools: 1 were left out.",)


def search(profile: Profile, catalog: Catalog, shown: View, query: str):
    return discover(
        profile,
        "tool_search",
        {"query": query},
        session=shown.session,
        engine=Engine(catalog),
        catalog=catalog,
    )


@pytest.mark.behaviour("S8")
def test_anthropic_loads_by_reference_what_our_search_ranks_first(catalog) -> None:
    first = seen(OURS, catalog, CLAUDE)
    assert names(first.tools) == ["tool_search", "pinned"]
    outcome = search(OURS, catalog, first, "crm_3")
    assert outcome.loaded == ("crm_3",)
    content = json.loads(first.native_answer([catalog[n] for n in outcome.loaded]))
    assert content == [{"type": "tool_reference", "tool_name": "crm_3"}]
    block = {"type": "tool_result", "tool_use_id": "x", "content": content}
    TypeAdapter(ToolResultBlockParam).validate_python(block)
    second = seen(OURS, catalog, CLAUDE, outcome.session)
    ANTHROPIC.validate_python(second.tools)
    assert names(second.tools) == ["tool_search", "pinned", "crm_3"]
    assert second.tools[-1]["defer_loading"] is True
    assert second.prefix == first.prefix


@pytest.mark.behaviour("S8")
def test_openai_loads_from_the_answer_what_our_search_ranks_first(catalog) -> None:
    first = seen(OURS, catalog, GPT)
    OPENAI.validate_python(first.tools)
    assert first.tools[0]["type"] == "tool_search"
    assert first.tools[0]["execution"] == "client"
    assert "query" in first.tools[0]["parameters"]["properties"]
    outcome = search(OURS, catalog, first, "crm_3")
    answer = first.native_answer([catalog[n] for n in outcome.loaded])
    item = search_output("call_1", answer)
    TypeAdapter(ResponseToolSearchOutputItemParamParam).validate_python(item)
    assert item["execution"] == "client"
    assert [t["name"] for t in item["tools"]] == ["crm_3"]
    assert item["tools"][0]["parameters"]["type"] == "object"
    assert seen(OURS, catalog, GPT, outcome.session).text == first.text
    assert search_output("call_2", first.native_answer([]))["tools"] == []


def test_after_a_compaction_gpt_has_loaded_tools_in_its_list(catalog) -> None:
    first = seen(OURS, catalog, GPT)
    outcome = search(OURS, catalog, first, "crm_3")
    loaded = seen(OURS, catalog, GPT, outcome.session)
    after = seen(OURS, catalog, GPT, carry_loaded_tools(loaded.session))
    assert names(after.tools)[-1] == "crm_3"
    assert "defer_loading" not in after.tools[-1]
    assert after.prefix.startswith(first.prefix.split("\n")[0])
    assert after.restore_references([]) == []


def test_after_a_compaction_claude_is_referred_again_to_a_list_that_stays(catalog) -> None:
    first = seen(OURS, catalog, CLAUDE)
    outcome = search(OURS, catalog, first, "crm_3")
    loaded = seen(OURS, catalog, CLAUDE, outcome.session)
    after = seen(OURS, catalog, CLAUDE, carry_loaded_tools(loaded.session))
    assert after.text == loaded.text
    assert after.prefix == first.prefix
    assert '"tool_name": "crm_3"' in json.dumps(after.restore_references([]))


@pytest.mark.parametrize("target", [CLAUDE, GPT])
def test_a_pinned_tool_that_comes_late_is_brought_by_a_search_and_kept(catalog, target) -> None:
    first = seen(OURS, catalog.remove("pinned"), target)
    later = seen(OURS, catalog, target, first.session)
    assert later.prefix == first.prefix
    outcome = search(OURS, catalog, later, "pinned")
    assert outcome.loaded == ("pinned",)
    assert "Already" not in outcome.result.text
    after = seen(OURS, catalog, target, carry_loaded_tools(outcome.session))
    assert names(after.tools)[-1] == "pinned"
    is_referred = "pinned" in json.dumps(after.restore_references([]))
    assert is_referred is after.tools[-1].get("defer_loading", False) is (target == CLAUDE)


def test_a_pinned_tool_that_comes_late_and_is_not_looked_for_comes_with_a_compaction(
    catalog,
) -> None:
    first = seen(OURS, catalog.remove("pinned"), CLAUDE)
    later = seen(OURS, catalog, CLAUDE, first.session)
    assert later.restore_references([]) == []
    after = seen(OURS, catalog, CLAUDE, carry_loaded_tools(later.session))
    assert after.text == later.text
    assert "pinned" in json.dumps(after.restore_references([]))
    assert "Already" in search(OURS, catalog, after, "pinned").result.text


@pytest.mark.parametrize("target", [CLAUDE, GPT])
def test_a_tool_loaded_without_a_search_stands_in_the_list_by_itself(catalog, target) -> None:
    first = seen(OURS, catalog, target)
    loaded = seen(OURS, catalog, target, first.session.load("crm_3"))
    assert loaded.tools[:-1] == first.tools
    assert loaded.tools[-1]["name"] == "crm_3"
    assert "defer_loading" not in loaded.tools[-1]


def test_another_provider_gets_what_was_loaded_in_full(catalog) -> None:
    first = seen(OURS, catalog, GPT)
    outcome = search(OURS, catalog, first, "crm_3")
    loaded = seen(OURS, catalog, GPT, outcome.session)
    moved = seen(OURS, catalog, CLAUDE, loaded.session)
    assert names(moved.tools) == ["tool_search", "pinned", "crm_3"]
    assert "defer_loading" not in moved.tools[-1]


def test_from_a_hosted_search_to_another_provider_only_what_was_called_goes_along(catalog) -> None:
    first = seen(HOSTED, catalog, GPT)
    called = resolve_call(
        HOSTED, "crm_3", session=first.session, engine=Engine(catalog), catalog=catalog
    )
    moved = seen(OURS, catalog, CLAUDE, called.session)
    assert names(moved.tools) == ["tool_search", "pinned", "crm_3"]
    back = seen(HOSTED, catalog, GPT, moved.session)
    assert names(back.tools) == ["pinned", "crm_3", "crm", "mail", "loose", "tool_search"]


@pytest.mark.parametrize("target", [CLAUDE, GPT])
@pytest.mark.parametrize("profile", [OURS, replace(CMS, surface="native")], ids=lambda p: p.name)
def test_side_notes_come_apart_from_the_tools(catalog, target, profile) -> None:
    def ask(query: object, session: SessionState):
        return discover(
            profile,
            "tool_search",
            {"query": query},
            session=session,
            engine=Engine(now),
            catalog=now,
            rules=lambda tools: f"Rules of {tools[0].category}: ask first.",
        )

    now = catalog
    first = ask("mail_3", seen(profile, catalog, target).session)
    assert first.loaded
    _, *words = first.result.content
    assert [w.text for w in words] == ["Rules of mail: ask first."]
    if profile is OURS:
        assert first.result.text.count("ask first") == 1
        now = catalog.with_source("late", [Tool(name="scan", server="scanner")])
        second = ask(["crm_1", "+zeppelin"], first.session)
        said = second.result.content[-1].text.splitlines()
        assert said[0] == "Nothing fits '+zeppelin'."
        assert "Rules of crm: ask first." in said
        assert "added: scanner (1)" in said[-1]
    again = ask("mail_3", first.session)
    assert not again.loaded
    assert len(again.result.content) == 1
