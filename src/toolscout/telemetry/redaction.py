"""Reduce values to their shape (keys, types, lengths), so that logs contain no user data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

# Arguments may be large and deep; a log line should not be.
_MAX_DEPTH = 3
_MAX_KEYS = 20


def shape(value: object, *, depth: int = 0) -> object:
    """Replace values by their types, and texts and lists by their lengths; keys stay."""
    match value:
        case None | bool() | int() | float():
            return type(value).__name__ if value is not None else None
        case str():
            return f"str[{len(value)}]"
        case Mapping():
            items = [*cast("Mapping[object, object]", value).items()][:_MAX_KEYS]
            if depth >= _MAX_DEPTH:
                return f"object[{len(items)}]"
            return {str(k): shape(v, depth=depth + 1) for k, v in items}
        case list() | tuple():
            return f"list[{len(cast('list[object]', value))}]"
        case _:
            return type(value).__name__
