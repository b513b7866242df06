"""YAML as its parser tells it: what JSON could say, and never bottomless."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

_DEEPEST = 200
_YAML: Any = yaml  # whose stubs know only half of it
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YAMLLoader(_BASE):
    """Scalars are text, numbers, true, false or null; all else stays text."""


YAMLLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if not tag.endswith((":timestamp", ":bool"))]
    for first, found in _BASE.yaml_implicit_resolvers.items()
}
YAMLLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool",
    re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"),
    list("tTfF"),
)


class UnreadableYAML(Exception):
    """YAML that is well formed and still cannot be read."""


YAML_ERRORS = (yaml.YAMLError, UnreadableYAML, ValueError, TypeError, RecursionError)
"""What may be wrong with a text."""


def parse_events(text: str) -> Iterator[Any]:
    """What the parser sees; bottomless nesting is refused before anything recurses into it."""
    depth = 0
    for event in _YAML.parse(text, Loader=YAMLLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise UnreadableYAML(f"nested more than {_DEEPEST} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        yield event


def describe_yaml_error(error: Exception, *, above: int = 0) -> str:
    """What is wrong, in words; `above` is how many lines stand above the text that was read."""
    if isinstance(error, yaml.YAMLError):
        reason = getattr(error, "problem", None) or str(error).partition("\n")[0]
        place = error_position(error)
        where = "" if place is None else f" at line {above + place[0] + 1}, column {place[1] + 1}"
        return f"Not valid YAML: {reason}{where}."
    if isinstance(error, UnicodeError):
        return "Not valid UTF-8."
    if isinstance(error, RecursionError):
        return "Nested too deeply to be read."
    return f"Cannot be read: {error}."


def error_position(error: Exception) -> tuple[int, int] | None:
    """The line and column of the text where it shows, both counted from 0."""
    mark: Any = getattr(error, "problem_mark", None)
    return None if mark is None else (int(mark.line), int(mark.column))
