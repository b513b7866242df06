"""The shape of JSON: its keys and array lengths, as paths that a jq program can start from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from .json_cursor import (
    WINDOW,
    Cursor,
    NotJSON,
    Reader,
    WindowOverflow,
    read_key,
    skip_rest,
    walk_members,
)

JsonType = Literal["object", "array", "string", "number", "boolean", "null", "mixed"]
_DEPTH = 4
_WIDTH = 40
_SAMPLE = 20
_LINES = 30


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value looks like; `least` and `most` are its length where it has one."""

    kind: JsonType
    least: int = 0
    most: int = 0
    members: tuple[tuple[str, Shape], ...] = ()
    element: Shape | None = None


def infer_shape(read: Reader, *, window: int = WINDOW) -> Shape | None:
    """The shape of a JSON text, read in windows to its end; None if it is not JSON."""
    cursor = Cursor(read, window=window)
    try:
        shape = _walk_value(cursor, 0)
        return None if cursor.peek() else shape
    except (NotJSON, RecursionError):
        return None


def render_shape(shape: Shape) -> str:
    """One line a path: what is there, how long it is, which keys it has."""
    lines = list(_render_lines(shape, "."))
    if len(lines) > _LINES:
        lines[_LINES:] = [f"… and {len(lines) - _LINES} more paths"]
    return "\n".join(lines)


def _walk_value(cursor: Cursor, depth: int) -> Shape:
    try:
        return _shape_of(cursor.read_small(), depth)
    except WindowOverflow:
        pass
    match cursor.peek():
        case "{":
            return _walk_object(cursor, depth)
        case "[":
            return _walk_array(cursor, depth)
        case '"':
            return _shape_of(cursor.read_whole(), depth)
        case _:
            raise NotJSON("Neither a value nor the end.")


def _walk_object(cursor: Cursor, depth: int) -> Shape:
    found: dict[str, Shape] = {}
    size = 0
    for _ in walk_members(cursor, "{}"):
        size += 1
        name = read_key(cursor)
        found[name] = _walk_value(cursor, depth + 1)
        if size == _WIDTH:
            size += skip_rest(cursor, "{}")
            break
    return Shape("object", size, size, tuple(found.items()) if depth < _DEPTH else ())


def _walk_array(cursor: Cursor, depth: int) -> Shape:
    element: Shape | None = None
    size = 0
    for _ in walk_members(cursor, "[]"):
        size += 1
        element = _merge(element, _walk_value(cursor, depth + 1))
        if size == _SAMPLE:
            size += skip_rest(cursor, "[]")
            break
    return Shape("array", size, size, element=element if depth < _DEPTH else None)


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
    kept = list(value.items())[:_WIDTH] if depth < _DEPTH else []
    found = tuple((key, _shape_of(item, depth + 1)) for key, item in kept)
    return Shape("object", len(value), len(value), found)


def _array_shape(value: list[Any], depth: int) -> Shape:
    element: Shape | None = None
    for item in value[:_SAMPLE] if depth < _DEPTH else []:
        element = _merge(element, _shape_of(item, depth + 1))
    return Shape("array", len(value), len(value), element=element)


def _merge(one: Shape | None, other: Shape | None) -> Shape | None:
    """What holds for both; a null beside something else is that something, sometimes absent."""
    if one is None or other is None:
        return one or other
    if "null" in (one.kind, other.kind):
        return other if one.kind == "null" else one
    if one.kind != other.kind:
        return Shape("mixed")
    keys = dict(one.members)
    for name, shape in other.members:
        merged = _merge(keys.get(name), shape)
        if merged is not None and (name in keys or len(keys) < _WIDTH):
            keys[name] = merged
    return Shape(
        one.kind,
        min(one.least, other.least),
        max(one.most, other.most),
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
    if (more := shape.most - len(names)) > 0:
        names.append(f"… {more:,} more")
    return ": " + ", ".join(names)


def _render_length(shape: Shape, noun: str) -> str:
    count = f"{shape.least:,}" if shape.least == shape.most else f"{shape.least:,}–{shape.most:,}"
    return f"{count} {noun}{'' if shape.most == 1 else 's'}"


def _child_path(path: str, name: str) -> str:
    base = "" if path == "." else path
    is_plain = name.isascii() and name.isidentifier()
    return f"{base}.{name}" if is_plain else f"{path}[{json.dumps(name, ensure_ascii=False)}]"
