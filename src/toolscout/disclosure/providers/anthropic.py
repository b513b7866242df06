"""Anthropic Messages."""

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
    most_tools=10_000,
    dialect=Dialect(
        rejected=frozenset({"$schema", "$id", "$comment"}),
        keys=re.compile(r"[A-Za-z0-9_.-]{1,64}"),
    ),
    strict=StrictMode(
        all_required=False,
        may_recur=False,
        most_least=1,
        most_tools=20,
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
