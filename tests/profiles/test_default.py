"""The default profile: a search, a roster, and what was found, on whichever surface."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool, wire_name
from toolscout.disclosure.discovery import discover
from toolscout.disclosure.matcher import SearchDomain, ToolMatches
from toolscout.disclosure.profiles import (
    COMPACT,
    DEFAULT,
    get_profile,
    profile_names,
    register_profile,
)
from toolscout.disclosure.scope import ToolSelector
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.view import view
from toolscout.errors import ConfigError
from toolscout.events import SearchEvent
from toolscout.search.engine import Engine
from toolscout.tokens import default_counter

LOAD = replace(DEFAULT, surface="load")
DISPATCH = replace(DEFAULT, surface="dispatch")
ACTIONS = ["list", "create", "delete", "update"]
THINGS = ["invoice", "customer", "pull request", "calendar event", "photo", "playlist"]


@pytest.fixture
def tools(tool):
    return [
        tool(
            f"{action}_{thing.replace(' ', '_')}",
            f"{action.capitalize()} a {thing}.",
            server=thing.split()[-1],
            properties={"id": {"type": "string", "description": f"Which {thing}"}},
            required=["id"],
        )
        for thing in THINGS
        for action in ACTIONS
    ]


def test_a_small_catalog_is_shown_directly(talk, tools) -> None:
    view = talk(DEFAULT, tools[:14], target="anthropic:claude-opus-4-5").view()
    assert view.surface == "direct"
    assert [t["name"] for t in view.tools] == [t.name for t in tools[:14]]
    assert view.instructions == ""
    assert talk(DEFAULT, tools[:15]).view().surface != "direct"


def test_few_tools_that_are_too_large_for_the_window_are_searched(talk, tool) -> None:
    heavy = [tool(f"t{i}", "word " * 2_000) for i in range(14)]
    assert talk(DEFAULT, heavy).view().surface != "direct"
    wide = replace(DEFAULT, policy=replace(DEFAULT.policy, window_tokens=1_000_000))
    assert talk(wide, heavy).view().surface == "direct"


def test_a_small_catalog_that_grows_gets_its_search_at_the_end(talk, tools) -> None:
    load = talk(LOAD, tools[:10])
    first = load.view()
    load.now(load.catalog.with_source("late", tools[10:]))
    second = load.view()
    assert (first.surface, second.surface) == ("direct", "load")
    assert second.tools[:10] == first.tools
    assert [t["name"] for t in second.tools[10:]] == ["tool_search"]
    assert "playlist" in second.instructions
    load.call("tool_search", query="select:list_photo")
    third = load.view()
    assert third.tools[:11] == second.tools
    assert third.tools[11]["name"] == "list_photo"
    assert third.instructions == second.instructions
    assert load.why(tools[0].name) == "shown"
    assert load.resolve(tools[0].name).tool is not None


def test_left_to_itself_a_grown_catalog_is_dispatched(talk, tools) -> None:
    auto = talk(DEFAULT, tools[:10])
    first = auto.view()
    auto.now(auto.catalog.with_source("late", tools[10:]))
    second = auto.view()
    assert second.surface == "dispatch"
    assert second.tools[:10] == first.tools
    assert [t["name"] for t in second.tools[10:]] == ["tool_search", "describe_tools", "call_tool"]
    auto.call("tool_search", query="select:list_photo")
    assert auto.view().text == second.text


@pytest.mark.parametrize("chosen", [LOAD, DISPATCH])
def test_of_discovery_tools_only_those_in_the_list_are_said_to_be_in_view(
    talk, tools, chosen
) -> None:
    talking = talk(chosen, tools)
    listed = {t["name"] for t in talking.view().tools}
    said = {m.name: talking.why(m.name) for m in chosen.metatools}
    assert said == {n: "discovery" if n in listed else "elsewhere" for n in said}
    assert set(said.values()) == {"discovery", "elsewhere"}


@pytest.mark.parametrize("chosen", [LOAD, DISPATCH])
def test_the_start_is_the_search_the_pinned_tools_and_the_roster(talk, tools, chosen) -> None:
    policy = replace(
        chosen.policy, pinned=ToolSelector(names=("list_photo",), servers=("customer",))
    )
    view = talk(replace(chosen, policy=policy), tools).view()
    listed = [t["name"] for t in view.tools]
    assert listed[0] == "tool_search"
    assert listed[-5:] == [*(f"{a}_customer" for a in ACTIONS), "list_photo"]
    assert ("call_tool" in listed) == ("describe_tools" in listed) == (chosen is DISPATCH)
    assert "invoice: list_invoice, create_invoice" in view.instructions
    assert "tool_search" in view.instructions


def test_a_search_loads_the_best_and_shows_the_next_in_a_line(talk, tools) -> None:
    talk = talk(LOAD, tools)
    before = talk.view()
    text = talk.call("tool_search", query="create calendar event").text
    first, *rest = text.splitlines()
    assert first.startswith("Loaded: create_calendar_event")
    assert any(line.startswith("list_calendar_event(id): List a calendar event") for line in rest)
    assert "properties" not in text
    after = talk.view()
    assert after.tools[: len(before.tools)] == before.tools
    assert after.tools[-1]["name"] == "create_calendar_event"
    assert after.instructions == before.instructions
    again = talk.call("tool_search", query="create calendar event").text
    assert "Already in your tool list: create_calendar_event" in again


def test_on_dispatch_the_best_comes_with_its_schema_and_the_list_stays(talk, tools) -> None:
    talk = talk(DISPATCH, tools)
    before = talk.view()
    text = talk.call("tool_search", query="create calendar event").text
    assert "call_tool" in text.splitlines()[0]
    assert '"description":"Which calendar event"' in text
    assert talk.view().text == before.text
    talk.profile = replace(COMPACT, surface="dispatch")
    short = talk.call("tool_search", query="delete photo").text
    assert "id: string — Which photo" in short
    assert "properties" not in short


def test_several_needs_in_one_call_each_get_their_best(talk, tools) -> None:
    talk = talk(LOAD, tools)
    queries = ["create calendar event", "delete photo"]
    text = talk.call("tool_search", query=queries).text
    assert {"create_calendar_event", "delete_photo"} <= set(talk.session.loaded)
    assert text.startswith("Loaded: ")
    assert talk.session.searches == tuple(queries)
    other = talk.call("tool_search", query='["list invoice", "update playlist"]')
    assert {"list_invoice", "update_playlist"} <= set(talk.session.loaded)
    assert not other.is_error


def test_exact_names_and_select_lists_load_just_those(talk, tools) -> None:
    talk = talk(LOAD, tools)
    talk.call("tool_search", query="update_photo")
    assert talk.session.loaded == ("update_photo",)
    listed = ["list_photo", "list_playlist", "list_invoice"]
    text = talk.call("tool_search", query=f"select:{','.join(listed)},list_fotos").text
    assert talk.session.loaded == ("update_photo", *listed)
    assert "list_fotos" in text
    assert "Near: " in text


def test_nothing_found_is_said_plainly_and_loads_nothing(talk, tools) -> None:
    talk = talk(LOAD, tools)
    result = talk.call("tool_search", query="+zebra")
    assert "Nothing fits '+zebra'. Describe the action in other words" in result.text
    assert not result.is_error
    assert talk.session.loaded == ()


@dataclass(frozen=True)
class Unsure:
    """Finds the first tools and does not believe in them."""

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        found = domain.tools[:limit]
        return ToolMatches(tools=found, scores=(1.0,) * len(found), confidence=0.01)


@pytest.mark.parametrize("chosen", [LOAD, DISPATCH])
def test_a_weak_hit_is_marked_as_such_and_not_loaded(talk, tools, chosen) -> None:
    talk = talk(replace(chosen, matcher=Unsure()), tools)
    text = talk.call("tool_search", query="book a flight").text
    assert "Unsure: nothing fits well" in text.splitlines()[0]
    assert "list_invoice(id): List a invoice." in text
    assert "properties" not in text
    assert talk.session.loaded == ()


@pytest.mark.parametrize("chosen", [LOAD, DISPATCH])
def test_a_weak_hit_is_marked_even_if_it_was_shown_before(talk, tools, chosen) -> None:
    talk = talk(chosen, tools)
    talk.view()
    talk.call("tool_search", query="select:list_invoice,create_customer")
    talk.profile = replace(chosen, matcher=Unsure())
    text = talk.call("tool_search", query="book a flight", limit=2).text
    assert text.splitlines() == [
        "Unsure: nothing fits well. The nearest are these; if none of them does it, say so:",
        "list_invoice(id): List a invoice.",
        "create_invoice(id): Create a invoice.",
    ]


@dataclass(frozen=True)
class Choosy:
    """Believes only in photos; for all else it finds the first tools."""

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        if "photo" not in query:
            return Unsure().match(query, domain, limit=limit)
        return ToolMatches(
            tools=tuple(t for t in domain.tools if "photo" in t.name)[:1], scores=(1.0,)
        )


@pytest.mark.parametrize("chosen", [LOAD, DISPATCH])
def test_of_two_needs_the_met_one_comes_first_and_the_other_is_said(talk, tools, chosen) -> None:
    talk = talk(replace(chosen, matcher=Choosy()), tools)
    talk.view()
    talk.call("describe_tools", names=["list_invoice"])
    talk.call("tool_search", query="photo")
    for queries in (["zeppelin", "photo"], ["photo", "zeppelin"]):
        text = talk.call("tool_search", query=queries).text
        assert "list_photo" in "".join(text.splitlines()[:2])
        assert "Unsure about 'zeppelin': nothing fits well." in text
        assert "Which invoice" not in text
    assert talk.session.loaded == ("list_invoice", "list_photo")


def test_on_native_the_next_best_are_loaded_too_since_nothing_else_is_seen(talk, tools) -> None:
    talk = talk(DEFAULT, tools, target="claude-opus-4-5")
    assert talk.view().surface == "native"
    talk.call("tool_search", query="create some calendar event")
    assert talk.session.loaded[0] == "create_calendar_event"
    assert len(talk.session.loaded) == 3
    talk.call("tool_search", query="list_photo")
    assert talk.session.loaded[3:] == ("list_photo",)


def test_rules_of_the_found_tools_come_with_the_reply(tools) -> None:
    catalog = Catalog(tools)
    outcome = discover(
        LOAD,
        "tool_search",
        {"query": "delete photo"},
        session=SessionState("s"),
        engine=Engine(catalog),
        catalog=catalog,
        rules=lambda found: f"Rules for {found[0].server}: ask first.",
    )
    assert "Rules for photo: ask first." in outcome.result.text


def test_describing_gives_schemas_and_the_nearest_of_unknown_names(talk, tools) -> None:
    talk = talk(DISPATCH, tools)
    result = talk.call("describe_tools", names=["listInvoice", "delete_fotos"])
    assert '"description":"Which invoice"' in result.text
    assert "no tool 'delete_fotos'" in result.text
    assert "delete_photo" in result.text
    assert not result.is_error
    assert talk.call("describe_tools", names=["nothing_like_it"]).is_error
    assert talk.call("describe_tools").is_error


def test_calling_through_hands_over_the_inner_call(talk, tools) -> None:
    talk = talk(DISPATCH, tools)
    for arguments in ({"id": "7"}, '{"id": "7"}'):
        talk.call("call_tool", name="list_photo", arguments=arguments)
        inner = talk.outcomes[-1].call
        assert (inner.name, inner.arguments) == ("list_photo", {"id": "7"})
    for bad in ({}, {"name": ""}, {"name": "x", "arguments": 5}, {"name": "x", "arguments": "{"}):
        result = talk.call("call_tool", **bad)
        assert result.is_error
        assert talk.outcomes[-1].call is None
        assert "call_tool" in result.text


def test_unloading_is_explicit_and_leaves_the_order_of_the_rest(talk, tools) -> None:
    talk = talk(LOAD, tools)
    talk.call("tool_search", query="select:list_photo,list_invoice,list_customer")
    loaded = talk.names()
    talk.call("unload_tools", names=["list_invoice"])
    assert talk.names() == [n for n in loaded if n != "list_invoice"]
    assert "unload_tools" not in loaded


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": ""},
        {"query": "  "},
        {"query": []},
        {"query": ["", " "]},
        {"query": 5},
        {"query": {"a": 1}},
        {"query": None},
        {"query": "x" * 1_000_000},
        {"query": "x", "limit": "many"},
        {"query": "x", "unheard": float("inf"), "limit": [1]},
    ],
)
def test_bad_input_is_an_error_that_says_what_to_write(talk, tools, arguments) -> None:
    talk = talk(LOAD, tools)
    before = talk.session
    result = talk.call("tool_search", **arguments)
    assert result.is_error
    assert len(result.text) < 2_000
    assert talk.session == before


def test_changes_of_the_catalog_are_reported_once_and_the_roster_stays(talk, tools, tool) -> None:
    talk = talk(LOAD, tools)
    before = talk.view()
    talk.now(talk.catalog.with_source("late", [tool("scan", "Scan paper", server="scanner")]))
    told = talk.call("tool_search", query="list photo").text
    assert "added: scanner (1)" in told
    assert talk.view().instructions == before.instructions
    assert "scanner" not in talk.call("tool_search", query="list invoice").text
    talk.now(talk.catalog.without_source("late"))
    assert "removed: scanner" in talk.call("tool_search", query="list customer").text


def test_names_that_cannot_be_sent_are_shown_as_they_will_be_called(talk, tool) -> None:
    odd = [
        tool(f"exa.web__fetch_{i}", f"Fetch page number {i}", server="exa.web") for i in range(20)
    ]
    load = talk(LOAD, odd, target="anthropic")
    first = load.call("tool_search", query="fetch_7").text.splitlines()[0]
    sent = first.removeprefix("Loaded: ").split(" ")[0]
    assert "." not in sent
    assert sent in load.view().names
    assert load.resolve(sent).tool.name == "exa.web__fetch_7"
    other = wire_name("exa.web__fetch_9")
    assert load.call("tool_search", query=f"select:{other}").text.startswith(f"Loaded: {other}")
    assert load.session.loaded[-1] == "exa.web__fetch_9"
    dispatch = talk(DISPATCH, odd)
    assert "exa.web__fetch_7: Fetch" in dispatch.call("tool_search", query="fetch_7").text


def test_a_profile_of_ones_own_is_known_by_its_name() -> None:
    own = register_profile(replace(DEFAULT, name="mine", roster_tokens=200))
    assert get_profile("mine") is own
    assert "mine" in profile_names()
    with pytest.raises(ConfigError, match="built-in"):
        register_profile(replace(own, name="default"))
    with pytest.raises(ConfigError, match=r"no profile 'none'.*default"):
        get_profile("none")


@given(st.text(max_size=300), st.sampled_from([LOAD, DISPATCH]))
def test_no_query_breaks_the_search(query: str, chosen) -> None:
    catalog = Catalog(Tool(name=f"t{i}", description=f"Thing {i}.") for i in range(20))
    outcome = discover(
        chosen,
        "tool_search",
        {"query": query},
        session=SessionState("s"),
        engine=Engine(catalog),
        catalog=catalog,
    )
    assert outcome.result.text
    assert set(outcome.loaded) <= set(catalog.tools)


@pytest.mark.parametrize("shape", ["one server", "many servers", "too many servers"])
def test_the_start_costs_little_however_large_the_catalog(shape) -> None:
    sizes = {"one server": (120, 1), "many servers": (800, 25), "too many servers": (5_000, 500)}
    count, servers = sizes[shape]
    catalog = Catalog(
        Tool(
            name=f"server-{i % servers}__do_something_{i}",
            description="Does something. " * 20,
            server=f"server-{i % servers}",
        )
        for i in range(count)
    )
    for target in ("plain", "openai-chat", "anthropic:claude-opus-4-5", "gemini"):
        seen = view(DEFAULT, catalog, SessionState("s"), target=target)
        tokens = default_counter().count(seen.text) + default_counter().count(seen.instructions)
        assert tokens <= 1_500
        assert str(count) in seen.instructions or "server-0" in seen.instructions


def test_a_tool_that_several_queries_find_comes_before_their_second_hits(talk, tool) -> None:
    texts = {
        "rename_photo": "Rename a photo.",
        "rename_folder": "Rename a folder.",
        "crop_picture": "Crop a picture.",
        "crop_film": "Crop a film.",
        "edit_image": "Rename it, or crop it.",
    }
    others = {f"other_{number}": f"Count the sheep of farm {number}." for number in range(20)}
    found = [tool(name, text) for name, text in (texts | others).items()]
    queries = ["rename a photo", "crop a picture"]
    talk = talk(LOAD, found)
    talk.call("tool_search", query=queries, limit=4)
    names = [t.name for t in talk.outcomes[-1].found]
    # Taking turns would show two hits of each query: it is the third of both.
    assert "edit_image" in names
    assert names == [*Engine(Catalog(found)).search(queries, limit=4).names]


def test_a_search_is_as_sure_as_its_weakest_query(talk, tools) -> None:
    talk = talk(LOAD, tools)
    talk.call("tool_search", query=["delete photo", "+zebra"])
    (search,) = (e for e in talk.outcomes[-1].events if isinstance(e, SearchEvent))
    assert (search.verdict, search.confidence) == ("unsure", 0.0)
    text = talk.call("tool_search", query=["delete photo", "+zebra"]).text
    assert "Nothing fits '+zebra'." in text
    talk.call("tool_search", query=["delete photo", "create invoice"])
    (search,) = (e for e in talk.outcomes[-1].events if isinstance(e, SearchEvent))
    assert search.verdict == "likely"


def test_doubt_about_all_queries_is_said_once(talk, tools) -> None:
    talk = talk(replace(LOAD, matcher=Unsure()), tools)
    text = talk.call("tool_search", query=["book a flight", "feed the cat"]).text
    assert text.count("nothing fits") == 1


def test_an_error_names_its_query_of_several(talk, tools) -> None:
    talk = talk(LOAD, tools)
    assert "In query 2: " in talk.call("tool_search", query=["photo", "/bad(/"]).text
    assert "In query" not in talk.call("tool_search", query="/bad(/").text
