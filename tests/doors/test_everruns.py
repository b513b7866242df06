"""Design D, everruns, part by part of its document, through every door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.doors.harness import DOORS, Received, Row, Transcript, converse

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
PROMPT = (
    "Most tools are listed with name and description only; their parameter schemas are hidden to "
    "save context. Before you call a tool whose parameters you have not seen, call `tool_search` "
    'with a short query such as "read file" or "send email"; it returns the schemas, and then you '
    "can call the tool. Frequently used tools keep their full schemas and need no search."
)


def tool(name: str, description: str = "does something", **more: Any) -> Row:
    return {"name": name, "description": description, "parameters": PATH, **more}


def many(count: int) -> list[Row]:
    return [tool(f"tool_{i}") for i in range(count)]


FILES = [
    tool("read_file", "Read the contents of a file", result="text"),
    tool("send_email", "Send an email message"),
    tool("write_file", "Write contents to a file"),
]


def search(query: str) -> tuple[str, dict[str, str]]:
    return ("tool_search", {"query": query})


async def talk(door: str, folder: Path, rows: list[Row], *steps: Any, **options: Any) -> Transcript:
    return await converse(door, rows, steps, folder=folder, profile="everruns", options=options)


def stub(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": "Parameters are hidden to save context. Call tool_search with the query "
        f'"{name}" to load them before using this tool.',
        "additionalProperties": True,
    }


def stubs(received: Received) -> list[str]:
    """The tools whose schema is a stub; all others must have the real one."""
    catalog = [name for name in received.names if name != "tool_search"]
    hidden = [n for n in catalog if "properties" not in received.tools[n]["schema"]]
    for name in catalog:
        wanted = stub(name) if name in hidden else PATH
        assert received.tools[name]["schema"] == wanted
    return hidden


@pytest.mark.section("everruns", "SYSTEM_PROMPT")
@pytest.mark.behaviour("D3", "D37")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("count", [20, 5])
async def test_the_prompt_is_there_above_the_threshold_and_below_it(
    door: str, count: int, tmp_path: Path
) -> None:
    got = await talk(door, tmp_path, many(count))
    assert got.first.instructions == PROMPT
    assert got.first.names == ["tool_search", *(f"tool_{i}" for i in range(count))]


@pytest.mark.section("everruns", "ToolSearchCapability")
@pytest.mark.behaviour("D5", "D8", "D42", "D43")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("count", "hidden"), [(13, 0), (14, 14)])
async def test_schemas_are_hidden_from_fifteen_tools_on_with_the_search_counted(
    door: str, count: int, hidden: int, tmp_path: Path
) -> None:
    got = await talk(door, tmp_path, many(count))
    assert stubs(got.first) == [f"tool_{i}" for i in range(hidden)]


@pytest.mark.section("everruns", "ToolSearchCapability")
@pytest.mark.behaviour("D6", "D8")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("threshold", "hidden"), [(4, 3), (5, 0), (0, 3)])
async def test_the_threshold_is_an_option(
    door: str, threshold: int, hidden: int, tmp_path: Path
) -> None:
    got = await talk(door, tmp_path, FILES, threshold=threshold)
    assert len(stubs(got.first)) == hidden


@pytest.mark.section("everruns", "deferred_stub_schema")
@pytest.mark.behaviour("D11", "D12", "D13", "D16", "D17")
@pytest.mark.parametrize("door", DOORS)
async def test_a_stub_keeps_name_and_description_and_names_the_search_that_loads_it(
    door: str, tmp_path: Path
) -> None:
    rows = [*FILES, tool("mcp_docs__search", "search docs", server="docs")]
    got = await talk(door, tmp_path, rows, [search("docs")], threshold=1)
    for received in got.received:
        assert received.names == ["tool_search", *(r["name"] for r in rows)]
        assert [received.tools[r["name"]]["description"] for r in rows] == [
            r["description"] for r in rows
        ]
    assert stubs(got.first) == [r["name"] for r in rows]
    # A found schema takes the place of its stub; the stubs of the others stay as they were.
    assert stubs(got.last) == [r["name"] for r in FILES]


@pytest.mark.section("everruns", "DeferSchemaHook")
@pytest.mark.behaviour("D9", "D44")
@pytest.mark.parametrize("door", DOORS)
async def test_never_deferred_tools_and_the_search_keep_their_schemas(
    door: str, tmp_path: Path
) -> None:
    rows = [*many(3), tool("write_todos", "todos")]
    got = await talk(door, tmp_path, rows, threshold=3, never_defer=["write_todos"])
    assert stubs(got.first) == ["tool_0", "tool_1", "tool_2"]
    assert "query" in got.first.tools["tool_search"]["schema"]["properties"]


@pytest.mark.section("everruns", "DeferSchemaHook")
@pytest.mark.behaviour("D9", "D10", "D39")
@pytest.mark.parametrize("door", ["sdk", "agent"])
async def test_a_tool_file_can_say_that_a_schema_is_never_hidden(door: str, tmp_path: Path) -> None:
    rows = [
        tool("never", deferrable="never"),
        tool("automatic", deferrable="automatic"),
        tool("always", deferrable="always"),
    ]
    assert stubs((await talk(door, tmp_path, rows, threshold=3)).first) == ["automatic", "always"]
    assert stubs((await talk(door, tmp_path, rows, threshold=9)).first) == []


@pytest.mark.section("everruns", "DeferSchemaHook")
@pytest.mark.behaviour("D38")
@pytest.mark.parametrize("door", DOORS)
async def test_a_tool_with_a_stub_runs_when_it_is_called(door: str, tmp_path: Path) -> None:
    got = await talk(door, tmp_path, FILES, [("read_file", {"path": "a.txt"})], threshold=1)
    assert got.answers == [["text"]]
    assert got.errors == [[False]]


@pytest.mark.section("everruns", "ToolSearchTool: definition")
@pytest.mark.behaviour("D1", "D19", "D21")
@pytest.mark.parametrize("door", DOORS)
async def test_the_search_takes_one_query_and_says_what_it_returns(
    door: str, tmp_path: Path
) -> None:
    got = await talk(door, tmp_path, many(20))
    definition = got.first.tools["tool_search"]
    for words in ("by keyword", "names, descriptions and JSON schemas", "have not seen"):
        assert words in definition["description"]
    schema = definition["schema"]
    assert schema["type"] == "object"
    assert schema["required"] == ["query"]
    assert schema["additionalProperties"] is False
    assert {*schema["properties"]} == {"query"}
    assert "'read file', 'run sql'" in schema["properties"]["query"]["description"]


@pytest.mark.section("everruns", "ToolSearchTool: search")
@pytest.mark.behaviour("D27", "D28", "D31", "D33", "D34", "D35", "D46", "D47", "D50")
@pytest.mark.parametrize("door", DOORS)
async def test_a_search_returns_real_schemas_best_match_first_and_never_itself(
    door: str, tmp_path: Path
) -> None:
    queries = ["read file", "email", " tool_search, READ! ", "`read_file`"]
    got = await talk(door, tmp_path, FILES, *([search(q)] for q in queries), threshold=1)
    replies = [json.loads(text) for (text,) in got.answers]
    assert [[t["name"] for t in reply["tools"]] for reply in replies] == [
        *(["read_file", "write_file"], ["send_email"], ["read_file"], ["read_file"]),
    ]
    assert replies[0]["tools"][0] == {
        "name": "read_file",
        "description": "Read the contents of a file",
        "parameters": PATH,
    }
    assert [reply["query"] for reply in replies] == [q.strip() for q in queries]
    assert got.errors == [[False]] * 4


@pytest.mark.section("everruns", "ToolSearchTool: search")
@pytest.mark.behaviour("D25", "D30", "D31", "D32")
@pytest.mark.parametrize("door", DOORS)
async def test_at_most_twelve_tools_come_back_and_no_words_list_the_first(
    door: str, tmp_path: Path
) -> None:
    # The gateway checks arguments before anything else, so a missing query is refused there.
    empty: dict[str, Any] = {} if door != "gateway" else {"query": ""}
    steps = [[search("something")], [search("!!! ?")], [("tool_search", empty)]]
    rows = [tool(f"tool_{i}") for i in reversed(range(20))]
    got = await talk(door, tmp_path, rows, *steps)
    first = [r["name"] for r in rows[:12]]
    for (text,) in got.answers:
        assert [t["name"] for t in json.loads(text)["tools"]] == first


@pytest.mark.section("everruns", "ToolSearchTool: execution")
@pytest.mark.behaviour("D36")
@pytest.mark.parametrize("door", DOORS)
async def test_without_a_match_the_reply_names_every_tool_but_the_search(
    door: str, tmp_path: Path
) -> None:
    got = await talk(door, tmp_path, FILES, [search("missing")])
    assert json.loads(got.answers[0][0]) == {
        "query": "missing",
        "tools": [],
        "message": "No tools matched the query. Try another keyword.",
        "available_tools": ["read_file", "send_email", "write_file"],
    }
    assert got.errors == [[False]]


@pytest.mark.section("everruns", "ToolSearchTool: execution")
@pytest.mark.behaviour("D26", "D51")
@pytest.mark.parametrize("door", DOORS)
async def test_hidden_tools_are_in_no_reply(door: str, tmp_path: Path) -> None:
    allowed = {"read_file", "send_email"}
    more: dict[str, Any] = {"allow": allowed}
    if door == "gateway":
        policy = {"all": {"tools": sorted(allowed)}}
        more = {"gateway": {"large_outputs": False}, "policies": policy}
    got = await converse(
        door,
        FILES,
        [[search("file")], [search("missing")]],
        folder=tmp_path,
        profile="everruns",
        **more,
    )
    assert got.first.names == ["tool_search", "read_file", "send_email"]
    found, missing = (json.loads(text) for (text,) in got.answers)
    assert [t["name"] for t in found["tools"]] == ["read_file"]
    assert missing["available_tools"] == ["read_file", "send_email"]
