"""Rows of YAML, read the way JSON would be: no dates, no `yes` for true, no alias bombs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import yaml

from .json_rows import CUT_OFF, FIX_ITEM, FIX_REST, Row
from .tool_formats import TOOL_LIST_KEYS, is_tool

YAML_ERRORS = (yaml.YAMLError, ValueError, TypeError, RecursionError)
_MAX_DEPTH = 200
_MAX_NODES = 5_000_000  # with all aliases written out, so that a few lines never stand for more
_YAML: Any = yaml  # its stubs leave half of it untyped
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YAMLLoader(_BASE):
    """Scalars are text, numbers, true, false or null; everything else stays text."""

    yaml_implicit_resolvers: ClassVar[Any] = {
        first: [(tag, form) for tag, form in rules if not tag.endswith((":timestamp", ":bool"))]
        for first, rules in _BASE.yaml_implicit_resolvers.items()
    }


YAMLLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def read_yaml(text: str) -> Iterator[Row]:
    """Read the items of a list of tools one by one, anything else whole."""
    faults: dict[int, Row] = {}
    try:
        check_yaml(text)
        documents = list(_YAML.compose_all(text, Loader=YAMLLoader))
        rows = (row for document in documents for row in _document_rows(document))
    except YAML_ERRORS as error:
        good_text, faults = _replace_bad_items(text)
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        fault = Row(line, fault=describe_yaml_error(error), remedy=FIX_REST)
        rows = read_yaml(good_text) if faults else iter([fault])
    for row in rows:
        yield faults.pop(row.line, row)
    yield from faults.values()


def describe_yaml_error(error: Exception, *, above: int = 0) -> str:
    """Explain an error; `above` is how many lines of the file come before the text."""
    if not isinstance(error, yaml.YAMLError):
        is_encoding = isinstance(error, UnicodeError)
        return "Not valid UTF-8." if is_encoding else f"Cannot be read: {error}."
    reason = getattr(error, "problem", None) or str(error).partition("\n")[0]
    mark: Any = getattr(error, "problem_mark", None)
    place = f" at line {above + mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"Not valid YAML: {reason}{place}."


def check_yaml(text: str) -> None:
    """Refuse syntax errors, and what would exhaust stack or memory: nesting, billion laughs."""
    sizes: dict[str | None, int] = {}  # how many nodes an anchor stands for
    open_nodes: list[tuple[str | None, int]] = []
    total = 0
    for event in _YAML.parse(text, Loader=YAMLLoader):
        total += 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, total))
            sizes[event.anchor] = _MAX_NODES  # inside itself it would never end
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            sizes[anchor] = total - before
        elif isinstance(event, yaml.AliasEvent):
            total += sizes.get(event.anchor, 1)
        if len(open_nodes) > _MAX_DEPTH:
            raise yaml.YAMLError(f"nested more than {_MAX_DEPTH} levels deep")
        if total > _MAX_NODES:
            raise yaml.YAMLError(f"more than {_MAX_NODES:,} values, with each alias written out")


def _replace_bad_items(text: str) -> tuple[str, dict[int, Row]]:
    """Replace each item of the outermost list that is not YAML by itself with `- null`."""
    indent = min(re.findall(r"(?m)^( *)-(?:\s|$)", text), default="")
    # An item continues with lines that are indented further, blank, or a comment.
    item = rf"(?m)(^{indent}-(?:[ \t\r].*)?$(?:\n(?:{indent}[ \t].*|[ \t\r]*(?:#.*)?)$)*)"
    parts = re.split(item, text)
    faults, line = dict[int, Row](), 1
    for number, part in enumerate(parts):
        try:
            if number % 2:  # every second part is an item
                check_yaml(part)
        except YAML_ERRORS as error:
            mark: Any = getattr(error, "problem_mark", None)
            is_cut = number == len(parts) - 2 and mark and mark.index >= len(part.rstrip())
            fault = describe_yaml_error(error, above=line - 1)
            faults[line] = Row(line, fault=fault, remedy=CUT_OFF if is_cut else FIX_ITEM)
            parts[number] = f"{indent}- null" + "\n" * part.count("\n")
        line += part.count("\n")
    return "".join(parts), faults


def _document_rows(document: Any) -> Iterator[Row]:
    members = _members(document)
    members |= _members(members.get("result"))
    lists = [members[key] for key in members if key in TOOL_LIST_KEYS]
    items = [item for node in lists if isinstance(node, yaml.SequenceNode) for item in node.value]
    envelope = {key: n.value if n.tag.endswith(":str") else None for key, n in members.items()}
    if isinstance(document, yaml.SequenceNode):
        items = document.value
    elif is_tool(envelope) or not items:
        items, envelope = [document], {}
    for item in items:
        line = item.start_mark.line + 1
        constructor = _YAML.constructor.SafeConstructor()  # an error would leave traces in it
        try:
            yield Row(line, constructor.construct_document(item), envelope=envelope)
        except YAML_ERRORS as error:
            yield Row(line, fault=describe_yaml_error(error), remedy=FIX_ITEM)


def _members(node: Any) -> dict[str, Any]:
    pairs: list[tuple[Any, Any]] = node.value if isinstance(node, yaml.MappingNode) else []
    return {key.value: child for key, child in pairs if isinstance(key, yaml.ScalarNode)}
