"""What each part of the default ranking is worth: one part changed at a time, on labelled sets.

    python bench/ablation.py [--sets azure_mcp,bfcl] [--limit 500] [--only LABEL] [--together]

Prints a Markdown table: the difference to the default in points of recall@5 and nDCG@10, with the
95 % interval of a paired bootstrap over queries. A difference whose interval has no zero is marked.
With `--together` every query is asked of all public catalogs at once, which have enough tools for
vectors to be scanned; some tools are then right that the labels do not know of. The sets of
bench/packaged.py, agentdojo and bfcl_turns, may be named as well, and the catalogs for which
requests were written (bench/written).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from catalogs import DATA, available, rows
from packaged import PACKAGES, packaged
from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.evals.bootstrap import gain_interval
from toolscout.evals.metrics import ndcg, recall
from toolscout.search.embedders.cache import VectorCache
from toolscout.search.embedders.universal_encoder import default_encoder
from toolscout.search.engine import Engine
from toolscout.search.fields import embedding_texts
from toolscout.search.fusion import diversify, sum_rankings
from toolscout.search.preprocessing import (
    IsKnownTerm,
    add_value_kinds,
    drop_long_quotations,
    drop_values,
)
from toolscout.search.rankers.bm25f import BM25F
from toolscout.search.rankers.cross_lingual import CrossLingual
from toolscout.search.rankers.dense import RESCORE_FACTOR, Dense
from toolscout.search.rankers.exact import Exact
from toolscout.search.ranking import FusedRanking, Ranker, Ranking, RankingRequest
from toolscout.sources.files import read_tools

SETS = ("azure_mcp", "bfcl", "bfcl_ar", "seal_tools")
Make = Callable[[Catalog], Engine]
Figures = list[tuple[float, float]]


def engines(cache: VectorCache) -> dict[str, Make]:
    """The default, and the default with one part changed."""
    use = default_encoder()

    def alone(*rankers: Ranker) -> Make:
        return lambda catalog: Engine(catalog, embedders=[use], cache=cache, rankers=rankers)

    def arms(*rankers: Ranker) -> Make:
        return alone(*rankers, CrossLingual(use))

    def part(**changed: object) -> Make:
        return lambda catalog: Engine(catalog, embedders=[use], cache=cache, **changed)

    return {
        "default": part(),
        "keyword search only": lambda catalog: Engine(catalog),
        "vectors only": alone(Exact(), Dense(use)),
        "no translation of words": alone(Exact(), BM25F(), Dense(use)),
        "no name ranker": arms(BM25F(), Dense(use)),
        "half the keyword weight": arms(Exact(), BM25F(weight=0.4), Dense(use)),
        "1.5 times the keyword weight": arms(Exact(), BM25F(weight=1.2), Dense(use)),
        "full keyword weight for unknown words": arms(
            Exact(), BM25F(doubt=0, doubt_in_english=0), Dense(use)
        ),
        "no exception for English": arms(Exact(), BM25F(doubt_in_english=1), Dense(use)),
        "keyword weight falls faster": arms(
            Exact(), BM25F(doubt=2, doubt_in_english=1), Dense(use)
        ),
        "vectors of the whole request only": arms(Exact(), BM25F(), Dense(use, clause_share=0.0)),
        "vectors of clauses only": arms(Exact(), BM25F(), Dense(use, clause_share=1.0)),
        "values kept in a single clause": arms(Exact(), BM25F(), ClauseApart(use)),
        "every vector compared exactly": arms(Exact(), BM25F(), Dense(use, rescore_factor=1e6)),
        "an eighth compared exactly": arms(
            Exact(), BM25F(), Dense(use, rescore_factor=RESCORE_FACTOR / 8)
        ),
        "all values kept in the request": arms(Exact(), BM25F(), Dense(use, view=everything)),
        "no values kept in the request": arms(Exact(), BM25F(), Dense(use, view=no_value)),
        "no diversity for several needs": part(fusion=sum_rankings),
        "diversity from two clauses": part(fusion=every_clause_a_need),
        "kinds of values not added": part(prepare=no_kinds),
        "long quotations kept": part(prepare=with_quotations),
        "abbreviations not expanded": arms(Exact(), BM25F(), Unspoken(use)),
        "no server preference": part(fusion=no_server_share),
        "without text 1 (description)": part(text_recipe=partial(but_one_text, 0)),
        "without text 2 (and parameter names)": part(text_recipe=partial(but_one_text, 1)),
        "without text 3 (bare name)": part(text_recipe=partial(but_one_text, 2)),
        "without text 4 (required parameters)": part(text_recipe=partial(but_one_text, 3)),
    }


class ClauseApart(Dense):
    """Encodes a single clause in addition to the whole, with its values."""

    def query_texts(self, request: RankingRequest) -> tuple[str, ...]:
        return (self.view(request), *request.clauses)


class Unspoken(Dense):
    """Encodes abbreviations without their long forms."""

    def expand_text(self, _: RankingRequest, text: str) -> str:
        return text


def everything(request: RankingRequest) -> str:
    return request.query.words


def no_value(request: RankingRequest) -> str:
    return drop_values(request.query.words)


def no_server_share(request: RankingRequest, rankings: Sequence[Ranking]) -> FusedRanking:
    return diversify(request, rankings, sum_rankings(request, rankings, server_share=0.0))


def every_clause_a_need(request: RankingRequest, rankings: Sequence[Ranking]) -> FusedRanking:
    return diversify(request, rankings, sum_rankings(request, rankings), single_need_clauses=1)


def no_kinds(text: str, is_known: IsKnownTerm) -> str:
    return drop_long_quotations(text, is_known)


def with_quotations(text: str, is_known: IsKnownTerm) -> str:
    return add_value_kinds(text, is_known)


def but_one_text(number: int, tool: Tool) -> list[tuple[str, float]]:
    return [pair for place, pair in enumerate(embedding_texts(tool)) if place != number]


def folder(name: str) -> Path:
    """Where a set is."""
    return packaged(name) if name in PACKAGES else DATA / name


def queries(name: str) -> Path:
    """Where its queries are."""
    written = Path(__file__).parent / "written" / f"{name}.jsonl"
    return written if written.is_file() else folder(name) / "queries.jsonl"


def catalog(*names: str) -> Catalog:
    """The tools of some sets; of several with one name the first."""
    tools: dict[str, Tool] = {}
    for name in names:
        for tool in read_tools(folder(name) / "tools.jsonl").tools:
            tools.setdefault(tool.name, tool)
    return Catalog(tools.values())


def measured(
    engine: Engine, name: str, *, limit: int | None, typed: Callable[[str], str] = str
) -> Figures:
    """Recall@5 and nDCG@10 of every query of a set, as somebody types it."""
    found: Figures = []
    labelled = rows(queries(name))
    for row in labelled[:: max(1, len(labelled) // (limit or len(labelled)))]:
        groups = [set(g) for g in row.get("relevant_groups") or [[n] for n in row["relevant"]]]
        names = engine.search(typed(row["query"]), limit=10).names
        found.append((recall(names, groups, at=5), ndcg(names, groups, at=10)))
    return found


def told(after: Figures, before: Figures) -> str:
    """Points of difference in both figures."""
    said: list[str] = []
    for figure in (0, 1):
        gain = gain_interval([a[figure] for a in after], [b[figure] for b in before])
        mark = " *" if gain.low > 0 or gain.high < 0 else ""
        points = f"{gain.mean * 100:+.1f} [{gain.low * 100:+.1f}, {gain.high * 100:+.1f}]"
        said.append(points + mark)
    return " / ".join(said)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sets", default=",".join(SETS))
    options.add_argument(
        "--limit", type=int, help="about so many queries of each set, evenly spread"
    )
    options.add_argument("--together", action="store_true", help="ask all public catalogs at once")
    options.add_argument("--only", action="append", help="this change; may be repeated")
    chosen = options.parse_args()
    if not available():
        sys.exit(f"The public sets are not at {DATA}: set TOOLSCOUT_DATA to their folder.")
    names = chosen.sets.split(",")
    all_names = sorted(path.parent.name for path in DATA.glob("*/tools.jsonl"))
    cache = VectorCache(Config.read().cache_folder / "vectors.sqlite3")
    print("| recall@5 / nDCG@10 | " + " | ".join(names) + " |")
    print("|---|" + "---|" * len(names))
    default: dict[str, Figures] = {}
    wanted = {"default", *(chosen.only or engines(cache))}
    for label, make in engines(cache).items():
        if label not in wanted:
            continue
        cells: list[str] = []
        all_at_once = make(catalog(*all_names)) if chosen.together else None
        for name in names:
            print(f"{label}: {name} …", file=sys.stderr)
            engine = all_at_once or make(catalog(name))
            engine.fill()
            figures = measured(engine, name, limit=chosen.limit)
            before = default.setdefault(name, figures)
            means = [sum(column) / len(figures) for column in zip(*figures, strict=True)]
            plain = " / ".join(f"{mean:.3f}" for mean in means)
            cells.append(plain if before is figures else told(figures, before))
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)
    cache.close()


if __name__ == "__main__":
    main()
