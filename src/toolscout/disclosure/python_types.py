"""JSON Schemas as Python types, for programs that call tools.

Text of a schema becomes code only as a checked identifier or as a quoted literal, so that no
schema can add a line of its own to a stub.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

ANY = "Any"
_MAX_DEPTH = 6
_MAX_UNION = 6
_MAX_LITERALS = 40
_MAX_FIELDS = 60
_WORD = re.compile(r"[A-Za-z0-9]+")
_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def is_identifier(name: str) -> bool:
    """Whether a name can be an argument or an attribute in a program."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def to_identifier(name: str) -> str:
    """The name as a program writes it: other characters become `_`; empty if nothing is left."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not _WORD.search(text):
        return ""
    text = f"_{text}" if text[0].isdigit() else text
    return f"{text}_" if keyword.iskeyword(text) else text


def to_class_name(*parts: str) -> str:
    """A class name made of the words of some names."""
    words = [word for part in parts for word in _WORD.findall(part)]
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if name and not name[0].isdigit() else f"T{name}"


@dataclass(slots=True)
class TypeWriter:
    """Writes the types of one schema; `classes` are the definitions that they need, inner first."""

    root: Mapping[str, Any]
    classes: dict[str, str] = field(default_factory=dict[str, str])
    _open: set[str] = field(default_factory=set[str])

    def write(self, node: object, name: str, depth: int = 0) -> str:
        """The type of a node; an object becomes a class of this name."""
        if not isinstance(node, dict) or depth > _MAX_DEPTH:
            return ANY
        schema = cast("dict[str, Any]", node)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._write_reference(reference, depth)
        if "const" in schema:
            return _literals([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return _literals(cast("list[object]", schema["enum"]))
        if (options := _options(schema)) is not None:
            return self._write_union(options, name, depth)
        kind = schema.get("type")
        if kind == "array":
            return f"list[{self.write(schema.get('items'), f'{name}Item', depth + 1)}]"
        if kind == "object" or (kind is None and "properties" in schema):
            return self._write_object(schema, name, depth)
        return _SIMPLE.get(kind, ANY) if isinstance(kind, str) else ANY

    def _write_reference(self, reference: str, depth: int) -> str:
        if reference in self._open or not reference.startswith("#/"):
            return ANY  # a recursive type, or one that is elsewhere
        target: Any = self.root
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            target = cast("dict[str, Any]", target).get(key) if isinstance(target, dict) else None
        self._open.add(reference)
        try:
            return self.write(target, to_class_name(reference.rpartition("/")[2]), depth + 1)
        finally:
            self._open.discard(reference)

    def _write_union(self, options: list[object], name: str, depth: int) -> str:
        if len(options) > _MAX_UNION:
            return ANY
        types = dict.fromkeys(
            self.write(option, f"{name}{number}" if number else name, depth + 1)
            for number, option in enumerate(options)
        )
        return ANY if ANY in types or not types else " | ".join(types)

    def _write_object(self, schema: dict[str, Any], name: str, depth: int) -> str:
        fields = schema.get("properties")
        if not isinstance(fields, dict) or not fields:
            more = schema.get("additionalProperties")
            value = self.write(cast("object", more), f"{name}Value", depth + 1)
            return f"dict[str, {value}]"
        properties = cast("dict[str, object]", fields)
        if len(properties) > _MAX_FIELDS or not all(map(is_identifier, properties)):
            return "dict[str, Any]"
        required = schema.get("required")
        names = cast("list[object]", required) if isinstance(required, list) else []
        types = {
            key: self.write(value, name + to_class_name(key), depth + 1)
            for key, value in properties.items()
        }
        lines = [
            f"    {key}: {_field(type_text, is_required=key in names)}"
            for key, type_text in types.items()
        ]
        return self._add_class(name, "\n".join(lines))

    def _add_class(self, name: str, body: str) -> str:
        text = f"class {{}}(TypedDict):\n{body}"
        unique, number = name, 1
        while self.classes.get(unique, text.format(unique)) != text.format(unique):
            number += 1
            unique = f"{name}{number}"
        self.classes[unique] = text.format(unique)
        return unique


def _options(schema: dict[str, Any]) -> list[object] | None:
    """The schemas of which a value fits one; None if there is only the schema itself."""
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return cast("list[object]", schema[key])
    if isinstance(schema.get("allOf"), list):
        parts = cast("list[object]", schema["allOf"])
        return parts if len(parts) == 1 else []
    if isinstance(schema.get("type"), list):
        return [{**schema, "type": kind} for kind in cast("list[object]", schema["type"])]
    return None


def _field(type_text: str, *, is_required: bool) -> str:
    return type_text if is_required else f"NotRequired[{type_text}]"


def _literals(values: list[object]) -> str:
    simple = [v for v in values if v is None or isinstance(v, str | bool | int)]
    if not simple or len(simple) != len(values) or len(values) > _MAX_LITERALS:
        kinds = {type(v) for v in values}
        return "str" if kinds == {str} else ANY
    # ascii(): a line separator inside of a literal would end the line of the stub.
    return f"Literal[{', '.join(dict.fromkeys(map(ascii, simple)))}]"
