"""What a value looks like without what it says, so that logs hold no one's data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

_MAX_DEPTH = 3
_MAX_KEYS = 20


def shape(value: object, *, depth: int = 0) -> object:
    """Names and kinds instead of values; text and lists by their length."""
    match value:
        case None | bool() | int() | float():
            return type(value).__name__ if value is not None else None
        case str():
            return f"str[{len(value)}]"
        case Mapping():
            rows = [*cast("Mapping[object, object]", value).items()][:_MAX_KEYS]
            if depth >= _MAX_DEPTH:
                return f"object[{len(rows)}]"
            return {str(k): shape(v, depth=depth + 1) for k, v in rows}
        case list() | tuple():
            return f"list[{len(cast('list[object]', value))}]"
        case _:
            return type(value).__name__
