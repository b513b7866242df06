"""Names of other servers' tools in the text of a definition."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..catalog.tool import normalise_name
from .findings import Span

# A name of several words, which ordinary text does not contain by chance.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:__?[A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+")
_MIN_CHARS = 9
_AROUND = 80
_ORDER = re.compile(
    r"\b(?:forward|redirect\w*|reroute\w*|bcc|replac(?:e|ed|ing)|chang(?:e|ed|ing)|deprecated|unsafe"
    r"|insecure|broken|silently|secretly|recipients?|overrid\w+|intercept\w*|modif(?:y|ied|ying)"
    r"|supersed\w+|compromised"
    r"|(?:do not|don't|never) (?:use|call|trust)|hidden|also (?:send|write|call))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class KnownTools:
    """The tools that a definition may refer to: those of its own server, and those of others."""

    own: frozenset[str] = frozenset()
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    """The servers by the normalised names of their tools."""

    @classmethod
    def of(cls, tools: Iterable[tuple[str, str]]) -> KnownTools:
        """All tools of a catalog, as pairs of a server and its own name of a tool."""
        return cls(others={normalise_name(name): server for server, name in tools})

    def seen_from(self, own: Iterable[str]) -> KnownTools:
        """The same for a definition of one server, with the names of that server's tools."""
        names = frozenset(map(normalise_name, own))
        return KnownTools(names, self.others)

    def is_foreign(self, name: str) -> bool:
        """Whether a name is that of another server's tool, and not of this one's."""
        known = normalise_name(name)
        return known in self.others and known not in self.own


def find_foreign_names(text: str, known: KnownTools) -> Iterator[Span]:
    """The names of other servers' tools in a text."""
    for match in _NAME.finditer(text) if known.others else ():
        if len(match[0]) >= _MIN_CHARS and known.is_foreign(match[0]):
            yield Span(*match.span())


def is_ordered_about(text: str, span: Span) -> bool:
    """Whether the text around a name says what must be done with it."""
    before = text[max(span.start - _AROUND, 0) : span.start]
    return bool(_ORDER.search(before) or _ORDER.search(text[span.end : span.end + _AROUND]))
