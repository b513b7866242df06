"""JSON Schemas as frozen text, and the parameters they declare."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from ..errors import SchemaError
from .sanitization import JSONEncodeError, encode_json

_DEPTH = 4
_WIDTH = 400
_OPTIONS = 40
_VARIANTS = ("anyOf", "oneOf", "allOf")
_NESTING = frozenset({"properties", "items", *_VARIANTS})
_LISTING = frozenset({"enum", "const", "items", *_VARIANTS})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool, as its schema declares it.

    `default` is JSON, or empty for none; `parent` is the dotted path of the argument it is part of.
    """

    name: str
    type: str = "any"
    description: str = ""
    required: bool = False
    values: tuple[str, ...] = ()
    depth: int = 0
    default: str = ""
    parent: str = ""


class _Declaration(NamedTuple):
    """Where a schema declares an argument."""

    name: str
    node: dict[str, Any]
    required: bool
    depth: int
    parent: str


def parameters_of(root: dict[str, Any], *, deepest: int = _DEPTH) -> Iterator[Parameter]:
    """Each argument, outer ones first, in declared order; recursive types are entered once."""
    return (_build_parameter(declared, root) for declared in _declarations(root, deepest))


def descriptions_of(root: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The names and descriptions of the same arguments."""
    return ((d.name, _description(d.node)) for d in _declarations(root, _DEPTH))


def _declarations(root: dict[str, Any], deepest: int) -> Iterator[_Declaration]:
    level: list[tuple[str, dict[str, Any]]] = [("", _resolve(root, root))]
    entered: set[object] = set()
    seen = 0
    for depth in range(deepest + 1):
        below: list[tuple[str, dict[str, Any]]] = []
        for parent, node in level:
            declared, needed = _object_properties(node, root)
            for name, raw in declared.items():
                seen += 1
                if seen > _WIDTH:
                    return
                child = _resolve(_as_mapping(raw), root)
                yield _Declaration(name, child, name in needed, depth, parent)
                if not child.keys().isdisjoint(_NESTING) and _is_new(raw, entered):
                    below.append((f"{parent}.{name}" if parent else name, child))
        level = below


def _description(node: dict[str, Any]) -> str:
    text = node.get("description")
    return text if isinstance(text, str) else ""


def _as_mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _resolve(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Follow local references a few steps; cycles simply end."""
    for _ in range(_DEPTH):
        reference = node.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        target: object = root
        for part in reference[2:].split("/"):
            target = _as_mapping(target).get(part.replace("~1", "/").replace("~0", "~"))
        beside = {k: v for k, v in node.items() if k != "$ref"}
        node = {**_as_mapping(target), **beside} if beside else _as_mapping(target)
    return node


def _variants(
    node: dict[str, Any], root: dict[str, Any], *, keys: tuple[str, ...] = _VARIANTS
) -> Iterator[dict[str, Any]]:
    for key in keys:
        options = node.get(key)
        if isinstance(options, list):
            for option in cast("list[object]", options)[:_OPTIONS]:
                yield _resolve(_as_mapping(option), root)


def _type_of(node: dict[str, Any], root: dict[str, Any], depth: int = 0) -> str:
    kind: object = node.get("type")
    if kind == "array":
        items = _resolve(_as_mapping(node.get("items")), root)
        return f"{_type_of(items, root, depth + 1) if depth < _DEPTH else 'any'}[]"
    if isinstance(kind, str):
        return kind
    if isinstance(kind, list):
        kinds = [str(k) for k in cast("list[object]", kind)[:_OPTIONS]]
    elif depth < _DEPTH:
        kinds = [_type_of(option, root, depth + 1) for option in _variants(node, root)]
    else:
        kinds = []
    named = "|".join(dict.fromkeys(k for k in kinds if k != "null"))
    return named or _infer_type(node)


def _infer_type(node: dict[str, Any]) -> str:
    """The type of a schema that does not name one."""
    if "enum" in node or "const" in node:
        return "enum"
    return "object" if "properties" in node else "any"


def _enum_values(node: dict[str, Any], root: dict[str, Any]) -> tuple[str, ...]:
    """What the argument may be, if that is a list of values: its own, its items', its variants'."""
    nodes = [node]
    if "items" in node:
        nodes.append(_resolve(_as_mapping(node["items"]), root))
    if not node.keys().isdisjoint(_VARIANTS):
        nodes += _variants(node, root)
    found: list[object] = []
    for candidate in nodes:
        options = candidate.get("enum")
        if isinstance(options, list):
            found += cast("list[object]", options)[:_WIDTH]
        elif "const" in candidate:
            found.append(candidate["const"])
    return tuple(dict.fromkeys(str(v) for v in found if v is not None))[:_WIDTH]


def _is_new(raw: object, entered: set[object]) -> bool:
    """Whether what a node refers to was not walked before; recursive types are shown once."""
    node = _as_mapping(raw)
    reference = node.get("$ref") or _as_mapping(node.get("items")).get("$ref")
    if not isinstance(reference, str):
        return True
    is_new = reference not in entered
    entered.add(reference)
    return is_new


def _build_parameter(declared: _Declaration, root: dict[str, Any]) -> Parameter:
    node = declared.node
    default = node.get("default")
    return Parameter(
        name=declared.name,
        type=_type_of(node, root),
        description=_description(node),
        required=declared.required or node.get("required") is True,
        values=() if node.keys().isdisjoint(_LISTING) else _enum_values(node, root),
        depth=declared.depth,
        default="" if default is None else json.dumps(default, ensure_ascii=False),
        parent=declared.parent,
    )


def _object_properties(
    node: dict[str, Any], root: dict[str, Any]
) -> tuple[dict[str, object], frozenset[str]]:
    """What an object, the items of a list or all variants together declare; the first wins."""
    parts = [node]
    if "items" in node:
        parts.append(_resolve(_as_mapping(node["items"]), root))
    parts += _variants(node, root, keys=("allOf",))
    needed: frozenset[str] = frozenset()
    for part in parts:
        required = part.get("required")
        if isinstance(required, list):
            names = cast("list[object]", required)
            needed |= {n for n in names if isinstance(n, str)}
    parts += _variants(node, root, keys=("anyOf", "oneOf"))
    declared: dict[str, object] = {}
    for part in parts:
        for name, raw in _as_mapping(part.get("properties")).items():
            declared.setdefault(name, raw)
    return declared, needed


__all__ = ["EMPTY", "Parameter", "Schema"]

EMPTY = '{"type":"object","properties":{}}'
SIZE_CAP = 16_000_000


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON Schema kept as compact text, so a hundred thousand of them fit in memory."""

    text: str = EMPTY

    @classmethod
    def of(cls, value: object) -> Schema:
        """Freeze a decoded schema, its texts cleaned; null means *takes no arguments*."""
        if value is None:
            return _NOTHING
        if not isinstance(value, Mapping):
            raise SchemaError(
                f"A schema must be a JSON object, not {type(value).__name__}.",
                hint='Write {"type": "object", "properties": {…}} or null.',
            )
        try:
            text = encode_json(cast("Mapping[object, object]", value))
        except JSONEncodeError as error:
            raise SchemaError(f"The schema {error}.", hint=error.remedy) from error
        if len(text) > SIZE_CAP:
            raise SchemaError(
                f"The schema has {len(text):,} characters; at most {SIZE_CAP:,} are kept.",
                hint="Leave out long enumerations, examples and inlined definitions.",
            )
        return _NOTHING if text == EMPTY else cls(text)

    @property
    def value(self) -> dict[str, Any]:
        """The schema as a fresh dictionary; changing it changes nothing here."""
        return cast("dict[str, Any]", json.loads(self.text))

    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments, outer ones first, a few levels deep, in declared order."""
        return () if self.text == EMPTY else tuple(parameters_of(self.value))

    def descriptions(self) -> list[tuple[str, str]]:
        """The names and descriptions of the same arguments, for those who need no more."""
        return [] if self.text == EMPTY else list(descriptions_of(self.value))

    def top_level(self) -> tuple[Parameter, ...]:
        """Only the outermost arguments."""
        return () if self.text == EMPTY else tuple(parameters_of(self.value, deepest=0))


_NOTHING = Schema()
