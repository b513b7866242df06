"""Translate OpenAPI schemas to JSON Schema: local references, and the keywords of 3.0."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, cast

from ...errors import SchemaError
from .document import Document, unescape_pointer

_DROPPED = frozenset(
    (
        *("example", "examples", "externalDocs", "xml", "discriminator", "readOnly", "writeOnly"),
        # Keywords of a schema in its own file; "$id" would change what references mean.
        *("$schema", "$id", "$anchor", "$comment", "$defs", "definitions"),
    )
)
# Per tool. Schemas may refer to most of a document; definitions beyond the limit accept anything.
_MAX_DEFINITIONS = 60
_MAX_NODES = 2_000_000
_UNSAFE = re.compile(r"[^\w.-]+")


class SchemaTranslator:
    """Translates the schemas of one tool, and collects the definitions that they refer to."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._nodes = 0

    def translate(self, node: Any) -> dict[str, Any]:
        """Translate one schema."""
        return cast("dict[str, Any]", self._translate_value(node)) if isinstance(node, dict) else {}

    def definitions(self) -> dict[str, Any]:
        """All definitions that are referred to, directly or indirectly, up to a limit."""
        done: dict[str, Any] = {}
        while len(done) < min(len(self._names), _MAX_DEFINITIONS):
            for reference, name in list(self._names.items())[len(done) : _MAX_DEFINITIONS]:
                done[name] = self.translate(self._document.resolve_reference(reference))
        return {name: done.get(name, {}) for name in self._names.values()}

    def _translate_value(self, node: Any) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise SchemaError("Its aliases expand to too many values.")
        if isinstance(node, list):
            return [self._translate_value(item) for item in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        table = cast("dict[str, Any]", node)
        reference = table.get("$ref")
        if isinstance(reference, str):
            return self._translate_reference(reference, table)
        translated = _translate_keywords(
            {
                key: self._translate_properties(value)
                if key == "properties"
                else self._translate_value(value)
                for key, value in table.items()
                if key not in _DROPPED and not str(key).startswith("x-")
            }
        )
        return _drop_read_only_required(translated, table.get("properties"))

    def _translate_properties(self, properties: Any) -> Any:
        """Translate properties, whose names are not keywords."""
        if not isinstance(properties, dict):
            return {}
        table = cast("dict[str, Any]", properties)
        return {
            n: self._translate_value(value) for n, value in table.items() if not is_read_only(value)
        }

    def _translate_reference(self, reference: str, table: Mapping[str, Any]) -> Any:
        if reference not in self._names:
            self._names[reference] = self._choose_name(reference)
        description = {k: v for k, v in table.items() if k == "description"}
        return {"$ref": f"#/$defs/{self._names[reference]}", **description}

    def _choose_name(self, reference: str) -> str:
        """The last part of a reference or its file name, with a number if that is taken."""
        address, _, pointer = reference.partition("#")
        word = (
            unescape_pointer(pointer.rpartition("/")[2])
            or PurePosixPath(unescape_pointer(address)).stem
        )
        plain = name = _UNSAFE.sub("_", word) or "schema"
        number = 1
        while name in self._taken:
            number += 1
            name = f"{plain}_{number}"
        self._taken.add(name)
        return name


def is_read_only(schema: Any) -> bool:
    """Whether a field occurs only in responses, so that it is not an argument."""
    return isinstance(schema, dict) and cast("dict[str, Any]", schema).get("readOnly") is True


def _drop_read_only_required(schema: dict[str, Any], properties: Any) -> dict[str, Any]:
    """Remove fields that occur only in responses from `required`."""
    required = schema.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return schema
    table = cast("dict[str, Any]", properties)
    writable = [n for n in cast("list[Any]", required) if not is_read_only(table.get(n))]
    return {**schema, "required": writable}


def _translate_keywords(schema: dict[str, Any]) -> dict[str, Any]:
    """Translate keywords that OpenAPI 3.0 defines differently."""
    # In 3.0, `nullable` adds the type null, and exclusive limits are booleans beside the limit.
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
