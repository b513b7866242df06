"""How a search answers requests that no tool fits, and whether it doubts real ones.

    python -m bench.off_topic [--limit N]

For every catalog: 120 requests that no tool fits (bench/written/off_topic.jsonl: random letters,
filler, random words, small talk, general knowledge, chores), and the labelled requests of that
catalog, in English and in other languages. Prints a Markdown table of the share that is answered
with "nothing fits" and with doubt. In brackets: of all real requests, those that are answered so
although a right tool was among the five hits.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

from toolscout import embedders
from toolscout.catalog.catalog import Catalog
from toolscout.disclosure.doubt import judge_results
from toolscout.embedders.cache import VectorCache
from toolscout.evals.dataset import LabelledQuery
from toolscout.examples import CATALOG, QUESTIONS
from toolscout.search.engine import Engine
from toolscout.sources.files import read_tools

from .catalogs import rows
from .sets import WRITTEN, labelled_sets, thinned, written_sets
from .work import FOLDER

HITS = 5


@dataclass(frozen=True)
class Verdict:
    """How one request is answered."""

    is_nothing: bool
    is_unsure: bool
    is_right: bool = False


def judge(engine: Engine, query: str, relevant: Iterable[str] = ()) -> Verdict:
    """Answer a request as the commands and the profiles do."""
    found = engine.search(query, limit=HITS)
    verdict = judge_results(found, engine).verdict
    is_right = not set(relevant).isdisjoint(found.names)
    return Verdict(verdict == "nothing fits", verdict == "unsure", is_right)


def share(verdicts: Sequence[Verdict], kind: str) -> str:
    """The share of one verdict, and that of right answers lost to it."""
    if not verdicts:
        return "–"
    chosen = [v for v in verdicts if getattr(v, kind)]
    lost = sum(v.is_right for v in chosen) / len(verdicts)
    return f"{len(chosen) / len(verdicts):.1%} ({lost:.1%})"


def row(name: str, catalog: Catalog, queries: Sequence[LabelledQuery]) -> str:
    """One line of the table."""
    cache = VectorCache(FOLDER / "vectors.db")
    engine = Engine(catalog, embedders=embedders.load_embedders("use"), cache=cache)
    with closing(engine):
        engine.fill()
        off = [judge(engine, one["query"]) for one in rows(WRITTEN / "off_topic.jsonl")]
        real: dict[bool, list[Verdict]] = {True: [], False: []}
        for query in queries:
            is_english = query.lang in ("", "en")
            real[is_english].append(judge(engine, query.query, query.relevant))
    caught = [sum(v.is_nothing for v in off), sum(v.is_nothing or v.is_unsure for v in off)]
    cells = [name, f"{len(catalog):,}", *(f"{count / len(off):.1%}" for count in caught)]
    for verdicts in (real[True], real[False]):
        cells += [str(len(verdicts)), share(verdicts, "is_nothing"), share(verdicts, "is_unsure")]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.off_topic", description=__doc__)
    parser.add_argument("--limit", type=int, help="only so many requests of each set")
    limit: int | None = parser.parse_args().limit
    real = ["nothing fits", "unsure"]
    head = ["catalog", "tools", "off topic: nothing fits", "or unsure"]
    head += ["English", *real, "other languages", *real]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    asked = tuple(
        LabelledQuery(id=str(n), query=q, groups=(frozenset({tool}),))
        for n, (q, tool) in enumerate(QUESTIONS)
    )
    print(row("example", Catalog(read_tools(CATALOG).tools), asked), flush=True)
    for chosen in [*written_sets(), *labelled_sets()]:
        print(row(chosen.name, chosen.catalog, thinned(chosen.queries, limit)), flush=True)


if __name__ == "__main__":
    main()
