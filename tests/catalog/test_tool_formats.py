"""Every known shape is recognised by itself and gives the same tool."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolscout.catalog.tool import Annotations, Tool
from toolscout.sources.files import read_tools

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Which city."}},
    "required": ["city"],
}
NAMED = {"name": "get_weather", "description": "Tell the weather."}
OWN = NAMED | {"parameters": SCHEMA}
MCP = NAMED | {"inputSchema": SCHEMA}
LOUD = {
    "type": "OBJECT",
    "properties": {"city": {"type": "STRING", "description": "Which city."}},
    "required": ["city"],
}
SHAPES: dict[str, Any] = {
    "own row": OWN,
    "OpenAI Chat": {"type": "function", "function": OWN},
    "OpenAI Responses": {"type": "function", **OWN},
    "OpenAI functions": {"functions": [OWN]},
    "Anthropic": NAMED | {"input_schema": SCHEMA},
    "Anthropic custom": NAMED | {"type": "custom", "input_schema": SCHEMA},
    "Gemini": {"function_declarations": [NAMED | {"parameters": LOUD}]},
    "Gemini REST": {"functionDeclarations": [NAMED | {"parametersJsonSchema": SCHEMA}]},
    "MCP tools/list": {"tools": [MCP]},
    "MCP over JSON-RPC": {"jsonrpc": "2.0", "id": 1, "result": {"tools": [MCP]}},
    "a request body": {"model": "m", "tools": [{"type": "function", "function": OWN}]},
    "a Gemini request": {"tools": [{"functionDeclarations": [NAMED | {"parameters": LOUD}]}]},
    "named entries": {"get_weather": {"description": NAMED["description"], "parameters": SCHEMA}},
    "a schema in a string": NAMED | {"parameters": json.dumps(SCHEMA)},
}


def write(path: Path, value: Any) -> Path:
    match path.suffix:
        case ".yaml":
            path.write_text(yaml.safe_dump(value), encoding="utf-8")
        case ".jsonl":
            rows = value if isinstance(value, list) else [value]
            path.write_text("".join(f"{json.dumps(r)}\n" for r in rows), encoding="utf-8")
        case _:
            path.write_text(json.dumps(value, indent=2), encoding="utf-8")
    return path


def read_one(tmp_path: Path, row: Any) -> Tool:
    loaded = read_tools(write(tmp_path / "t.jsonl", row))
    assert loaded.problems == ()
    (tool,) = loaded.tools
    return tool


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".yaml"])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_gives_the_same_tool_from_each_kind_of_file(shape, suffix, tmp_path):
    loaded = read_tools(write(tmp_path / f"tools{suffix}", SHAPES[shape]))
    assert loaded.problems == ()
    (tool,) = loaded.tools
    assert (tool.name, tool.description) == ("get_weather", "Tell the weather.")
    assert tool.parameters.value == SCHEMA
    assert tool.meta == {}


def test_shapes_may_be_mixed_in_one_list(tmp_path):
    rows = [
        dict(OWN, name="a"),
        {"type": "function", "function": dict(OWN, name="b")},
        dict(MCP, name="c"),
    ]
    assert [t.name for t in read_tools(write(tmp_path / "t.json", rows)).tools] == ["a", "b", "c"]


def test_all_that_an_mcp_server_says_of_a_tool_is_kept(tmp_path):
    tool = read_one(
        tmp_path,
        MCP
        | {
            "title": "Weather",
            "outputSchema": {"type": "object", "properties": {"celsius": {"type": "number"}}},
            "annotations": {"readOnlyHint": True, "openWorldHint": False, "title": "Other", "x": 1},
            "_meta": {"vendor/key": [1]},
            "icons": [{"src": "data:,"}],
        },
    )
    assert tool.title == "Weather"
    assert tool.output is not None
    assert list(tool.output.value["properties"]) == ["celsius"]
    assert tool.annotations == Annotations(read_only=True, open_world=False)
    assert tool.meta == {
        "_meta": {"vendor/key": [1]}, "icons": [{"src": "data:,"}], "annotations": {"x": 1}
    }  # fmt: skip


def test_a_title_among_the_annotations_is_the_title(tmp_path):
    assert read_one(tmp_path, MCP | {"annotations": {"title": "Weather"}}).title == "Weather"


def test_a_namespace_is_the_server_of_its_tools(tmp_path):
    group = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": [OWN]}
    tool = read_one(tmp_path, {"tools": [group]})
    assert (tool.name, tool.server, tool.local_name) == ("crm__get_weather", "crm", "get_weather")


GROUPS: dict[str, Any] = {
    "server first": {"server": "crm", "tools": [OWN]},
    "server last": {"tools": [OWN], "server": "crm"},
    "namespace": {"type": "namespace", "name": "crm", "description": "Sales.", "tools": [OWN]},
    "name last": {"type": "namespace", "tools": [OWN], "name": "crm"},
    "type last": {"name": "crm", "tools": [OWN], "type": "namespace"},
    "a reply": {"server": "crm", "result": {"tools": [MCP]}},
    "a reply with its server": {"server": "other", "result": {"tools": [MCP], "server": "crm"}},
    "Gemini": {"server": "crm", "tools": [{"functionDeclarations": [OWN]}]},
    "Chat": {"server": "crm", "tools": [{"type": "function", "function": OWN}]},
    "a namespace in a list": [{"type": "namespace", "name": "crm", "tools": [OWN]}],
    "entries by name": {
        "server": "crm",
        "tools": [{"get_weather": NAMED | {"parameters": SCHEMA}}],
    },
}


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".yaml"])
@pytest.mark.parametrize("group", GROUPS)
def test_the_server_of_an_envelope_counts_in_each_kind_of_file(group, suffix, tmp_path):
    path = tmp_path / f"t{suffix}"
    if suffix == ".yaml":
        path.write_text(yaml.safe_dump(GROUPS[group], sort_keys=False), encoding="utf-8")
    else:
        write(path, GROUPS[group])
    loaded = read_tools(path)
    assert loaded.problems == ()
    (tool,) = loaded.tools
    assert (tool.name, tool.server, tool.local_name) == ("crm__get_weather", "crm", "get_weather")


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".yaml"])
def test_a_list_may_contain_other_values_than_tools_and_an_envelope_two_lists(suffix, tmp_path):
    both = {"tools": [dict(OWN, name="a"), 3], "functions": [dict(OWN, name="b")]}
    loaded = read_tools(write(tmp_path / f"t{suffix}", both))
    assert {t.name for t in loaded.tools} == {"a", "b"}
    assert ["must be an object, not a number" in p.message for p in loaded.problems] == [True]


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".yaml"])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("key", ["tools", "result"])
def test_a_tool_alone_in_a_file_keeps_such_a_key_too(key, is_first, suffix, tmp_path):
    extra = {key: [{"a": 1}] if key == "tools" else {"a": 1}}
    path = tmp_path / f"t{suffix}"
    tool = extra | OWN if is_first else OWN | extra
    text = yaml.safe_dump(tool, sort_keys=False) if suffix == ".yaml" else json.dumps(tool)
    path.write_text(text, encoding="utf-8")
    loaded = read_tools(path)
    assert [(t.name, t.meta) for t in loaded.tools] == [("get_weather", extra)]


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".yaml"])
@pytest.mark.parametrize("key", ["tools", "functions", "result", "function"])
def test_a_tool_may_have_a_key_that_elsewhere_is_an_envelope(key, suffix, tmp_path):
    inner = [{"a": 1}] if key.endswith("s") else {"a": 1}
    loaded = read_tools(write(tmp_path / f"t{suffix}", [OWN | {key: inner}]))
    assert [(t.name, t.meta) for t in loaded.tools] == [("get_weather", {key: inner})]


def test_unknown_keys_are_kept_as_metadata_and_names_as_they_are(tmp_path):
    tool = read_one(
        tmp_path,
        OWN | {"server": "wx", "server_name": "Weather Inc", "base": 3, "metadata": {"base": 4}},
    )
    assert (tool.name, tool.server) == ("get_weather", "wx")
    assert tool.meta == {"server_name": "Weather Inc", "base": 4}


def test_a_tool_that_the_provider_runs_is_not_taken_for_our_own(tmp_path):
    rows = [{"type": "web_search_20250305", "name": "web_search"}, {"type": "file_search"}, OWN]
    loaded = read_tools(write(tmp_path / "t.jsonl", rows))
    assert [t.name for t in loaded.tools] == ["get_weather"]
    assert all("run by the model's provider" in p.message for p in loaded.problems)
    assert len(loaded.problems) == 2


@pytest.mark.parametrize(
    "key", ["googleSearch", "google_search", "codeExecution", "url_context", "computerUse"]
)
def test_tools_that_gemini_runs_itself_are_reported_as_such(key, tmp_path):
    rows = {"tools": [{"functionDeclarations": [OWN]}, {key: {}}, {"elsewhere": {}}]}
    loaded = read_tools(write(tmp_path / "t.json", rows))
    assert [t.name for t in loaded.tools] == ["get_weather"]
    hosted, unknown = loaded.problems
    assert f"{key!r} is run by the model's provider" in hosted.message
    assert 'add "name"' in unknown.message
    (tmp_path / "t.yaml").write_text("- 1: {}\n")
    assert 'add "name"' in read_tools(tmp_path / "t.yaml").problems[0].message


def test_types_in_capitals_are_put_right_though_the_outermost_is_missing(tmp_path):
    parameters = {
        "properties": {
            "type": {"type": "STRING", "enum": ["STRING", "NUMBER"]},
            "default": {"type": "OBJECT", "default": {"type": "STRING"}},
            "many": {"type": "ARRAY", "items": {"anyOf": [{"type": "INTEGER"}, {"type": "NULL"}]}},
        }
    }
    row = {"function_declarations": [NAMED | {"parameters": parameters}]}
    assert read_one(tmp_path, row).parameters.value == {
        "properties": {
            "type": {"type": "string", "enum": ["STRING", "NUMBER"]},
            "default": {"type": "object", "default": {"type": "STRING"}},
            "many": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        }
    }
    odd = {"type": ["OBJECT"], "properties": {"a": {"type": "STRING"}}}
    assert read_one(tmp_path, NAMED | {"parameters": odd}).parameters.value == odd


def test_an_entry_that_calls_itself_something_else_is_reported(tmp_path):
    loaded = read_tools(write(tmp_path / "t.json", {"a": {"name": "b", "description": "B."}}))
    assert loaded.tools == ()
    assert "'a' calls itself 'b'" in loaded.problems[0].message


@pytest.mark.behaviour("E7", "E8", "E9")
def test_the_metadata_of_a_content_system_keeps_every_field(tmp_path):
    tool = read_one(
        tmp_path,
        {
            "name": "cms_addSectionToPage",
            "description": "Put a section on a page.",
            "category": "sections",
            "phrases": ["add section", "new section"],
            "relatedTools": ["cms_getPage"],
            "riskLevel": "moderate",
            "requiresConfirmation": True,
            "extraction": {
                "path": "section", "type": "section", "nameField": "key", "idField": "pageSectionId"
            },
        },
    )  # fmt: skip
    assert tool.category == "sections"
    assert tool.phrases == ("add section", "new section")
    assert tool.related == ("cms_getPage",)
    assert (tool.risk, tool.requires_confirmation) == ("moderate", True)
    assert tool.extraction is not None
    assert tool.extraction.id_field == "pageSectionId"
    assert tool.extraction.is_array is False
    listed = {"path": "pages", "type": "page", "nameField": "name", "isArray": True}
    many = read_one(tmp_path, {"name": "x", "category": "planning", "extraction": listed})
    assert many.extraction is not None
    assert (many.extraction.id_field, many.extraction.is_array) == ("id", True)
    assert read_one(tmp_path, {"name": "x", "extraction": None}).extraction is None


@pytest.mark.behaviour("D39")
@pytest.mark.parametrize(
    ("given", "kept"),
    [("never", "never"), ("automatic", "auto"), ("always", "always"), (None, "auto")],
)
def test_a_deferral_wish_is_kept_and_left_out_when_it_is_the_default(given, kept, tmp_path):
    tool = read_one(tmp_path, {"name": "x", "deferrable": given})
    assert tool.defer == kept
    assert tool.row().get("defer", "auto") == kept
    assert ("defer" in tool.row()) == (kept != "auto")


@pytest.mark.behaviour("D40")
def test_a_policy_becomes_confirmation_or_is_kept(tmp_path):
    assert read_one(tmp_path, {"name": "x", "policy": "requires_approval"}).requires_confirmation
    assert read_one(tmp_path, {"name": "x", "policy": "auto"}).row() == Tool(name="x").row()
    aside = read_one(tmp_path, {"name": "x", "policy": "client_side"})
    assert aside.meta == {"policy": "client_side"}
    assert not aside.requires_confirmation


@pytest.mark.behaviour("D41")
def test_a_definition_with_a_stub_gives_back_its_full_schema(tmp_path):
    tool = read_one(
        tmp_path,
        {
            "name": "x",
            "display_name": "Ex",
            "description": "Does x.",
            "parameters": {"type": "object"},
            "full_parameters": SCHEMA,
            "policy": "auto",
            "category": None,
            "deferrable": "always",
            "hints": {"readonly": True, "destructive": None},
        },
    )
    assert (tool.title, tool.category, tool.defer) == ("Ex", "", "always")
    assert tool.parameters.value == SCHEMA
    assert tool.annotations == Annotations(read_only=True)
