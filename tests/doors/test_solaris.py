"""Design A, Solaris: one conversation for each section of its document, through every door."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.doors.harness import DOORS, Step, Transcript, converse

from toolscout.disclosure.designs.solaris import DISCOVERY, Switch, allow_rule
from toolscout.disclosure.scope import ToolSelector
from toolscout.tokens import default_counter

TEXT = {"type": "string"}


def row(name: str, description: str, *required: str, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = [*required]
    return {"name": name, "description": description, "parameters": schema}


CORE = [
    row("createDocument", "Create a document with a title.", "title", title=TEXT),
    row("updateDocument", "Change a document.", "id", id=TEXT),
    row("readDocument", "Read a document.", "id", id=TEXT),
    row("listDocuments", "List the documents."),
    row("searchDocuments", "Find documents by their text.", "text", text=TEXT),
    row("requestSuggestions", "Ask for suggestions on a document.", "id", id=TEXT),
    row("createPlan", "Write down the steps of a task.", "steps", steps=TEXT),
    row("updatePlan", "Tick off a step of the plan."),
    row("readPlan", "Read the plan."),
]
ACTIONS = ["click", "fill", "type", "hover", "check", "uncheck"]
OTHERS = [
    row(
        "agentBrowserNavigate",
        "Navigate to a URL using the AI browser. Returns an accessibility snapshot with interactive"
        " element references (@e1, @e2). Use for: web browsing, search engine queries.",
        "url",
        url={**TEXT, "description": "The URL to navigate to"},
    ),
    row(
        "agentBrowserInteract",
        "Interact with elements on the current browser page using refs from a snapshot.",
        "action",
        "ref",
        action={**TEXT, "enum": ACTIONS},
        ref={**TEXT, "description": "Element ref like '@e1'"},
        value={**TEXT, "description": "Text for fill/type"},
    ),
    row(
        "agentBrowserExtract",
        "Extract content from the current browser page or specific element.",
        ref=TEXT,
        extractType={**TEXT, "enum": ["text", "html", "value", "snapshot"], "default": "text"},
    ),
    row(
        "agentBrowserClose",
        "Close the current browser session and free resources. Always call when done.",
    ),
    row(
        "browseWeb",
        "Browse a URL and extract its text content using Browserbase cloud browser. Returns up to"
        " 15,000 chars of readable text.",
        "url",
        url=TEXT,
    ),
    row(
        "executeCode",
        "Execute Python code in a secure E2B sandbox with internet access.",
        "code",
        code=TEXT,
        installPackages={"type": "array", "items": {"type": "string"}},
    ),
    row(
        "getWeather",
        "Get current weather information for a location.",
        city=TEXT,
        latitude={"type": "number"},
        longitude={"type": "number"},
    ),
]
BROWSERS = [tool["name"] for tool in OTHERS[:4]]
OTHER_NAMES = [tool["name"] for tool in OTHERS]
DISCOVERY_NAMES = ["searchTools", "searchSkills", "readSkill"]
CORE_NAMES = [*DISCOVERY_NAMES, *(tool["name"] for tool in CORE)]
CATEGORIES = {
    "Browser Automation": BROWSERS,
    "Web Content": ["browseWeb"],
    "Code Execution": ["executeCode"],
    "Utility": ["getWeather"],
}
# MCP servers know neither categories nor skills, so the options of the profile give them: the same
# two tables through every door.
OPTIONS = {
    "categories": CATEGORIES,
    "skills": {"agent-browser": BROWSERS, "browserbase": ["browseWeb"]},
}
CATALOG = """## Other tools (find them with searchTools)
You can use these too; `searchTools` shows how:
- **Browser Automation**: agentBrowserNavigate, agentBrowserInteract, agentBrowserExtract, \
agentBrowserClose
- **Web Content**: browseWeb
- **Code Execution**: executeCode
- **Utility**: getWeather

