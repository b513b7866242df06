"""Rows out of YAML, read the way JSON would: no dates, no `yes` for true, no bombs."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any, cast

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from .envelope import LISTS, is_tool, server_of
from .row import MEND_ITEM, MEND_REST, Row
from .yamlevents import FAULTS, Loader, Unreadable, events, place_of, told
from .yamlsalvage import without_broken, without_dangling

_MOST_NODES = 2_000_000
_NULL = "tag:yaml.org,2002:null"
_TEXT = "tag:yaml.org,2002:str"


def yaml_rows(text: str) -> Iterator[Row]:
    """The items of each list of tools; any other document whole; a bad item costs only itself."""
    faults: list[Row] = []
    rows: Iterator[Row] = iter(())
    for salvage in (without_broken, without_dangling, None):
        try:
            documents, has_aliases = _documents(text)
        except FAULTS as error:
            if salvage is None:
                rows = iter([_last_row(error)])
                break
            text, found = salvage(text)
            faults += found
        else:
            rows = _rows_of(documents, has_aliases=has_aliases)
            break
    faults.sort(key=lambda row: row.line)
    yield from merge(faults, rows, key=lambda row: row.line)


def _last_row(error: Exception) -> Row:
    line, _ = place_of(error) or (0, 0)
    return Row(line + 1, fault=told(error), remedy=MEND_REST)


def _documents(text: str) -> tuple[list[Node], bool]:
    """Every document of a text, and whether aliases occur; raises where it cannot be read."""
    has_aliases = False
    for event in events(text):
        has_aliases = has_aliases or isinstance(event, yaml.AliasEvent)
    loader: Any = Loader(text)
    try:
        nodes: list[Node] = []
        while loader.check_node():
            nodes.append(loader.get_node())
    finally:
        loader.dispose()
    return nodes, has_aliases


def _rows_of(documents: list[Node], *, has_aliases: bool) -> Iterator[Row]:
    scale = _Scale()
    for document in documents:
        for node, server in _parts(document):
            line = node.start_mark.line + 1
            try:
                if has_aliases:
                    scale.weigh(node)
                value = _value(node)
            except FAULTS as error:
                yield Row(line, fault=told(error), remedy=MEND_ITEM)
            else:
                yield Row(line, value, server=server)


def _value(node: Node) -> object:
    constructor: Any = SafeConstructor()  # a new one each, since a fault leaves traces in it
    return cast("object", constructor.construct_document(node))


def _parts(node: Node, server: str = "") -> Iterator[tuple[Node, str]]:
    """The items of a document's lists of tools, with their server; without a list, itself."""
    if isinstance(node, SequenceNode):
        yield from ((item, server) for item in _children(node))
        return
    members = _members(node)
    said = {key: value.value if value.tag == _TEXT else None for key, value in members.items()}
    server = server_of(said) or server
    lists = [value for key, value in members.items() if key in LISTS and _is_list(value)]
    if is_tool(said) or not (lists or isinstance(members.get("result"), MappingNode)):
        yield node, ""
    elif lists:
        yield from ((item, server) for value in lists for item in _children(value))
    else:
        yield from _parts(members["result"], server)


def _members(node: Node) -> dict[str, Node]:
    if not isinstance(node, MappingNode):
        return {}
    pairs = cast("list[tuple[Node, Node]]", node.value)
    return {key.value: value for key, value in pairs if isinstance(key, ScalarNode)}


def _is_list(node: Node) -> bool:
    """Whether this is a list, even one with nothing in it."""
    return isinstance(node, SequenceNode) or node.tag == _NULL


def _children(node: Node) -> list[Node]:
    match node:
        case SequenceNode():
            return list(cast("list[Node]", node.value))
        case MappingNode():
            pairs = cast("list[tuple[Node, Node]]", node.value)
            return [part for pair in pairs for part in pair]
        case _:
            return []


class _Scale:
    """Weighs rows with every alias written out, so that a few lines never stand for millions."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._total = 0

    def weigh(self, node: Node) -> None:
        """Refuse a row that never ends, or that is more than all may be together."""
        weight = self._weight(node)
        if self._total + weight > _MOST_NODES:
            raise Unreadable("its aliases multiply beyond measure")
        self._total += weight

    def _weight(self, node: Node) -> int:
        known = self._known.get(id(node))
        if known is not None:
            if known < 0:
                raise Unreadable("an alias refers to what it is part of")
            return known
        self._known[id(node)] = -1
        total = 1 + sum(self._weight(child) for child in _children(node))
        self._known[id(node)] = min(total, _MOST_NODES + 1)
        return self._known[id(node)]
