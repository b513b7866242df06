"""What a tool call gives back: content of several kinds in one frozen envelope."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

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
    """The outcome of one call; failures of the tool are results too, marked as errors."""

    content: tuple[Content, ...] = ()
    structured: str | None = None
    is_error: bool = False

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
        except ValueError:
            return self.text

    @classmethod
    def of(cls, value: object) -> Result:
        """Wrap whatever a tool returned: a result, text, nothing, or anything JSON can say."""
        if isinstance(value, Result):
            return value
        if value is None:
            return cls(content=(Content(text=""),))
        if isinstance(value, str):
            return cls(content=(Content(text=value),))
        text = json.dumps(value, ensure_ascii=False, default=str)
        return cls(content=(Content(text=text),), structured=text)

    @classmethod
    def error(cls, message: str) -> Result:
        """A failure, told in words that say what to do next."""
        return cls(content=(Content(text=message),), is_error=True)
