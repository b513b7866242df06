"""Views are what the installed official SDKs take: a change of a wire format fails here."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from anthropic.types import ToolUnionParam
from google.genai import types as gemini
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import Tool as MCPTool
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import ToolParam as ResponsesToolParam
from pydantic import TypeAdapter

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool, wire_name
from toolscout.disclosure.discovery import InnerCall, discover
from toolscout.disclosure.profiles import BUILT_IN, CMS, CORTEX, DEFAULT, EVERRUNS, EVERYTHING
from toolscout.disclosure.providers import PROVIDERS, get_provider
from toolscout.disclosure.scope import Policy
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.target import Target
from toolscout.disclosure.view import View, view
from toolscout.errors import ConfigError
from toolscout.search.engine import Engine

ALL = replace(DEFAULT, policy=Policy(rule="none"), surface="load")


def shown(catalog: Catalog, target: Target | str) -> View:
    return view(ALL, catalog, SessionState("s"), target=target)


def definitions(seen: View) -> dict[str, dict[str, Any]]:
    """The schema of each tool under its real name, wherever the provider has it."""
    found: dict[str, dict[str, Any]] = {}
    for tool in seen.tools:
        for one in tool.get("function_declarations", [tool]):
            inner = one.get("function", one)
            keys = ("parameters", "input_schema", "inputSchema", "parameters_json_schema")
            schema = next((inner[k] for k in keys if k in inner), {})
            found[seen.real_name(inner["name"])] = schema
    return found


def each(schema: Any):
    """Every schema inside a schema."""
    if isinstance(schema, dict):
        yield schema
        for key, value in schema.items():
            if key in ("properties", "$defs"):
                for inner in value.values():
                    yield from each(inner)
            elif key not in ("enum", "const", "default", "required"):
                yield from each(value)
    elif isinstance(schema, list):
        for inner in schema:
            yield from each(inner)


CHECKS = {
    "openai-chat": TypeAdapter(ChatCompletionFunctionToolParam),
    "openai-responses": TypeAdapter(ResponsesToolParam),
    "anthropic": TypeAdapter(ToolUnionParam),
    "gemini": TypeAdapter(gemini.Tool),
    "mcp": TypeAdapter(MCPTool),
}


@pytest.mark.parametrize("name", CHECKS)
def test_every_tool_is_what_the_official_sdk_takes(catalog, name) -> None:
    tools = shown(catalog, name).tools
    assert tools
    for tool in tools:
        CHECKS[name].validate_python(tool)


def test_the_check_of_an_sdk_can_fail() -> None:
    for name, adapter in CHECKS.items():
        with pytest.raises(ValueError, match="validation error"):
            adapter.validate_python({"name": 5, "function_declarations": 5}), name


def test_gemini_takes_every_schema_as_its_own(catalog) -> None:
    (tool,) = shown(catalog, "gemini").tools
    for declaration in tool["function_declarations"]:
        if schema := declaration.get("parameters_json_schema"):
            gemini.JSONSchema.model_validate(schema, extra="forbid")


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_names_fit_and_lead_back(catalog, name) -> None:
    seen = shown(catalog, name)
    assert set(seen.names.values()) == {*catalog.tools, "tool_search"}
    assert len(seen.names) == len(catalog) + 1
    for sent in seen.names:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", sent)
    assert seen.real_name("tool_search") == "tool_search"
    doubled = [sent for sent, real in seen.names.items() if real == "tool_search"]
    assert len(doubled) == 2
    assert shown(catalog, name).names == seen.names


def test_plain_dictionaries_keep_names_and_schemas_as_they_are(catalog) -> None:
    tools = {t["name"]: t for t in shown(catalog, "plain").tools}
    assert tools["日本語の道具"]["description"] == "A name in another script."
    assert tools["shop__create_order"]["parameters"] == (
        catalog["shop__create_order"].parameters.value
    )


def test_mcp_tools_carry_titles_outputs_and_hints(catalog) -> None:
    tools = {t["name"]: t for t in shown(catalog, "mcp").tools}
    order = tools["shop__create_order"]
    assert order["title"] == "Create order"
    assert order["outputSchema"]["properties"] == {"id": {"type": "string"}}
    assert order["annotations"] == {"readOnlyHint": False, "destructiveHint": True}


@pytest.mark.parametrize("name", [n for n in PROVIDERS if n != "plain"])
def test_the_outermost_schema_is_an_object_with_all_alternatives_in_it(catalog, name) -> None:
    found = definitions(shown(catalog, name))["find"]
    assert found["type"] == "object"
    assert not {"oneOf", "anyOf", "allOf"} & set(found)
    assert set(found["properties"]) == {"id", "deep", "name", "slug"}
    assert found["required"] == ["deep"]


@pytest.mark.parametrize("name", [n for n in PROVIDERS if n != "plain"])
def test_rejected_keywords_are_gone_and_properties_of_those_names_are_not(catalog, name) -> None:
    schema = definitions(shown(catalog, name))["shop__create_order"]
    assert {"enum", "const"} <= set(schema["properties"])
    rules = get_provider(name).dialect
    for inner in each(schema):
        assert not set(inner) & rules.rejected
        assert rules.allowed is None or set(inner) <= rules.allowed
    assert schema["required"] == ["customer", "lines"]


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses"])
def test_strict_openai_schemas_require_all_and_close_every_object(catalog, name) -> None:
    target = Target(provider=get_provider(name), is_strict=True)
    seen = shown(catalog, target)
    schemas = definitions(seen)
    order = schemas["shop__create_order"]
    assert order["required"] == list(order["properties"])
    assert order["properties"]["when"]["type"] == ["string", "null"]
    assert {"type": "null"} in order["properties"]["enum"]["anyOf"]
    for inner in each(order):
        if inner.get("type") == "object":
            assert inner["additionalProperties"] is False
            assert inner["required"] == list(inner["properties"])
        assert "uniqueItems" not in inner
    flags = {
        seen.real_name(t.get("function", t)["name"]): bool(t.get("function", t).get("strict"))
        for t in seen.tools
    }
    assert flags["shop__create_order"]
    for tool in seen.tools:
        CHECKS[name].validate_python(tool)


def test_schemas_that_strict_mode_cannot_express_stay_loose() -> None:
    free = Schema.of(
        {"type": "object", "properties": {"any": {"type": "object"}, "map": {"type": "string"}}}
    )
    catalog = Catalog([Tool(name="free", parameters=free)])
    target = Target(provider=get_provider("openai-chat"), is_strict=True)
    (tool,) = (t for t in shown(catalog, target).tools if t["function"]["name"] == "free")
    assert "strict" not in tool["function"]
    assert tool["function"]["parameters"]["properties"]["any"] == {"type": "object"}


def test_anthropic_takes_twenty_strict_tools_and_the_rest_loose() -> None:
    catalog = Catalog(Tool(name=f"t{i}", description="x") for i in range(30))
    target = Target(provider=get_provider("anthropic"), is_strict=True)
    tools = shown(catalog, target).tools
    assert sum(t.get("strict", False) for t in tools) == 20
    for tool in tools:
        CHECKS["anthropic"].validate_python(tool)


MANY = Catalog(Tool(name=f"tool_{i}", description=f"Number {i}.") for i in range(200))
LIMITED = [name for name, known in PROVIDERS.items() if known.max_tools == 128]


@pytest.mark.parametrize("name", LIMITED)
def test_a_full_list_keeps_the_first_tools_and_a_way_to_run_the_others(name) -> None:
    seen = shown(MANY, name)
    assert list(seen.names) == ["tool_search", *(f"tool_{i}" for i in range(126)), "call_tool"]
    assert seen.notes == (f"{name} accepts 128 tools: 74 were left out; run them with call_tool.",)
    few = shown(Catalog(list(MANY)[:126]), name)
    assert list(few.names)[-1] == "tool_125"
    assert few.notes == ()


@pytest.mark.parametrize("name", LIMITED)
def test_loading_more_than_a_provider_takes_reorders_nothing_and_says_how_to_run_it(name) -> None:
    profile = replace(DEFAULT, surface="load")
    engine = Engine(MANY)
    session = SessionState("s").load(*(f"tool_{i}" for i in range(125)))
    before = view(profile, MANY, session, target=name)
    assert len(before.names) == 126
    outcome = discover(
        profile,
        "tool_search",
        {"query": "select:tool_130,tool_131,tool_132"},
        session=before.session,
        engine=engine,
        catalog=MANY,
    )
    said = outcome.result.text
    assert "Loaded: tool_130 (in your tool list from the next step)" in said
    assert "Your tool list is full. Run with call_tool:\ntool_131: Number 131." in said
    after = view(profile, MANY, outcome.session, target=name)
    assert list(after.names) == [*before.names, "tool_130", "call_tool"]
    more = view(profile, MANY, after.session.load("tool_140"), target=name)
    assert more.text == after.text
    assert "2 were left out" in after.notes[0]
    called = discover(
        profile,
        "call_tool",
        {"name": "tool_131", "arguments": {}},
        session=after.session,
        engine=engine,
        catalog=MANY,
    )
    assert called.call == InnerCall("tool_131", {})
    freed = view(profile, MANY, after.session.unload("tool_3"), target=name)
    assert "tool_131" in freed.names


@pytest.mark.parametrize("profile", BUILT_IN, ids=lambda p: p.name)
def test_no_profile_sends_more_than_a_provider_takes_or_loses_its_discovery_tools(profile) -> None:
    session = SessionState("s").load(*(f"tool_{i}" for i in range(150)))
    for name in LIMITED:
        seen = view(replace(profile, surface="load"), MANY, session, target=name)
        assert len(seen.names) <= 128
        shown_ones = {m.name for m in profile.metatools_on("load")}
        assert shown_ones <= set(seen.names)
        if profile.metatools:
            assert "call_tool" in seen.names
            assert seen.notes


@pytest.mark.parametrize("profile", [CMS, CORTEX, EVERRUNS], ids=lambda p: p.name)
def test_every_profile_that_loads_says_how_to_run_what_its_list_has_no_room_for(profile) -> None:
    profile = replace(profile, surface="load")
    catalog = Catalog(replace(tool, server="many") for tool in MANY)
    loaded = [] if profile.hiding == "stub" else [f"tool_{i}" for i in range(150)]
    seen = view(profile, catalog, SessionState("s").load(*loaded), target="openai-chat")
    outcome = discover(
        profile,
        profile.tool_for("search").name,
        {"query": "tool_177"},
        session=seen.session,
        engine=Engine(catalog),
        catalog=catalog,
    )
    assert "Your tool list is full. Run with call_tool:" in outcome.result.text
    assert "tool_177: Number 177." in outcome.result.text


def test_a_catalog_counts_as_small_only_where_the_provider_has_room_for_it() -> None:
    generous = replace(DEFAULT, policy=replace(DEFAULT.policy, threshold=500, share=None))
    assert view(generous, MANY, SessionState("s"), target="anthropic").surface == "direct"
    limited = view(generous, MANY, SessionState("s"), target="openai-chat")
    assert limited.surface == "dispatch"
    assert "tool_search" in limited.names
    assert limited.notes == ()


@pytest.mark.behaviour("B4")
def test_a_provider_is_known_by_name_and_a_model_by_its_maker() -> None:
    assert Target.of("anthropic:claude-opus-4-5").model == "claude-opus-4-5"
    assert Target.of("claude-opus-4-5").provider.name == "anthropic"
    assert Target.of("gpt-5.4").provider.name == "openai-responses"
    assert Target.of("gemini-3-pro").provider.name == "gemini"
    assert Target.of("openai-chat:openai/gpt-5.4").transport == "gateway"
    with pytest.raises(ConfigError, match=r"no provider 'nobody'.*anthropic"):
        Target.of("nobody")


@given(st.text(min_size=1, max_size=200))
def test_any_name_is_sent_in_a_form_that_every_provider_takes(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", wire_name(name))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "required", "items", "anyOf", "allOf", "$ref", "enum", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(schema=st.dictionaries(st.sampled_from(["type", "properties", "oneOf", "required"]), JSON))
def test_whatever_a_schema_is_the_view_can_be_sent(schema) -> None:
    catalog = Catalog([Tool(name="odd", parameters=Schema.of(schema))])
    for name in CHECKS:
        for tool in view(EVERYTHING, catalog, SessionState("s"), target=name).tools:
            CHECKS[name].validate_python(tool)
