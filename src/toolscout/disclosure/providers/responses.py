"""OpenAI Responses: functions at the top level, deferred ones marked so."""

from __future__ import annotations

from typing import Any

from .chat import MOST_TOOLS, OPENAI_DIALECT, OPENAI_STRICT
from .provider import Definition, Provider


def _define(definition: Definition) -> dict[str, Any]:
    tool: dict[str, Any] = {
        "type": "function",
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.schema,
        "strict": definition.is_strict,
    }
    if definition.is_deferred:
        tool["defer_loading"] = True
    return tool


RESPONSES = Provider(
    name="openai-responses",
    define=_define,
    most_tools=MOST_TOOLS,
    dialect=OPENAI_DIALECT,
    strict=OPENAI_STRICT,
)
