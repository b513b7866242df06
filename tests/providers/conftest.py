"""Tools as they come from real servers, with what providers stumble over."""

from __future__ import annotations

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Annotations, Tool

AWKWARD = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "https://example.com/order",
    "type": "object",
    "properties": {
        "customer": {"$ref": "#/$defs/customer"},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}}},
            "minItems": 1,
            "uniqueItems": True,
        },
        "when": {"type": ["string", "null"], "format": "date-time", "pattern": "^2"},
        "enum": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "amount": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
        "const": {"const": "fixed"},
    },
    "required": ["customer", "lines"],
    "additionalProperties": False,
    "$defs": {"customer": {"type": "object", "properties": {"id": {"type": "string"}}}},
}
EITHER = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "deep": {"type": "boolean"}},
            "required": ["id", "deep"],
        },
        {"properties": {"name": {"type": "string"}, "deep": {}}, "required": ["name", "deep"]},
        {"$ref": "#/$defs/other"},
    ],
    "$defs": {
        "other": {"properties": {"slug": {"type": "string"}, "deep": {}}, "required": ["deep"]}
    },
}


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(
        [
            Tool(
                name="shop__create_order",
                title="Create order",
                description="Create an order.",
                parameters=Schema.of(AWKWARD),
                output=Schema.of({"type": "object", "properties": {"id": {"type": "string"}}}),
                server="shop",
                annotations=Annotations(read_only=False, destructive=True),
            ),
            Tool(name="find", description="By id or name.", parameters=Schema.of(EITHER)),
            Tool(name="ping", description="Nothing to give.", server="net"),
            Tool(
                name="exa.search/" + "deep-" * 20, description="A long name.", server="exa.search"
            ),
            Tool(name="日本語の道具", description="A name in another script."),
            Tool(name="tool_search", description="A tool with the name of the search."),
            Tool(name="odd", description="No type.", parameters=Schema.of({"properties": 3})),
        ]
    )
