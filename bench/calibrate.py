"""Fit the confidence model on the public sets, and say how well it does on the one left out.

    python bench/calibrate.py [--every 2]

Good: a set's queries over the whole catalog (right when its hits have the tool) and among their own
tools. Bad: the same queries with the right tools taken out, and queries that none of the tools
offered fits. Prints the weights for search/confidence.py, AUROC with each set left out of the fit,
and the reliability curve.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np

from catalogs import DATA, available, rows
from toolscout.catalog.catalog import Catalog
from toolscout.catalog.sources.files import read_tools
from toolscout.config import Config
from toolscout.search import embedders
from toolscout.search.confidence import features
from toolscout.search.embedders.cache import VectorCache
from toolscout.search.engine import Engine

SETS = ("azure_mcp", "bfcl", "bfcl_ar", "seal_tools")
KINDS = {"whole": 300, "among": 200, "without": 100, "offered": 500}
"""How much each kind of search weighs in the fit, whatever the size of its set."""


@dataclass
class Searched:
    """Searches of one kind on one set: what was seen, and whether the right tool was there."""

    kind: str
    source: str
    seen: np.ndarray
    right: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        return np.full(len(self.seen), KINDS[self.kind] / max(1, len(self.seen)))


def gather(name: str, *, spec: str, every: int) -> list[Searched]:
    tools = read_tools(DATA / name / "tools.jsonl").tools
    cache = VectorCache(Config.read().cache_folder / "vectors.sqlite3")
    engine = Engine(Catalog(tools), embedders=embedders.load(spec), cache=cache)
    engine.fill()
    everything = {t.name for t in tools}
    found: dict[str, list[tuple[tuple[float, ...], float]]] = {kind: [] for kind in KINDS}

    def note(kind: str, query: str, allow: frozenset[str] | None, wanted: list[set[str]]) -> None:
        result = engine.search(query, allow=allow)
        if result.evidence is not None:
            hits = set(result.names)
            right = float(bool(wanted) and sum(bool(w & hits) for w in wanted) * 2 > len(wanted))
            found[kind].append((features(result.evidence), right))

    for row in rows(DATA / name / "queries.jsonl")[::every]:
        wanted = [set(g) for g in row.get("relevant_groups") or [[n] for n in row["relevant"]]]
        relevant = frozenset().union(row["relevant"], *wanted)
        note("whole", row["query"], None, wanted)
        note("among", row["query"], relevant, wanted)
        note("without", row["query"], frozenset(everything - relevant), [])
    if (DATA / name / "negatives.jsonl").is_file():
        for row in rows(DATA / name / "negatives.jsonl")[::every]:
            note("offered", row["query"], frozenset(row["offered"]), [])
    engine.close()
    return [
        Searched(k, name, np.array([f for f, _ in v]), np.array([y for _, y in v]))
        for k, v in found.items()
        if v
    ]


def fit(data: list[Searched], *, ridge: float = 1e-3) -> np.ndarray:
    """Weighted logistic regression by Newton's method, on standardised features."""
    seen = np.vstack([d.seen for d in data])
    right = np.concatenate([d.right for d in data])
    weights = np.concatenate([d.weights for d in data])
    middle, spread = seen.mean(0), seen.std(0)
    middle[0], spread[spread == 0], spread[0] = 0.0, 1.0, 1.0
    scaled = (seen - middle) / spread
    beta = np.zeros(scaled.shape[1])
    for _ in range(40):
        chance = 1 / (1 + np.exp(-scaled @ beta))
        slope = scaled.T @ (weights * (right - chance)) - ridge * beta
        bend = (scaled * (weights * chance * (1 - chance))[:, None]).T @ scaled
        beta += np.linalg.solve(bend + ridge * np.eye(len(beta)), slope)
    found = beta / spread
    found[0] = beta[0] - float((beta[1:] * middle[1:] / spread[1:]).sum())
    return found


def auroc(good: np.ndarray, bad: np.ndarray) -> float:
    both = np.concatenate([good, bad])
    _, places, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    wins = ranks[: len(good)].sum() - len(good) * (len(good) + 1) / 2
    return float(wins / (len(good) * len(bad)))


def judged(data: list[Searched], weights: np.ndarray) -> None:
    """AUROC of every pair of good and bad searches of a set."""
    by = {(d.source, d.kind): d.seen @ weights for d in data}
    for name in dict.fromkeys(d.source for d in data):
        pairs = [("whole", "without"), ("among", "offered")]
        said = [
            f"{good} against {bad} {auroc(by[name, good], by[name, bad]):.3f}"
            for good, bad in pairs
            if (name, good) in by and (name, bad) in by
        ]
        print(f"    {name:12s} {'   '.join(said)}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--every", type=int, default=1, help="use every n-th query")
    chosen = options.parse_args()
    if not available():
        sys.exit(f"The public sets are not at {DATA}: set TOOLSCOUT_DATA to their folder.")
    for spec in ("use", "none"):
        print(f"embedder {spec}")
        data: list[Searched] = []
        for name in SETS:
            print(f"  searching {name} …", file=sys.stderr)
            data += gather(name, spec=spec, every=chosen.every)
        weights = fit(data)
        print(f"  weights ({', '.join(f'{w:.3f}' for w in weights)})")
        print("  fitted on all sets:")
        judged(data, weights)
        for name in SETS:
            # bfcl_ar has the same tools as bfcl: neither is in the fit that judges the other
            same = {"bfcl", "bfcl_ar"} if name.startswith("bfcl") else {name}
            print(f"  fitted without {', '.join(sorted(same))}:")
            rest = [d for d in data if d.source not in same]
            judged([d for d in data if d.source == name], fit(rest))
        reliability(data, weights)


def reliability(data: list[Searched], weights: np.ndarray) -> None:
    chance = 1 / (1 + np.exp(-np.vstack([d.seen for d in data]) @ weights))
    right = np.concatenate([d.right for d in data])
    mass = np.concatenate([d.weights for d in data])
    print("  reliability (said, true, searches):")
    for low in np.arange(0, 1, 0.1):
        inside = (chance >= low) & (chance < low + 0.1)
        if inside.any():
            said = np.average(chance[inside], weights=mass[inside])
            true = np.average(right[inside], weights=mass[inside])
            print(f"    {said:.2f}  {true:.2f}  {int(inside.sum())}")


if __name__ == "__main__":
    main()
