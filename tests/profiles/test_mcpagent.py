"""Patterns find, a second call adds, and the list grows only by what was added."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from toolscout.disclosure.designs.mcpagent import RegexMatcher, mcpagent_profile, workflow_prompt
from toolscout.disclosure.profiles import (
    EVERYTHING,
    MCPAGENT,
    get_profile,
    profile_options,
    recommend_profile,
)
from toolscout.errors import ConfigError
from toolscout.tokens import default_counter

DISCOVERY = ["search_tools", "add_tool", "show_all_tools"]


@pytest.fixture
def tools(tool):
    return [
        tool("get_weather", "Current weather for a location", server="meteo"),
        tool("weather_forecast", "The weather of the next days", server="meteo"),
        tool("send_message", "Send a message to a channel", server="slack"),
        tool("list_channels", "List Slack channels", server="slack"),
        tool("run_query", "Run a database query", server="db"),
        tool("list_files", "List files in a folder", category="workspace"),
        tool("read_workspace_file", "Read a file", category="workspace"),
        tool("update_workspace_file", "Write a file", category="workspace"),
        tool("budget_get_total", "Sum of a budget", server="money"),
        tool("ask_user", "Ask the user", category="human"),
    ]


@pytest.fixture
def agent(talk, tools):
    return talk(MCPAGENT, tools)


def found(result) -> list[str]:
    return [t["name"] for t in result.value["tools"]]


@pytest.mark.behaviour("B1", "B80", "B83")
def test_without_the_mode_all_tools_are_in_view_and_no_discovery_tools(talk, tools) -> None:
    assert talk(EVERYTHING, tools).names() == [t.name for t in tools]
    assert talk(EVERYTHING, tools).view().instructions == ""


@pytest.mark.behaviour("B2", "B4", "B31", "B48", "B72")
def test_the_start_is_discovery_then_features_then_special_categories(agent, tool) -> None:
    offload = tool("search_large_output", "Read what was too large")
    assert agent.names([offload]) == [*DISCOVERY, "search_large_output", "ask_user"]
    assert agent.names([offload]) == agent.names([offload])


@pytest.mark.behaviour("B3", "B85")
def test_pre_discovered_names_are_in_view_and_unknown_ones_are_not(talk, tools) -> None:
    agent = talk(mcpagent_profile(pre_discovered=("get_weather", "nowhere")), tools)
    assert agent.names() == [*DISCOVERY, "get_weather", "ask_user"]
    assert "read_workspace_file" in found(agent.call("search_tools", query="workspace"))
    filtered = talk(agent.profile, tools, allow=lambda t: t.server == "slack")
    assert filtered.names() == DISCOVERY


@pytest.mark.behaviour("B59")
def test_a_selected_tool_without_a_server_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match="create_issue"):
        get_profile("mcpagent", {"selected_tools": ["create_issue"]})
    with pytest.raises(ConfigError, match="pre_discovered"):
        get_profile("mcpagent", {"pre_discovered": 5})
    assert "pre_discovered" in profile_options("mcpagent")


@pytest.mark.behaviour("B5", "B21", "B33")
def test_the_three_tools_take_what_the_design_says(agent) -> None:
    search, add, show = (t["parameters"] for t in agent.view().tools[:3])
    assert search["required"] == ["query"]
    assert search["properties"]["query"]["type"] == "string"
    assert add["required"] == ["tool_names"]
    assert add["properties"]["tool_names"]["items"] == {"type": "string"}
    assert show["properties"] == {}
    descriptions = [t["description"] for t in agent.view().tools[:3]]
    assert "add_tool" in descriptions[0]
    assert "search_tools" in descriptions[2]


@pytest.mark.behaviour("B7", "B8", "B10", "K20")
@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("weather", ["get_weather", "weather_forecast"]),
        ("database.*query", ["run_query"]),
        ("(?i)slack", ["list_channels"]),
        ("SLACK", ["list_channels"]),
        ("slack", ["list_channels"]),
        ("file|folder", ["list_files", "read_workspace_file", "update_workspace_file"]),
        ("get_.*", ["get_weather", "budget_get_total"]),
        ("^get_", ["get_weather"]),
    ],
)
def test_a_pattern_matches_anywhere_in_name_or_description(agent, pattern, names) -> None:
    result = agent.call("search_tools", query=pattern)
    assert found(result) == names
    assert "fuzzy_used" not in result.value


@pytest.mark.behaviour("B6", "B11", "B12", "B22", "K1", "K14")
def test_a_search_tells_and_loads_nothing(agent) -> None:
    result = agent.call("search_tools", query="weather")
    assert result.value["found"] == len(result.value["tools"]) == 2
    assert result.value["tools"][0] == {
        "name": "get_weather",
        "description": "Current weather for a location",
        "server": "meteo",
    }
    assert "add_tool" in result.value["message"]
    assert result.text == json.dumps(result.value, indent=2)
    assert agent.session.loaded == ()
    agent.call("add_tool", tool_names=["get_weather"])
    assert "get_weather" in found(agent.call("search_tools", query="weather"))


@pytest.mark.behaviour("B13", "B15", "B16", "B18", "B69")
def test_tools_that_no_pattern_finds_are_found_by_similarity(agent) -> None:
    typo = agent.call("search_tools", query="wether")
    assert found(typo)[0] == "get_weather"
    assert typo.value["fuzzy_used"] is True
    assert found(agent.call("search_tools", query="send msg"))[0] == "send_message"
    nothing = agent.call("search_tools", query="zzqqxx")
    assert nothing.value["found"] == 0
    assert nothing.value["tools"] == []
    assert nothing.value["message"]
    assert not nothing.is_error


@pytest.mark.behaviour("B14", "B17")
def test_likeness_puts_literal_parts_first_and_ends_at_five(talk, tool) -> None:
    near = [tool(f"send_notice_{i}", "Sends it") for i in range(8)]
    literal = tool("convert", "Handles c++ (x and more")
    agent = talk(replace(MCPAGENT, matcher=RegexMatcher(on_invalid="literal")), [*near, literal])
    assert found(agent.call("search_tools", query="c++ (x")) == ["convert"]
    assert found(agent.call("search_tools", query="send msg")) == [t.name for t in near[:5]]


@pytest.mark.behaviour("B9", "B74", "K5", "K12")
@pytest.mark.parametrize("arguments", [{}, {"query": ""}, {"query": 5}])
def test_an_empty_search_is_answered_with_a_message(agent, arguments) -> None:
    result = agent.call("search_tools", **arguments)
    assert result.is_error
    assert "query is required" in result.text


@pytest.mark.behaviour("B19", "B20")
@pytest.mark.parametrize("pattern", ["(", "[a", "a" * 201])
def test_a_bad_pattern_is_an_error_and_not_an_empty_answer(agent, pattern) -> None:
    result = agent.call("search_tools", query=pattern)
    assert result.is_error
    assert result.value["error"].startswith("invalid regex pattern: ")


@pytest.mark.behaviour("B20")
def test_a_pattern_made_to_explode_is_answered(talk, tool) -> None:
    agent = talk(MCPAGENT, [tool("long", "a" * 5_000 + "!")])
    assert agent.call("search_tools", query="(a+)+$").value["found"] == 0


@pytest.mark.behaviour("B22", "B23", "B26", "B27", "B30", "B32", "B78")
def test_adding_says_what_became_of_each_name_and_the_next_view_has_it(agent) -> None:
    before = agent.view()
    agent.call("add_tool", tool_names=["send_message"])
    result = agent.call(
        "add_tool", tool_names=["run_query", "run_query", "send_message", "ask_user", "nope"]
    )
    added, already, missing = result.text.splitlines()
    assert added == "Added: run_query."
    assert already == "Already available: run_query, send_message, ask_user."
    assert "nope" in missing
    assert "not found" in missing.lower()
    after = agent.view()
    names = [t["name"] for t in after.tools]
    assert names == [*DISCOVERY, "ask_user", "send_message", "run_query"]
    assert len(names) == len(set(names))
    count = default_counter().count
    assert count(before.text) < count(after.text)


@pytest.mark.behaviour("B24", "B25")
def test_adding_takes_one_name_too_and_no_name_is_an_error(agent) -> None:
    assert "list_files" in agent.call("add_tool", tool_name="list_files").text
    for arguments in ({}, {"tool_names": []}, {"tool_names": [1]}):
        result = agent.call("add_tool", **arguments)
        assert result.is_error
        assert "tool_names" in result.text


@pytest.mark.behaviour("B28", "B29", "K18")
def test_names_are_understood_in_other_case_styles_and_by_alias(agent, tool) -> None:
    agent.call("add_tool", tool_names=["ReadWorkspaceFile", "write_workspace_file"])
    assert agent.session.loaded == ("read_workspace_file", "update_workspace_file")
    agent.now(agent.catalog.add(tool("create_workspace_file", "Make a file")))
    agent.call("add_tool", tool_names=["create_workspace_file"])
    assert agent.session.loaded[-1] == "create_workspace_file"


@pytest.mark.behaviour("B34", "K25")
def test_showing_all_gives_every_name_once_in_order(agent, tools) -> None:
    agent.call("add_tool", tool_names=["run_query"])
    shown = agent.call("show_all_tools", extra=1).value
    assert shown["tools"] == sorted({*DISCOVERY, *(t.name for t in tools)})
    assert shown["total"] == len(shown["tools"])
    agent.profile = replace(MCPAGENT, lists_itself=False)
    assert agent.call("show_all_tools").value["tools"] == sorted(t.name for t in tools)


@pytest.mark.behaviour("B34")
def test_showing_all_of_nothing_is_an_empty_list(talk) -> None:
    profile = replace(MCPAGENT, lists_itself=False)
    assert talk(profile).call("show_all_tools").value == {"total": 0, "tools": []}


@pytest.mark.behaviour("B35", "B56", "B57", "K28")
def test_a_filtered_tool_is_not_found_listed_or_added(talk, tools) -> None:
    agent = talk(MCPAGENT, tools, allow=lambda t: t.server == "slack")
    assert found(agent.call("search_tools", query="weather")) == []
    assert agent.call("show_all_tools").value["tools"] == sorted(
        [*DISCOVERY, "send_message", "list_channels"]
    )
    assert "Not found: get_weather" in agent.call("add_tool", tool_names=["get_weather"]).text
    assert agent.names() == DISCOVERY
    assert agent.resolve("get_weather").tool is None


@pytest.mark.behaviour("B51", "B52", "B54", "C46")
def test_a_tool_registered_later_waits_or_is_in_view_by_its_category(agent, tool) -> None:
    agent.view()
    agent.now(agent.catalog.add(tool("late", "Comes late"), tool("approve", "", category="human")))
    assert found(agent.call("search_tools", query="late")) == ["late"]
    assert agent.names()[-1] == "approve"
    agent.now(agent.catalog.add(tool("late", "Comes again")))
    again = agent.call("search_tools", query="^late$").value["tools"]
    assert [t["description"] for t in again] == ["Comes again"]


@pytest.mark.behaviour("B53", "K6")
def test_a_tool_that_was_not_added_runs_when_it_is_called(agent) -> None:
    assert agent.resolve("run_query").tool.name == "run_query"


@pytest.mark.behaviour("B75")
def test_an_unknown_name_is_answered_with_the_nearest(agent) -> None:
    resolution = agent.resolve("get_wether")
    assert resolution.tool is None
    assert resolution.refusal.is_error
    assert "get_wether" in resolution.refusal.text
    assert "get_weather" in resolution.refusal.text


@pytest.mark.behaviour("B67", "B68", "B69")
def test_the_prompt_tells_the_steps_and_the_kinds_of_tools(agent, talk, tool) -> None:
    text = agent.view().instructions
    for word in ("search_tools", "add_tool", "regex", "5 most similar"):
        assert word in text
    steps = [text.index(f"{n}. ") for n in range(1, 6)]
    assert steps == sorted(steps)
    assert "- meteo\n- slack\n- db\n- money" in text
    told = replace(
        MCPAGENT, prompt=workflow_prompt(categories=("github (repositories)",), is_fuzzy=False)
    )
    text = talk(told, [tool("x", server="s")]).view().instructions
    assert "- github (repositories)" in text
    assert "similar" not in text
    assert "categories" not in talk(MCPAGENT, [tool("x")]).view().instructions


@pytest.mark.behaviour("B70", "B71")
def test_loaded_and_deferred_tools_can_be_listed(agent, tools) -> None:
    agent.call("add_tool", tool_names=["run_query"])
    assert agent.session.loaded == ("run_query",)
    waiting = [t.name for t in tools if agent.why(t.name) == "all"]
    assert len(waiting) == len(tools) - 2
    assert agent.why("ask_user") == "pinned"
    assert agent.why("search_tools") == "discovery"


@pytest.mark.behaviour("B73")
def test_a_name_that_is_not_a_discovery_tool_is_refused_with_those_that_are(agent) -> None:
    result = agent.call("run_query", sql="x")
    assert result.is_error
    assert "search_tools" in result.text


@pytest.mark.behaviour("B76", "K9")
def test_below_thirty_tools_searching_is_not_worth_it() -> None:
    assert recommend_profile(29) is EVERYTHING
    assert recommend_profile(30).metatools


@pytest.mark.behaviour("S3")
def test_removing_takes_loaded_tools_out_and_leaves_the_rest(agent) -> None:
    agent.call("add_tool", tool_names=["run_query", "list_files"])
    text = agent.call("remove_tool", tool_names=["RunQuery", "search_tools", "get_weather"]).text
    removed, kept = text.splitlines()
    assert removed == "Removed: run_query."
    assert "search_tools, get_weather" in kept
    assert agent.session.loaded == ("list_files",)
    assert agent.names() == [*DISCOVERY, "ask_user", "list_files"]


@pytest.mark.behaviour("S4", "K23")
def test_a_name_on_two_servers_is_distinguished_by_the_server(talk, tool) -> None:
    agent = talk(MCPAGENT)
    agent.now(
        agent.catalog.with_source("a", [tool("search", "Search a", server="a")]).with_source(
            "b", [tool("search", "Search b", server="b")]
        )
    )
    both = agent.call("search_tools", query="search")
    assert found(both) == ["a__search", "b__search"]
    assert {t["server"] for t in both.value["tools"]} == {"a", "b"}
    assert "several servers" in both.value["message"]
    one = agent.call("add_tool", tool_names=["search"], server="b")
    assert one.text == "Added: b__search."
    rest = agent.call("add_tool", tool_names=["search"]).text
    assert "Added: a__search." in rest
    assert "several servers" in rest
