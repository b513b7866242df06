import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.schema import Parameter, Schema
from toolscout.errors import SchemaError

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
WORDS = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "anyOf",
        "allOf",
        "$ref",
        "enum",
        "required",
        "object",
        "array",
        "#/properties",
    ]
)
SCHEMAISH = st.dictionaries(
    WORDS,
    st.recursive(
        WORDS | st.none() | st.booleans(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
        max_leaves=15,
    ),
)


def names(schema: object) -> list[str]:
    return [p.name for p in Schema.of(schema).parameters()]


def test_null_means_no_arguments():
    assert Schema.of(None) == Schema()
    assert Schema.of(None).parameters() == ()


@pytest.mark.parametrize("value", [[], "object", 3, True])
def test_a_value_that_is_not_an_object_is_refused_with_a_remedy(value: object):
    with pytest.raises(SchemaError, match="must be a JSON object") as caught:
        Schema.of(value)
    assert caught.value.hint


def test_a_cycle_of_python_objects_is_refused():
    node: dict[str, Any] = {"type": "object"}
    node["properties"] = {"self": node}
    with pytest.raises(SchemaError, match="not plain JSON"):
        Schema.of(node)


@pytest.mark.parametrize("levels", [150, 3_000, 100_000])
def test_bottomless_nesting_is_refused(levels: int):
    node: dict[str, Any] = {}
    for _ in range(levels):
        node = {"properties": {"a": node}}
    with pytest.raises(SchemaError, match="nested"):
        Schema.of(node)


def test_five_megabytes_are_kept_and_read_only_as_far_as_a_reader_would():
    wide = {f"p{i}": {"type": "string", "description": "word " * 200} for i in range(5_000)}
    schema = Schema.of({"type": "object", "properties": wide})
    assert len(schema.text) > 5_000_000
    assert len(schema.parameters()) == 400


def test_more_than_the_cap_is_refused():
    with pytest.raises(SchemaError, match="characters"):
        Schema.of({"description": "", "enum": ["x" * 17_000_000]})


def test_reference_cycles_end():
    schema = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "value": {"type": "string"},
                    "next": {"$ref": "#/$defs/Node"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                },
            },
            "Loop": {"$ref": "#/$defs/Loop"},
        },
    }
    assert names(schema) == ["value", "next", "children", "value", "next", "children"]
    assert names({"$ref": "#/$defs/Loop", "$defs": schema["$defs"]}) == []
    assert names({"$ref": "https://example.com/far.json"}) == []


def test_each_argument_says_type_need_values_and_default():
    schema = Schema.of(
        {
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "Where to go."},
                "mode": {"enum": ["text", "html"], "default": "text"},
                "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                "size": {"type": ["integer", "null"]},
                "unit": {"anyOf": [{"type": "string", "enum": ["m", "ft"]}, {"type": "null"}]},
                "kind": {"const": "page"},
                "free": True,
            },
            "required": ["url"],
        }
    )
    assert schema.parameters() == (
        Parameter("url", "string", "Where to go.", required=True),
        Parameter("mode", "enum", values=("text", "html"), default='"text"'),
        Parameter("tags", "string[]", values=("a", "b")),
        Parameter("size", "integer"),
        Parameter("unit", "string", values=("m", "ft")),
        Parameter("kind", "enum", values=("page",)),
        Parameter("free"),
    )


def test_nested_arguments_follow_the_outer_ones():
    schema = {
        "properties": {
            "filter": {"type": "object", "properties": {"since": {"type": "string"}}},
            "sort": {"type": "array", "items": {"properties": {"field": {"type": "string"}}}},
            "limit": {"type": "integer"},
        }
    }
    found = Schema.of(schema).parameters()
    assert [(p.name, p.depth) for p in found] == [
        ("filter", 0), ("sort", 0), ("limit", 0), ("since", 1), ("field", 1)
    ]  # fmt: skip
    assert [p.name for p in Schema.of(schema).top_level()] == ["filter", "sort", "limit"]


def test_variants_join_but_only_what_all_need_is_required():
    schema = {
        "allOf": [{"properties": {"a": {}}, "required": ["a"]}],
        "anyOf": [{"properties": {"b": {}}, "required": ["b"]}, {"properties": {"c": {}, "b": {}}}],
    }
    found = Schema.of(schema).parameters()
    assert [(p.name, p.required) for p in found] == [("a", True), ("b", False), ("c", False)]


def test_hidden_characters_leave_every_corner_of_a_schema():
    argument = {"description": "Who\u202e?\r\nYou.", "enum": ["a\U000e0041"]}
    schema = Schema.of({"properties": {"na\u200bme": argument}, "required": ["na\u200bme"]})
    assert schema.value == {
        "properties": {"name": {"description": "Who?\nYou.", "enum": ["a"]}},
        "required": ["name"],
    }


@given(st.dictionaries(st.text(), JSON))
def test_a_frozen_schema_reads_back_as_plain_json(value: dict[str, Any]):
    schema = Schema.of(value)
    assert json.loads(schema.text) == schema.value
    assert Schema.of(schema.value) == schema


@given(SCHEMAISH)
def test_reading_arguments_never_fails_whatever_the_schema(value: dict[str, Any]):
    schema = Schema.of(value)
    assert set(schema.top_level()) <= set(schema.parameters())
    assert len(schema.parameters()) <= 400
    assert schema.descriptions() == [(p.name, p.description) for p in schema.parameters()]
