"""Benchmark of search on labelled queries: ranking metrics, latency and abstention."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ..errors import QueryError
from ..search.engine import Engine
from ..search.hit import Results
from .calibration import Reliability, auroc, false_refusal_rate, reliability
from .dataset import LabelledQuery, NegativeQuery
from .metrics import ndcg, percentile, recall, reciprocal_rank

BenchProgress = Callable[[str, int, int], None]
"""Gets a label, the number of finished items and the total."""

DEPTH = 10
TOP_HITS = 5
FIGURES = ("recall@1", "recall@5", "recall@10", "ndcg@10", "mrr")
# Run before timing starts, so that loading an encoder does not count as latency.
_WARM_UP_QUERIES = 3


@dataclass(frozen=True, slots=True)
class QueryScore:
    """One query: its metrics by name, the confidence of the answer, and its latency."""

    id: str
    figures: dict[str, float]
    confidence: float
    is_right: bool
    took_ms: float

    def row(self) -> dict[str, Any]:
        """The score as a row of JSON Lines."""
        return {"id": self.id, **self.figures, "confidence": self.confidence, "ms": self.took_ms}


@dataclass(frozen=True, slots=True)
class Abstention:
    """How well confidence separates queries with a fitting tool from queries without one."""

    auroc: float
    false_at_90: float


@dataclass(frozen=True, slots=True)
class BenchReport:
    """The measurements of one run."""

    tools: int
    scored: tuple[QueryScore, ...]
    build_s: float
    rss_mb: float
    abstain: Abstention | None = None
    without_relevant: Abstention | None = None

    def mean(self, figure: str) -> float:
        """The mean of one metric over all queries."""
        return fmean(s.figures[figure] for s in self.scored) if self.scored else 0.0

    @property
    def reliability(self) -> Reliability:
        """Confidence against whether one of the top hits was right."""
        return reliability([(s.confidence, s.is_right) for s in self.scored])

    def summary(self) -> dict[str, Any]:
        """All figures as JSON; scripts rely on these keys."""
        times = [s.took_ms for s in self.scored]
        figures: dict[str, Any] = {"tools": self.tools, "queries": len(self.scored)}
        figures |= {name: round(self.mean(name), 4) for name in FIGURES}
        figures |= {
            "build_s": round(self.build_s, 3),
            "p50_ms": round(percentile(times, 0.5), 3),
            "p95_ms": round(percentile(times, 0.95), 3),
            "rss_mb": round(self.rss_mb, 1),
        }
        for name in ("abstain", "without_relevant"):
            abstention: Abstention | None = getattr(self, name)
            if abstention is not None:
                figures[name] = {
                    "auroc": round(abstention.auroc, 4),
                    "false_at_90": round(abstention.false_at_90, 4),
                }
        return figures


def score_queries(
    engine: Engine,
    queries: Sequence[LabelledQuery],
    *,
    progress: BenchProgress | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[QueryScore, ...]:
    """Search for every query over the whole catalog, after a warm-up."""
    for item in queries[:_WARM_UP_QUERIES]:
        _search(engine, item.query)
    scored: list[QueryScore] = []
    for done, item in enumerate(queries, start=1):
        started = clock()
        results = _search(engine, item.query)
        took_ms = (clock() - started) * 1e3
        figures = ranking_metrics(results.names, item)
        is_right = bool(item.relevant & set(results.names[:TOP_HITS]))
        scored.append(QueryScore(item.id, figures, results.confidence, is_right, round(took_ms, 3)))
        if progress is not None:
            progress("queries", done, len(queries))
    return tuple(scored)


def ranking_metrics(ranked: Sequence[str], item: LabelledQuery) -> dict[str, float]:
    """All metrics of one ranked answer; a repeated name counts once."""
    names = list(dict.fromkeys(ranked))
    metrics = {f"recall@{at}": recall(names, item.groups, at=at) for at in (1, 5, 10)}
    metrics["ndcg@10"] = ndcg(names, item.groups)
    metrics["mrr"] = reciprocal_rank(names, item.groups)
    return metrics


def measure_abstention(
    engine: Engine,
    queries: Sequence[LabelledQuery],
    negatives: Sequence[NegativeQuery],
    *,
    progress: BenchProgress | None = None,
) -> Abstention:
    """Compare confidence on queries, among their right tools, with that on negatives."""
    total = len(queries) + len(negatives)
    # A negative is labelled against the tools offered with it; another tool of the catalog may fit.
    searches = [(q.query, tuple(sorted(q.relevant))) for q in queries]
    searches += [(n.query, n.offered) for n in negatives]
    confidences: list[float] = []
    for done, (query, names) in enumerate(searches, start=1):
        confidences.append(_search(engine, query, allow=names).confidence)
        if progress is not None:
            progress("negatives", done, total)
    good, bad = confidences[: len(queries)], confidences[len(queries) :]
    return Abstention(auroc(good, bad), false_refusal_rate(good, bad))


def measure_without_relevant(
    engine: Engine,
    queries: Sequence[LabelledQuery],
    scored: Sequence[QueryScore],
    *,
    progress: BenchProgress | None = None,
) -> Abstention:
    """Compare confidence on the same queries with and without their right tools."""
    names = list(engine.catalog.tools)
    bad: list[float] = []
    for done, item in enumerate(queries, start=1):
        rest = [name for name in names if name not in item.relevant]
        bad.append(_search(engine, item.query, allow=rest).confidence)
        if progress is not None:
            progress("without relevant", done, len(queries))
    good = [s.confidence for s in scored]
    return Abstention(auroc(good, bad), false_refusal_rate(good, bad))


def rss_mb() -> float:
    """The resident memory of this process in MB: current, else its peak, else 0."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 0.0
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        # macOS has no /proc. It reports the peak in bytes, other systems in kilobytes.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    return pages * resource.getpagesize() / (1 << 20)


def _search(engine: Engine, query: str, *, allow: Sequence[str] | None = None) -> Results:
    """Search; a query with an invalid or too slow pattern finds nothing."""
    try:
        return engine.search(query, limit=DEPTH, allow=allow)
    except QueryError:
        return Results(query=query)
