"""What a tool call gives back: content of several kinds in one frozen envelope."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any, Literal, cast

Kind = Literal["text", "image", "audio", "resource", "link"]


@dataclass(frozen=True, slots=True)
class Content:
    """One piece of a result: text, or base64 data with its type, or a resource by URI."""

    type: Kind = "text"
    text: str = ""
    data: str = ""
    mime: str = ""
    uri: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one call; failures of the tool are results too, marked as errors.

    `code` says for programs what kind of failure it was, as the error tree names them. `raw` is the
    reply in its source's own form, for an edge that speaks the same language.
    """

    content: tuple[Content, ...] = ()
    structured: str | None = None
    is_error: bool = False
    code: str = ""
    raw: object = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "\n".join(c.text for c in self.content if c.text)

    @property
    def value(self) -> Any:
        """The structured value if there is one, else JSON found in the text, else the text."""
        if self.structured is not None:
            return json.loads(self.structured)
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return self.text

    @classmethod
    def of(cls, value: object) -> Result:
        """Wrap whatever a tool returned: a result, content, text, nothing, or any other value."""
        if isinstance(value, Result):
            return value
        if value is None:
            return cls(content=(Content(text=""),))
        if isinstance(value, str):
            return cls(content=(Content(text=value),))
        if pieces := _pieces(value):
            return cls(content=pieces)
        try:
            text = json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            return cls(content=(Content(text=str(value)),))
        return cls(content=(Content(text=text),), structured=text)

    @classmethod
    def error(cls, message: str, *, code: str = "") -> Result:
        """A failure, told in words that say what to do next."""
        return cls(content=(Content(text=message),), is_error=True, code=code)


def _pieces(value: object) -> tuple[Content, ...]:
    """The pieces of content that a tool made itself."""
    if isinstance(value, Content):
        return (value,)
    if isinstance(value, list | tuple):
        pieces = tuple(p for p in cast("Iterable[object]", value) if isinstance(p, Content))
        return pieces if len(pieces) == len(cast("list[object]", value)) else ()
    return ()


def _plain(value: object) -> object:
    """What JSON does not know, said in what it knows."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    match value:
        case Enum():
            return value.value
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return dict(cast("Mapping[object, object]", value))
        case set() | frozenset():
            return sorted(cast("Iterable[object]", value), key=str)
        case _:
            return str(value)
