"""Read the arguments that a model wrote for a discovery tool."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from jsonschema import Draft202012Validator

from ..catalog.sanitization import compact_json, decode_json
from ..errors import InvalidArgumentsError
from .profile import Metatool, Profile

# Models sometimes paste whole documents into a query. Longer ones are refused with advice.
MAX_QUERY_CHARS = 10_000
MAX_QUERIES_PER_CALL = 16
# The designs call the limit by different names. Every profile understands both.
_LIMIT_ARGUMENTS = ("limit", "max_results")
NAME_ARGUMENTS = ("names", "tool_names", "name", "tool_name")
"""The argument names that models use for a list of tool names."""


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """The arguments of a search: one query or several, as written, and the number of hits."""

    queries: tuple[str, ...]
    limit: int | None

    @property
    def is_empty(self) -> bool:
        """Whether there is no query, or only blank ones."""
        return not any(q.strip() for q in self.queries)


def invalid_arguments(tool: Metatool, reason: str) -> InvalidArgumentsError:
    """An error that shows the schema of the tool."""
    return InvalidArgumentsError(
        f"{tool.name}: {reason}.", hint=f"It takes: {compact_json(tool.tool.parameters.value)}"
    )


def read_search_arguments(
    profile: Profile, tool: Metatool, arguments: Mapping[str, Any]
) -> SearchArguments:
    """The queries and the limit; strict profiles also validate the rest by the schema."""
    # Models write null for arguments they leave out.
    values = {k: v for k, v in arguments.items() if v is not None}
    limit = _read_limit(profile, tool, values)
    if profile.is_strict:
        _validate(tool, {k: v for k, v in values.items() if k not in _LIMIT_ARGUMENTS})
    queries = _read_queries(values.get("query"))
    if sum(map(len, queries)) > MAX_QUERY_CHARS:
        raise invalid_arguments(
            tool, f"a query of over {MAX_QUERY_CHARS} characters; a few words are enough"
        )
    return SearchArguments(queries, limit)


def read_tool_names(tool: Metatool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The tool names in the arguments, a list or a single name; other values are skipped."""
    for key in NAME_ARGUMENTS:
        value: object = arguments.get(key)
        if isinstance(value, str):
            value = _parse_list(value)
        if isinstance(value, list):
            names = tuple(n.strip() for n in cast("list[object]", value) if isinstance(n, str))
            if any(names):
                return tuple(n for n in names if n)
    first = next(iter(tool.tool.parameters.top_level()), None)
    raise invalid_arguments(
        tool, f"{first.name if first else 'names'} is required: a list of tool names"
    )


def read_object(tool: Metatool, value: object) -> dict[str, Any]:
    """An object, or the JSON text of one: models often quote nested arguments."""
    if isinstance(value, str):
        try:
            value = decode_json(value) if value.strip() else {}
        except (ValueError, RecursionError):
            value = ""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid_arguments(
            tool, "arguments must be an object that holds the tool's parameters by name; send {…}"
        )
    return cast("dict[str, Any]", value)


def _read_queries(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(_parse_list(value))
    if isinstance(value, list):
        texts = [q for q in cast("list[object]", value) if isinstance(q, str) and q.strip()]
        return tuple(texts[:MAX_QUERIES_PER_CALL])
    return ("",)


def _parse_list(text: str) -> list[str]:
    """The members of a list in JSON text; any other text is a list of itself."""
    # `["` and not `[`: a regular expression may begin with a character class.
    if text.lstrip().startswith('["'):
        try:
            value: object = json.loads(text)
        except ValueError:
            return [text]
        if isinstance(value, list):
            members = cast("list[object]", value)
            if all(isinstance(m, str) for m in members):
                return cast("list[str]", members)
    return [text]


def _read_limit(profile: Profile, tool: Metatool, values: Mapping[str, Any]) -> int | None:
    limits = profile.limits
    value: object = next((values[key] for key in _LIMIT_ARGUMENTS if key in values), None)
    number = _read_number(value)
    if number is None and value is not None and profile.is_strict:
        raise invalid_arguments(tool, "the limit must be a number")
    if number is None:
        return limits.hits
    limit = max(limits.min_hits, int(number))
    return limit if limits.max_hits is None else min(limit, limits.max_hits)


def _read_number(value: object) -> float | None:
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    # bool is a subclass of int in Python, but true is not a limit.
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _validate(tool: Metatool, values: Mapping[str, Any]) -> None:
    schema = tool.tool.parameters.value
    validator: Any = Draft202012Validator(schema)
    error = next(validator.iter_errors(dict(values)), None)
    if error is not None:
        path = ".".join(str(part) for part in error.absolute_path)
        # jsonschema quotes the whole value, which may be long.
        message = error.message if len(error.message) < 200 else f"{error.message[:200]}…"
        raise invalid_arguments(tool, f"{path}: {message}" if path else message)
