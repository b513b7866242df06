"""Does a search find the right tool: Toolscout and its peers on the same sets and queries."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from toolscout import embedders
from toolscout.embedders.cache import VectorCache
from toolscout.evals.bench import (
    FIGURES,
    QueryScore,
    measure_abstention,
    measure_without_relevant,
    ranking_metrics,
    score_queries,
)
from toolscout.evals.bootstrap import Interval, confidence_interval, gain_interval
from toolscout.evals.calibration import reliability
from toolscout.search.engine import Engine

from .peers.child import Child, PeerError
from .peers.contestants import DEFAULT, LEXICAL, PEERS, Contestant
from .progress import Progress
from .sets import KNOWN_LANGUAGES, UNKNOWN_LANGUAGES, LabelledSet, thinned
from .work import FOLDER

_TIMED = 200
AT_ONCE = 2
"""How many peers answer at a time: only what they find counts here, not how fast."""


@dataclass(frozen=True)
class Found:
    """What one search made of one set: each query's figures, or why there are none."""

    set: str
    label: str
    figures: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])
    reason: str = ""
    knowing: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def row(self, default: Found | None) -> dict[str, Any]:
        """Means with intervals, and how far the default is ahead on the same queries."""
        row: dict[str, Any] = {"set": self.set, "label": self.label}
        if self.reason:
            return row | {"reason": self.reason}
        row["queries"] = len(self.figures[FIGURES[0]])
        row["figures"] = {
            name: spanned(confidence_interval(self.figures[name])) for name in FIGURES
        }
        if default is not None and default is not self and not default.reason:
            row["default_ahead"] = {
                name: spanned(gain_interval(default.figures[name], self.figures[name]))
                for name in ("recall@5", "ndcg@10")
            }
        return row | dict(self.knowing)


def spanned(span: Interval) -> dict[str, float]:
    """An interval as JSON has it."""
    return {"mean": round(span.mean, 4), "low": round(span.low, 4), "high": round(span.high, 4)}


def measure(
    sets: Sequence[LabelledSet], *, specs: Sequence[str], progress: Progress
) -> list[dict[str, Any]]:
    """Every search on every set; `specs` names embedders beside the bundled one."""
    rows: list[dict[str, Any]] = []
    for chosen in sets:
        own = [("none", LEXICAL.label), ("use", DEFAULT.label)]
        own += [(spec, f"{DEFAULT.label}, {spec}") for spec in specs]
        found = [_ours(chosen, spec, label, progress=progress) for spec, label in own]
        found += _peers(chosen, progress=progress)
        default = next(f for f in found if f.label == DEFAULT.label)
        rows += [f.row(default) for f in found]
    return rows


def _ours(chosen: LabelledSet, spec: str, label: str, *, progress: Progress) -> Found:
    progress.say(f"retrieval · {chosen.name} · {label}")
    cache = VectorCache(FOLDER / "vectors.db")
    engine = Engine(chosen.catalog, embedders=embedders.load_embedders(spec), cache=cache)
    with closing(engine):
        status = engine.fill(lambda done, total: progress.count("vectors", done, total))
        if status.problem:
            return Found(chosen.name, label, reason=status.problem)
        cpu_ms = _search_cpu_ms(engine, chosen)
        scored = score_queries(engine, chosen.queries, progress=progress.count)
        figures = {name: [s.figures[name] for s in scored] for name in FIGURES}
        knowing = _knowing(engine, chosen, scored, progress=progress)
        knowing |= {"search_cpu_ms": cpu_ms, **_by_language(chosen, scored)}
    return Found(chosen.name, label, figures, knowing=knowing)


def _search_cpu_ms(engine: Engine, chosen: LabelledSet) -> float:
    """The median CPU time of a search; each query is new to the engine, so none is cached."""
    times: list[float] = []
    for query in thinned(chosen.queries, _TIMED):
        started = time.process_time()
        engine.search(query.query, limit=10)
        times.append(1e3 * (time.process_time() - started))
    return median(times)


def _by_language(chosen: LabelledSet, scored: Sequence[QueryScore]) -> dict[str, Any]:
    """The figures of known languages apart, for a set that has others too."""
    pairs = list(zip(chosen.queries, scored, strict=True))
    known = [s for q, s in pairs if q.lang in KNOWN_LANGUAGES]
    others = [s for q, s in pairs if q.lang in UNKNOWN_LANGUAGES]
    if not known or not others:
        return {}
    return {
        f"{kind}_languages": {n: fmean(s.figures[n] for s in some) for n in FIGURES}
        for kind, some in (("known", known), ("other", others))
    }


def _knowing(
    engine: Engine, chosen: LabelledSet, scored: Sequence[QueryScore], *, progress: Progress
) -> dict[str, Any]:
    """Whether confidence tells when nothing fits."""
    missing = measure_without_relevant(engine, chosen.queries, scored, progress=progress.count)
    curve = reliability([(s.confidence, s.is_right) for s in scored])
    found: dict[str, Any] = {
        "without_relevant": {"auroc": missing.auroc, "false_at_90": missing.false_at_90},
        "calibration_error": curve.error,
        "reliability": [
            {"said": b.confidence, "right": b.right, "searches": b.count} for b in curve.bins
        ],
    }
    if chosen.negatives:
        refused = measure_abstention(
            engine, chosen.queries, chosen.negatives, progress=progress.count
        )
        found["abstain"] = {"auroc": refused.auroc, "false_at_90": refused.false_at_90}
    return found


def _peers(chosen: LabelledSet, *, progress: Progress) -> list[Found]:
    asked = partial(_peer, chosen, progress=progress)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(asked, PEERS))


def _peer(chosen: LabelledSet, peer: Contestant, *, progress: Progress) -> Found:
    progress.say(f"retrieval · {chosen.name} · {peer.label}")
    try:
        (answers,) = answered(peer, [chosen.tools], [q.query for q in chosen.queries])
    except PeerError as failure:
        return Found(chosen.name, peer.label, reason=str(failure))
    rows = [ranking_metrics(n, q) for n, q in zip(answers, chosen.queries, strict=True)]
    return Found(chosen.name, peer.label, {name: [r[name] for r in rows] for name in FIGURES})


def answered(
    contestant: Contestant, files: Iterable[Path], queries: Sequence[str]
) -> list[list[list[str]]]:
    """The names that a contestant finds for each query in each file of tools."""
    found: list[list[list[str]]] = []
    with Child(contestant) as child:
        for path in files:
            child.ask("load", tools=str(path))
            child.ask("index")
            found.append(child.ask("search", queries=list(queries))["names"])
    return found
