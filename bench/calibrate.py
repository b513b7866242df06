"""Fit the confidence model on the public sets, and say how well it does on the one left out.

    python bench/calibrate.py [--every 2]

Good: a set's queries over the whole catalog (right when its hits have the tool) and among their own
tools. Bad: the same queries with the right tools taken out, and queries that none of the tools
offered fits. The same again over catalogs of 5 to 150 tools drawn from the set, beside queries
whose tools were not drawn. Prints the weights for search/confidence.py, AUROC with each set left
out of the fit, what is said and what is true by the size of the catalog, and the reliability curve.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from catalogs import DATA, available, rows
from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.search import embedders
from toolscout.search.confidence import confidence_features
from toolscout.search.embedders.cache import VectorCache
from toolscout.search.engine import Engine
from toolscout.search.hit import Results
from toolscout.sources.files import read_tools

SETS = ("azure_mcp", "bfcl", "bfcl_ar", "seal_tools")
KINDS = {
    "whole": 300, "among": 200, "without": 100, "offered": 500,
    "drawn": 75, "drawn without": 40, "not drawn": 75,
}  # fmt: skip
"""How much each kind of search weighs in the fit, at each size of catalog."""

DRAWS = {5: 40, 15: 16, 50: 6, 150: 3}
"""Sizes of the small catalogs, and how many of each are drawn from a set."""


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
    engine = Engine(Catalog(tools), embedders=embedders.load_embedders(spec), cache=cache)
    engine.fill()
    everything = {t.name for t in tools}
    found: dict[str, Seen] = {kind: [] for kind in KINDS}

    def note(kind: str, query: str, allow: frozenset[str] | None, wanted: list[set[str]]) -> None:
        result = engine.search(query, allow=allow)
        found[kind] += told(result, wanted)

    for query, wanted in read_needs(name)[::every]:
        relevant = frozenset[str]().union(*wanted)
        note("whole", query, None, wanted)
        note("among", query, relevant, wanted)
        note("without", query, frozenset(everything - relevant), [])
    if (DATA / name / "negatives.jsonl").is_file():
        for row in rows(DATA / name / "negatives.jsonl")[::every]:
            note("offered", row["query"], frozenset(row["offered"]), [])
    engine.close()
    data = [searched(kind, name, seen) for kind, seen in found.items() if seen]
    for size, count in DRAWS.items():
        drawn: dict[str, Seen] = {}
        for number in range(count):
            some = Drawn.of(tools, read_needs(name), size, random.Random(f"{size} {number}"))
            for kind, seen in some.searched(spec=spec, cache=cache):
                drawn.setdefault(kind, []).extend(seen)
        data += [searched(kind, name, seen) for kind, seen in drawn.items()]
    return data


def searched(kind: str, source: str, seen: Seen) -> Searched:
    return Searched(kind, source, np.array([f for f, _ in seen]), np.array([y for _, y in seen]))


Seen = list[tuple[tuple[float, ...], float]]
Needs = list[tuple[str, list[set[str]]]]
"""Queries, each with the tools that serve each of its needs."""


def read_needs(name: str) -> Needs:
    return [
        (
            row["query"],
            [set(g) for g in row.get("relevant_groups") or [[n] for n in row["relevant"]]],
        )
        for row in rows(DATA / name / "queries.jsonl")
    ]


def told(result: Results, wanted: list[set[str]]) -> Seen:
    """What was seen in a search, and whether most of what was wanted is there."""
    if result.evidence is None:
        return []
    hits = set(result.names)
    right = bool(wanted) and sum(bool(w & hits) for w in wanted) * 2 > len(wanted)
    return [(confidence_features(result.evidence), float(right))]


@dataclass
class Drawn:
    """A small catalog out of a set's tools, queries that it serves, and others."""

    tools: list[Tool]
    served: Needs
    others: Needs

    @classmethod
    def of(cls, tools: Sequence[Tool], needs: Needs, size: int, chance: random.Random) -> Drawn:
        asked = chance.sample(needs, max(2, size // 3))
        wanted = {min(group) for _, groups in asked for group in groups}
        first = [tool for tool in tools if tool.name in wanted][:size]
        rest = [tool for tool in tools if tool.name not in wanted]
        drawn = [*first, *chance.sample(rest, size - len(first))]
        names = {tool.name for tool in drawn}
        served = [(q, groups) for q, groups in asked if all(g & names for g in groups)]
        many = chance.sample(needs, min(len(needs), 4 * len(served)))
        others = [(q, groups) for q, groups in many if not any(g & names for g in groups)]
        return cls(drawn, served, others[: len(served)])

    def searched(self, *, spec: str, cache: VectorCache) -> Iterator[tuple[str, Seen]]:
        engine = Engine(Catalog(self.tools), embedders=embedders.load_embedders(spec), cache=cache)
        engine.fill()
        names = frozenset(tool.name for tool in self.tools)
        for query, groups in self.served:
            yield "drawn", told(engine.search(query), groups)
            rest = names.difference(*groups)
            yield "drawn without", told(engine.search(query, allow=rest), [])
        for query, _ in self.others:
            yield "not drawn", told(engine.search(query), [])
        engine.close()


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
    by: dict[tuple[str, str], np.ndarray] = {}
    for d in data:
        before = by.get((d.source, d.kind), np.zeros(0))
        by[d.source, d.kind] = np.concatenate([before, d.seen @ weights])
    for name in dict.fromkeys(d.source for d in data):
        pairs = [("whole", "without"), ("among", "offered"), ("drawn", "not drawn")]
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
        by_size(data, weights)
        reliability(data, weights)


def by_size(data: list[Searched], weights: np.ndarray) -> None:
    """Mean confidence of searches that fit and of others, by how many tools there were."""
    print(
        "  by size (tools: confidence of good searches, share that is right,"
        " confidence of bad searches):"
    )
    seen = {kind: [d for d in data if d.kind == kind] for kind in ("drawn", "not drawn")}
    good, bad = (np.vstack([d.seen for d in some]) for some in seen.values())
    right = np.concatenate([d.right for d in seen["drawn"]])
    for size in DRAWS:
        mine, others = (np.isclose(s[:, -1], np.log10(size)) for s in (good, bad))
        said, wrong = (1 / (1 + np.exp(-s @ weights)) for s in (good[mine], bad[others]))
        print(f"    {size:4d}: {said.mean():.2f}  {right[mine].mean():.2f}  {wrong.mean():.2f}")


def reliability(data: list[Searched], weights: np.ndarray) -> None:
    chance = 1 / (1 + np.exp(-np.vstack([d.seen for d in data]) @ weights))
    right = np.concatenate([d.right for d in data])
    mass = np.concatenate([d.weights for d in data])
    print("  reliability (confidence, share that is right, searches):")
    for low in np.arange(0, 1, 0.1):
        inside = (chance >= low) & (chance < low + 0.1)
        if inside.any():
            said = np.average(chance[inside], weights=mass[inside])
            true = np.average(right[inside], weights=mass[inside])
            print(f"    {said:.2f}  {true:.2f}  {int(inside.sum())}")


if __name__ == "__main__":
    main()
