import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.sanitization import first_sentence
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.catalog.tool_text import describe_arguments, describe_tool, outline, signature
from toolscout.sources.files import read_tools, write_tools

TEXT = {"type": "string"}
# The browser, code and weather tools that one of the reference designs keeps out of its prompt.
BROWSER = [
    {
        "name": "agentBrowserNavigate",
        "category": "Browser Automation",
        "description": "Open an address in the browser and return an accessibility snapshot whose"
        " elements have refs such as @e1.",
        "inputSchema": {"type": "object", "properties": {"url": TEXT}, "required": ["url"]},
        "usage": "agentBrowserNavigate({ url: 'https://example.com' })",
        "relatedSkill": "agent-browser",
    },
    {
        "name": "agentBrowserInteract",
        "category": "Browser Automation",
        "description": "Act on an element of the page.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "action": {"enum": ["click", "fill", "type", "hover", "check", "uncheck"]},
                "ref": TEXT,
                "value": TEXT | {"description": "Text for fill and type."},
            },
            "required": ["action", "ref"],
        },
        "relatedSkill": "agent-browser",
    },
    {
        "name": "agentBrowserExtract",
        "category": "Browser Automation",
        "description": "Read the page or one element.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "ref": TEXT,
                "extractType": {"enum": ["text", "html", "value", "snapshot"], "default": "text"},
            },
        },
        "relatedSkill": "agent-browser",
    },
    {
        "name": "agentBrowserClose",
        "category": "Browser Automation",
        "description": "Close the browser; call this when finished.",
        "relatedSkill": "agent-browser",
    },
    {
        "name": "browseWeb",
        "category": "Web Content",
        "description": "Fetch a page as text, at most 15,000 characters of it.",
        "inputSchema": {"type": "object", "properties": {"url": TEXT}, "required": ["url"]},
        "relatedSkill": "browserbase",
    },
    {
        "name": "executeCode",
        "category": "Code Execution",
        "description": "Run Python; returns stdout, stderr, files as base64, and charts.",
        "inputSchema": {
            "type": "object",
            "properties": {"code": TEXT, "installPackages": {"type": "array", "items": TEXT}},
            "required": ["code"],
        },
        "relatedSkill": None,
    },
    {
        "name": "getWeather",
        "category": "Utility",
        "description": "Tell the current weather of a place.",
        "parameters": "city, or latitude and longitude",
        "inputSchema": {
            "type": "object",
            "properties": {
                "city": TEXT, "latitude": {"type": "number"}, "longitude": {"type": "number"}
            },
        },
        "relatedSkill": None,
        "requiresConfirmation": True,
    },
]  # fmt: skip


@pytest.fixture
def browser(tmp_path: Path) -> dict[str, Tool]:
    """The seven tools after a round trip through files of both forms."""
    rows = tmp_path / "tools.json"
    rows.write_text(json.dumps(BROWSER))
    loaded = read_tools(rows)
    assert loaded.problems == ()
    write_tools(tmp_path / "tools.jsonl", loaded.tools)
    again = read_tools(tmp_path / "tools.jsonl")
    assert again.tools == loaded.tools
    return {t.name: t for t in again.tools}


@pytest.mark.behaviour("A4", "A5")
def test_a_required_text_is_said_to_be_one(browser):
    tool = browser["agentBrowserNavigate"]
    assert describe_arguments(tool) == "url (string, required)"
    assert (tool.skill, tool.usage) == ("agent-browser", BROWSER[0]["usage"])
    assert "@e1" in tool.description
    assert signature(tool).startswith("agentBrowserNavigate(url: string) — Open an address")


@pytest.mark.behaviour("A4", "A6")
def test_a_choice_lists_its_values_and_an_option_says_so(browser):
    tool = browser["agentBrowserInteract"]
    assert describe_arguments(tool) == (
        "action (click|fill|type|hover|check|uncheck, required); ref (string, required);"
        " value (string, optional): Text for fill and type."
    )
    assert tool.skill == "agent-browser"


@pytest.mark.behaviour("A4", "A7")
def test_a_default_is_shown(browser):
    assert describe_arguments(browser["agentBrowserExtract"]) == (
        'ref (string, optional); extractType (text|html|value|snapshot, optional, default "text")'
    )
    assert browser["agentBrowserExtract"].skill == "agent-browser"


