"""bm25s, as its quick start has it; prepared, also with identifiers split and parameters added."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import bm25s
import Stemmer

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")


class Peer:
    def __init__(
        self, rows: Iterable[dict[str, Any]], *, limit: int, is_prepared: bool = False
    ) -> None:
        self._is_prepared = is_prepared
        self._stemmer = Stemmer.Stemmer("english")
        self._names: list[str] = []
        self._texts: list[str] = []
        for row in rows:
            self._names.append(row["name"])
            self._texts.append(self._text(row))
        self._limit = min(limit, len(self._names))

    def index(self) -> None:
        self._index = bm25s.BM25()
        self._index.index(self._tokens(self._texts), show_progress=False)

    def search(self, query: str) -> list[str]:
        asked = _HUMP.sub(" ", query) if self._is_prepared else query
        found, scores = self._index.retrieve(
            self._tokens(asked), k=self._limit, show_progress=False
        )
        pairs = zip(found[0].tolist(), scores[0].tolist(), strict=True)
        return [self._names[place] for place, score in pairs if score > 0]

    def add(self, row: dict[str, Any]) -> None:
        raise NotImplementedError(f"{row['name']}: an index of bm25s does not change")

    def remove(self, name: str) -> None:
        raise NotImplementedError(f"{name}: an index of bm25s does not change")

    def _tokens(self, text: str | list[str]) -> Any:
        return bm25s.tokenize(text, stopwords="en", stemmer=self._stemmer, show_progress=False)

    def _text(self, row: dict[str, Any]) -> str:
        text = f"{row['name']} {row['description']}"
        if not self._is_prepared:
            return text
        properties = row["parameters"].get("properties") or {}
        said = [
            f"{name} {value.get('description', '') if isinstance(value, dict) else ''}"
            for name, value in properties.items()
        ]
        return _HUMP.sub(" ", " ".join((text, *said)))
