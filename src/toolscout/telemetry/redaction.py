"""Reduce values to their shape (keys, types, lengths), so that records contain no user data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import cast

# Arguments may be large and deep; a record of them should not be.
_MAX_DEPTH = 3
_MAX_KEYS = 30


# What the names of tools and parameters look like. A model may write any text where a name belongs.
_NAME = re.compile(r"[\w$@.:/-]{1,100}\Z")


def safe_name(text: str) -> str:
    """A name unchanged, also if there is none; any other text as its length."""
    return text if not text or _NAME.match(text) else f"text({len(text)})"


def shape(value: object, *, depth: int = 0) -> object:
    """Replace values by their types, texts and lists by their lengths; keys that are names stay."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return f"text({len(value)})"
        case list() | tuple():
            return _list_shape(cast("Sequence[object]", value), depth)
        case Mapping():
            return _object_shape(cast("Mapping[object, object]", value), depth)
        case _:
            return type(value).__name__


def _list_shape(items: Sequence[object], depth: int) -> object:
    if depth >= _MAX_DEPTH:
        return f"list({len(items)})"
    # Lists are mostly uniform: the first item stands for all.
    return [shape(items[0], depth=depth + 1), len(items)] if items else []


def _object_shape(value: Mapping[object, object], depth: int) -> object:
    if depth >= _MAX_DEPTH:
        return f"object({len(value)})"
    shapes = {
        safe_name(str(key)): shape(item, depth=depth + 1)
        for key, item in islice(value.items(), _MAX_KEYS)
    }
    if len(value) > _MAX_KEYS:
        shapes["…"] = f"{len(value) - _MAX_KEYS} more"
    return shapes
