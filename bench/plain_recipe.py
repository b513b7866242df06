"""The plain recipe: what 140 lines find, without anything that was tuned or repaired.

    S = 0.8 · coverage^0.75 · z(BM25F) + 0.5 · z(query · tool) + 0.5 · z(best clause · tool)

plus 0.15 times the best S of the tool's server, in catalogs of three servers or more. Coverage is
the share of the query's terms, by idf, that the catalog has; z is over the catalog, for each query.
`bench.ranking` compares it with the default: a ranker that is not better is not worth its lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.identifiers import split_identifiers
from toolscout.catalog.tool import Tool
from toolscout.embedders.arrays import Floats
from toolscout.embedders.cache import VectorCache, embed_tools
from toolscout.embedders.embedder import Embedder, encode_texts, normalize_rows
from toolscout.search.analyzer import terms
from toolscout.search.clauses import split_clauses

WORDS, MEANING, CLAUSES, SERVER, DOUBT = 0.8, 0.5, 0.5, 0.15, 0.75
FIELD_WEIGHTS = (2.0, 1.0, 0.5, 0.3)
K1, B = 1.2, 0.5
MIN_SERVERS = 3
MAX_CLAUSES = 16

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """The names of the best tools."""

    names: list[str]


class PlainRecipe:
    """Searches a catalog by the plain recipe."""

    def __init__(self, catalog: Catalog, *, embedder: Embedder, cache: VectorCache | None) -> None:
        self._tools: list[Tool] = list(catalog)
        self._embedder = embedder
        self._cache = cache
        self._idf, self._gains = weigh_terms(self._tools)
        servers = {tool.server: number for number, tool in enumerate(self._tools)}
        self._servers = [servers[tool.server] for tool in self._tools]
        self._vectors = np.zeros((len(self._tools), 0), np.float32)

    def fill(self) -> None:
        """Get the vectors of all tools."""
        found: dict[str, Floats] = {}
        for batch in embed_tools(self._tools, self._embedder, self._cache, text_recipe=texts):
            found |= zip((t.name for t in batch.tools), batch.vectors, strict=True)
            if batch.keys and self._cache is not None:
                self._cache.put(zip(batch.keys, batch.vectors, strict=True))
        self._vectors = np.stack([found[tool.name] for tool in self._tools])

    def search(self, query: str, *, limit: int) -> Answer:
        """The names of the best tools; ties by name."""
        total = self._words(query) + self._meaning(query)
        if len(set(self._servers)) >= MIN_SERVERS:
            best: dict[int, float] = {}
            for server, score in zip(self._servers, total, strict=True):
                best[server] = max(score, best.get(server, -np.inf))
            total = total + SERVER * np.array([best[server] for server in self._servers])
        names = [tool.name for tool in self._tools]
        order = sorted(range(len(names)), key=lambda place: (-total[place], names[place]))
        return Answer([names[place] for place in order[:limit]])

    def _words(self, query: str) -> Scores:
        asked = dict.fromkeys(terms(query))
        rarest = float(np.log(1 + (len(self._tools) + 0.5) / 0.5))
        mass = [self._idf.get(term, rarest) for term in asked]
        known = [term for term in asked if term in self._idf]
        coverage = sum(self._idf[term] for term in known) / (sum(mass) or 1.0)
        scores = np.zeros(len(self._tools))
        for term in known:
            for place, gain in self._gains[term]:
                scores[place] += gain
        return WORDS * coverage**DOUBT * standardized(scores)

    def _meaning(self, query: str) -> Scores:
        clauses = split_clauses(query)[:MAX_CLAUSES]
        rows = normalize_rows(encode_texts(self._embedder, [query, *clauses], are_queries=True))
        whole, *each = [standardized(self._vectors @ row) for row in rows]
        return MEANING * whole + CLAUSES * np.max(each, axis=0)


def standardized(scores: npt.NDArray[np.floating]) -> Scores:
    """Scores as z-scores over the catalog."""
    return (scores - scores.mean()) / (scores.std() or 1.0)


def texts(tool: Tool) -> tuple[tuple[str, float], ...]:
    """The three texts of a tool's vector."""
    name = split_identifiers(tool.name) or tool.name
    parameters = " ".join(split_identifiers(p.name) for p in tool.parameters.top_level()[:30])
    return (
        (f"{name}: {tool.description[:1500]}", 0.3),
        (f"{name}: {tool.description[:600]} {parameters}", 0.4),
        (name, 0.3),
    )


def weigh_terms(
    tools: Sequence[Tool],
) -> tuple[dict[str, float], dict[str, list[tuple[int, float]]]]:
    """The idf of each term, and what it adds to each tool that has it."""
    fields = [[terms(text) for text in _field_texts(tool)] for tool in tools]
    lengths = np.mean([[len(field) for field in row] for row in fields], axis=0)
    postings: dict[str, list[tuple[int, float]]] = {}
    for place, row in enumerate(fields):
        units = [
            w / (1 - B + B * len(f) / (n or 1))
            for w, f, n in zip(FIELD_WEIGHTS, row, lengths, strict=True)
        ]
        counts = [Counter(field) for field in row]
        for term in dict.fromkeys(chain.from_iterable(row)):
            x = sum(unit * count[term] for unit, count in zip(units, counts, strict=True))
            postings.setdefault(term, []).append((place, x * (K1 + 1) / (K1 + x)))
    size = len(tools)
    idf = {
        t: float(np.log(1 + (size - len(p) + 0.5) / (len(p) + 0.5))) for t, p in postings.items()
    }
    return idf, {t: [(place, idf[t] * w) for place, w in p] for t, p in postings.items()}


def _field_texts(tool: Tool) -> tuple[str, str, str, str]:
    parameters = tool.parameters.descriptions()
    names, described = (
        (" ".join(part) for part in zip(*parameters, strict=True)) if parameters else ("", "")
    )
    return tool.name, tool.description, names, described
