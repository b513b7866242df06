"""JSON Schemas as frozen text: compact to keep, decoded when read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ..errors import SchemaError
from .clean import TEXT_CAP, clean, without_hidden
from .parameters import Parameter, parameters_of

__all__ = ["EMPTY", "Parameter", "Schema"]

EMPTY = '{"type":"object","properties":{}}'
SIZE_CAP = 16_000_000
NESTING_CAP = 200
_SUSPECT = re.compile(r"\\[ubfr]|[^\x00-\x7f]")
_PROSE = frozenset({"description", "title", "$comment"})


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON Schema kept as compact text, so a hundred thousand of them fit in memory."""

    text: str = EMPTY

    @classmethod
    def of(cls, value: object) -> Schema:
        """Freeze a decoded schema, its texts cleaned; null means *takes no arguments*."""
        if value is None:
            return _NOTHING
        if not isinstance(value, Mapping):
            raise SchemaError(
                f"A schema must be a JSON object, not {type(value).__name__}.",
                hint='Write {"type": "object", "properties": {…}} or null.',
            )
        text = _dumped(cast("Mapping[object, object]", value))
        if text.count("{") + text.count("[") > NESTING_CAP:
            _check_nesting(text)
        if len(text) > TEXT_CAP or _SUSPECT.search(text):
            text = _dumped(_cleaned(json.loads(text)))
        if len(text) > SIZE_CAP:
            raise SchemaError(
                f"The schema has {len(text):,} characters; at most {SIZE_CAP:,} are kept.",
                hint="Leave out long enumerations, examples and inlined definitions.",
            )
        return _NOTHING if text == EMPTY else cls(text)

    @property
    def value(self) -> dict[str, Any]:
        """The schema as a fresh dictionary; changing it changes nothing here."""
        return cast("dict[str, Any]", json.loads(self.text))

    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments, outer ones first, a few levels deep, in declared order."""
        return () if self.text == EMPTY else tuple(parameters_of(self.value))

    def top(self) -> tuple[Parameter, ...]:
        """Only the outermost arguments."""
        return () if self.text == EMPTY else tuple(parameters_of(self.value, deepest=0))


_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _dumped(value: object) -> str:
    try:
        return _encoded(value)
    except (ValueError, TypeError) as error:
        raise SchemaError(
            f"The schema is not plain JSON: {error}.",
            hint="Remove cycles, NaN and objects JSON does not know.",
        ) from error
    except RecursionError as error:
        raise _too_deep() from error


def _too_deep() -> SchemaError:
    return SchemaError(
        f"The schema is nested more than {NESTING_CAP} levels deep.",
        hint="Use $ref for what repeats itself.",
    )


def _check_nesting(text: str) -> None:
    """Refuse what would overflow the stack of somebody who reads it later."""
    try:
        level: list[object] = [json.loads(text)]
    except RecursionError as error:
        raise _too_deep() from error
    for _ in range(NESTING_CAP):
        level = [child for node in level for child in _children(node)]
        if not level:
            return
    raise _too_deep()


def _children(node: object) -> Iterable[object]:
    if isinstance(node, dict):
        return cast("dict[str, object]", node).values()
    return cast("list[object]", node) if isinstance(node, list) else ()


def _cleaned(value: object, key: str = "") -> object:
    """The same schema without hidden characters anywhere, and with its prose capped."""
    if isinstance(value, str):
        is_long = key in _PROSE and len(value) > TEXT_CAP
        return clean(value) if is_long else without_hidden(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return {without_hidden(name): _cleaned(item, name) for name, item in pairs}
    return value


_NOTHING = Schema()
