"""Schemas of OpenAPI as JSON Schema: references made local, 3.0's own dialect translated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from .document import Document

_COMPONENTS = "#/components/schemas/"
_DROPPED = frozenset(
    ("example", "examples", "externalDocs", "xml", "discriminator", "readOnly", "writeOnly")
)
_MOST_DEFINITIONS = 60


class Translator:
    """Translates schemas of one tool, and gathers the definitions that they refer to."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._wanted: dict[str, None] = {}

    def schema(self, node: Any) -> dict[str, Any]:
        """One schema, free of what only OpenAPI knows."""
        return cast("dict[str, Any]", self._value(node)) if isinstance(node, dict) else {}

    def definitions(self) -> dict[str, Any]:
        """All that was referred to, directly or not; a tangle too large ends in *anything*."""
        done: dict[str, Any] = {}
        while len(done) < len(self._wanted):
            name = next(n for n in self._wanted if n not in done)
            if len(done) >= _MOST_DEFINITIONS:
                done[name] = {}
                continue
            done[name] = {}
            done[name] = self.schema(self._document.at(_COMPONENTS + name))
        return done

    def _value(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._value(item) for item in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        table = cast("dict[str, Any]", node)
        reference = table.get("$ref")
        if isinstance(reference, str):
            return self._reference(reference, table)
        translated = _translated(
            {
                key: self._named(value) if key == "properties" else self._value(value)
                for key, value in table.items()
                if key not in _DROPPED and not key.startswith("x-")
            }
        )
        return _asked(translated, table.get("properties"))

    def _named(self, properties: Any) -> Any:
        """Properties are named by their owner: none of those names is a keyword."""
        if not isinstance(properties, dict):
            return {}
        table = cast("dict[str, Any]", properties)
        return {n: self._value(value) for n, value in table.items() if not is_read_only(value)}

    def _reference(self, reference: str, table: Mapping[str, Any]) -> Any:
        if not reference.startswith(_COMPONENTS):
            return self._value(self._document.resolve(table))
        name = reference.removeprefix(_COMPONENTS)
        self._wanted.setdefault(name)
        kept = {k: v for k, v in table.items() if k == "description"}
        return {"$ref": f"#/$defs/{name}", **kept}


def is_read_only(schema: Any) -> bool:
    """Whether a field only stands in answers, so that nobody is asked for it."""
    return isinstance(schema, dict) and cast("dict[str, Any]", schema).get("readOnly") is True


def _asked(schema: dict[str, Any], properties: Any) -> dict[str, Any]:
    """The schema without a demand for fields that only stand in answers."""
    required = schema.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return schema
    table = cast("dict[str, Any]", properties)
    asked = [n for n in cast("list[Any]", required) if not is_read_only(table.get(n))]
    return {**schema, "required": asked}


def _translated(schema: dict[str, Any]) -> dict[str, Any]:
    """Say in JSON Schema what 3.0 says in its own way."""
    if schema.pop("nullable", False) is True:
        kind: Any = schema.get("type")
        if isinstance(kind, str):
            schema["type"] = [kind, "null"]
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
    for limit, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        is_strict = schema.get(strict)
        if isinstance(is_strict, bool):
            del schema[strict]
            if is_strict and limit in schema:
                schema[strict] = schema.pop(limit)
    return schema
