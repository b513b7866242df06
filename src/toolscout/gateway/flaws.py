"""What is wrong with a tool's schema, so that calls would be refused: found without a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, specification_with

# Where a schema stands that is asked about the very same value, so that a circle never ends.
_HERE = ("not", "if", "then", "else")
_HERE_LISTS = ("allOf", "anyOf", "oneOf")
_DATA = frozenset({"const", "default", "enum", "example", "examples"})


def flaws(schema: dict[str, Any]) -> Iterator[str]:
    """Each reason why arguments could not be checked against a schema."""
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        yield f"is not JSON Schema: {error.message}."
        return
    except RecursionError:
        yield "nests too deeply."
        return
    try:
        yield from _References(schema).broken()
    except RecursionError:
        yield "nests too deeply."


class _References:
    """The references of one schema, each followed to what it names."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        specification = specification_with(str(schema.get("$schema", "")), default=DRAFT202012)
        resource = cast("Resource[Any]", Resource(schema, specification))
        registry: Registry[Any] = Registry()
        self._resolver = registry.with_resource("", resource).resolver("")
        self._ended: set[int] = set()

    def broken(self) -> Iterator[str]:
        """Those that lead nowhere, or back to themselves; each told once."""
        told: set[str] = set()
        for node in _schemas(self._schema):
            said = self._said_of(node)
            if said and said not in told:
                told.add(said)
                yield said

    def _said_of(self, node: Mapping[str, Any]) -> str:
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return ""
        if self._followed(node) is None:
            return f"refers to {reference!r}, which cannot be followed."
        if self._circles(node, frozenset()):
            return f"refers to {reference!r}, which leads back to itself."
        return ""

    def _followed(self, node: Mapping[str, Any]) -> Any:
        try:
            return self._resolver.lookup(node["$ref"]).contents
        except (Unresolvable, ValueError):
            return None

    def _circles(self, node: Any, above: frozenset[int]) -> bool:
        if not isinstance(node, dict) or id(cast("object", node)) in self._ended:
            return False
        if id(cast("object", node)) in above:
            return True
        table = cast("dict[str, Any]", node)
        above |= {id(table)}
        if any(self._circles(inner, above) for inner in self._here(table)):
            return True
        self._ended.add(id(table))
        return False

    def _here(self, node: Mapping[str, Any]) -> Iterator[Any]:
        if isinstance(node.get("$ref"), str):
            yield self._followed(node)
        yield from (node[key] for key in _HERE if key in node)
        for key in _HERE_LISTS:
            yield from node.get(key) or ()


def _schemas(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in a schema, but for those that are data."""
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        yield table
        for key, inner in table.items():
            if key not in _DATA:
                yield from _schemas(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _schemas(inner)
