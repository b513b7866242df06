"""A form from the JSON schema of a tool, and the arguments from what the form sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ..errors import InvalidArgumentsError
from .html import Html, join, tag
from .widgets import select, text_input

PREFIX = "argument."
WHOLE = "arguments"
_MAX_PROPERTIES = 60
_NUMBERS = ("integer", "number")
_EMPTY = ""


def render_fields(schema: Mapping[str, Any]) -> Html:
    """A field for each property; one for all arguments as JSON where that is not possible."""
    properties = _properties(schema)
    if properties is None:
        label = tag("span", None, "Arguments as JSON")
        area = tag("textarea", {"name": WHOLE, "spellcheck": "false"}, "{}")
        return tag("label", {"class": "field wide"}, label, area)
    required = schema.get("required", [])
    return join(
        _render_field(name, _simplify(value), is_required=name in required)
        for name, value in properties.items()
    )


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]] | None:
    properties = schema.get("properties", {})
    is_plain = isinstance(properties, dict) and not any(
        key in schema for key in ("anyOf", "oneOf", "allOf", "$ref")
    )
    if not is_plain:
        return None
    found = cast("dict[str, Any]", properties)
    is_readable = len(found) <= _MAX_PROPERTIES and all(isinstance(v, dict) for v in found.values())
    return found if is_readable else None


def _simplify(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of an optional value without its null."""
    choices = schema.get("anyOf")
    if not isinstance(choices, list):
        return schema
    others = [c for c in cast("list[Any]", choices) if c != {"type": "null"}]
    if len(others) != 1 or not isinstance(others[0], dict):
        return schema
    return {**schema, **cast("dict[str, Any]", others[0]), "anyOf": None}


def _render_field(name: str, schema: Mapping[str, Any], *, is_required: bool) -> Html:
    mark = " (required)" if is_required else ""
    label = tag("span", None, tag("code", None, name), mark)
    description = str(schema.get("description", ""))
    note = tag("small", {"class": "muted"}, description) if description else None
    control = _render_control(f"{PREFIX}{name}", schema, is_required=is_required)
    wide = " wide" if _is_json(schema) else ""
    return tag("label", {"class": f"field{wide}"}, label, control, note)


def _render_control(name: str, schema: Mapping[str, Any], *, is_required: bool) -> Html:
    default = schema.get("default")
    shown = _EMPTY if default is None else _to_text(default)
    if isinstance(schema.get("enum"), list):
        values = [_to_text(value) for value in cast("list[Any]", schema["enum"])]
        return select(name, [(_EMPTY, "not set"), *((v, v) for v in values)], shown)
    if schema.get("type") == "boolean":
        choices = ((_EMPTY, "not set"), ("true", "true"), ("false", "false"))
        return select(name, choices, shown)
    if _is_json(schema):
        return tag(
            "textarea",
            {"name": name, "spellcheck": "false", "placeholder": "JSON", "required": is_required},
            shown,
        )
    if schema.get("type") in _NUMBERS:
        step = "1" if schema["type"] == "integer" else "any"
        return text_input(name, shown, type="number", step=step, required=is_required)
    # An empty text may be meant, so the browser does not insist on one.
    return text_input(name, shown)


def _is_json(schema: Mapping[str, Any]) -> bool:
    """Whether a value is written as JSON."""
    is_simple = schema.get("type") in ("string", "boolean", *_NUMBERS)
    return not is_simple and not isinstance(schema.get("enum"), list)


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_arguments(schema: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of a form; empty fields are left out, unless a text is required."""
    properties = _properties(schema)
    if properties is None:
        return _read_whole(form.get(WHOLE, "{}"))
    required = schema.get("required", [])
    found: dict[str, Any] = {}
    for name, value in properties.items():
        text = form.get(f"{PREFIX}{name}", _EMPTY)
        simple = _simplify(value)
        is_text = simple.get("type") == "string" and not isinstance(simple.get("enum"), list)
        if text or (is_text and name in required):
            found[name] = _read_value(name, text, simple)
    return found


def _read_whole(text: str) -> dict[str, Any]:
    value = _decode("arguments", text)
    if not isinstance(value, dict):
        raise InvalidArgumentsError("The arguments are not a JSON object.", hint="Write {…}.")
    return cast("dict[str, Any]", value)


def _read_value(name: str, text: str, schema: Mapping[str, Any]) -> Any:
    if isinstance(schema.get("enum"), list):
        choices: list[Any] = schema["enum"]
        return next((value for value in choices if _to_text(value) == text), text)
    if schema.get("type") == "string":
        return text
    return _decode(name, text)


def _decode(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentsError(
            f"{name}: {text[:100]!r} is not valid JSON.", hint="Texts in JSON are in quotes."
        ) from error
