"""Fit the confidence model on the labelled sets, and say how well it does on the family left out.

    python -m bench.calibrate [--limit 240]

Right searches are a set's queries over the whole catalog (right if a wanted tool is among five
hits), among their own tools, and over catalogs of 1 to 150 tools drawn from the set. Wrong ones are
queries that none of the offered tools fits, and queries whose tools were not drawn. Every set of a
family, every family and every size weighs the same. Searches without the right tools are printed
but not fitted: their siblings fit nearly as well, and no model can tell.

The error is the expected calibration error of `toolscout bench`: the gap between confidence and the
share of right searches in ten ranges of confidence, over the whole catalog. All figures are of
models that were fitted without the family; the weights, for search/confidence.py, are of all.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.embedders.cache import VectorCache
from toolscout.evals.calibration import auroc, reliability
from toolscout.evals.dataset import LabelledQuery
from toolscout.search.confidence import confidence_features
from toolscout.search.engine import Engine

from .catalogs import DATA, available, rows
from .ranking import FAMILIES, Asked, Remembering, suite
from .sets import WRITTEN, labelled_sets, thinned

KINDS = {"whole": 8.0, "among": 1.0, "offered": 3.0, "drawn": 3.0, "not drawn": 3.0}
"""How much each kind of search weighs in the fit: mostly, people ask for what is there."""

DRAWS = {1: 60, 5: 20, 15: 8, 50: 3, 150: 1}
"""Sizes of the small catalogs, and how many of each are drawn from a set."""

HITS = 5
MAX_EACH = 12
FAMILY = {name: family for family, names in FAMILIES.items() for name in names}
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Searched:
    """One search: what was seen (nothing without hits), and whether it was right."""

    source: str
    kind: str
    size: int
    seen: tuple[float, ...]
    is_right: bool

    def confidence(self, weights: Numbers) -> float:
        """What a model says of it."""
        return float(1 / (1 + np.exp(-np.dot(self.seen, weights)))) if self.seen else 0.0


@dataclass
class Searcher:
    """Searches of one set."""

    name: str
    asked: Asked
    make: Callable[[Sequence[Tool]], Engine]

    def run(self, negatives: Sequence[object], limit: int) -> Iterator[Searched]:
        """Every kind of search, over the whole catalog and over small ones."""
        engine = self.make(self.asked.tools)
        every = frozenset(tool.name for tool in self.asked.tools)
        for query in thinned(self.asked.queries, limit):
            yield self.search(engine, "whole", query)
        for query in thinned(self.asked.queries, limit // 2):
            yield self.search(engine, "among", query, allow=query.relevant)
            yield self.search(engine, "without", query, allow=every - query.relevant)
        for row in thinned(negatives, 2 * limit):
            query = LabelledQuery(id="", query=row.query, groups=())
            yield self.search(engine, "offered", query, allow=frozenset(row.offered))
        for row in rows(WRITTEN / "off_topic.jsonl"):
            yield self.search(engine, "off topic", LabelledQuery("", row["query"], ()))
        engine.close()
        chance = random.Random(self.name)
        for size, count in DRAWS.items():
            if 2 * size <= len(every):
                for _ in range(count):
                    yield from self.draw(size, chance)

    def draw(self, size: int, chance: random.Random) -> Iterator[Searched]:
        """Searches over a small catalog: of queries that it serves, and of others."""
        tools, queries = self.asked.tools, [*self.asked.queries]
        asked = chance.sample(queries, max(1, size // 3))
        wanted = {min(group) for query in asked for group in query.groups}
        first = [tool for tool in tools if tool.name in wanted][:size]
        rest = [tool for tool in tools if tool.name not in wanted]
        drawn = [*first, *chance.sample(rest, size - len(first))]
        names = {tool.name for tool in drawn}
        served = [q for q in asked if not names.isdisjoint(q.relevant)][:MAX_EACH]
        many = chance.sample(queries, min(len(queries), 6 * len(served) + 4))
        others = [q for q in many if names.isdisjoint(q.relevant)][: len(served)]
        engine = self.make(drawn)
        for query in served:
            yield self.search(engine, "drawn", query, size=size)
        for query in others:
            yield self.search(engine, "not drawn", query, size=size)
        engine.close()

    def search(
        self,
        engine: Engine,
        kind: str,
        query: LabelledQuery,
        *,
        allow: frozenset[str] | None = None,
        size: int = 0,
    ) -> Searched:
        found = engine.search(query.query, limit=HITS, allow=allow)
        seen = confidence_features(found.evidence) if found.evidence else ()
        is_right = not query.relevant.isdisjoint(found.names)
        return Searched(self.name, kind, size, seen, is_right)


def gather(*, has_vectors: bool, limit: int) -> list[Searched]:
    """All searches of all sets."""
    encoder = [Remembering()] if has_vectors else []
    cache = VectorCache(Config.read().cache_folder / "vectors.sqlite3")
    negatives = {chosen.name: chosen.negatives for chosen in labelled_sets()}

    def make(tools: Sequence[Tool]) -> Engine:
        engine = Engine(Catalog(tools), embedders=encoder, cache=cache)
        engine.fill()
        return engine

    found: list[Searched] = []
    for name, asked in suite(None).items():
        print(f"\rsearching {name} …\033[K", end="", file=sys.stderr, flush=True)
        found += Searcher(name, asked, make).run(negatives.get(name, ()), limit)
    print("\r\033[K", end="", file=sys.stderr)
    cache.close()
    return found


def fit(data: Sequence[Searched], *, ridge: float = 1e-3) -> Numbers:
    """Weighted logistic regression by Newton's method, on standardised features."""
    data = [one for one in data if one.seen and one.kind in KINDS]
    seen = np.array([one.seen for one in data])
    right = np.array([float(one.is_right) for one in data])
    weights = _weights(data)
    middle, spread = seen.mean(0), seen.std(0)
    spread[spread == 0] = 1.0
    middle[0], spread[0] = 0.0, 1.0
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


