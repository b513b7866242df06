"""Search tools: by meaning over all content, or by name."""

from __future__ import annotations

from typing import Any

from rapidfuzz import fuzz

from toolscout import tool

from .database import Database
from .similarity import TextSimilarity

_MIN_SIMILARITY = 60  # of 100, by rapidfuzz
_EVERYTHING = """
    SELECT 'Page' type, id, name, name text FROM pages
    UNION ALL SELECT 'Section', id, template, template || ' ' || content FROM sections
    UNION ALL SELECT 'Image', id, filename, alt FROM images
    UNION ALL SELECT 'Post', id, title, title || '. ' || body FROM posts
    UNION ALL SELECT 'Entry', id, name, name || ' ' || content FROM entries
"""


class Search:
    def __init__(self, database: Database, similarity: TextSimilarity) -> None:
        self._database = database
        self._similarity = similarity

    @tool(
        name="search_vector",
        category="search",
        phrases=["semantic search", "search the content", "where do we write about"],
        related=["cms_findResource"],
        risk="safe",
    )
    def by_meaning(self, query: str, limit: int = 5) -> dict[str, Any]:
        """Search all content by meaning; a score closer to 0 is a better match.

        Args:
            query: What you are looking for.
            limit: How many to return.
        """
        rows = self._database.all(_EVERYTHING)
        scores = self._similarity.distances(query, [row["text"][:500] for row in rows])
        ranked = sorted(zip(scores, rows, strict=True), key=lambda pair: pair[0])
        return {
            "results": [
                {"type": row["type"], "id": row["id"], "name": row["name"], "score": score}
                for score, row in ranked[: max(1, limit)]
            ]
        }

    @tool(
        name="cms_findResource",
        category="search",
        phrases=["find resource", "find a page, section or image by name", "where is"],
        related=["search_vector", "cms_getPage"],
        risk="safe",
    )
    def by_name(self, name: str) -> dict[str, Any]:
        """Find pages, sections, images, posts and entries by their name, typing slips allowed.

        Args:
            name: The name, or a part of it.
        """
        rows = self._database.all(_EVERYTHING)
        scored = [(fuzz.WRatio(name.lower(), row["name"].lower()), row) for row in rows]
        near = sorted(
            (p for p in scored if p[0] >= _MIN_SIMILARITY), key=lambda p: (-p[0], p[1]["name"])
        )
        return {
            "matches": [
                {"type": row["type"], "id": row["id"], "name": row["name"]} for _, row in near[:10]
            ]
        }

    @property
    def tools(self) -> tuple[Any, ...]:
        return self.by_meaning, self.by_name
