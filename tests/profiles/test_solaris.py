"""All tools registered, core ones described, the others found by a word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.disclosure.designs.solaris import catalog_prompt
from toolscout.disclosure.discovery import discover
from toolscout.disclosure.profiles import SOLARIS, get_profile
from toolscout.errors import ConfigError
from toolscout.evals.costs import CostEstimator
from toolscout.search.engine import Engine
from toolscout.tokens import default_counter
from toolscout.toolbox.toolbox import Toolbox

DOCUMENTS = ["createDocument", "updateDocument", "readDocument", "listDocuments"]
PLANS = ["createPlan", "updatePlan", "readPlan"]
CORE = [*DOCUMENTS, "searchDocuments", "requestSuggestions", *PLANS, "readSkill", "searchSkills"]


def schema(required: tuple[str, ...] = (), **properties: dict[str, object]) -> Schema:
    return Schema.of({"type": "object", "properties": properties, "required": [*required]})


TEXT = {"type": "string"}
ACTIONS = ["click", "fill", "type", "hover", "check", "uncheck"]
OTHERS = (
    Tool(
        name="agentBrowserNavigate",
        category="Browser Automation",
        description="Open a URL in the automated browser; returns an accessibility snapshot with "
        "element references such as @e1. For dynamic web pages.",
        parameters=schema(("url",), url={**TEXT, "description": "The address to open"}),
        usage="agentBrowserNavigate({url: 'https://example.com'})",
        skill="agent-browser",
        defer="always",
    ),
    Tool(
        name="agentBrowserInteract",
        category="Browser Automation",
        description="Act on elements of the current browser page by their references.",
        parameters=schema(
            ("action", "ref"),
            action={**TEXT, "enum": ACTIONS},
            ref={**TEXT, "description": "An element reference such as @e3"},
            value={**TEXT, "description": "Text for fill and type"},
        ),
        skill="agent-browser",
        defer="always",
    ),
    Tool(
        name="agentBrowserExtract",
        category="Browser Automation",
        description="Take content out of the current browser page, or of one element.",
        parameters=schema(
            (),
            ref=TEXT,
            extractType={**TEXT, "enum": ["text", "html", "value", "snapshot"], "default": "text"},
        ),
        skill="agent-browser",
        defer="always",
    ),
    Tool(
        name="agentBrowserClose",
        category="Browser Automation",
        description="End the current browser session. Call it when finished.",
        skill="agent-browser",
        defer="always",
    ),
    Tool(
        name="browseWeb",
        category="Web Content",
        description="Read a known address through a cloud browser, up to 15,000 characters.",
        parameters=schema(("url",), url=TEXT),
        skill="browserbase",
        defer="always",
    ),
    Tool(
        name="executeCode",
        category="Code Execution",
        description="Run Python in a sandbox; returns stdout, stderr, files as base64 and charts.",
        parameters=schema(
            ("code",), code=TEXT, installPackages={"type": "array", "items": {"type": "string"}}
        ),
        defer="always",
    ),
    Tool(
        name="getWeather",
        category="Utility",
        description="Current weather at a place.",
        parameters=schema((), city=TEXT, latitude={"type": "number"}, longitude={"type": "number"}),
        requires_confirmation=True,
        defer="always",
    ),
)
BROWSERS = [t.name for t in OTHERS[:4]]


@pytest.fixture
def solaris(talk, tool):
    core = [tool(name, f"Does {name} for documents, plans or skills.") for name in CORE]
    return talk(SOLARIS, [*core, *OTHERS])


@pytest.mark.behaviour("A1", "A2", "A3", "A23", "A24")
def test_every_tool_is_registered_with_its_schema_from_the_start(solaris) -> None:
    tools = {t["name"]: t for t in solaris.view().tools}
    assert list(tools) == ["searchTools", *CORE, *(t.name for t in OTHERS)]
    assert len(tools) == 19
    assert tools["browseWeb"]["parameters"]["properties"] == {"url": TEXT}


@pytest.mark.behaviour("A2", "A26")
def test_the_prompt_describes_core_tools_and_only_names_the_others(solaris) -> None:
    text = solaris.view().instructions
    for name in ("searchTools", *CORE):
        assert f"**{name}**: " in text
    for other in OTHERS:
        assert text.count(other.name) == 1
        assert other.description not in text
    lines = text.splitlines()
    start = lines.index(f"- **Browser Automation**: {', '.join(BROWSERS)}")
    assert lines[start + 1 : start + 4] == [
        "- **Web Content**: browseWeb",
        "- **Code Execution**: executeCode",
        "- **Utility**: getWeather",
    ]
    assert text.index("FIRST") < text.index("THEN") < text.index("readSkill", text.index("THEN"))


@pytest.mark.behaviour("A27", "A28", "A29", "S18")
def test_names_cost_less_than_lines_and_long_descriptions_cost_nothing(talk, tool) -> None:
    count = default_counter().count
    many = [
        tool(f"tool_{i}", f"Does a long and winding thing number {i}. " * 9, defer="always")
        for i in range(50)
    ]
    names = count(talk(SOLARIS, many).view().instructions)
    lined = replace(SOLARIS, prompt=catalog_prompt("one_line"))
    assert names < count(talk(lined, many).view().instructions)
    described = sum(count(t.description) for t in many)
    assert names < described / 5
    longer = [replace(t, description=t.description * 3) for t in many]
    assert count(talk(SOLARIS, longer).view().instructions) == names


@pytest.mark.behaviour("A13", "A14", "A15", "A19", "A20", "A21")
@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("browser", [*BROWSERS, "browseWeb"]),
        ("BROWSER", [*BROWSERS, "browseWeb"]),
        ("code", ["executeCode"]),
        ("weather", ["getWeather"]),
        ("web", ["agentBrowserNavigate", "browseWeb"]),
        ("browser automation", BROWSERS),
        ("code execution", ["executeCode"]),
        ("browser code", []),
        (" browser ", ["agentBrowserInteract", "agentBrowserExtract", "agentBrowserClose"]),
        ("installPackages", []),
        ("agent-browser", []),
        ("", [t.name for t in OTHERS]),
    ],
)
def test_a_query_is_a_literal_part_of_name_category_or_description(solaris, query, names) -> None:
    found = solaris.call("searchTools", query=query).value
    assert [r["name"] for r in found["results"]] == names


@pytest.mark.behaviour("A4", "A5", "A16", "A17")
def test_a_hit_carries_parameters_usage_and_skill_as_text(solaris) -> None:
    found = solaris.call("searchTools", query="Navigate").value
    assert set(found) == {"query", "results"}
    assert found["query"] == "Navigate"
    (entry,) = found["results"]
    assert set(entry) == {
        *("name", "category", "description", "parameters", "usage", "relatedSkill"),
    }
    assert "url" in entry["parameters"]
    assert "required" in entry["parameters"]
    assert entry["usage"] == "agentBrowserNavigate({url: 'https://example.com'})"
    assert "agent-browser" in entry["relatedSkill"]
    assert "readSkill" in entry["relatedSkill"]


@pytest.mark.behaviour("A4", "A6", "A7", "A8", "A9", "A10")
def test_missing_fields_of_an_entry_come_from_its_schema(solaris) -> None:
    entries = {e["name"]: e for e in solaris.call("searchTools", query="").value["results"]}
    assert all(action in entries["agentBrowserInteract"]["parameters"] for action in ACTIONS)
    assert "optional" in entries["agentBrowserInteract"]["parameters"]
    assert "snapshot" in entries["agentBrowserExtract"]["parameters"]
    assert entries["agentBrowserClose"]["parameters"] == "none"
    assert entries["agentBrowserClose"]["usage"] == "agentBrowserClose()"
    assert "15,000" in entries["browseWeb"]["description"]
    assert "browserbase" in entries["browseWeb"]["relatedSkill"]
    assert "installPackages" in entries["executeCode"]["parameters"]
    assert entries["executeCode"]["relatedSkill"] is None


@pytest.mark.behaviour("A18", "K26")
def test_no_match_offers_the_categories_and_is_not_an_error(solaris) -> None:
    result = solaris.call("searchTools", query="slack")
    assert not result.is_error
    assert set(result.value) == {"query", "results", "allCategories", "message"}
    assert result.value["allCategories"] == [
        *("Browser Automation", "Web Content", "Code Execution", "Utility"),
    ]
    assert "categor" in result.value["message"]


@pytest.mark.behaviour("A12", "K12")
@pytest.mark.parametrize("arguments", [{}, {"query": 5}, {"query": ["browser"]}, {"query": None}])
def test_a_missing_or_odd_query_is_an_error_that_shows_the_schema(solaris, arguments) -> None:
    result = solaris.call("searchTools", **arguments)
    assert result.is_error
    assert result.text.startswith("searchTools: ")
    assert '"required":["query"]' in result.text


@pytest.mark.behaviour("A12")
def test_the_search_takes_one_required_text(solaris) -> None:
    search = solaris.view().tools[0]
    assert search["parameters"]["required"] == ["query"]
    assert list(search["parameters"]["properties"]) == ["query"]
    assert search["parameters"]["properties"]["query"]["type"] == "string"
    for word in ("name", "category", "capability", "parameters", "usage"):
        assert word in search["description"]


@pytest.mark.behaviour("A11", "A22", "K6")
def test_a_tool_that_was_never_searched_for_runs_and_keeps_its_need_of_approval(solaris) -> None:
    resolution = solaris.resolve("getWeather")
    assert resolution.refusal is None
    assert resolution.tool.name == "getWeather"
    assert resolution.tool.requires_confirmation


def served(tool, *names: str, server: str = "web") -> list[Tool]:
    return [tool(f"{server}__{name}", f"Does {name}.", server=server) for name in names]


@pytest.mark.behaviour("A2", "A3")
def test_tools_of_servers_are_found_and_the_applications_own_are_core(talk, tool) -> None:
    solaris = talk(SOLARIS, [tool("createPlan", "Plans."), *served(tool, "get", "post")])
    text = solaris.view().instructions
    assert "- **createPlan**: Plans." in text
    assert "- **web**: web__get, web__post" in text
    assert "Does get." not in text
    assert solaris.call("searchTools", query="WEB").value["results"][0]["category"] == "web"
    assert solaris.call("searchTools", query="no").value["allCategories"] == ["web"]


@pytest.mark.behaviour("A2", "A3")
@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, ["get", "post", "mail"]),
        ({"core": ["get"]}, ["plan", "post", "mail"]),
        ({"core": ["web"]}, ["plan", "mail"]),
        ({"core": ["Planning"]}, ["get", "post", "mail"]),
        ({"deferred": ["plan"]}, ["plan"]),
        ({"deferred": ["web"]}, ["get", "post"]),
        ({"deferred": ["Planning"]}, ["plan"]),
        ({"categories": {"Letters": ["mail"]}}, ["mail"]),
        ({"core": ["get"], "deferred": ["plan"]}, ["plan", "post", "mail"]),
        ({"core": ["get"], "deferred": ["get"]}, ["post", "mail"]),
    ],
)
def test_options_say_which_tools_are_core_and_which_are_found(talk, tool, options, found) -> None:
    tools = [
        tool("plan", "Plans.", category="Planning"),
        *(replace(t, name=t.local_name) for t in served(tool, "get", "post")),
        *(replace(t, name=t.local_name) for t in served(tool, "mail", server="post-office")),
    ]
    solaris = talk(get_profile("solaris", options), tools)
    entries = solaris.call("searchTools", query="").value["results"]
    assert [entry["name"] for entry in entries] == found
    text = solaris.view().instructions
    assert [t.name for t in tools if f"- **{t.name}**: " not in text] == found


@pytest.mark.behaviour("A17", "A26")
def test_hints_name_the_tool_that_reads_skills_or_none(talk, tool) -> None:
    for own, reader in (("readSkill", "readSkill"), ("read_skill", "read_skill"), ("other", "")):
        solaris = talk(SOLARIS, OTHERS)
        extras = [tool(own, "Reads.")]
        text = solaris.view(extras).instructions
        found = discover(
            SOLARIS,
            "searchTools",
            {"query": "Navigate"},
            session=solaris.session,
            engine=solaris.engine,
            catalog=solaris.catalog,
            extras=extras,
        ).result.value
        hint = found["results"][0]["relatedSkill"]
        if reader:
            assert f"THEN optionally `{reader}` for expert guidance" in text
            assert hint == f"Load the skill 'agent-browser' with {reader} for expert guidance."
        else:
            assert "THEN" not in text
            assert hint is None


@pytest.mark.behaviour("A17", "A31", "A32")
@pytest.mark.parametrize(
    ("profile", "shown"),
    [("solaris", ["searchSkills", "readSkill"]), ("default", ["search_skills", "read_skill"])],
)
async def test_the_tools_for_skills_have_the_names_that_the_hints_use(
    tmp_path: Path, profile: str, shown: list[str]
) -> None:
    (tmp_path / "agent-browser.md").write_text("How to lead a browser.")
    config = Config.read(environment={}, skills=[tmp_path], home=tmp_path, embedder="none")
    async with Toolbox(OTHERS, profile=profile, config=config, store="memory") as box:
        session = await box.session("s")
        view = session.view("anthropic")
        names = [t["name"] for t in view.tools]
        assert [n for n in names if "kill" in n] == shown
        assert f"read one with `{shown[1]}`" in view.instructions
        # `lead browsers` is no part of the skill's words: only a ranked search finds it.
        found = await session.call(shown[0], {"query": "lead browsers"})
        assert bool(found.value["results"]) == (profile == "default")
        # Another profile of the same toolbox names what is shown there.
        other = await box.session("t", profile="solaris")
        hint = (await other.call("searchTools", {"query": "Navigate"})).value["results"][0]
        assert f"with {shown[1]} for" in hint["relatedSkill"]


@pytest.mark.behaviour("A4")
def test_labels_of_the_options_win_over_what_a_tool_says(talk) -> None:
    options = {"categories": {"Net": ["browseWeb"]}, "skills": {"surfing": ["browseWeb"]}}
    solaris = talk(get_profile("solaris", options), [Tool(name="readSkill"), *OTHERS])
    (entry,) = solaris.call("searchTools", query="net").value["results"]
    assert (entry["name"], entry["category"]) == ("browseWeb", "Net")
    assert "'surfing'" in entry["relatedSkill"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"catalog_detail": "two_lines"}, "catalog_detail"),
        ({"core": "createPlan"}, "core"),
        ({"cores": ["createPlan"]}, "no option 'cores'"),
    ],
)
def test_an_option_that_is_wrong_is_named(options, message) -> None:
    with pytest.raises(ConfigError, match=message):
        get_profile("solaris", options)


@pytest.mark.behaviour("A28")
def test_the_cost_of_the_prompt_is_counted_beside_that_of_describing_everything(tool) -> None:
    many = [tool(f"t{n}", "Does one long thing after another. " * 5, server="s") for n in range(60)]
    estimator = CostEstimator(engine=Engine(Catalog(many)), counter=default_counter())
    prompt, described = estimator.prompt_tokens(SOLARIS)
    assert prompt < described / 3
    assert described > sum(default_counter().count(t.description) for t in many)
