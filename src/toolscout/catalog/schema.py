"""JSON Schemas as frozen text, and the parameters they declare."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from ..errors import SchemaError
from .sanitization import JSONEncodeError, encode_json

EMPTY = '{"type":"object","properties":{}}'
SIZE_CAP = 16_000_000  # characters
# A schema from outside may be huge or recursive. These bound how deep it is read, how many
# parameters and enum values are taken, and how many variants of one node.
_MAX_DEPTH = 4
_MAX_PARAMETERS = 400
_MAX_VARIANTS = 40
_VARIANTS = ("anyOf", "oneOf", "allOf")
# A node without any of these keys has no parameters inside, or no list of values.
_NESTING_KEYS = frozenset({"properties", "items", *_VARIANTS})
_VALUE_KEYS = frozenset({"enum", "const", "items", *_VARIANTS})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool, as its schema declares it.

    `default` is JSON, or empty if there is none. `parent` is the dotted path of the argument
    around it.
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


def _declarations(root: dict[str, Any], max_depth: int = _MAX_DEPTH) -> Iterator[_Declaration]:
    """Each argument, outer ones first, in declared order; recursive types are entered once."""
    # Breadth first, so that the limits cut off the innermost parameters.
    level: list[tuple[str, dict[str, Any]]] = [("", _resolve(root, root))]
    entered: set[object] = set()
    count = 0
    for depth in range(max_depth + 1):
        below: list[tuple[str, dict[str, Any]]] = []
        for parent, node in level:
            declared, required = _object_properties(node, root)
            for name, raw in declared.items():
                count += 1
                if count > _MAX_PARAMETERS:
                    return
                child = _resolve(_as_mapping(raw), root)
                yield _Declaration(name, child, name in required, depth, parent)
                if not child.keys().isdisjoint(_NESTING_KEYS) and _is_new(raw, entered):
                    below.append((f"{parent}.{name}" if parent else name, child))
        level = below


def _description(node: dict[str, Any]) -> str:
    text = node.get("description")
    return text if isinstance(text, str) else ""


def _as_mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _resolve(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Follow local references a few steps, so that cycles end."""
    for _ in range(_MAX_DEPTH):
        reference = node.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        target: object = root
        for part in reference[2:].split("/"):
            target = _as_mapping(target).get(part.replace("~1", "/").replace("~0", "~"))
        # Keys beside a $ref override the target's. JSON Schema allows them since 2019-09.
        siblings = {k: v for k, v in node.items() if k != "$ref"}
        node = {**_as_mapping(target), **siblings} if siblings else _as_mapping(target)
    return node


def _variants(
    node: dict[str, Any], root: dict[str, Any], *, keys: tuple[str, ...] = _VARIANTS
) -> Iterator[dict[str, Any]]:
    for key in keys:
        options = node.get(key)
        if isinstance(options, list):
            for option in cast("list[object]", options)[:_MAX_VARIANTS]:
                yield _resolve(_as_mapping(option), root)


def _type_of(node: dict[str, Any], root: dict[str, Any], depth: int = 0) -> str:
    kind: object = node.get("type")
    if kind == "array":
        items = _resolve(_as_mapping(node.get("items")), root)
        return f"{_type_of(items, root, depth + 1) if depth < _MAX_DEPTH else 'any'}[]"
    if isinstance(kind, str):
        return kind
    if isinstance(kind, list):
        kinds = [str(k) for k in cast("list[object]", kind)[:_MAX_VARIANTS]]
    elif depth < _MAX_DEPTH:
        kinds = [_type_of(option, root, depth + 1) for option in _variants(node, root)]
    else:
        kinds = []
    types = "|".join(dict.fromkeys(k for k in kinds if k != "null"))
    return types or _infer_type(node)


def _infer_type(node: dict[str, Any]) -> str:
    """The type of a schema without a `type`."""
    if "enum" in node or "const" in node:
        return "enum"
    return "object" if "properties" in node else "any"


def _enum_values(node: dict[str, Any], root: dict[str, Any]) -> tuple[str, ...]:
    """The allowed values of an argument: its own, its items' and its variants'."""
    nodes = [node]
    if "items" in node:
        nodes.append(_resolve(_as_mapping(node["items"]), root))
    if not node.keys().isdisjoint(_VARIANTS):
        nodes += _variants(node, root)
    values: list[object] = []
    for candidate in nodes:
        options = candidate.get("enum")
        if isinstance(options, list):
            values += cast("list[object]", options)[:_MAX_PARAMETERS]
        elif "const" in candidate:
            values.append(candidate["const"])
    return tuple(dict.fromkeys(str(v) for v in values if v is not None))[:_MAX_PARAMETERS]


def _is_new(raw: object, entered: set[object]) -> bool:
    """Whether the target of a node's reference is entered for the first time."""
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
        values=() if node.keys().isdisjoint(_VALUE_KEYS) else _enum_values(node, root),
        depth=declared.depth,
        default="" if default is None else json.dumps(default, ensure_ascii=False),
        parent=declared.parent,
    )


def _object_properties(
    node: dict[str, Any], root: dict[str, Any]
) -> tuple[dict[str, object], frozenset[str]]:
    """The properties of an object, of the items of a list and of all variants; the first wins."""
    parts = [node]
    if "items" in node:
        parts.append(_resolve(_as_mapping(node["items"]), root))
    parts += _variants(node, root, keys=("allOf",))
    required_names: frozenset[str] = frozenset()
    for part in parts:
        required = part.get("required")
        if isinstance(required, list):
            names = cast("list[object]", required)
            required_names |= {n for n in names if isinstance(n, str)}
    # A property of one variant is optional, so the variants' `required` lists do not count.
    parts += _variants(node, root, keys=("anyOf", "oneOf"))
    declared: dict[str, object] = {}
    for part in parts:
        for name, raw in _as_mapping(part.get("properties")).items():
            declared.setdefault(name, raw)
    return declared, required_names


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON Schema as compact text, so that a hundred thousand of them fit in memory."""

    text: str = EMPTY

    @classmethod
    def of(cls, value: object) -> Schema:
        """Encode a decoded schema, with its texts cleaned; None means no arguments."""
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
                f"The schema has {len(text):,} characters; at most {SIZE_CAP:,} are allowed.",
                hint="Leave out long enumerations, examples and inlined definitions.",
            )
        return _NOTHING if text == EMPTY else cls(text)

    @property
    def value(self) -> dict[str, Any]:
        """The schema as a new dictionary, which the caller may change."""
        return cast("dict[str, Any]", json.loads(self.text))

    def parameters(self, *, max_depth: int = _MAX_DEPTH) -> tuple[Parameter, ...]:
        """The arguments in declared order, outer ones first, a few levels deep."""
        if self.text == EMPTY:
            return ()
        root = self.value
        return tuple(_build_parameter(d, root) for d in _declarations(root, max_depth))

    def descriptions(self) -> list[tuple[str, str]]:
        """The names and descriptions of the same arguments, which is faster."""
        declared = () if self.text == EMPTY else _declarations(self.value)
        return [(d.name, _description(d.node)) for d in declared]

    def top_level(self) -> tuple[Parameter, ...]:
        """The outermost arguments only."""
        return self.parameters(max_depth=0)


_NOTHING = Schema()
