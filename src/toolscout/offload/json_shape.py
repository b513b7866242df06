"""Infers the shape of JSON: keys and array lengths, by paths that jq programs can use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from .json_cursor import (
    WINDOW,
    Cursor,
    NotJSONError,
    Reader,
    WindowOverflowError,
    read_key,
    skip_rest,
    walk_members,
)

JsonType = Literal["object", "array", "string", "number", "boolean", "null", "mixed"]
# Bounds of what a notice shows; the whole text is walked through to count and to check it.
_MAX_DEPTH = 4
_MAX_KEYS = 40
_SAMPLE_ITEMS = 20
_MAX_LINES = 30


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value looks like; arrays and objects have lengths, a range if values differ."""

    kind: JsonType
    min_length: int = 0
    max_length: int = 0
    members: tuple[tuple[str, Shape], ...] = ()
    element: Shape | None = None


def infer_shape(read: Reader, *, window: int = WINDOW) -> Shape | None:
    """The shape of a JSON text, which is read in windows to its end; None if it is not JSON."""
    cursor = Cursor(read, window=window)
    try:
        shape = _walk_value(cursor, 0)
        return None if cursor.peek() else shape
    except (NotJSONError, RecursionError):
        return None


def render_shape(shape: Shape) -> str:
    """One line per path: its type, length and keys."""
    lines = list(_render_lines(shape, "."))
    if len(lines) > _MAX_LINES:
        lines[_MAX_LINES:] = [f"… and {len(lines) - _MAX_LINES} more paths"]
    return "\n".join(lines)


def _walk_value(cursor: Cursor, depth: int) -> Shape:
    try:
        return _shape_of(cursor.read_small(), depth)
    except WindowOverflowError:
        pass
    match cursor.peek():
        case "{":
            return _walk_object(cursor, depth)
        case "[":
            return _walk_array(cursor, depth)
        case '"':
            return _shape_of(cursor.read_whole(), depth)
        case _:
            raise NotJSONError("Neither a value nor the end.")


def _walk_object(cursor: Cursor, depth: int) -> Shape:
    members: dict[str, Shape] = {}
    size = 0
    for _ in walk_members(cursor, "{}"):
        size += 1
        name = read_key(cursor)
        members[name] = _walk_value(cursor, depth + 1)
        if size == _MAX_KEYS:
            size += skip_rest(cursor, "{}")
            break
    return Shape("object", size, size, tuple(members.items()) if depth < _MAX_DEPTH else ())


def _walk_array(cursor: Cursor, depth: int) -> Shape:
    element: Shape | None = None
    size = 0
    for _ in walk_members(cursor, "[]"):
        size += 1
        element = _merge(element, _walk_value(cursor, depth + 1))
        if size == _SAMPLE_ITEMS:
            size += skip_rest(cursor, "[]")
            break
    return Shape("array", size, size, element=element if depth < _MAX_DEPTH else None)


def _shape_of(value: Any, depth: int) -> Shape:
    match value:
        case bool():
            return Shape("boolean")
        case str():
            return Shape("string")
        case int() | float():
            return Shape("number")
        case None:
            return Shape("null")
        case dict():
            return _object_shape(cast("Mapping[str, Any]", value), depth)
        case _:
            return _array_shape(cast("list[Any]", value), depth)


def _object_shape(value: Mapping[str, Any], depth: int) -> Shape:
    items = list(value.items())[:_MAX_KEYS] if depth < _MAX_DEPTH else []
    members = tuple((key, _shape_of(item, depth + 1)) for key, item in items)
    return Shape("object", len(value), len(value), members)


def _array_shape(value: list[Any], depth: int) -> Shape:
    element: Shape | None = None
    for item in value[:_SAMPLE_ITEMS] if depth < _MAX_DEPTH else []:
        element = _merge(element, _shape_of(item, depth + 1))
    return Shape("array", len(value), len(value), element=element)


def _merge(one: Shape | None, other: Shape | None) -> Shape | None:
    """A shape that covers both; null and another type give the other type."""
    if one is None or other is None:
        return one or other
    if "null" in (one.kind, other.kind):
        return other if one.kind == "null" else one
    if one.kind != other.kind:
        return Shape("mixed")
    keys = dict(one.members)
    for name, shape in other.members:
        merged = _merge(keys.get(name), shape)
        if merged is not None and (name in keys or len(keys) < _MAX_KEYS):
            keys[name] = merged
    return Shape(
        one.kind,
        min(one.min_length, other.min_length),
        max(one.max_length, other.max_length),
        tuple(keys.items()),
        _merge(one.element, other.element),
    )


def _render_lines(shape: Shape, path: str) -> Iterator[str]:
    if shape.kind == "object":
        yield f"{path} object ({_render_length(shape, 'key')}){_render_keys(shape)}"
        for name, child in shape.members:
            if child.kind in ("object", "array"):
                yield from _render_lines(child, _child_path(path, name))
    elif shape.kind == "array":
        yield f"{path} array ({_render_length(shape, 'element')})"
        if shape.element is not None:
            yield from _render_lines(shape.element, f"{path}[]")
    else:
        yield f"{path} {shape.kind}"


def _render_keys(shape: Shape) -> str:
    if not shape.members:
        return ""
    names = [f"{name} {child.kind}" for name, child in shape.members]
    if (more := shape.max_length - len(names)) > 0:
        names.append(f"… {more:,} more")
    return ": " + ", ".join(names)


def _render_length(shape: Shape, noun: str) -> str:
    count = (
        f"{shape.min_length:,}"
        if shape.min_length == shape.max_length
        else f"{shape.min_length:,}–{shape.max_length:,}"
    )
    return f"{count} {noun}{'' if shape.max_length == 1 else 's'}"


def _child_path(path: str, name: str) -> str:
    base = "" if path == "." else path
    is_plain = name.isascii() and name.isidentifier()
    return f"{base}.{name}" if is_plain else f"{path}[{json.dumps(name, ensure_ascii=False)}]"
