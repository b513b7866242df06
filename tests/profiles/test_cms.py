"""One tool to start with; what it finds is active next, with the rules of its categories."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from toolscout.disclosure.discovery import discover
from toolscout.disclosure.profiles import CMS
from toolscout.disclosure.session_state import SessionState


@pytest.fixture
def tools(tool):
    return [
        tool(
            "cms_searchImages",
            "Search the image library by text",
            category="images",
            phrases=("find image",),
            related=("cms_updateSectionImage", "cms_gone", "cms_listAllImages"),
        ),
        tool("cms_listAllImages", "List every stored picture", category="images"),
        tool("cms_updateSectionImage", "Put a picture into a section", category="sections"),
        tool("cms_deletePage", "Delete a page", category="pages", requires_confirmation=True),
        tool("cms_getNavigation", "Read the menu", category="navigation"),
        *(tool(f"cms_other{i}", f"Unlike anything, number {i}", category="x") for i in range(20)),
    ]


@pytest.fixture
def cms(talk, tools):
    return talk(CMS, tools)


def rules_of(tools) -> str:
    return "\n\n".join(f"{c}: mind the rules." for c in dict.fromkeys(t.category for t in tools))


def search(cms, **arguments):
    outcome = discover(
        cms.profile,
        "tool_search",
        arguments,
        session=cms.session,
        engine=cms.engine,
        catalog=cms.catalog,
        rules=rules_of,
    )
    cms.session = outcome.session
    return outcome.result


@pytest.mark.behaviour("E1", "E69", "E74", "E76", "E78", "E80")
def test_the_start_is_the_search_alone_and_nothing_is_forced(cms) -> None:
    view = cms.view()
    assert [t["name"] for t in view.tools] == ["tool_search"]
    assert view.force is None


@pytest.mark.behaviour("E2", "E71")
def test_the_prompt_leaves_the_choice_between_search_and_answer(cms) -> None:
    text = cms.view().instructions
    assert text.startswith("<tool-discovery>")
    assert text.endswith("</tool-discovery>")
    for word in ("tool_search", "natural language", "rules", "again", "answer directly"):
        assert word in text


@pytest.mark.behaviour("E62", "E63")
def test_the_search_takes_a_query_and_a_limit_of_five(cms) -> None:
    (shown,) = cms.view().tools
    properties = shown["parameters"]["properties"]
    assert properties["query"]["type"] == "string"
    assert properties["limit"]["default"] == 5
    assert shown["parameters"]["required"] == ["query"]
    assert "capability" in shown["description"]
    assert shown["description"].count("→") == 3


@pytest.mark.behaviour("E53", "E64", "E65", "E66", "K2")
def test_a_result_has_names_rules_and_an_instruction_but_no_schemas(cms) -> None:
    value = search(cms, query="find image in the library").value
    assert set(value) == {"tools", "rules", "instruction"}
    assert all(set(t) == {"name", "description"} for t in value["tools"])
    assert value["tools"][0]["name"] == "cms_searchImages"
    assert "images: mind the rules." in value["rules"]
    assert "now available" in value["instruction"]
    assert "again" in value["instruction"]
    assert "properties" not in json.dumps(value)


@pytest.mark.behaviour("E70", "E75", "E77", "E78", "K1", "K17")
def test_found_tools_are_active_behind_the_search_from_then_on(cms) -> None:
    names = [t["name"] for t in search(cms, query="search image library").value["tools"]]
    assert cms.names() == ["tool_search", *names]
    more = [t["name"] for t in search(cms, query="menu").value["tools"]]
    assert cms.names() == ["tool_search", *dict.fromkeys([*names, *more])]
    assert search(cms, query="").value["tools"] == []
    assert cms.names() == ["tool_search", *dict.fromkeys([*names, *more])]


@pytest.mark.behaviour("E67", "K22")
def test_related_tools_join_behind_the_hits_while_there_is_room(cms) -> None:
    def names(query: str, limit: int) -> list[str]:
        return [t["name"] for t in search(cms, query=query, limit=limit).value["tools"]]

    query = "select:cms_searchImages"
    assert names(query, 1) == ["cms_searchImages"]
    assert names(query, 2) == ["cms_searchImages", "cms_updateSectionImage"]
    assert names(query, 5) == ["cms_searchImages", "cms_updateSectionImage", "cms_listAllImages"]
    cms.profile = replace(CMS, related_extra=1)
    assert names(query, 1) == ["cms_searchImages", "cms_updateSectionImage"]


@pytest.mark.behaviour("E68", "K5", "K26")
def test_nothing_found_quotes_the_query_and_gives_advice(cms) -> None:
    for query in ("", "   "):
        value = search(cms, query=query).value
        assert value["tools"] == []
        assert value["rules"] == ""
        assert f'"{query}"' in value["instruction"]
        for word in ("specific action", "rephrase", "without tools"):
            assert word in value["instruction"]


@pytest.mark.behaviour("E62", "K11", "K12")
def test_limits_below_one_give_one_and_either_name_is_read(cms) -> None:
    for arguments in ({"limit": 0}, {"limit": -3}, {"max_results": 1}):
        assert len(search(cms, query="image picture", **arguments).value["tools"]) == 1
    assert search(cms, query=None).is_error
    assert search(cms, query="image", limit="many").is_error


@pytest.mark.behaviour("E81")
def test_a_profile_may_insist_on_a_search_first(talk, tools) -> None:
    cms = talk(replace(CMS, forces_search=True), tools)
    assert cms.view().force == "tool_search"
    search(cms, query="menu")
    assert cms.view().force is None


@pytest.mark.behaviour("E75", "E85")
def test_names_from_earlier_turns_are_active_if_they_exist_and_are_allowed(talk, tools) -> None:
    before = SessionState("talk").load("cms_gone", "cms_deletePage", "cms_getNavigation")
    cms = talk(CMS, tools, session=before, allow=lambda t: t.category != "pages")
    assert cms.names() == ["tool_search", "cms_getNavigation"]


@pytest.mark.behaviour("K6")
def test_an_inactive_tool_is_refused_until_it_is_found(cms) -> None:
    assert "tool_search" in cms.resolve("cms_getNavigation").refusal.text
    search(cms, query="select:cms_getNavigation")
    assert cms.resolve("cms_getNavigation").tool is not None


@pytest.mark.behaviour("K15")
def test_a_cap_keeps_the_newest_loaded_tools(talk, tools) -> None:
    capped = replace(CMS, limits=replace(CMS.limits, loaded=2))
    cms = talk(capped, tools)
    search(cms, query="select:cms_getNavigation,cms_deletePage,cms_listAllImages")
    assert cms.names() == ["tool_search", "cms_deletePage", "cms_listAllImages"]