@pytest.mark.behaviour("A4", "A8")
def test_a_tool_without_arguments_says_none(browser):
    tool = browser["agentBrowserClose"]
    assert describe_arguments(tool) == "none"
    assert signature(tool) == "agentBrowserClose() — Close the browser; call this when finished."
    assert tool.skill == "agent-browser"


@pytest.mark.behaviour("A9")
def test_the_web_reader_keeps_its_limit_and_its_skill(browser):
    tool = browser["browseWeb"]
    assert (tool.skill, describe_arguments(tool)) == ("browserbase", "url (string, required)")
    assert "15,000" in signature(tool)


@pytest.mark.behaviour("A10")
def test_a_list_is_an_argument_and_an_empty_skill_is_none(browser):
    tool = browser["executeCode"]
    assert (
        describe_arguments(tool) == "code (string, required); installPackages (string[], optional)"
    )
    assert tool.skill == ""


@pytest.mark.behaviour("A4", "A11")
def test_words_that_an_author_wrote_for_the_arguments_are_used(browser):
    tool = browser["getWeather"]
    assert describe_arguments(tool) == "city, or latitude and longitude"
    assert tool.requires_confirmation
    assert [p.type for p in tool.parameters.top_level()] == ["string", "number", "number"]
    assert "confirmation" in describe_tool(tool)


def test_the_outline_shows_nesting_need_values_and_defaults():
    schema = Schema.of(
        {
            "properties": {
                "filter": {
                    "type": "object",
                    "description": "What to keep.",
                    "properties": {
                        "since": {"type": "string"},
                        "state": {"type": "string", "enum": ["open", "closed"], "default": "open"},
                    },
                    "required": ["since"],
                },
                "labels": {"type": "array", "items": {"enum": ["bug", "idea"]}},
                "limit": {"type": "integer"},
            },
            "required": ["filter"],
        }
    )
    assert outline(schema) == (
        "filter: object — What to keep.\n"
        "  since: string\n"
        '  state?: "open"|"closed" = "open"\n'
        'labels?: ("bug"|"idea")[]\n'
        "limit?: integer"
    )


def test_a_wide_schema_is_cut_and_says_how_much():
    schema = Schema.of({"properties": {f"p{i}": {"enum": list(range(20))} for i in range(100)}})
    lines = outline(schema).split("\n")
    assert len(lines) == 61
    assert lines[0] == 'p0?: "0"|"1"|"2"|"3"|"4"|"5"|"6"|"7"|…'
    assert lines[-1] == "… and 40 more"


def test_the_full_text_has_all_that_a_caller_needs():
    tool = Tool(
        name="cms_deletePage",
        title="Delete page",
        description="Delete a page for good.\nIt cannot be brought back.",
        parameters=Schema.of({"properties": {"id": {"type": "integer"}}, "required": ["id"]}),
        usage="cms_deletePage({id: 3})",
        skill="cms",
        related=("cms_listPages",),
        risk="destructive",
        requires_confirmation=True,
    )
    assert describe_tool(tool) == (
        "cms_deletePage — Delete page\n"
        "Delete a page for good.\nIt cannot be brought back.\n"
        "Arguments:\nid: integer\n"
        "Usage: cms_deletePage({id: 3})\n"
        "Skill: cms\n"
        "Related: cms_listPages\n"
        "Note: destructive, needs the user's confirmation"
    )
    assert describe_tool(Tool(name="x", risk="safe")) == "x\nArguments: none"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Read a file. Then close it.", "Read a file."),
        ("Read a file, e.g. a log. Fast.", "Read a file, e.g. a log."),
        ("Version 2.0 reads files! Yes.", "Version 2.0 reads files!"),
        ("ファイルを読む。次に閉じる。", "ファイルを読む。"),
        ("Read\na file\n\nMore text", "Read a file"),
        ("No end", "No end"),
        ("", ""),
    ],
)
def test_the_first_sentence_ends_where_a_reader_would_end_it(text, first):
    assert first_sentence(text) == first


@given(st.text())
def test_a_first_sentence_is_one_short_line(text):
    said = first_sentence(text, cap=50)
    assert "\n" not in said
    assert len(said) <= 50
