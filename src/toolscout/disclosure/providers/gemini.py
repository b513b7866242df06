"""Gemini: one tool that holds every function declaration, and a subset of JSON Schema."""

from __future__ import annotations

import re
from typing import Any

from .provider import Definition, Dialect, Provider

# The keywords that the Gemini API documents for `parameters_json_schema`.
_ALLOWED = frozenset(
    {
        "$defs",
        "$ref",
        "type",
        "format",
        "title",
        "description",
        "enum",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "anyOf",
        "oneOf",
        "properties",
        "additionalProperties",
        "required",
    }
)


def _define(definition: Definition) -> dict[str, Any]:
    declaration: dict[str, Any] = {
        "name": definition.name,
        "description": definition.description,
    }
    # A function without parameters has no schema at all.
    if definition.schema.get("properties"):
        declaration["parameters_json_schema"] = definition.schema
    return declaration


def _wrap(declarations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"function_declarations": declarations}] if declarations else []


GEMINI = Provider(
    name="gemini",
    define=_define,
    wrap=_wrap,
    max_tools=128,
    dialect=Dialect(allowed=_ALLOWED, keys=re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")),
)
