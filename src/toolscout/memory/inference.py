"""Finding entities by a tool's declared output, when nobody said where they are.

An MCP server that gives an `outputSchema` has said which fields its structured result has. If one
of its objects, at the root or one level below, has something like an id and something like a
name, that is an entity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

from ..catalog.names import normalise_name
from ..catalog.schema import Schema
from ..catalog.tool import Extraction, Tool

_IDS = ("id", "uuid", "uid", "guid", "key", "slug", "sha", "number")
_NAMES = ("name", "title", "filename", "label", "display_name", "subject", "path", "login", "email")
_SCALARS = {"string", "integer", "number"}
_ENDINGS = re.compile(r"_?(output|result|results|response|reply|model|schema)$")
_STEPS = 4


def infer_extraction(tool: Tool) -> Extraction | None:
    """Where a tool's structured results have entities, by its output schema; None if nowhere."""
    if tool.output is None:
        return None
    return _infer_from_schema(tool.output, tool.local_name, tool.category)


@lru_cache(maxsize=4_096)
def _infer_from_schema(output: Schema, name: str, category: str) -> Extraction | None:
    root = output.value
    for path, node, is_array in _candidates(_resolve_schema(root, root), root):
        fields = _scalar_fields(node, root)
        label = "" if path == "$root" else _singular(path)
        kind = _entity_type(node, label, tool_name=name, category=category)
        id_field = _first_field(fields, (*_IDS, f"{kind}_id"))
        name_field = _first_field(fields, _NAMES)
        if id_field and name_field:
            return Extraction(path, kind, name_field, id_field, is_array=is_array)
    return None


def _candidates(
    node: dict[str, Any], root: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """The object itself, then lists and objects in it, in declared order."""
    yield "$root", node, False
    if node.get("type") == "array":
        yield "$root", _resolve_schema(node.get("items"), root), True
    for name, raw in _mapping(node.get("properties")).items():
        child = _resolve_schema(raw, root)
        if child.get("type") == "array":
            yield name, _resolve_schema(child.get("items"), root), True
        else:
            yield name, child, False


def _scalar_fields(node: dict[str, Any], root: dict[str, Any]) -> dict[str, str]:
    """The scalar fields of an object, by their spelling without case or joints."""
    found: dict[str, str] = {}
    for name, raw in _mapping(node.get("properties")).items():
        kind = _resolve_schema(raw, root).get("type")
        if isinstance(kind, str) and kind in _SCALARS:
            found.setdefault(normalise_name(name), name)
    return found


def _first_field(fields: dict[str, str], wanted: tuple[str, ...]) -> str:
    return next((fields[name] for name in wanted if name in fields), "")


def _entity_type(node: dict[str, Any], label: str, *, tool_name: str, category: str) -> str:
    title = node.get("title")
    plain = _ENDINGS.sub("", normalise_name(title)) if isinstance(title, str) else ""
    if plain and plain != _ENDINGS.sub("", normalise_name(tool_name)):
        return _singular(plain)
    return label if label and not _ENDINGS.fullmatch(label) else _singular(category) or "item"


def _singular(word: str) -> str:
    word = normalise_name(word)
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word.removesuffix("s") if not word.endswith("ss") else word


def _resolve_schema(raw: object, root: dict[str, Any]) -> dict[str, Any]:
    """The schema behind local references and behind *or null*."""
    node = _mapping(raw)
    for _ in range(_STEPS):
        reference = node.get("$ref")
        options = [o for o in node.get("anyOf") or () if _mapping(o).get("type") != "null"]
        if isinstance(reference, str) and reference.startswith("#/"):
            node = _mapping(_resolve_pointer(root, reference))
        elif len(options) == 1:
            node = _mapping(options[0])
        else:
            break
    return node


def _resolve_pointer(root: dict[str, Any], reference: str) -> object:
    target: object = root
    for part in reference[2:].split("/"):
        target = _mapping(target).get(part.replace("~1", "/").replace("~0", "~"))
    return target


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
