"""What a query means: the one grammar every way of asking shares (see docs/query-language.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["auto", "words", "regex"]


@dataclass(frozen=True, slots=True)
class Query:
    """A query, read. `words` is what is left for ranking once the operators are taken out."""

    text: str
    words: str = ""
    select: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    pattern: str | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing asked at all."""
        return (
            not (self.words or self.select or self.required or self.servers or self.categories)
            and self.pattern is None
        )


def parse(text: str, *, mode: Mode = "auto") -> Query:
    """Read a query; raise QueryError only for a pattern that is not one."""
    return Query(text=text, words=text.strip())
