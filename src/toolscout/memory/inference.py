"""Infers from a tool's output schema where its results contain entities.

An MCP server that declares an `outputSchema` says which fields its structured results have. If an
object in it, at the root or one level below, has a field like an id and a field like a name, that
object is taken as an entity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

from ..catalog.schema import Schema
from ..catalog.tool import Extraction, Tool, normalise_name

# In order of preference: the first field that exists is used.
_IDS = ("id", "uuid", "uid", "guid", "key", "slug", "sha", "number")
_NAMES = ("name", "title", "filename", "label", "display_name", "subject", "path", "login", "email")
_SCALARS = {"string", "integer", "number"}
_ENDINGS = re.compile(r"_?(output|result|results|response|reply|model|schema)$")
# Bounds the chain of references, which may be cyclic.
_MAX_REFERENCES = 4


def infer_extraction(tool: Tool) -> Extraction | None:
    """Where the structured results of a tool contain entities; None if nowhere."""
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
    """The root object, then the lists and objects in it, in declared order."""
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
    """The scalar fields of an object by their normalised names."""
    fields: dict[str, str] = {}
    for name, raw in _mapping(node.get("properties")).items():
        kind = _resolve_schema(raw, root).get("type")
        if isinstance(kind, str) and kind in _SCALARS:
            fields.setdefault(normalise_name(name), name)
    return fields


def _first_field(fields: dict[str, str], names: tuple[str, ...]) -> str:
    return next((fields[name] for name in names if name in fields), "")


def _entity_type(node: dict[str, Any], label: str, *, tool_name: str, category: str) -> str:
    title = node.get("title")
    # Generated schemas are often titled after the tool (`GetPageOutput`), which names no type.
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
    """Follow local references, and unwrap a schema that is nullable."""
    node = _mapping(raw)
    for _ in range(_MAX_REFERENCES):
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
