"""JSON as frozen text: compact, without hidden characters, and safe to decode again anywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import cast

from .clean import TEXT_CAP, clean, without_hidden

NESTING_CAP = 200
_SUSPECT = re.compile(r"\\[ubfr]|[^\x00-\x7e]")
_PROSE = frozenset({"description", "title", "$comment"})
_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class Unfreezable(Exception):
    """A value that JSON cannot say; `remedy` tells what to do about it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def frozen(value: object) -> str:
    """The value as compact JSON text, cleaned wherever it holds text."""
    text = _dumped(value)
    if text.count("{") + text.count("[") > NESTING_CAP:
        _check_nesting(text)
    if len(text) > TEXT_CAP or _SUSPECT.search(text):
        text = _dumped(_cleaned(json.loads(text)))
    return text


def _dumped(value: object) -> str:
    try:
        return _encoded(value)
    except (ValueError, TypeError) as error:
        raise Unfreezable(
            f"is not plain JSON: {error}", "Remove cycles, NaN and objects JSON does not know."
        ) from error
    except RecursionError as error:
        raise _too_deep() from error


def _too_deep() -> Unfreezable:
    return Unfreezable(
        f"is nested more than {NESTING_CAP} levels deep", "Use $ref for what repeats itself."
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
    """The same without hidden characters anywhere, and with its prose capped."""
    if isinstance(value, str):
        is_long = key in _PROSE and len(value) > TEXT_CAP
        return clean(value) if is_long else without_hidden(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return {without_hidden(name): _cleaned(item, name) for name, item in pairs}
    return value
