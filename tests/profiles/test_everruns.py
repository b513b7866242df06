"""Every tool is named; its schema is a stub until a search shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolscout.disclosure.designs.everruns import MIN_TOOLS_TO_HIDE, WordOverlapMatcher
from toolscout.disclosure.matcher import SearchDomain, load_nothing
from toolscout.disclosure.profiles import EVERRUNS, get_profile
from toolscout.disclosure.scope import Scope, ToolSelector
from toolscout.disclosure.session_state import SessionState
from toolscout.errors import ConfigError
from toolscout.tokens import default_counter
from toolscout.toolbox.toolbox import Toolbox


def many(tool, count: int):
    return [tool(f"tool_{i}", "does something") for i in range(count)]


def with_threshold(count: int, **changes):
    return replace(EVERRUNS, policy=replace(EVERRUNS.policy, threshold=count, **changes))


def stubs(view) -> list[str]:
    return [t["name"] for t in view.tools if "properties" not in t["parameters"]]


@pytest.fixture
def files(tool):
    return [
        tool("read_file", "Read the contents of a file"),
        tool("send_email", "Send an email message"),
        tool("write_file", "Write contents to a file"),
    ]


@pytest.mark.behaviour("D1", "D2", "D3", "D4", "D5", "D37")
def test_the_profile_is_known_and_says_what_it_does(talk, tool) -> None:
    assert get_profile("everruns") is EVERRUNS
    assert "schemas are hidden" in EVERRUNS.summary
    assert MIN_TOOLS_TO_HIDE == EVERRUNS.policy.threshold == 15
    assert [m.name for m in EVERRUNS.metatools] == ["tool_search"]
    text = talk(EVERRUNS, many(tool, 20)).view().instructions
    for word in ("hidden", "tool_search", "short query", "Frequently used"):
        assert word in text
    assert talk(EVERRUNS, many(tool, 5)).view().instructions == text


@pytest.mark.behaviour("D8", "D42", "K9")
@pytest.mark.parametrize(("count", "hidden"), [(5, 0), (13, 0), (14, 14), (15, 15)])
def test_hiding_begins_at_the_threshold_with_the_search_counted(talk, tool, count, hidden) -> None:
    view = talk(EVERRUNS, many(tool, count)).view()
    assert len(view.tools) == count + 1
    assert len(stubs(view)) == hidden


@pytest.mark.behaviour("D6", "D8")
@pytest.mark.parametrize("threshold", [0, 1])
def test_a_threshold_of_one_or_less_always_hides(talk, tool, threshold) -> None:
    assert stubs(talk(with_threshold(threshold), [tool("only")]).view()) == ["only"]


@pytest.mark.behaviour("D9", "D11", "D12", "D16", "D17", "D43", "D44", "D45", "S2")
def test_stubs_point_to_the_search_and_tools_never_deferred_keep_their_schema(talk, tool) -> None:
    tools = [
        *many(tool, 18),
        tool("write_todos", "todos", defer="never"),
        tool("mcp_docs__search", "search docs", server="docs"),
        tool("hot", "hot path"),
    ]
    chosen = with_threshold(15, pinned=ToolSelector(names=("hot",)))
    view = talk(chosen, tools).view()
    assert [t["name"] for t in view.tools] == ["tool_search", *(t.name for t in tools)]
    hidden = stubs(view)
    assert hidden == [*(t.name for t in tools[:18]), "mcp_docs__search"]
    for shown in view.tools:
        if shown["name"] in hidden:
            assert set(shown["parameters"]) == {"type", "description", "additionalProperties"}
            assert shown["parameters"]["additionalProperties"] is True
            assert "tool_search" in shown["parameters"]["description"]
            assert shown["name"] in shown["parameters"]["description"]
            assert shown["description"]


@pytest.mark.behaviour("D11")
def test_the_hint_in_stubs_can_be_left_out(talk, tool) -> None:
    bare = replace(with_threshold(1), stub_hint="")
    (stub,) = (t for t in talk(bare, [tool("x")]).view().tools if t["name"] == "x")
    assert stub["parameters"] == {"type": "object", "additionalProperties": True}


@pytest.mark.behaviour("D10", "D39")
def test_marked_tools_obey_the_threshold_unless_configured_otherwise(talk, tool) -> None:
    tools = [tool("marked", defer="always"), tool("plain")]
    assert stubs(talk(EVERRUNS, tools).view()) == []
    eager = with_threshold(15, marks_ignore_threshold=True)
    assert stubs(talk(eager, tools).view()) == ["marked"]


@pytest.mark.behaviour("D13", "D14", "D46", "D53", "D54")
def test_a_search_gives_the_real_schema_and_viewing_changes_no_tool(talk, tool) -> None:
    only = tool("read_file", "Read a file")
    everruns = talk(with_threshold(1), [only])
    assert everruns.view().text == everruns.view().text
    (found,) = everruns.call("tool_search", query="read file").value["tools"]
    assert found["parameters"]["properties"] == {"path": {"type": "string"}}
    assert everruns.catalog["read_file"] == only


@pytest.mark.behaviour("D19", "D20", "D21")
def test_the_search_takes_a_query_and_nothing_else(talk, tool) -> None:
    everruns = talk(EVERRUNS, many(tool, 20), target="mcp")
    search = everruns.view().tools[0]
    assert search["inputSchema"]["required"] == ["query"]
    assert search["inputSchema"]["additionalProperties"] is False
    assert search["title"] == "Tool Search"
    assert search["annotations"] == {"readOnlyHint": True, "idempotentHint": True}
    for word in ("keyword", "names", "descriptions", "schemas"):
        assert word in search["description"]


@pytest.mark.behaviour("D25", "D30", "D32", "K5")
@pytest.mark.parametrize("arguments", [{}, {"query": 7}, {"query": "  "}, {"query": "!!! ??"}])
def test_a_search_without_words_browses(talk, tool, arguments) -> None:
    result = talk(EVERRUNS, many(tool, 20)).call("tool_search", **arguments)
    assert not result.is_error
    assert [t["name"] for t in result.value["tools"]] == [f"tool_{i}" for i in range(12)]
    assert "loaded" not in result.value


@pytest.mark.behaviour("D27", "D28", "D29", "D31", "D47", "D50")
def test_tools_rank_by_the_words_they_contain(talk, files) -> None:
    everruns = talk(EVERRUNS, files)
    read = everruns.call("tool_search", query="read file").value
    assert [t["name"] for t in read["tools"]] == ["read_file", "write_file"]
    (email,) = everruns.call("tool_search", query="email").value["tools"]
    assert email["name"] == "send_email"
    (quoted,) = everruns.call("tool_search", query="`read_file`").value["tools"]
    assert quoted["name"] == "read_file"
    scope = Scope(EVERRUNS.policy, everruns.catalog, SessionState("s"))
    matches = WordOverlapMatcher().match(
        "file file send", SearchDomain(scope, everruns.engine), limit=None
    )
    assert matches.names == ("read_file", "write_file", "send_email")
    assert matches.scores == (2, 2, 1)


@pytest.mark.behaviour("D32", "K10")
def test_at_most_twelve_come_back(talk, tool) -> None:
    result = talk(EVERRUNS, many(tool, 20)).call("tool_search", query="something", limit=50)
    assert len(result.value["tools"]) == 12


@pytest.mark.behaviour("D33", "D34", "D35", "D48", "S6")
def test_a_hit_is_name_description_and_schema_and_never_the_search_itself(talk, files) -> None:
    everruns = talk(with_threshold(1), files)
    result = everruns.call("tool_search", query=" tool_search read ").value
    assert result["query"] == "tool_search read"
    assert [set(t) for t in result["tools"]] == [{"name", "description", "parameters"}]
    assert result["loaded"] == ["read_file"]
    assert "next step" in result["message"]
    told = talk(replace(EVERRUNS, loading=load_nothing), files).call("tool_search", query="read")
    assert set(told.value) == {"query", "tools"}


@pytest.mark.behaviour("D26", "D36", "D51", "K26")
def test_tools_that_are_not_allowed_never_show(talk, files) -> None:
    everruns = talk(EVERRUNS, files, allow={"read_file", "send_email"})
    found = everruns.call("tool_search", query="file").value["tools"]
    assert [t["name"] for t in found] == ["read_file"]
    missing = everruns.call("tool_search", query="missing")
    assert not missing.is_error
    assert missing.value["tools"] == []
    assert missing.value["available_tools"] == ["read_file", "send_email"]
    assert "keyword" in missing.value["message"]


@pytest.mark.behaviour("K26")
def test_a_long_list_of_names_is_cut_and_counted(talk, tool) -> None:
    missing = talk(EVERRUNS, many(tool, 130)).call("tool_search", query="zebra").value
    assert len(missing["available_tools"]) == 100
    assert missing["more_tools"] == 30


@pytest.mark.behaviour("S1", "D38", "K6", "K17")
def test_found_schemas_are_in_place_for_this_session_only(talk, files) -> None:
    everruns = talk(with_threshold(1), files)
    assert everruns.resolve("read_file").tool is not None
    everruns.call("tool_search", query="read file")
    assert stubs(everruns.view()) == ["send_email"]
    other = talk(with_threshold(1), files)
    assert len(stubs(other.view())) == 3


@pytest.mark.behaviour("S5")
def test_weak_hits_are_reported_but_not_loaded(talk, tool) -> None:
    everruns = talk(
        with_threshold(1),
        [tool("send_email_now", "Send an email to a person now"), tool("a_person", "Who")],
    )
    result = everruns.call("tool_search", query="send email now person").value
    assert len(result["tools"]) == 2
    assert result["loaded"] == ["send_email_now"]


@pytest.mark.behaviour("S5")
def test_the_weighted_overlap_prefers_names_and_drops_the_weak_half(talk, tool) -> None:
    weighted = replace(EVERRUNS, matcher=WordOverlapMatcher(is_weighted=True))
    everruns = talk(
        weighted,
        [
            tool("note", "read file"),
            tool("read_file", "Reads"),
            tool("read_file_lines", "Reads"),
            tool("file", "A file"),
        ],
    )
    scope = Scope(weighted.policy, everruns.catalog, SessionState("s"))
    matches = WordOverlapMatcher(is_weighted=True).match(
        "read file", SearchDomain(scope, everruns.engine), limit=None
    )
    assert dict(zip(matches.names, matches.scores, strict=True)) == {
        "read_file": 6,
        "read_file_lines": 6,
        "file": 3,
    }
    exact = everruns.call("tool_search", query="`read_file`").value["tools"]
    assert [t["name"] for t in exact] == ["read_file"]


@pytest.mark.behaviour("S18", "D11")
def test_hiding_schemas_cuts_the_list_by_a_wide_margin(talk, tool) -> None:
    wide = {f"argument_{i}": {"type": "string", "description": "What it is " * 5} for i in range(9)}
    tools = [tool(f"tool_{i}", "does something", properties=wide) for i in range(40)]
    count = default_counter().count
    shown = count(talk(with_threshold(100), tools).view().text)
    assert count(talk(EVERRUNS, tools).view().text) < shown / 5


@pytest.mark.behaviour("D23", "D49")
async def test_without_a_catalog_to_search_the_call_is_an_error_and_raises_nothing(files) -> None:
    async with Toolbox(files, profile="everruns", store="memory") as box:
        session = await box.session("s")
        step = session.step()
        assert not (await session.call("tool_search", {"query": "file"})).is_error
    for result in (
        await session.call("tool_search", {"query": "file"}),
        (await step.call("tool_search", {"query": "file"})).result,
    ):
        assert (result.is_error, result.code) == (True, "closed")
        assert "toolbox is closed" in result.text


@pytest.mark.behaviour("D23", "D49", "D36")
def test_a_catalog_without_tools_is_searched_and_nothing_matches(talk) -> None:
    for query in ("file", ""):
        result = talk(EVERRUNS).call("tool_search", query=query)
        assert not result.is_error
        assert result.value["tools"] == []
        assert result.value["available_tools"] == []
        assert "keyword" in result.value["message"]


@pytest.mark.behaviour("D6")
def test_the_threshold_and_the_tools_that_keep_their_schemas_are_options(talk, files) -> None:
    hidden = get_profile("everruns", {"threshold": 4, "never_defer": ["send_email"]})
    assert stubs(talk(hidden, files).view()) == ["read_file", "write_file"]
    assert stubs(talk(get_profile("everruns", {"threshold": 5}), files).view()) == []
    assert get_profile("everruns", {"threshold": 15}) == EVERRUNS


@pytest.mark.behaviour("D7")
@pytest.mark.parametrize("threshold", [-1, 4.5, "4", True, None])
def test_a_threshold_that_is_not_a_count_is_an_error_that_names_it(threshold) -> None:
    with pytest.raises(ConfigError, match="option threshold of the profile 'everruns' is invalid"):
        get_profile("everruns", {"threshold": threshold})