def _weights(data: Sequence[Searched]) -> Numbers:
    """Equal weights of families, of the sets in each, and of the sizes in each."""
    counts = Counter((one.source, one.kind, one.size) for one in data)
    sizes: dict[tuple[str, str], int] = Counter(key[:2] for key in counts)
    sets = Counter(FAMILY[name] for name in {one.source for one in data})
    found = np.array(
        [
            KINDS[one.kind]
            / counts[one.source, one.kind, one.size]
            / sizes[one.source, one.kind]
            / sets[FAMILY[one.source]]
            for one in data
        ]
    )
    return found * (1_000 / found.sum())


@dataclass(frozen=True)
class Judged:
    """Searches with what a model says of them that was fitted without their family."""

    said: Sequence[tuple[Searched, float]]

    @classmethod
    def of(cls, data: Sequence[Searched]) -> Judged:
        said: list[tuple[Searched, float]] = []
        for family in FAMILIES:
            weights = fit([one for one in data if FAMILY[one.source] != family])
            mine = [one for one in data if FAMILY[one.source] == family]
            said += [(one, one.confidence(weights)) for one in mine]
        return cls(said)

    def pick(self, kind: str, *, source: str = "", size: int = 0) -> list[tuple[float, bool]]:
        """Confidence and truth of some searches."""
        return [
            (sure, one.is_right)
            for one, sure in self.said
            if one.kind == kind and source in ("", one.source) and size in (0, one.size)
        ]

    def auroc(self, good: str, bad: str, *, source: str = "", size: int = 0) -> str:
        """How often a search of one kind gets more confidence than one of another."""
        chosen = [self.pick(kind, source=source, size=size) for kind in (good, bad)]
        if not all(chosen):
            return "–"
        return f"{auroc(*([sure for sure, _ in some] for some in chosen)):.3f}"


def print_sets(judged: Judged) -> None:
    head = ("set", "right", "confidence", "error", "right or wrong", "offered", "not drawn")
    print(f"| {' | '.join((*head, 'without the right tools'))} |\n|{'---|' * (len(head) + 1)}")
    errors: dict[str, list[float]] = defaultdict(list)
    for name in dict.fromkeys(one.source for one, _ in judged.said):
        whole = judged.pick("whole", source=name)
        error = reliability(whole).error
        errors[FAMILY[name]].append(error)
        means = np.mean([right for _, right in whole]), np.mean([sure for sure, _ in whole])
        good, bad = ([sure for sure, right in whole if right is x] for x in (True, False))
        cells = [name, *(f"{mean:.3f}" for mean in means), f"{error:.3f}"]
        cells.append(f"{auroc(good, bad):.3f}" if bad else "–")
        pairs = (("among", "offered"), ("drawn", "not drawn"), ("whole", "without"))
        cells += [judged.auroc(*pair, source=name) for pair in pairs]
        print(f"| {' | '.join(cells)} |")
    mean = np.mean([np.mean(some) for some in errors.values()])
    print(f"\nmean error over families: {mean:.3f}")


def print_sizes(judged: Judged) -> None:
    head = ("tools", "confidence of right searches", "of wrong ones", "AUROC")
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for size in DRAWS:
        good, bad = (
            np.mean([sure for sure, right in judged.pick(kind, size=size) if right is x])
            for kind, x in (("drawn", True), ("not drawn", False))
        )
        print(
            f"| {size} | {good:.2f} | {bad:.2f} | {judged.auroc('drawn', 'not drawn', size=size)} |"
        )


def print_limits(judged: Judged) -> None:
    """By limit: the share of real requests below it, the worst family, and of off-topic ones."""
    print("\n| below | real requests | most in a family | wrong ones | off topic | offered |")
    print("|---|---|---|---|---|---|")
    for limit in (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5):
        by = {
            family: [s < limit for name in names for s, _ in judged.pick("whole", source=name)]
            for family, names in FAMILIES.items()
        }
        wrong = [sure < limit for sure, right in judged.pick("whole") if not right]
        shares = [np.mean(some) for some in by.values() if some]
        others = [[s < limit for s, _ in judged.pick(kind)] for kind in ("off topic", "offered")]
        cells = [np.mean(shares), max(shares), *(np.mean(some) for some in (wrong, *others))]
        print(f"| {limit} | {' | '.join(f'{cell:.1%}' for cell in cells)} |")


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m bench.calibrate", description=__doc__)
    options.add_argument("--limit", type=int, default=240, help="about so many queries of a set")
    limit: int = options.parse_args().limit
    if not available():
        sys.exit(f"The public sets are not at {DATA}: set TOOLSCOUT_DATA to their folder.")
    for has_vectors in (True, False):
        data = gather(has_vectors=has_vectors, limit=limit)
        weights = ", ".join(f"{weight:.3f}" for weight in fit(data))
        print(f"\n## {'With vectors' if has_vectors else 'Keyword-only'}: ({weights})\n")
        judged = Judged.of(data)
        print_sets(judged)
        print_sizes(judged)
        print_limits(judged)


if __name__ == "__main__":
    main()
