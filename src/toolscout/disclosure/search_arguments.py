"""Reading what a model wrote into a discovery tool's arguments, kindly or strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from jsonschema import Draft202012Validator

from ..catalog.sanitization import replace_json_surrogates
from ..errors import InvalidArguments
from .metatools import Metatool
from .profile import Profile

MAX_QUERY_CHARS = 10_000
MAX_QUERIES_PER_CALL = 16
_LIMIT_ARGUMENTS = ("limit", "max_results")
NAME_ARGUMENTS = ("names", "tool_names", "name", "tool_name")
"""What models call the argument that names tools."""


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """What a search is for: one query or several, as written, and how many hits are wanted."""

    queries: tuple[str, ...]
    limit: int | None

    @property
    def is_empty(self) -> bool:
        """Nothing was asked."""
        return not any(q.strip() for q in self.queries)


def invalid_arguments(tool: Metatool, why: str) -> InvalidArguments:
    """A refusal that shows what the tool takes."""
    return InvalidArguments(
        f"{tool.name}: {why}.", hint=f"It takes: {_compact_json(tool.tool.parameters.value)}"
    )


def read_search_arguments(
    profile: Profile, tool: Metatool, arguments: Mapping[str, Any]
) -> SearchArguments:
    """The queries and the limit, by the profile's strictness."""
    given = {k: v for k, v in arguments.items() if v is not None}
    limit = _read_limit(profile, tool, given)
    if profile.is_strict:
        _validate(tool, {k: v for k, v in given.items() if k not in _LIMIT_ARGUMENTS})
    queries = _read_queries(given.get("query"))
    if sum(map(len, queries)) > MAX_QUERY_CHARS:
        raise invalid_arguments(
            tool, f"a query of over {MAX_QUERY_CHARS} characters; a few words are enough"
        )
    return SearchArguments(queries, limit)


def read_tool_names(tool: Metatool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of tools in the arguments: a list, or a single one; others are skipped."""
    for key in NAME_ARGUMENTS:
        value: object = arguments.get(key)
        if isinstance(value, str):
            value = _parse_list(value)
        if isinstance(value, list):
            names = tuple(n.strip() for n in cast("list[object]", value) if isinstance(n, str))
            if any(names):
                return tuple(n for n in names if n)
    wanted = next(iter(tool.tool.parameters.top_level()), None)
    raise invalid_arguments(
        tool, f"{wanted.name if wanted else 'names'} is required: a list of tool names"
    )


def read_object(tool: Metatool, value: object) -> dict[str, Any]:
    """An object, also one that was written as JSON text."""
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


def decode_json(text: str) -> object:
    """What JSON text of a model says, in characters that can be sent on.

    NaN and numbers beyond all bounds are none in JSON, and no tool takes them.
    """
    return json.loads(
        replace_json_surrogates(text), parse_constant=_parse_finite, parse_float=_parse_finite
    )


def _parse_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a number in JSON")
    return value


def _read_queries(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(_parse_list(value))
    if isinstance(value, list):
        texts = [q for q in cast("list[object]", value) if isinstance(q, str) and q.strip()]
        return tuple(texts[:MAX_QUERIES_PER_CALL])
    return ("",)


def _parse_list(text: str) -> list[str]:
    """A list that was written as JSON text, else the text as the only member."""
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


def _read_limit(profile: Profile, tool: Metatool, given: Mapping[str, Any]) -> int | None:
    limits = profile.limits
    value: object = next((given[key] for key in _LIMIT_ARGUMENTS if key in given), None)
    wanted = _read_number(value)
    if wanted is None and value is not None and profile.is_strict:
        raise invalid_arguments(tool, "the limit must be a number")
    if wanted is None:
        return limits.hits
    wanted = max(limits.least, int(wanted))
    return wanted if limits.most is None else min(wanted, limits.most)


def _read_number(value: object) -> float | None:
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _validate(tool: Metatool, given: Mapping[str, Any]) -> None:
    schema = tool.tool.parameters.value
    validator: Any = Draft202012Validator(schema)
    error = next(validator.iter_errors(dict(given)), None)
    if error is not None:
        where = ".".join(str(part) for part in error.absolute_path)
        said = error.message if len(error.message) < 200 else f"{error.message[:200]}…"
        raise invalid_arguments(tool, f"{where}: {said}" if where else said)


def _compact_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
