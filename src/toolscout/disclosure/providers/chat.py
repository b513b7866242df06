"""OpenAI Chat Completions, which many other services speak too."""

from __future__ import annotations

from typing import Any

from .provider import Definition, Dialect, Provider, Strict

OPENAI_DIALECT = Dialect(rejected=frozenset({"$schema", "$id", "$comment"}))
OPENAI_STRICT = Strict(
    all_required=True,
    formats=frozenset(
        {
            "date-time",
            "time",
            "date",
            "duration",
            "email",
            "hostname",
            "ipv4",
            "ipv6",
            "uuid",
        }
    ),
    rejected=frozenset(
        {
            "default",
            "examples",
            "title",
            "uniqueItems",
            "contains",
            "minContains",
            "maxContains",
            "minProperties",
            "maxProperties",
            "propertyNames",
            "unevaluatedProperties",
            "unevaluatedItems",
            "dependentRequired",
            "dependentSchemas",
            "if",
            "then",
            "else",
            "not",
        }
    ),
)
MOST_TOOLS = 128


def _define(definition: Definition) -> dict[str, Any]:
    function: dict[str, Any] = {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.schema,
    }
    if definition.is_strict:
        function["strict"] = True
    return {"type": "function", "function": function}


CHAT = Provider(
    name="openai-chat",
    define=_define,
    most_tools=MOST_TOOLS,
    dialect=OPENAI_DIALECT,
    strict=OPENAI_STRICT,
)
