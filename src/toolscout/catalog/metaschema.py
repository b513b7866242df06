"""Check JSON schemas: a fast path for everyday keywords, the metaschema for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from jsonschema import SchemaError
from jsonschema.validators import Draft202012Validator, validator_for

from .sanitization import clean_line
from .schema import Schema

# Larger schemas are not checked against the metaschema, which takes long; they are too large for
# any model anyway.
CHECK_CAP = 200_000
_DIALECTS = ("http://json-schema.org/draft-07/schema", "https://json-schema.org/draft/20")
_TYPES = frozenset(["string", "number", "integer", "boolean", "object", "array", "null"])
_Test = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """A problem of a schema; a schema whose problems are not `fatal` may still be used."""

    text: str
    fatal: bool = True


def find_schema_faults(schema: Schema) -> Iterator[SchemaFault]:
    """All problems of a schema."""
    value = schema.value
    try:
        if not _is_plain_schema(value):
            yield from _check_metaschema(value, size=len(schema.text))
    except RecursionError:
        yield SchemaFault("it is nested too deeply to be checked", fatal=False)
    yield from _find_dangling_references(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_anything(value: Any) -> bool:  # noqa: ARG001  a keyword that may hold any value
    return True


def _is_type(value: Any) -> bool:
    if isinstance(value, list):
        kinds = cast("list[object]", value)
        return bool(kinds) and _is_unique(kinds) and _TYPES.issuperset(kinds)
    return isinstance(value, str) and value in _TYPES


def _is_unique(values: list[Any]) -> bool:
    return all(isinstance(v, str) for v in values) and len(set(values)) == len(values)


def _is_name_list(value: Any) -> bool:
    return isinstance(value, list) and _is_unique(cast("list[Any]", value))


def _is_plain_schema(value: Any) -> bool:
    """Whether a schema has only everyday keywords, each with a valid value."""
    if isinstance(value, bool):
        return True
    if not isinstance(value, dict):
        return False
    for key, item in cast("dict[str, Any]", value).items():
        test = _PLAIN_KEYWORDS.get(key)
        if test is None or not test(item):
            return False
    return True


def _is_schema_map(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _is_plain_schema(v) for v in cast("dict[str, Any]", value).values()
    )


def _is_schema_list(value: Any) -> bool:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return bool(items) and all(_is_plain_schema(item) for item in items)


# Validating against the metaschema is slow, and nearly all schemas of tools have only these
# keywords. A test may refuse a valid value: then the metaschema decides.
_PLAIN_KEYWORDS: dict[str, _Test] = {
    "$schema": lambda value: isinstance(value, str) and value.startswith(_DIALECTS),
    "type": _is_type,
    "properties": _is_schema_map,
    "$defs": _is_schema_map,
    "definitions": _is_schema_map,
    "items": _is_plain_schema,
    "additionalProperties": _is_plain_schema,
    "required": _is_name_list,
    "enum": lambda value: isinstance(value, list) and len(cast("list[Any]", value)) > 0,
    "anyOf": _is_schema_list,
    "oneOf": _is_schema_list,
    "allOf": _is_schema_list,
    "const": _is_anything,
    "default": _is_anything,
    "examples": lambda value: isinstance(value, list),
    "example": _is_anything,
    "nullable": _is_anything,
    "title": _is_text,
    "description": _is_text,
    "format": _is_text,
    "pattern": _is_text,
    "minimum": _is_number,
    "maximum": _is_number,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minItems": _is_count,
    "maxItems": _is_count,
    "uniqueItems": _is_flag,
    "$ref": lambda value: isinstance(value, str) and value.startswith("#"),
}


def _check_metaschema(value: dict[str, Any], *, size: int) -> Iterator[SchemaFault]:
    if size > CHECK_CAP:
        yield SchemaFault(f"it has {size:,} characters, too many to check or to send", fatal=False)
        return
    try:
        validator_for(value, default=Draft202012Validator).check_schema(value)
    except SchemaError as error:
        yield SchemaFault(f"{error.json_path}: {clean_line(error.message, cap=200)}")


def _find_dangling_references(root: dict[str, Any]) -> Iterator[SchemaFault]:
    """Local references whose target does not exist."""
    missing: dict[str, None] = {}
    todo: list[object] = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo += cast("list[object]", node)
        elif isinstance(node, dict):
            items = cast("dict[str, object]", node)
            reference = items.get("$ref")
            if isinstance(reference, str) and not _is_resolvable(reference, root):
                missing[reference] = None
            todo += items.values()
    for reference in missing:
        yield SchemaFault(f"{reference!r} is not defined in it", fatal=False)


def _is_resolvable(reference: str, root: dict[str, Any]) -> bool:
    if not reference.startswith("#/"):
        return True
    target: object = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict):
            target = cast("dict[str, object]", target).get(name)
        elif isinstance(target, list) and name.isdecimal():
            target = dict(enumerate(cast("list[object]", target))).get(int(name))
        else:
            return False
    return target is not None
