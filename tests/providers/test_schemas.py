"""Schemas as servers really write them, in a form that no provider refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolscout import Toolbox, tool
from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.disclosure.profiles import EVERYTHING
from toolscout.disclosure.providers import get_provider
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.target import Target
from toolscout.disclosure.view import view

PICKY = ["openai-chat", "openai-responses", "anthropic", "gemini"]
SCHEMAS = ("parameters", "input_schema", "parameters_json_schema")


def sent(schema: dict[str, Any], name: str, *, is_strict: bool = False) -> dict[str, Any]:
    """The one tool with this schema, as it goes to a provider."""
    catalog = Catalog([Tool(name="one", parameters=Schema.of(schema))])
    target = Target(provider=get_provider(name), is_strict=is_strict)
    (found,) = view(EVERYTHING, catalog, SessionState("s"), target=target).tools
    (found,) = found.get("function_declarations", [found])
    return found.get("function", found)


def parameters(schema: dict[str, Any], name: str, *, is_strict: bool = False) -> dict[str, Any]:
    written = sent(schema, name, is_strict=is_strict)
    return next((written[k] for k in SCHEMAS if k in written), {})


def nodes(schema: Any):
    """Every schema inside a schema, itself first."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            for inner in value.values():
                yield from nodes(inner)
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for inner in value:
                yield from nodes(inner)
        elif key in ("items", "additionalProperties", "not"):
            yield from nodes(value)


def leads_somewhere(reference: str, schema: Any) -> bool:
    for part in reference.split("/")[1:]:
        schema = schema[int(part)] if isinstance(schema, list) else schema.get(part)
        if schema is None:
            return False
    return reference.startswith("#")


def check(schema: dict[str, Any], name: str) -> None:
    """What the services are known to refuse."""
    Draft202012Validator.check_schema(schema)
    for node in nodes(schema):
        kinds = node.get("type")
        assert "array" not in (kinds if isinstance(kinds, list) else [kinds]) or "items" in node
        assert "$ref" not in node or leads_somewhere(node["$ref"], schema)
        if name == "gemini":
            assert set(node) <= get_provider(name).dialect.allowed
            assert "$ref" not in node or set(node) <= {"$ref", "description"}
            assert node.get("$ref", "#/$defs/").startswith("#/$defs/")


@pytest.mark.parametrize("name", PICKY)
@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize(
    "described",
    [
        {"type": "array"},
        {"type": ["string", "array"]},
        {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
        {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
        {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        {"type": "string", "required": True},
        {"type": "objekt"},
        {"type": "string", "enum": []},
        {"type": "object", "properties": None, "required": ["a", "a", 5]},
        {"$ref": "#/definitions/Nowhere"},
        {"$ref": "https://example.com/schema.json"},
        {"anyOf": []},
        {"minLength": "3", "description": ["not", "text"]},
        "string",
        None,
    ],
)
def test_schemas_of_older_drafts_and_careless_servers_are_sent_as_valid_ones(
    name, is_strict, described
) -> None:
    schema = {"type": "object", "properties": {"it": described, "name": {"type": "string"}}}
    found = parameters(schema, name, is_strict=is_strict)
    assert set(found["properties"]) == {"it", "name"}
    check(found, name)


@pytest.mark.parametrize("name", PICKY)
@pytest.mark.parametrize("holder", ["definitions", "$defs"])
def test_a_schema_that_is_but_a_reference_shows_what_it_refers_to(name, holder) -> None:
    order = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    found = parameters({"$ref": f"#/{holder}/Order", holder: {"Order": order}}, name)
    assert found["properties"] == {"id": {"type": "string"}}
    assert found["required"] == ["id"]
    assert "$ref" not in found


@pytest.mark.parametrize("name", PICKY)
def test_alternatives_inside_alternatives_keep_all_their_fields(name) -> None:
    either = {"anyOf": [{"properties": {k: {"type": "string"}}} for k in ("mail", "phone")]}
    more = {"properties": {"text": {"type": "string"}}, "required": ["text"]}
    found = parameters({"allOf": [either, more]}, name)
    assert set(found["properties"]) == {"mail", "phone", "text"}
    assert found["required"] == ["text"]


@pytest.mark.parametrize(
    ("described", "said"),
    [
        ({"const": "x"}, {"type": "string", "enum": ["x"]}),
        ({"enum": [1, 2, None]}, {"type": "number", "enum": [1, 2]}),
        (
            {"allOf": [{"type": "string"}, {"description": "d"}]},
            {"type": "string", "description": "d"},
        ),
        (
            {"allOf": [{"$ref": "#/definitions/Hue"}], "description": "Which.", "default": "red"},
            {"$ref": "#/$defs/Hue", "description": "Which."},
        ),
        (
            {"$ref": "#/definitions/Hue", "description": "Which.", "title": "Hue"},
            {"$ref": "#/$defs/Hue", "description": "Which."},
        ),
    ],
)
def test_gemini_gets_messages_in_its_own_format(described, said) -> None:
    hue = {"type": "string", "enum": ["red", "blue"]}
    schema = {"type": "object", "properties": {"it": described}, "definitions": {"Hue": hue}}
    found = parameters(schema, "gemini")
    assert found["properties"]["it"] == said
    assert found["$defs"] == {"Hue": hue}


def test_gemini_has_a_definition_for_whatever_is_referred_to() -> None:
    headers = {"type": "object", "properties": {"accept": {"type": "string"}}}
    more = {"type": "array", "items": {"$ref": "#/properties/headers"}}
    found = parameters(
        {"type": "object", "properties": {"headers": headers, "more": more}}, "gemini"
    )
    reference = found["properties"]["more"]["items"]["$ref"]
    assert found["$defs"][reference.removeprefix("#/$defs/")] == headers
    check(found, "gemini")


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic"])
@pytest.mark.parametrize(
    "described",
    [
        {},
        {"description": "Anything."},
        {"type": "array"},
        {"type": "array", "prefixItems": [{"type": "string"}]},
        {"allOf": [{"type": "string"}, {"minLength": 2}]},
        {"type": "object", "additionalProperties": {"type": "string"}},
    ],
)
def test_schemas_without_a_strict_form_are_sent_loosely(name, described) -> None:
    schema = {"type": "object", "properties": {"it": described}, "required": ["it"]}
    assert not sent(schema, name, is_strict=True).get("strict")


@pytest.mark.parametrize("name", ["openai-chat", "anthropic"])
def test_strict_schemas_use_the_words_that_strict_mode_has(name) -> None:
    schema = {
        "type": "object",
        "properties": {
            "either": {"oneOf": [{"type": "string", "format": "int64"}, {"type": "integer"}]},
            "hue": {"$ref": "#/definitions/Hue", "description": "Which."},
            "only": {"allOf": [{"type": "string", "format": "uuid"}]},
        },
        "required": ["either", "hue", "only"],
        "definitions": {"Hue": {"type": "string", "enum": ["red"]}},
    }
    written = sent(schema, name, is_strict=True)
    found = parameters(schema, name, is_strict=True)
    assert written["strict"]
    assert found["properties"] == {
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "hue": {"$ref": "#/$defs/Hue"},
        "only": {"type": "string", "format": "uuid"},
    }


def test_only_openai_takes_strict_schemas_that_refer_to_themselves() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}}}
    schema = {
        "type": "object",
        "properties": {"top": {"$ref": "#/$defs/Tree"}},
        "$defs": {"Tree": tree},
    }
    assert sent(schema, "openai-chat", is_strict=True)["strict"]
    assert "strict" not in sent(schema, "anthropic", is_strict=True)


