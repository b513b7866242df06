"""Reading what a model wrote into a discovery tool's arguments, kindly or strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from jsonschema import Draft202012Validator

from ..catalog.clean import encodable_json
from ..errors import InvalidArguments
from .metatools import Metatool
from .profile import Profile

LONGEST_QUERY = 10_000
MOST_QUERIES = 16
_LIMITS = ("limit", "max_results")
NAMES = ("names", "tool_names", "name", "tool_name")
"""What models call the argument that names tools."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a search is for: one query or several, as written, and how many hits are wanted."""

    queries: tuple[str, ...]
    limit: int | None

    @property
    def is_empty(self) -> bool:
        """Nothing was asked."""
        return not any(q.strip() for q in self.queries)


def invalid(tool: Metatool, why: str) -> InvalidArguments:
    """A refusal that shows what the tool takes."""
    return InvalidArguments(
        f"{tool.name}: {why}.", hint=f"It takes: {_compact(tool.tool.parameters.value)}"
    )


def read_search(profile: Profile, tool: Metatool, arguments: Mapping[str, Any]) -> Asked:
    """The queries and the limit, by the profile's strictness."""
    given = {k: v for k, v in arguments.items() if v is not None}
    limit = _limit(profile, tool, given)
    if profile.is_strict:
        _check(tool, {k: v for k, v in given.items() if k not in _LIMITS})
    queries = _queries(given.get("query"))
    if sum(map(len, queries)) > LONGEST_QUERY:
        raise invalid(tool, f"a query of over {LONGEST_QUERY} characters; a few words are enough")
    return Asked(queries, limit)


def names_in(tool: Metatool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of tools in the arguments: a list, or a single one; others are skipped."""
    for key in NAMES:
        value: object = arguments.get(key)
        if isinstance(value, str):
            value = _listed(value)
        if isinstance(value, list):
            names = tuple(n.strip() for n in cast("list[object]", value) if isinstance(n, str))
            if any(names):
                return tuple(n for n in names if n)
    wanted = next(iter(tool.tool.parameters.top()), None)
    raise invalid(tool, f"{wanted.name if wanted else 'names'} is required: a list of tool names")


def mapping(tool: Metatool, value: object) -> dict[str, Any]:
    """An object, also one that was written as JSON text."""
    if isinstance(value, str):
        try:
            value = decoded(value) if value.strip() else {}
        except (ValueError, RecursionError):
            value = ""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(
            tool, "arguments must be an object that holds the tool's parameters by name; send {…}"
        )
    return cast("dict[str, Any]", value)


def decoded(text: str) -> object:
    """What JSON text of a model says, in characters that can be sent on.

    NaN and numbers beyond all bounds are none in JSON, and no tool takes them.
    """
    return json.loads(encodable_json(text), parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a number in JSON")
    return value


def _queries(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(_listed(value))
    if isinstance(value, list):
        texts = [q for q in cast("list[object]", value) if isinstance(q, str) and q.strip()]
        return tuple(texts[:MOST_QUERIES])
    return ("",)


def _listed(text: str) -> list[str]:
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


def _limit(profile: Profile, tool: Metatool, given: Mapping[str, Any]) -> int | None:
    limits = profile.limits
    value: object = next((given[key] for key in _LIMITS if key in given), None)
    wanted = _number(value)
    if wanted is None and value is not None and profile.is_strict:
        raise invalid(tool, "the limit must be a number")
    if wanted is None:
        return limits.hits
    wanted = max(limits.least, int(wanted))
    return wanted if limits.most is None else min(wanted, limits.most)


def _number(value: object) -> float | None:
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _check(tool: Metatool, given: Mapping[str, Any]) -> None:
    schema = tool.tool.parameters.value
    validator: Any = Draft202012Validator(schema)
    error = next(validator.iter_errors(dict(given)), None)
    if error is not None:
        where = ".".join(str(part) for part in error.absolute_path)
        said = error.message if len(error.message) < 200 else f"{error.message[:200]}…"
        raise invalid(tool, f"{where}: {said}" if where else said)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
