"""HTML as nested calls: every text is escaped, unless it is `Html` already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})


class Html(str):
    """Text that is HTML already; only `tag` and `join` should make it."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]
"""What an element contains: `Html` stays, other text is escaped, None is left out."""

AttributeValue = str | int | bool | None
HtmlAttributes = Mapping[str, AttributeValue]


def tag(name: str, attributes: HtmlAttributes | None = None, *children: Child) -> Html:
    """An element; an attribute that is True has no value, and False or None leave it out."""
    pairs = "".join(_attribute(key, value) for key, value in (attributes or {}).items())
    if name in _VOID:
        return Html(f"<{name}{pairs}>")
    return Html(f"<{name}{pairs}>{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Several parts, one after the other."""
    return Html("".join(map(_render, children)))


def _render(child: Child) -> str:
    match child:
        case None:
            return ""
        case Html():
            return child
        case str() | int() | float():
            return escape(str(child))
        case _:
            return "".join(map(_render, child))


def _attribute(name: str, value: AttributeValue) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