@tool
def list_apps(page: int = 1, **filters: str) -> str:
    """List apps."""
    return f"{page} {filters}"


@pytest.mark.parametrize("name", ["anthropic", "gemini"])
async def test_parameters_with_names_that_a_provider_refuses_are_sent_under_others(name) -> None:
    called: list[dict[str, Any]] = []

    class Shop:
        name = "shop"

        async def tools(self) -> list[Tool]:
            inner = {"type": "object", "properties": {"größe": {"type": "integer"}}}
            properties = {
                "filter[name]": {"type": "string"},
                "page": {"type": "integer"},
                "it": inner,
            }
            schema = {"type": "object", "properties": properties, "required": ["filter[name]"]}
            return [Tool(name="list_apps", parameters=Schema.of(schema))]

        async def call(self, tool: Tool, arguments: dict[str, Any]):
            called.append(arguments)
            return list_apps

        async def close(self) -> None: ...

    async with Toolbox([Shop()], store="memory") as box:
        session = await box.session("s")
        (listed,) = session.view(name).tools
        (listed,) = listed.get("function_declarations", [listed])
        found = next(listed[k] for k in SCHEMAS if k in listed)
        (other,) = found["required"]
        assert other in found["properties"]
        assert other.startswith("filter_name_")
        (deep,) = found["properties"]["it"]["properties"]
        assert deep.isascii()
        await session.call("list_apps", {other: "x", "page": "2", "it": {deep: 3}})
        await session.call("list_apps", {"filter[name]": "y"})
    assert called == [{"filter[name]": "x", "page": 2, "it": {"größe": 3}}, {"filter[name]": "y"}]


KEYWORDS = [
    "type",
    "properties",
    "required",
    "items",
    "additionalItems",
    "prefixItems",
    "anyOf",
    "allOf",
    "oneOf",
    "$ref",
    "$defs",
    "definitions",
    "enum",
    "const",
    "default",
    "minimum",
    "exclusiveMinimum",
    "minItems",
    "format",
    "description",
    "additionalProperties",
    "not",
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(
        ["object", "array", "string", "#/$defs/a", "#/definitions/a", "#", "#/x", "a"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*KEYWORDS, "a", "b c"]), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.sampled_from(KEYWORDS), VALUES, max_size=5))
def test_any_schema_is_converted_to_one_that_no_provider_refuses(schema) -> None:
    for name in PICKY:
        for is_strict in (False, True):
            check(parameters(schema, name, is_strict=is_strict), name)
