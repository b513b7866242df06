"""What is wrong with the tool definitions of a server, beyond what its listing already left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast
from weakref import WeakKeyDictionary

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, specification_with

from ...catalog.tool import Tool, qualify_name
from ...sources.mcp.mcp_source import MCPSource
from ...sources.mcp.servers import Server
from ...sources.mcp.wire import MCPToolDefinition

Definitions = Mapping[str, MCPToolDefinition]
ToolProblems = Mapping[str, tuple[str, ...]]
"""Problems by the server's own name of a tool."""

# Keywords whose schemas apply to the same value as the schema around them. A reference cycle that
# passes only through these never ends; one through `properties` or `items` ends with the data.
_SAME_VALUE_KEYWORDS = ("not", "if", "then", "else")
_SAME_VALUE_LISTS = ("allOf", "anyOf", "oneOf")
# The values of these are data, where "$ref" is an ordinary key.
_DATA_KEYWORDS = frozenset({"const", "default", "enum", "example", "examples"})


_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_TEXT_KEYWORDS = frozenset({"description", "title", "format"})
_FREE_KEYWORDS = frozenset({"default", "examples", "const"})


def _is_plain(schema: Any) -> bool:
    """Whether a schema has only the usual keywords with the usual values, and so no flaw.

    Most schemas are plain, and this takes a hundredth of the time that a validator takes.
    """
    return isinstance(schema, dict) and all(
        _is_plain_keyword(key, value) for key, value in cast("dict[str, Any]", schema).items()
    )


def _is_plain_keyword(key: str, value: Any) -> bool:
    match key, value:
        case ("type", str()):
            return value in _TYPES
        case ("properties", dict()):
            return all(map(_is_plain, cast("dict[str, Any]", value).values()))
        case ("items", _):
            return _is_plain(value)
        case ("required", list()):
            names = cast("list[Any]", value)
            return all(isinstance(n, str) for n in names) and len({*names}) == len(names)
        case ("additionalProperties", bool()):
            return True
        case ("enum", list()):
            return bool(cast("list[Any]", value))
        case _:
            return key in _FREE_KEYWORDS or (key in _TEXT_KEYWORDS and isinstance(value, str))


def find_schema_flaws(schema: dict[str, Any]) -> Iterator[str]:
    """The reasons why arguments cannot be validated against a schema."""
    if _is_plain(schema):
        return
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        yield f"is not JSON Schema: {error.message}."
        return
    except RecursionError:
        yield "nests too deeply."
        return
    try:
        yield from _SchemaReferences(schema).find_broken()
    except RecursionError:
        yield "nests too deeply."


class _SchemaReferences:
    """Follows the references of one schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        specification = specification_with(str(schema.get("$schema", "")), default=DRAFT202012)
        resource = cast("Resource[Any]", Resource(schema, specification))
        # Without a retriever, the registry never fetches a remote reference.
        registry: Registry[Any] = Registry()
        self._resolver = registry.with_resource("", resource).resolver("")
        self._acyclic: set[int] = set()  # ids of the nodes that were checked already

    def find_broken(self) -> Iterator[str]:
        """The references that cannot be resolved or form a cycle, each once."""
        seen: set[str] = set()
        for node in _iter_schemas(self._schema):
            flaw = self._reference_flaw(node)
            if flaw and flaw not in seen:
                seen.add(flaw)
                yield flaw

    def _reference_flaw(self, node: Mapping[str, Any]) -> str:
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return ""
        if self._resolve(node) is None:
            return f"refers to {reference!r}, which cannot be followed."
        if self._is_circular(node, frozenset()):
            return f"refers to {reference!r}, which leads back to itself."
        return ""

    def _resolve(self, node: Mapping[str, Any]) -> Any:
        try:
            return self._resolver.lookup(node["$ref"]).contents
        except (Unresolvable, ValueError):
            return None

    def _is_circular(self, node: Any, above: frozenset[int]) -> bool:
        if not isinstance(node, dict) or id(cast("object", node)) in self._acyclic:
            return False
        if id(cast("object", node)) in above:
            return True
        schema = cast("dict[str, Any]", node)
        above |= {id(schema)}
        if any(self._is_circular(inner, above) for inner in self._same_value_schemas(schema)):
            return True
        self._acyclic.add(id(schema))
        return False

    def _same_value_schemas(self, node: Mapping[str, Any]) -> Iterator[Any]:
        if isinstance(node.get("$ref"), str):
            yield self._resolve(node)
        yield from (node[key] for key in _SAME_VALUE_KEYWORDS if key in node)
        for key in _SAME_VALUE_LISTS:
            yield from node.get(key) or ()


def _iter_schemas(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in a schema, except those that are data."""
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        yield table
        for key, inner in table.items():
            if key not in _DATA_KEYWORDS:
                yield from _iter_schemas(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _iter_schemas(inner)


def definition_problems(server: Server, definitions: Definitions) -> ToolProblems:
    """The tools whose name has to change, or whose calls would be refused with any arguments."""
    found = {name: tuple(_find_problems(server, d)) for name, d in definitions.items()}
    return {name: problems for name, problems in found.items() if problems}


def _find_problems(server: Server, definition: MCPToolDefinition) -> Iterator[str]:
    name = definition.tool.name
    if server.is_prefixed and name != qualify_name(server.name, definition.local):
        yield f"{definition.local!r} has a name that some clients refuse; it becomes {name}."
    yield from schema_problems(definition.local, definition.tool)


def schema_problems(name: str, tool: Tool) -> Iterator[str]:
    """Why calls of a tool would be refused with any arguments."""
    for flaw in find_schema_flaws(tool.parameters.value):
        yield f"{name!r} is unreliable: its schema {flaw}"


class KnownProblems:
    """The problems of each server's definitions, found once for each of its listings."""

    # Checking a schema takes about a millisecond, which is too long for each request of a probe.

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[MCPSource, tuple[Definitions, ToolProblems]] = (
            WeakKeyDictionary()
        )

    def find(self, source: MCPSource) -> ToolProblems:
        """The problems in what a server lists now."""
        definitions = source.definitions
        known = self._known.get(source)
        # Every listing makes a new mapping, so identity is enough and costs nothing.
        if known is None or known[0] is not definitions:
            known = (definitions, definition_problems(source.server, definitions))
            self._known[source] = known
        return known[1]
