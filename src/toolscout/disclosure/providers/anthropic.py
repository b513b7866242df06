"""Anthropic Messages."""

from __future__ import annotations

from typing import Any

from .provider import Definition, Dialect, Provider, Strict


def _define(definition: Definition) -> dict[str, Any]:
    tool: dict[str, Any] = {
        "name": definition.name,
        "description": definition.description,
        "input_schema": definition.schema,
    }
    if definition.is_strict:
        tool["strict"] = True
    if definition.is_deferred:
        tool["defer_loading"] = True
    return tool


ANTHROPIC = Provider(
    name="anthropic",
    define=_define,
    most_tools=10_000,
    dialect=Dialect(rejected=frozenset({"$schema", "$id", "$comment"})),
    strict=Strict(
        all_required=False,
        most_tools=20,
        rejected=frozenset(
            {
                "minimum",
                "maximum",
                "exclusiveMinimum",
                "exclusiveMaximum",
                "multipleOf",
                "minLength",
                "maxLength",
                "maxItems",
                "uniqueItems",
                "contains",
                "minProperties",
                "maxProperties",
                "propertyNames",
                "if",
                "then",
                "else",
                "not",
                "title",
                "examples",
            }
        ),
    ),
)