When you need one of them, FIRST use `searchTools` for its details, THEN optionally `readSkill` \
for expert guidance, and then use the tool."""
GUIDE = "Take a snapshot first. Close the browser at the end."


async def talk(
    door: str,
    folder: Path,
    *steps: Step,
    rows: Sequence[dict[str, Any]] = (*CORE, *OTHERS),
    options: dict[str, Any] | None = None,
    **more: Any,
) -> Transcript:
    skills = folder / "skills"
    skills.mkdir()
    for name in ("agent-browser", "browserbase"):
        head = f"---\nname: {name}\ndescription: How to use the {name}.\ntriggers: [slides]\n---\n"
        (skills / f"{name}.md").write_text(head + GUIDE)
    return await converse(
        door,
        rows,
        steps,
        folder=folder,
        profile="solaris",
        options=OPTIONS if options is None else options,
        **{**more, "gateway": {**more.get("gateway", {}), "skills": [str(skills)]}},
    )


def search(query: str) -> Step:
    return [("searchTools", {"query": query})]


def names(answer: str) -> list[str]:
    return [entry["name"] for entry in json.loads(answer)["results"]]


@pytest.mark.behaviour("A1", "A34")
@pytest.mark.section("solaris", "Why Custom Implementation?")
@pytest.mark.parametrize("door", DOORS)
async def test_a_model_without_native_search_gets_every_tool_with_its_schema(
    door: str, tmp_path: Path
) -> None:
    seen = (await talk(door, tmp_path)).first
    assert seen.names == [*CORE_NAMES, *OTHER_NAMES]
    assert len(seen.names) == 19
    for tool in (*CORE, *OTHERS):
        assert seen.tools[tool["name"]] == {
            "description": tool["description"],
            "schema": tool["parameters"],
        }


@pytest.mark.behaviour("A17", "A22", "A30", "A31")
@pytest.mark.section("solaris", "How It Works")
@pytest.mark.parametrize("door", DOORS)
async def test_search_details_skill_and_call_follow_each_other(door: str, tmp_path: Path) -> None:
    led = await talk(
        door,
        tmp_path,
        search("Navigate"),
        [("readSkill", {"skillId": "agent-browser"})],
        [("agentBrowserNavigate", {"url": "https://example.com"})],
        [("executeCode", {"code": "print(2+2)"})],  # never searched for
    )
    (entry,) = json.loads(led.answers[0][0])["results"]
    assert entry["name"] == "agentBrowserNavigate"
    assert entry["parameters"] == "url (string, required): The URL to navigate to"
    assert entry["relatedSkill"] == (
        "Load the skill 'agent-browser' with readSkill for expert guidance."
    )
    guide = json.loads(led.answers[1][0])
    assert (guide["skillId"], guide["content"]) == ("agent-browser", GUIDE)
    assert led.answers[2] == ['agentBrowserNavigate {"url": "https://example.com"}']
    assert led.answers[3] == ['executeCode {"code": "print(2+2)"}']
    assert led.errors == [[False]] * 4
    # Nothing is loaded or unloaded: the request stays the same to the byte.
    for later in led.received[1:]:
        assert (later.tools, later.instructions) == (led.first.tools, led.first.instructions)


@pytest.mark.behaviour("A2", "A3")
@pytest.mark.section("solaris", "Core vs Non-Core Tools")
@pytest.mark.parametrize("door", DOORS)
async def test_the_prompt_describes_twelve_core_tools_and_none_of_the_seven_others(
    door: str, tmp_path: Path
) -> None:
    led = await talk(door, tmp_path, search(""))
    seen = led.first
    lines = seen.instructions.splitlines()
    described = [line for line in lines if line.startswith("- **") and "**: " in line][:12]
    assert described == [f"- **{n}**: {seen.tools[n]['description']}" for n in CORE_NAMES]
    for tool in OTHERS:
        assert tool["description"] not in seen.instructions
        assert seen.instructions.count(tool["name"]) == 1
    entries = json.loads(led.answers[0][0])["results"]
    assert [(e["name"], e["category"]) for e in entries] == [
        (name, category) for category, tools in CATEGORIES.items() for name in tools
    ]


@pytest.mark.behaviour("A3", "A18", "A26")
@pytest.mark.section("solaris", "Core vs Non-Core Tools")
@pytest.mark.parametrize("door", DOORS)
async def test_without_options_tools_of_a_server_are_listed_and_not_described(
    door: str, tmp_path: Path
) -> None:
    rows = [{**tool, "server": "stub"} for tool in (*CORE, *OTHERS)]
    led = await talk(door, tmp_path, search("stub"), search("slack"), rows=rows, options={})
    text = led.first.instructions
    assert f"- **stub**: {', '.join(tool['name'] for tool in rows)}\n" in text
    assert [tool["name"] for tool in rows if tool["description"] in text] == []
    assert names(led.answers[0][0]) == [tool["name"] for tool in rows]
    assert json.loads(led.answers[1][0])["allCategories"] == ["stub"]


@pytest.mark.behaviour("A2", "A29")
@pytest.mark.section("solaris", "Core vs Non-Core Tools")
@pytest.mark.parametrize("door", DOORS)
async def test_with_core_tools_named_all_others_are_found(door: str, tmp_path: Path) -> None:
    core = [tool["name"] for tool in CORE]
    led = await talk(door, tmp_path, search("weather"), options={"core": core})
    assert "- **createPlan**: Write down the steps of a task." in led.first.instructions
    for tool in OTHERS:
        assert tool["description"] not in led.first.instructions
    assert names(led.answers[0][0]) == ["getWeather"]


@pytest.mark.behaviour("A4", "A5", "A6", "A7", "A8", "A9", "A10", "A12", "A16", "A18", "A19")
@pytest.mark.section("solaris", "New Tool: searchTools")
@pytest.mark.parametrize("door", DOORS)
async def test_the_search_returns_entries_or_the_categories_to_try(
    door: str, tmp_path: Path
) -> None:
    led = await talk(door, tmp_path, search(""), search("Slack"), [("searchTools", {})])
    schema = led.first.tools["searchTools"]["schema"]
    assert (schema["required"], [*schema["properties"]]) == (["query"], ["query"])
    found = json.loads(led.answers[0][0])
    assert [*found] == ["query", "results"]
    assert all(
        [*entry] == ["name", "category", "description", "parameters", "usage", "relatedSkill"]
        for entry in found["results"]
    )
    entries = {entry["name"]: entry for entry in found["results"]}
    assert [*entries] == OTHER_NAMES
    interact = entries["agentBrowserInteract"]
    assert f"action ({'|'.join(ACTIONS)}, required)" in interact["parameters"]
    assert "value (string, optional): Text for fill/type" in interact["parameters"]
    assert interact["usage"] == 'agentBrowserInteract({"action": "click", "ref": "…"})'
    extract = entries["agentBrowserExtract"]["parameters"]
    assert "ref (string, optional)" in extract
    assert 'extractType (text|html|value|snapshot, optional, default "text")' in extract
    close = entries["agentBrowserClose"]
    assert (close["parameters"], close["usage"]) == ("none", "agentBrowserClose()")
    assert "agent-browser" in close["relatedSkill"]
    assert "15,000" in entries["browseWeb"]["description"]
    assert "browserbase" in entries["browseWeb"]["relatedSkill"]
    assert "installPackages (string[], optional)" in entries["executeCode"]["parameters"]
    assert entries["executeCode"]["relatedSkill"] is None
    assert json.loads(led.answers[1][0]) == {
        "query": "Slack",
        "results": [],
        "allCategories": [*CATEGORIES],
        "message": "No tool matched. Try one of the categories.",
    }
    assert led.errors == [[False], [False], [True]]
    assert '"required":["query"]' in led.answers[2][0]


@pytest.mark.behaviour("A11")
@pytest.mark.section("solaris", "New Tool: searchTools")
@pytest.mark.parametrize("door", DOORS)
async def test_the_weather_is_not_asked_for_before_the_user_approved(
    door: str, tmp_path: Path
) -> None:
    wary = {**OTHERS[-1], "requires_confirmation": True}
    call = [("getWeather", {"city": "San Francisco"})]
    # A definition of MCP has no such mark; there the gateway asks before tools that may write, and
    # this client cannot be asked.
    led = await talk(
        door,
        tmp_path,
        search("weather"),
        call,
        [("executeCode", {"code": "1"})] if door != "gateway" else call,
        rows=(*CORE, *OTHERS[:-1], wary),
        gateway={"confirm": "unknown"},
    )
    assert names(led.answers[0][0]) == ["getWeather"]
    assert led.errors[1] == [True]
    assert "San Francisco" not in led.answers[1][0]
    assert led.errors[2] == [door == "gateway"]


@pytest.mark.behaviour("A23", "A25")
@pytest.mark.section("solaris", "Files to Modify")
@pytest.mark.parametrize("door", DOORS)
async def test_a_category_can_be_switched_off_and_discovery_cannot(
    door: str, tmp_path: Path
) -> None:
    web = Switch(id="web", name="Web", tools=ToolSelector(names=("browseWeb",)))
    stored = {"discovery": False, "web": False}
    led = await talk(
        door,
        tmp_path,
        search("browser"),
        [("browseWeb", {"url": "https://example.com"})],
        # A settings page belongs to an application; a gateway has policies for each user instead.
        allow=allow_rule((DISCOVERY, web), stored),
        policies={"web": {"deny": ["browseWeb", "searchTools", "searchSkills", "readSkill"]}},
    )
    assert led.first.names == [n for n in (*CORE_NAMES, *OTHER_NAMES) if n != "browseWeb"]
    assert "browseWeb" not in led.first.instructions
    assert names(led.answers[0][0]) == BROWSERS
    assert led.errors == [[False], [True]]


@pytest.mark.behaviour("A26", "A27", "A33")
@pytest.mark.section("solaris", "Integration with System Prompt")
@pytest.mark.parametrize("door", DOORS)
async def test_the_prompt_lists_the_others_by_category_and_the_order_of_steps(
    door: str, tmp_path: Path
) -> None:
    text = (await talk(door, tmp_path)).first.instructions
    # Skills first, since they stay the same; then the core tools, then the others.
    skills, core = text.split("\n\n", 1)
    assert skills.startswith("Skills: read one with `readSkill`")
    assert core.startswith("## Core tools\n- **searchTools**: ")
    assert core.endswith(f"\n\n{CATALOG}")
    assert "- **agent-browser** (`agent-browser`): How to use the agent-browser." in skills
    assert "read_skill" not in text


@pytest.mark.behaviour("A27")
@pytest.mark.section("solaris", "How It Works")
@pytest.mark.parametrize("door", DOORS)
async def test_the_catalog_has_one_line_for_each_tool_if_wanted(door: str, tmp_path: Path) -> None:
    options = {**OPTIONS, "catalog_detail": "one_line"}
    text = (await talk(door, tmp_path, options=options)).first.instructions
    assert (
        "- **Code Execution**:\n"
        "  - executeCode: Execute Python code in a secure E2B sandbox with internet access.\n"
        "- **Utility**:\n"
        "  - getWeather: Get current weather information for a location.\n"
    ) in text


@pytest.mark.behaviour("A28", "A29")
@pytest.mark.section("solaris", "Token Savings Analysis")
@pytest.mark.parametrize("door", DOORS)
async def test_the_prompt_of_many_tools_costs_no_more_when_they_say_more(
    door: str, tmp_path: Path
) -> None:
    def prompts(words: int) -> list[dict[str, Any]]:
        said = "Does what its name says. " * words
        return [*CORE, *(row(f"other_{n}", said) for n in range(50))]

    sizes: list[int] = []
    for words in (1, 20):
        folder = tmp_path / str(words)
        folder.mkdir()
        options = {"categories": {"More": [f"other_{n}" for n in range(50)]}}
        led = await talk(door, folder, rows=prompts(words), options=options)
        sizes.append(default_counter().count(led.first.instructions))
    assert sizes[0] == sizes[1]
    described = sum(default_counter().count(tool["description"]) for tool in prompts(20))
    assert sizes[0] < described / 5


@pytest.mark.behaviour("A13", "A14", "A15", "A20", "A21", "A22")
@pytest.mark.section("solaris", "Verification")
@pytest.mark.parametrize("door", DOORS)
async def test_the_documented_queries_find_what_the_document_says(
    door: str, tmp_path: Path
) -> None:
    expected = {
        "browser": [*BROWSERS, "browseWeb"],
        "BROWSER": [*BROWSERS, "browseWeb"],
        "code": ["executeCode"],
        "weather": ["getWeather"],
        "web": ["agentBrowserNavigate", "browseWeb"],
        "browser automation": BROWSERS,
        "code execution": ["executeCode"],
        "browser code": [],
        "installPackages": [],
        "agent-browser": [],
    }
    led = await talk(
        door,
        tmp_path,
        [("getWeather", {"city": "San Francisco"})],
        *(search(query) for query in expected),
    )
    assert led.answers[0] == ['getWeather {"city": "San Francisco"}']
    assert {
        query: names(answer) for query, (answer,) in zip(expected, led.answers[1:], strict=True)
    } == expected
    assert [json.loads(answer)["query"] for (answer,) in led.answers[1:]] == [*expected]
    assert led.errors == [[False]] * (len(expected) + 1)
