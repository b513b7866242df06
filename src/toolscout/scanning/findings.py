"""What the scanner found, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..catalog.sanitization import escape_hidden

FindingSeverity = Literal["hard", "soft"]
"""A hard finding holds a tool for approval; a soft one is only reported."""

SEVERITIES: tuple[FindingSeverity, ...] = get_args(FindingSeverity)
PLAIN = ""
"""The layer of text as it stands in the definition."""

_EXCERPT_CAP = 160
_CONTEXT_CHARS = 24


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a string: characters from `start` up to, not including, `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where a rule applies.

    `pointer` is a JSON pointer to the string, or to the object whose key it is if `is_key` is set.
    `layer` says how the text was decoded, from outside to inside, such as `base64`; the place is
    then that of the encoded text.
    """

    rule: str
    severity: FindingSeverity
    pointer: str
    span: Span
    excerpt: str
    summary: str
    layer: str = PLAIN
    is_key: bool = False

    @property
    def place(self) -> str:
        """The place in one word, as `/description:10-42`."""
        layer = f" ({self.layer})" if self.layer else ""
        return f"{self.pointer or '/'}:{self.span.start}-{self.span.end}{layer}"

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON data."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "pointer": self.pointer,
            "start": self.span.start,
            "end": self.span.end,
            "is_key": self.is_key,
            "layer": self.layer,
            "excerpt": self.excerpt,
            "summary": self.summary,
        }

    def __str__(self) -> str:
        return f"{self.rule} at {self.place}: {self.excerpt}"


def excerpt(text: str, span: Span) -> str:
    """The text of a place with a little around it, on one line and with nothing hidden in it."""
    start = max(span.start - _CONTEXT_CHARS, 0)
    return escape_hidden(text[start : span.end + _CONTEXT_CHARS], cap=_EXCERPT_CAP)


def has_hard(findings: tuple[Finding, ...]) -> bool:
    """Whether the findings hold a tool."""
    return any(finding.severity == "hard" for finding in findings)
