"""Rows out of YAML, read the way JSON would: no dates, no `yes` for true, no bombs."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any, cast

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from .rows import FIX_ITEM, FIX_REST, TOOL_LIST_KEYS, Row, is_tool, server_of
from .yaml_events import (
    YAML_ERRORS,
    UnreadableYAML,
    YAMLLoader,
    describe_yaml_error,
    error_position,
    parse_events,
)
from .yaml_recovery import blank_broken_items, blank_dangling_items

_MOST_NODES = 2_000_000
_NULL = "tag:yaml.org,2002:null"
_TEXT = "tag:yaml.org,2002:str"


def read_yaml(text: str) -> Iterator[Row]:
    """The items of each list of tools; any other document whole; a bad item costs only itself."""
    faults: list[Row] = []
    rows: Iterator[Row] = iter(())
    for salvage in (blank_broken_items, blank_dangling_items, None):
        try:
            documents, has_aliases = _compose_documents(text)
        except YAML_ERRORS as error:
            if salvage is None:
                rows = iter([_error_row(error)])
                break
            text, found = salvage(text)
            faults += found
        else:
            rows = _document_rows(documents, has_aliases=has_aliases)
            break
    faults.sort(key=lambda row: row.line)
    yield from merge(faults, rows, key=lambda row: row.line)


def _error_row(error: Exception) -> Row:
    line, _ = error_position(error) or (0, 0)
    return Row(line + 1, fault=describe_yaml_error(error), remedy=FIX_REST)


def _compose_documents(text: str) -> tuple[list[Node], bool]:
    """Every document of a text, and whether aliases occur; raises where it cannot be read."""
    has_aliases = False
    for event in parse_events(text):
        has_aliases = has_aliases or isinstance(event, yaml.AliasEvent)
    loader: Any = YAMLLoader(text)
    try:
        nodes: list[Node] = []
        while loader.check_node():
            nodes.append(loader.get_node())
    finally:
        loader.dispose()
    return nodes, has_aliases


def _document_rows(documents: list[Node], *, has_aliases: bool) -> Iterator[Row]:
    scale = _ExpansionBudget()
    for document in documents:
        for node, server in _tool_nodes(document):
            line = node.start_mark.line + 1
            try:
                if has_aliases:
                    scale.spend(node)
                value = _construct(node)
            except YAML_ERRORS as error:
                yield Row(line, fault=describe_yaml_error(error), remedy=FIX_ITEM)
            else:
                yield Row(line, value, server=server)


def _construct(node: Node) -> object:
    constructor: Any = SafeConstructor()  # a new one each, since a fault leaves traces in it
    return cast("object", constructor.construct_document(node))


def _tool_nodes(node: Node, server: str = "") -> Iterator[tuple[Node, str]]:
    """The items of a document's lists of tools, with their server; without a list, itself."""
    if isinstance(node, SequenceNode):
        yield from ((item, server) for item in _children(node))
        return
    members = _members(node)
    said = {key: value.value if value.tag == _TEXT else None for key, value in members.items()}
    server = server_of(said) or server
    lists = [value for key, value in members.items() if key in TOOL_LIST_KEYS and _is_list(value)]
    if is_tool(said) or not (lists or isinstance(members.get("result"), MappingNode)):
        yield node, ""
    elif lists:
        yield from ((item, server) for value in lists for item in _children(value))
    else:
        yield from _tool_nodes(members["result"], server)


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


class _ExpansionBudget:
    """Weighs rows with every alias written out, so that a few lines never stand for millions."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._total = 0

    def spend(self, node: Node) -> None:
        """Refuse a row that never ends, or that is more than all may be together."""
        weight = self._node_count(node)
        if self._total + weight > _MOST_NODES:
            raise UnreadableYAML("its aliases multiply beyond measure")
        self._total += weight

    def _node_count(self, node: Node) -> int:
        known = self._known.get(id(node))
        if known is not None:
            if known < 0:
                raise UnreadableYAML("an alias refers to what it is part of")
            return known
        self._known[id(node)] = -1
        total = 1 + sum(self._node_count(child) for child in _children(node))
        self._known[id(node)] = min(total, _MOST_NODES + 1)
        return self._known[id(node)]
