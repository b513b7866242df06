"""Rows out of YAML, read the way JSON would: no dates, no `yes` for true, no bombs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

from .row import LISTS, Row

_DEEPEST = 200
_MOST_NODES = 2_000_000
_YAML: Any = yaml  # whose stubs know only half of it
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):
    """Scalars are text, numbers, true, false or null; all else stays text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if not tag.endswith((":timestamp", ":bool"))]
    for first, found in _BASE.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool",
    re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"),
    list("tTfF"),
)


class _Unreadable(Exception):
    """A YAML file that is well formed and still cannot be read."""


def yaml_rows(text: str) -> Iterator[Row]:
    """The items of each list of tools; any other document whole."""
    loader: Any = None
    try:
        has_aliases = _check_depth(text)
        loader = _Loader(text)
        while loader.check_node():
            node = cast("Node", loader.get_node())
            if has_aliases:
                _weight(node, {})
            yield from _rows(node, loader)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        told = getattr(error, "problem", None) or str(error).partition("\n")[0]
        line = 1 if mark is None else mark.line + 1
        yield Row(line, fault=f"Not valid YAML: {told}.", remedy="Mend the file from here on.")
    except (_Unreadable, ValueError, TypeError, RecursionError) as error:
        yield Row(1, fault=f"Cannot be read: {error}.", remedy="Write it as JSON Lines instead.")
    finally:
        if loader is not None:
            loader.dispose()


def _check_depth(text: str) -> bool:
    """Refuse bottomless nesting before anything recurses into it; say whether aliases occur."""
    depth = 0
    has_aliases = False
    events: Iterator[object] = _YAML.parse(text, Loader=_Loader)
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise _Unreadable(f"nested more than {_DEEPEST} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            has_aliases = True
    return has_aliases


def _weight(node: Node, known: dict[int, int]) -> int:
    """How many nodes there are once every alias is written out; a cycle never ends."""
    if id(node) in known:
        if known[id(node)] < 0:
            raise _Unreadable("an alias refers to what it is part of")
        return known[id(node)]
    known[id(node)] = -1
    total = 1 + sum(_weight(child, known) for child in _children(node))
    if total > _MOST_NODES:
        raise _Unreadable("its aliases multiply beyond measure")
    known[id(node)] = total
    return total


def _children(node: Node) -> list[Node]:
    match node:
        case SequenceNode():
            return list(cast("list[Node]", node.value))
        case MappingNode():
            pairs = cast("list[tuple[Node, Node]]", node.value)
            return [part for pair in pairs for part in pair]
        case _:
            return []


def _rows(node: Node, loader: Any) -> Iterator[Row]:
    lists = list(_lists(node))
    for part in _children(lists[0]) if len(lists) == 1 else [node]:
        yield Row(part.start_mark.line + 1, loader.construct_document(part))


def _lists(node: Node) -> Iterator[Node]:
    """The list of tools that a document is or holds."""
    if isinstance(node, SequenceNode):
        yield node
    elif isinstance(node, MappingNode):
        for key, value in cast("list[tuple[Node, Node]]", node.value):
            if key.value in LISTS and isinstance(value, SequenceNode):
                yield value
            elif key.value == "result":
                yield from _lists(value)
