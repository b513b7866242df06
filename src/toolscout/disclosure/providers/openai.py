"""OpenAI: Chat Completions, which many other services support too, and Responses."""

from __future__ import annotations

from typing import Any

from .provider import Definition, Dialect, Provider, StrictMode

# Keywords about the document, not about the arguments.
OPENAI_DIALECT = Dialect(rejected=frozenset({"$schema", "$id", "$comment"}))
# From OpenAI's guide to structured outputs: every property is required, and optional ones are
# emulated by a union with null.
OPENAI_STRICT = StrictMode(
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
MAX_OPENAI_TOOLS = 128


def _define_chat_tool(definition: Definition) -> dict[str, Any]:
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
    define=_define_chat_tool,
    max_tools=MAX_OPENAI_TOOLS,
    dialect=OPENAI_DIALECT,
    strict=OPENAI_STRICT,
)


def _define_responses_tool(definition: Definition) -> dict[str, Any]:
    tool: dict[str, Any] = {
        "type": "function",
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.schema,
        # Written even when false: Responses, unlike Chat Completions, is strict by default.
        "strict": definition.is_strict,
    }
    if definition.is_deferred:
        tool["defer_loading"] = True
    return tool


RESPONSES = Provider(
    name="openai-responses",
    define=_define_responses_tool,
    max_tools=MAX_OPENAI_TOOLS,
    dialect=OPENAI_DIALECT,
    strict=OPENAI_STRICT,
)
