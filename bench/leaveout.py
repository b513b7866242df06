"""The constants of the fusion, chosen without the set they are judged on.

    python bench/leaveout.py [--limit 600]

Every setting of a grid is tried on every set in one pass, by the engine's fusion seam. For each
set the setting that does best on the other sets is taken, and its figures on the set left out are
printed beside those of the default. Where the two are alike, the default is not fitted to the set.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from catalogs import DATA, available, rows
from toolscout.catalog.catalog import Catalog
from toolscout.config import Config
from toolscout.evals.metrics import ndcg, recall
from toolscout.search import embedders
from toolscout.search.analyzer import is_english
from toolscout.search.embedders.cache import VectorCache
from toolscout.search.engine import Engine
from toolscout.search.fusion import zscore
from toolscout.search.rankers.bm25f import WEIGHT, LexicalRanking
from toolscout.search.rankers.dense import DenseRanking
from toolscout.search.ranking import FusedRanking, Ranking, RankingRequest
from toolscout.sources.files import read_tools

FAMILIES = (("azure_mcp",), ("bfcl", "bfcl_ar"), ("seal_tools",))
"""Sets that share their tools are left out together."""

DEFAULT = (WEIGHT, 1.0, 0.5)
GRID = [DEFAULT, *product((0.5, 0.65, 0.8, 1.0), (0.5, 1.0, 1.5), (0.35, 0.5, 0.65))]
"""Weight of the words, how fast they are doubted (half as fast in English), share of the clause."""

Setting = tuple[float, float, float]
Groups = list[set[str]]


@dataclass
class Trial:
    """A fusion that tries every setting on each request, and answers by the default."""

    groups: Groups = field(default_factory=list)
    found: list[list[tuple[float, float]]] = field(default_factory=list)

    def __call__(self, request: RankingRequest, rankings: Sequence[Ranking]) -> FusedRanking:
        row: list[tuple[float, float]] = []
        for setting in GRID:
            fused = zscore(request, [_set(r, request, setting) for r in rankings])
            names = [request.index.tool(s).name for s in fused.slots[:10].tolist()]
            row.append((recall(names, self.groups, at=5), ndcg(names, self.groups, at=10)))
        self.found.append(row)
        return zscore(request, rankings)


def _set(ranking: Ranking, request: RankingRequest, setting: Setting) -> Ranking:
    weight, doubt, clause_share = setting
    doubt *= 0.5 if is_english(request.query.words) else 1
    match ranking:
        case LexicalRanking(arm="words"):
            return ranking._replace(trust=weight * ranking.coverage**doubt)
        case DenseRanking():
            return replace(ranking, clause_share=clause_share)
        case _:
            return ranking


def tried(name: str, *, limit: int, cache: VectorCache) -> np.ndarray:
    """Mean recall@5 and nDCG@10 of every setting on one set."""
    trial = Trial()
    catalog = Catalog(read_tools(DATA / name / "tools.jsonl").tools)
    engine = Engine(catalog, embedders=embedders.load_embedders("use"), cache=cache, fusion=trial)
    engine.fill()
    labelled = rows(DATA / name / "queries.jsonl")
    for row in labelled[:: max(1, len(labelled) // limit)]:
        trial.groups = [
            set(g) for g in row.get("relevant_groups") or [[n] for n in row["relevant"]]
        ]
        engine.search(row["query"], limit=10)
    return np.array(trial.found).mean(axis=0)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--limit", type=int, default=600, help="about so many queries of a set")
    chosen = options.parse_args()
    if not available():
        sys.exit(f"The public sets are not at {DATA}: set TOOLSCOUT_DATA to their folder.")
    cache = VectorCache(Config.read().cache_folder / "vectors.sqlite3")
    figures: dict[str, np.ndarray] = {}
    for name in (n for family in FAMILIES for n in family):
        print(f"{name} …", file=sys.stderr)
        figures[name] = tried(name, limit=chosen.limit, cache=cache)
    print("| set left out | chosen on the others | its figures there | the default's |")
    print("|---|---|---|---|")
    for family in FAMILIES:
        others = [f for n, f in figures.items() if n not in family]
        best = int(np.mean(others, axis=0).mean(axis=1).argmax())
        for name in family:
            shown = [" / ".join(f"{x:.3f}" for x in figures[name][i]) for i in (best, 0)]
            weights = ", ".join(f"{x:g}" for x in GRID[best])
            print(f"| {name} | {weights} | {shown[0]} | {shown[1]} |")
    cache.close()


if __name__ == "__main__":
    main()
