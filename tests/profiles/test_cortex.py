"""Names in a slot; one tool loads what a select list, a name, a prefix or words mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolscout.disclosure.designs.cortex import AVAILABLE_TOOLS_SLOT, QueryFormMatcher, Slots
from toolscout.disclosure.discovery import role_of
from toolscout.disclosure.matcher import SearchDomain
from toolscout.disclosure.profiles import CORTEX, get_profile
from toolscout.disclosure.scope import Policy, Scope, ToolSelector
from toolscout.disclosure.session_state import SessionState
from toolscout.errors import ConfigError
from toolscout.toolbox.toolbox import Toolbox


@pytest.fixture
def tools(tool):
    return [
        tool("Read", "Read a file of the project"),
        tool("mcp__obsidian__search", "Search notes", server="obsidian"),
        tool("mcp__obsidian__read_note", "Read one note", server="obsidian"),
        tool("mcp__slack__send", "Send a message", server="slack"),
    ]


@pytest.fixture
def cortex(talk, tools):
    return talk(CORTEX, tools)


def details(result) -> dict[str, object]:
    return result.value


def slot(view) -> str:
    return dict(view.slots)[AVAILABLE_TOOLS_SLOT]


OBSIDIAN = ["mcp__obsidian__read_note", "mcp__obsidian__search"]


@pytest.mark.behaviour("C1", "C3", "C4", "C5", "C6", "K3", "K11")
def test_the_search_is_in_view_and_says_every_form_of_query(cortex) -> None:
    first = cortex.view().tools[0]
    assert first["name"] == "ToolSearch"
    for word in ("Available Tools", "select:", "next turn", "first"):
        assert word in first["description"]
    properties = first["parameters"]["properties"]
    for word in ("select:NameA,NameB", "exact", "mcp__obsidian", "keyword", "+"):
        assert word in properties["query"]["description"]
    assert properties["max_results"]["type"] == "number"
    assert properties["max_results"]["default"] == 5
    assert first["parameters"]["required"] == ["query"]


@pytest.mark.behaviour("C6", "K28")
def test_no_rule_and_no_filter_takes_the_search_away(talk, tools) -> None:
    nothing = talk(CORTEX, tools, allow=lambda _: False)
    assert nothing.names() == ["ToolSearch"]
    assert nothing.why("ToolSearch") == "discovery"
    policy = Policy(rule="all", deferred=ToolSelector(names=("ToolSearch",)))
    assert talk(replace(CORTEX, policy=policy), tools).names() == ["ToolSearch"]


@pytest.mark.behaviour("C2")
def test_the_search_appears_with_the_first_deferred_tool_behind_what_was_shown(talk, tool) -> None:
    cortex = talk(CORTEX, [tool("own"), tool("kept", server="s", defer="never")])
    assert cortex.names() == ["own", "kept"]
    assert cortex.view().instructions == ""
    assert [cortex.why(n) for n in ("own", "kept")] == ["unlisted", "never_defer"]
    cortex.now(cortex.catalog.add(tool("served", server="s")))
    assert cortex.names() == ["own", "kept", "ToolSearch"]
    cortex.call("ToolSearch", query="served")
    assert cortex.names() == ["own", "kept", "ToolSearch", "served"]
    cortex.now(cortex.catalog.remove("served"))
    assert "ToolSearch" in cortex.names()


@pytest.mark.behaviour("C2", "C38")
def test_the_options_turn_deferring_off_and_choose_what_is_deferred(talk, tools, tool) -> None:
    marked = [*tools, tool("marked", defer="always")]
    off = talk(get_profile("cortex", {"enabled": False}), marked)
    assert off.names() == [t.name for t in marked]
    assert off.resolve("marked").tool is not None
    assert off.view().slots == ()
    options = {"defer_mcp": False, "should_defer": ["Read", "mcp__slack__send"]}
    chosen = talk(get_profile("cortex", {**options, "always_load": ["mcp__slack__send"]}), tools)
    assert chosen.names() == ["ToolSearch", *OBSIDIAN[::-1], "mcp__slack__send"]
    assert chosen.why("Read") == "listed"
    assert get_profile("cortex", {"enabled": True}) == CORTEX
    with pytest.raises(ConfigError, match="always_load"):
        get_profile("cortex", {"always_load": "Read"})


@pytest.mark.behaviour("C42")
async def test_in_a_step_a_loaded_tool_is_callable_only_in_the_next_step(tools) -> None:
    async with Toolbox(tools, profile="cortex", store="memory") as box:
        session = await box.session("s")
        step = session.step()
        await step.call("ToolSearch", {"query": "mcp__slack__send"})
        early = await step.call("mcp__slack__send", {"path": "x"})
        assert (early.result.code, early.is_run) == ("not_loaded", False)
        spelled = await step.call("Mcp-Slack-Send", {"path": "x"})
        assert spelled.result.code == "not_loaded"
        direct = await session.call("mcp__slack__send", {"path": "x"})
        assert direct.code != "not_loaded"
        await step.finish()
        later = await session.step().call("mcp__slack__send", {"path": "x"})
        assert later.result.code != "not_loaded"


@pytest.mark.behaviour("C38", "C39", "K8")
def test_deferral_follows_the_marks_the_lists_and_the_origin_of_a_tool(talk, tool) -> None:
    policy = replace(CORTEX.policy, pinned=ToolSelector(names=("served_pinned",)))
    cortex = talk(
        replace(CORTEX, policy=policy),
        [
            tool("own"),
            tool("own_marked", defer="always"),
            tool("served", server="s"),
            tool("served_kept", server="s", defer="never"),
            tool("served_pinned", server="s"),
            tool("marked_pinned", server="s", defer="always"),
        ],
    )
    assert cortex.names() == ["ToolSearch", "own", "served_kept", "served_pinned"]
    assert [cortex.why(n) for n in ("own", "own_marked", "served")] == [
        *("unlisted", "marked", "served"),
    ]
    assert [cortex.why(n) for n in ("served_kept", "served_pinned")] == ["never_defer", "pinned"]
    off = replace(policy, rule="listed")
    cortex = talk(replace(CORTEX, policy=off), [tool("served", server="s")])
    assert cortex.names() == ["served"]


@pytest.mark.behaviour("C21", "C11", "C12", "C13", "C14", "C15", "C16", "C17", "C18", "C20", "C45")
def test_a_select_list_says_what_became_of_each_name(cortex) -> None:
    cortex.call("ToolSearch", query="select:mcp__slack__send")
    query = " select: mcp__obsidian__search , mcp__slack__send,nope,, mcp__obsidian__search "
    result = cortex.call("ToolSearch", query=query, max_results=0)
    assert details(result) == {
        "query": query,
        "loaded": ["mcp__obsidian__search"],
        "alreadyAvailable": ["mcp__slack__send"],
        "notFound": ["nope"],
        "totalDeferred": 1,
    }
    loaded, already, missing = result.text.split("\n\n")
    assert loaded.splitlines()[1:] == ["- mcp__obsidian__search"]
    assert "next turn" in loaded
    assert already.splitlines()[1:] == ["- mcp__slack__send"]
    assert "no action" in already
    assert missing.splitlines()[1:] == ["- nope"]
    assert result.text == result.text.strip()


@pytest.mark.behaviour("C19", "C22", "C21", "K5")
@pytest.mark.parametrize("query", ["", "   ", "select:", "select: , ", "zebra"])
def test_no_match_quotes_the_query_and_counts_what_is_left(cortex, query) -> None:
    result = cortex.call("ToolSearch", query=query)
    first, second = result.text.split("\n\n")
    assert f'"{query}"' in first
    assert "3" in second
    assert "Available Tools" in second
    assert not result.is_error
    assert cortex.session.loaded == ()


@pytest.mark.behaviour("C19")
def test_with_nothing_left_the_count_is_not_said(talk, tool) -> None:
    result = talk(CORTEX, [tool("own")]).call("ToolSearch", query="zebra")
    assert "zebra" in result.text
    assert "\n\n" not in result.text


@pytest.mark.behaviour("C23", "C24", "C29", "C33", "C34", "C41")
def test_a_name_loads_itself_and_a_prefix_all_that_begin_so(talk, tool) -> None:
    cortex = talk(CORTEX, [tool(n, server="s") for n in ("ab", "a", "b_2", "b_1", "B_0")])
    assert details(cortex.call("ToolSearch", query="a"))["loaded"] == ["a"]
    assert details(cortex.call("ToolSearch", query="b_"))["loaded"] == ["b_1", "b_2"]
    assert cortex.session.loaded == ("a", "b_1", "b_2")
    assert cortex.names() == ["ToolSearch", "a", "b_1", "b_2"]
    assert slot(cortex.view()).splitlines()[-2:] == ["- B_0", "- ab"]


@pytest.mark.behaviour("C4", "C24")
@pytest.mark.parametrize(
    ("most", "loaded"),
    [(None, 6), (5, 5), (1, 1), (2.9, 2), (0, 0), (-3, 0), ("2", 2)],
)
def test_the_limit_cuts_prefixes(talk, tool, most, loaded) -> None:
    cortex = talk(CORTEX, [tool(f"t_{i}", server="s") for i in range(6)])
    if most is None:
        cortex.profile = replace(CORTEX, limits=replace(CORTEX.limits, hits=6))
    result = cortex.call("ToolSearch", query="t_", max_results=most)
    assert len(details(result)["loaded"]) == loaded


@pytest.mark.behaviour("C4", "C3", "K12")
@pytest.mark.parametrize(
    "arguments", [{"query": "t", "max_results": float("nan")}, {"query": 3}, {}]
)
def test_an_invalid_number_or_text_is_an_error(cortex, arguments) -> None:
    assert cortex.call("ToolSearch", **arguments).is_error


@pytest.mark.behaviour("C24")
def test_loaded_tools_do_not_take_the_places_of_others(talk, tool) -> None:
    cortex = talk(CORTEX, [tool(f"t_{i}", server="s") for i in range(4)])
    cortex.call("ToolSearch", query="t_", max_results=2)
    result = details(cortex.call("ToolSearch", query="t_", max_results=2))
    assert result["loaded"] == ["t_2", "t_3"]
    assert result["alreadyAvailable"] == ["t_0", "t_1"]


@pytest.mark.behaviour("C25", "C26", "C28")
@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("obsidian read", OBSIDIAN),
        ("OBSIDIAN Read", OBSIDIAN),
        ("+slack message", ["mcp__slack__send"]),
        ("+slack +obsidian", []),
        ("notes", ["mcp__obsidian__search"]),
        ("+ message", ["mcp__slack__send"]),
    ],
)
def test_words_rank_and_a_plus_requires(cortex, query, names) -> None:
    assert details(cortex.call("ToolSearch", query=query))["loaded"] == names


@pytest.mark.behaviour("C27", "C28")
def test_scores_are_those_of_the_design(talk, tool) -> None:
    cortex = talk(
        replace(CORTEX, policy=Policy(rule="all")),
        [
            tool("read_note", "x", server="s"),
            tool("read_file", "x"),
            tool("reader", "x", server="s"),
            tool("thread", "x"),
            tool("a_b", "x"),
            tool("other", "will read"),
            tool("none", ""),
        ],
    )
    scope = Scope(cortex.profile.policy, cortex.catalog, SessionState("s"))
    matches = QueryFormMatcher().match("read x_x", SearchDomain(scope, cortex.engine), limit=None)
    assert dict(zip(matches.names, matches.scores, strict=True)) == {
        "read_note": 12,
        "read_file": 10,
        "reader": 6,
        "thread": 5,
        "other": 2,
    }
    matches = QueryFormMatcher().match("a_b x", SearchDomain(scope, cortex.engine), limit=None)
    assert dict(zip(matches.names, matches.scores, strict=True))["a_b"] == 3 + 2


@pytest.mark.behaviour("C8", "C9", "C10", "C31")
def test_the_outcome_says_what_changed_and_nothing_when_nothing_did(cortex) -> None:
    for query in ("select:mcp__slack__send", "select:mcp__slack__send", "zebra"):
        cortex.call("ToolSearch", query=query)
    assert [o.loaded for o in cortex.outcomes] == [("mcp__slack__send",), (), ()]
    loads = [[e.kind for e in o.events].count("load") for o in cortex.outcomes]
    assert loads == [1, 0, 0]
    assert details(cortex.outcomes[0].result)["totalDeferred"] == 2


@pytest.mark.behaviour("C40", "K14")
def test_a_tool_in_view_is_already_available_whatever_put_it_there(cortex) -> None:
    cortex.call("ToolSearch", query="select:mcp__slack__send")
    cortex.view()
    result = details(cortex.call("ToolSearch", query="select:mcp__slack__send,Read"))
    assert result["notFound"] == []
    assert sorted(result["alreadyAvailable"]) == ["Read", "mcp__slack__send"]
    exact = cortex.call("ToolSearch", query="Read")
    assert details(exact)["alreadyAvailable"] == ["Read"]
    assert exact.text == "Already loaded, no action needed:\n- Read"


@pytest.mark.behaviour("C34", "C35", "C36", "S17", "K7", "K24")
def test_the_slot_lists_deferred_tools_and_is_written_only_when_they_change(cortex) -> None:
    slots = Slots.of("memory").write_all(cortex.view().slots).write("memory", "notes")
    text = slots.texts[AVAILABLE_TOOLS_SLOT]
    assert text.splitlines()[-3:] == [
        *("- mcp__obsidian__read_note", "- mcp__obsidian__search", "- mcp__slack__send"),
    ]
    assert "Available Tools" in text.splitlines()[0]
    assert "fails" in text
    assert "Search notes" not in text
    assert slots.messages() == [
        {"role": "user", "content": text},
        {"role": "user", "content": "notes"},
    ]
    again = slots.write_all(cortex.view().slots)
    assert again is slots
    cortex.call("ToolSearch", query="obsidian")
    changed = again.write_all(cortex.view().slots)
    assert changed.writes == again.writes + 1
    assert changed.texts[AVAILABLE_TOOLS_SLOT].splitlines()[-1:] == ["- mcp__slack__send"]
    cortex.call("ToolSearch", query="mcp__slack__send")
    assert slot(cortex.view()) == ""
    assert len(changed.write_all(cortex.view().slots).messages()) == 1


@pytest.mark.behaviour("C34")
def test_the_instructions_hold_the_slot_and_are_available_without_it(cortex) -> None:
    view = cortex.view()
    assert view.instructions == slot(view)
    assert view.instructions_without_slots == ""
    introduced = view.with_introduction("Hello.")
    assert introduced.instructions == f"Hello.\n\n{slot(view)}"
    assert introduced.instructions_without_slots == "Hello."


@pytest.mark.behaviour("C35")
def test_slots_have_different_names_and_unknown_ones_are_refused() -> None:
    with pytest.raises(ConfigError, match="twice: memory"):
        Slots.of("memory", "memory")
    with pytest.raises(ConfigError, match="no slot 'other'"):
        Slots.of("memory").write("other", "x")


@pytest.mark.behaviour("C30", "C37", "C43")
def test_loading_outlives_the_tools_and_takes_effect_when_they_return(cortex) -> None:
    cortex.call("ToolSearch", query="select:mcp__slack__send")
    full = cortex.catalog
    cortex.now(full.remove("mcp__slack__send"))
    assert "mcp__slack__send" not in cortex.names()
    cortex.now(full)
    assert cortex.names()[-1] == "mcp__slack__send"


@pytest.mark.behaviour("C42", "K6")
def test_a_call_before_loading_is_refused_with_the_way_to_it(cortex) -> None:
    refusal = cortex.resolve("mcp__slack__send").refusal
    assert refusal.is_error
    for word in ("not loaded", "ToolSearch", "path"):
        assert word in refusal.text
    cortex.call("ToolSearch", query="mcp__slack__send")
    assert cortex.resolve("mcp__slack__send").tool is not None


@pytest.mark.behaviour("K6")
def test_a_profile_may_load_what_is_called_and_ask_for_the_call_again(cortex) -> None:
    cortex.profile = replace(CORTEX, on_unloaded="load")
    first = cortex.resolve("mcp__slack__send")
    assert first.tool is None
    assert "path" in first.refusal.text
    assert cortex.session.loaded == ("mcp__slack__send",)
    assert cortex.resolve("mcp__slack__send").tool is not None


@pytest.mark.behaviour("C44", "K23")
def test_names_are_cut_and_cleaned_without_meeting(talk, tool) -> None:
    long = [tool(f"server.one__{'x' * 80}_{i}", server="s") for i in range(2)]
    cortex = talk(replace(CORTEX, policy=Policy(rule="none")), long, target="anthropic")
    view = cortex.view()
    names = [t["name"] for t in view.tools]
    assert len(set(names)) == 2
    assert all(len(n) <= 64 and "." not in n for n in names)
    assert [view.real_name(n) for n in names] == [t.name for t in long]


@pytest.mark.behaviour("C32", "C48")
def test_two_callers_of_one_session_agree(cortex, talk, tools) -> None:
    cortex.call("ToolSearch", query="obsidian")
    other = talk(CORTEX, tools, session=cortex.session)
    assert other.session.loaded == cortex.session.loaded
    assert details(other.call("ToolSearch", query="mcp__obsidian"))["loaded"] == []


@pytest.mark.behaviour("K3")
def test_other_spellings_are_understood_unless_a_tool_has_them(cortex, tool) -> None:
    for spelling in ("tool_search", "searchTools", "search_tools", "ToolSearch"):
        assert role_of(CORTEX, spelling, cortex.catalog) == "search"
        assert not cortex.call(spelling, query="obsidian").is_error
    cortex.now(cortex.catalog.add(tool("search_tools", "A real one")))
    assert role_of(CORTEX, "search_tools", cortex.catalog) is None
    assert role_of(CORTEX, "add_tool", cortex.catalog) is None


@pytest.mark.behaviour("C47")
def test_the_profile_is_public() -> None:
    from toolscout.disclosure.profiles import get_profile, profile_names

    assert get_profile("cortex") is CORTEX
    assert "cortex" in profile_names()


@pytest.mark.behaviour("C17", "C19")
def test_a_name_that_is_in_view_is_said_to_be_there(cortex) -> None:
    result = cortex.call("ToolSearch", query="select:Read")
    assert result.text == "Already loaded, no action needed:\n- Read"
    assert details(result)["alreadyAvailable"] == ["Read"]
