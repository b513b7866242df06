"""What reading words of other languages by their meaning is worth, language by language.

    python bench/languages.py

The requests (bench/languages.jsonl) are ours: what twenty tools of a public catalog do, said in
thirteen languages. Prints a Markdown table of recall@1 and recall@5 with and without that arm, and
the difference over all requests with the 95 % interval of a paired bootstrap.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from catalogs import DATA
from toolscout.catalog.catalog import Catalog
from toolscout.config import Config
from toolscout.evals.bootstrap import gain_interval
from toolscout.evals.dataset import LabelledQuery, read_queries
from toolscout.search import embedders
from toolscout.search.embedders.cache import VectorCache
from toolscout.search.engine import Engine
from toolscout.search.rankers.bm25f import BM25F
from toolscout.search.rankers.dense import Dense
from toolscout.search.rankers.exact import Exact
from toolscout.sources.files import read_tools

TOOLS = DATA / "docker_catalog" / "tools.jsonl"
LOOKED_AT = frozenset({"es", "de", "fr", "ru", "zh", "ja", "ko", "tr"})
"""The languages that its constants were chosen with; the others were added afterwards."""

Ranks = Sequence[int]


def ranks(engine: Engine, queries: Sequence[LabelledQuery]) -> Ranks:
    """Where the right tool stands in each answer, from 1 on; 99 where it does not."""
    found = [(engine.search(q.query, limit=10).names, q.relevant) for q in queries]
    return [next((i for i, n in enumerate(names, 1) if n in right), 99) for names, right in found]


def recalls(ranks: Ranks, places: Sequence[int]) -> str:
    """Recall@1 and recall@5 of some of the queries."""
    chosen = [ranks[place] for place in places]
    return " / ".join(f"{sum(r <= at for r in chosen) / len(chosen):.2f}" for at in (1, 5))


def told(after: Ranks, before: Ranks, places: Sequence[int]) -> str:
    """The difference in points of recall@1 and recall@5, with its interval."""
    said: list[str] = []
    for at in (1, 5):
        gain = gain_interval(*([float(r[p] <= at) for p in places] for r in (after, before)))
        said.append(f"{gain.mean * 100:+.1f} [{gain.low * 100:+.1f}, {gain.high * 100:+.1f}]")
    return " / ".join(said)


def main() -> None:
    if not TOOLS.is_file():
        sys.exit(f"The public sets are not at {DATA}: set TOOLSCOUT_DATA to their folder.")
    queries = read_queries(Path(__file__).with_name("languages.jsonl")).rows
    catalog = Catalog(read_tools(TOOLS).tools)
    (use,) = embedders.load_embedders("use")
    cache = VectorCache(Config.read().cache_folder / "vectors.sqlite3")
    results: list[Ranks] = []
    for rankers in ((Exact(), BM25F(), Dense(use)), None):
        engine = Engine(catalog, embedders=[use], cache=cache, rankers=rankers)
        engine.fill()
        results.append(ranks(engine, queries))
    before, after = results
    print("| recall@1 / recall@5 | requests | without | with | difference |\n|---|---|---|---|---|")
    languages = list(dict.fromkeys(q.lang for q in queries))
    groups = {lang: {lang} for lang in languages}
    groups["used for the choice"] = set(LOOKED_AT)
    groups["added afterwards"] = set(languages) - LOOKED_AT
    for label, members in groups.items():
        places = [place for place, q in enumerate(queries) if q.lang in members]
        cells = (recalls(before, places), recalls(after, places), told(after, before, places))
        print(f"| {label} | {len(places)} | " + " | ".join(cells) + " |")
    cache.close()


if __name__ == "__main__":
    main()
