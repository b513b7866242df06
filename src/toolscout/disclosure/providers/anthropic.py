"""Anthropic: tool definitions of the Messages API."""

from __future__ import annotations

import re
from typing import Any

from .provider import Definition, Dialect, Provider, StrictMode


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
    max_tools=10_000,
    dialect=Dialect(
        rejected=frozenset({"$schema", "$id", "$comment"}),
        # The API refuses the whole request if one property name does not match.
        keys=re.compile(r"[A-Za-z0-9_.-]{1,64}"),
    ),
    # From Anthropic's documentation of strict tool use: 20 strict tools per request, no recursion,
    # `minItems` of 0 or 1, and no numeric or length constraints.
    strict=StrictMode(
        all_required=False,
        may_recur=False,
        max_min_items=1,
        max_tools=20,
        formats=frozenset(
            {
                "date-time",
                "time",
                "date",
                "duration",
                "email",
                "hostname",
                "uri",
                "ipv4",
                "ipv6",
                "uuid",
            }
        ),
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
