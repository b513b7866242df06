"""What each part and constant of ranking is worth, judged on families of sets left out.

    make bench-ranking                      every set, about 100 queries of each
    python -m bench.ranking --limit 250     more queries
    python -m bench.ranking --figures       only the figures of the default, on every query

Sets with the same tools or authors are one family. The macro mean is over families, so a large set
does not outvote the others. A part stays if the macro gets worse without it, whichever family is
left out: every choice was made after looking at some set, and this takes that set away. Intervals
are 95 % of a paired bootstrap over queries, drawn within each set.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.evals.bench import ranking_metrics
from toolscout.evals.dataset import LabelledQuery, read_queries
from toolscout.search.arrays import Floats
from toolscout.search.embedders.cache import VectorCache
from toolscout.search.embedders.universal_encoder import UniversalEncoder
from toolscout.search.engine import Engine
from toolscout.search.fields import embedding_texts
from toolscout.search.rankers.bm25f import BM25F
from toolscout.search.rankers.cross_lingual import CrossLingual
from toolscout.search.rankers.dense import Dense
from toolscout.search.rankers.exact import Exact
from toolscout.search.ranking import Ranker
from toolscout.search.recipe import fuse

from .catalogs import DATA, available
from .home import read_home
from .sets import labelled_sets, packaged_sets, thinned, written_sets

FAMILIES = {
    "azure": ("azure_mcp",),
    "bfcl": ("bfcl", "bfcl_ar", "bfcl_turns"),
    "seal": ("seal_tools",),
    "acebench": ("acebench_zh", "acebench_zh_many"),
    "home": ("ha_intents_dev", "home"),
    "mcp_bench": ("mcp_bench",),
    "agentdojo": ("agentdojo",),
    "written": ("github_mcp_catalog", "docker_catalog", "toucan_catalog"),
    "languages": ("languages",),
}
MEASURES = ("recall@1", "recall@5", "ndcg@10")
JUDGED = (1, 2)
"""The measures that decide: their mean, recall@5 and nDCG@10."""

KNOWN_LANGUAGES = frozenset(["ar", "de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh-cn"])
"""The languages of ha_intents_dev that the bundled encoder knows."""

DRAWS = 1_000
Scores = Mapping[str, npt.NDArray[np.float64]]
"""By set, a row per query and a column per measure."""

Make = Callable[[Catalog], Engine]


@dataclass(frozen=True)
class Asked:
    """A catalog and the queries that are asked of it."""

    tools: Sequence[Tool]
    queries: Sequence[LabelledQuery]


class Remembering(UniversalEncoder):
    """The bundled encoder, which encodes each query once for all variants."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, Floats] = {}

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        if new := [text for text in texts if text not in self._rows]:
            self._rows |= zip(new, self.encode(new), strict=True)
        return np.stack([self._rows[text] for text in texts])


@dataclass
class Variants:
    """The default, and the default with one part or constant changed."""

    encoder: Remembering = field(default_factory=Remembering)
    cache: VectorCache = field(
        default_factory=lambda: VectorCache(Config.read().cache_folder / "vectors.sqlite3")
    )

    def default(self, **changed: object) -> Make:
        def make(catalog: Catalog) -> Engine:
            return Engine(catalog, embedders=[self.encoder], cache=self.cache, **changed)  # pyright: ignore[reportArgumentType] # keywords of Engine

        return make

    def rankers(
        self, words: float = 0.8, doubt: float = 1.0, meaning: float = 1.0, translation: float = 0.4
    ) -> Make:
        chosen: list[Ranker] = [Exact()]
        chosen += [BM25F(weight=words, doubt=doubt)] if words else []
        chosen += [Dense(self.encoder, weight=meaning)] if meaning else []
        chosen += [CrossLingual(self.encoder, weight=translation)] if translation else []
        return self.default(rankers=chosen)

    def parts(self) -> dict[str, Make]:
        texts = ("description", "bare name", "required parameters")
        return {
            "without words": self.rankers(words=0),
            "without meaning": self.rankers(meaning=0, translation=0),
            "without translated words": self.rankers(translation=0),
            "without names": self.default(
                rankers=[BM25F(), Dense(self.encoder), CrossLingual(self.encoder)]
            ),
            "without doubt of unknown words": self.rankers(doubt=0),
            "without clauses": self.default(fusion=partial(fuse, clause_share=0.0, diversity=0.0)),
            "without diversity": self.default(fusion=partial(fuse, diversity=0.0)),
            "without typo correction": self.default(corrects_typos=False),
            **{
                f"without the text of the {text}": self.default(
                    text_recipe=partial(without_text, number)
                )
                for number, text in enumerate(texts)
            },
        }

    def constants(self) -> dict[str, dict[str, Make]]:
        shares = {f"{x:g}": x for x in (0.3, 0.45, 0.75, 0.9)}
        return {
            "weight of words (0.8)": {
                f"{x:g}": self.rankers(words=x) for x in (0.4, 0.6, 1.0, 1.2)
            },
            "exponent of doubt (1)": {f"{x:g}": self.rankers(doubt=x) for x in (0.5, 0.75, 1.5)},
            "weight of translated words (0.4)": {
                f"{x:g}": self.rankers(translation=x) for x in (0.2, 0.3, 0.5, 0.6)
            },
            "share of the best clause (0.6)": {
                n: self.default(fusion=partial(fuse, clause_share=x)) for n, x in shares.items()
            },
            "diversity (0.35)": {
                f"{x:g}": self.default(fusion=partial(fuse, diversity=x)) for x in (0.2, 0.5, 0.8)
            },
        }


def without_text(number: int, tool: Tool) -> list[tuple[str, float]]:
    return [pair for place, pair in enumerate(embedding_texts(tool)) if place != number]


def suite(limit: int | None) -> dict[str, Asked]:
    """Every set, with about so many queries."""
    found = [*labelled_sets(), *packaged_sets(say=print), *written_sets()]
    asked = {s.name: Asked(tuple(s.catalog), s.queries) for s in found}
    languages = read_queries(Path(__file__).with_name("languages.jsonl")).rows
    asked["languages"] = Asked(asked["docker_catalog"].tools, languages)
    asked["home"] = Asked(*read_home())
    names = [name for family in FAMILIES.values() for name in family if name in asked]
    return {n: Asked(asked[n].tools, thinned(asked[n].queries, limit)) for n in names}


def measure(make: Make, sets: Mapping[str, Asked], label: str) -> Scores:
    """The measures of every query."""
    scores: dict[str, npt.NDArray[np.float64]] = {}
    for name, asked in sets.items():
        print(f"\r{label}: {name} …\033[K", end="", file=sys.stderr, flush=True)
        engine = make(Catalog(asked.tools))
        engine.fill()
        rows = [ranking_metrics(engine.search(q.query, limit=10).names, q) for q in asked.queries]
        scores[name] = np.array([[row[m] for m in MEASURES] for row in rows])
    print("\r\033[K", end="", file=sys.stderr)
    return scores


def macro(values: Mapping[str, npt.NDArray[np.float64]], *, left_out: str = "") -> object:
    """The mean over families of the mean over their sets."""
    families = [
        np.mean([values[name] for name in names if name in values], axis=0)
        for family, names in FAMILIES.items()
        if family != left_out and any(name in values for name in names)
    ]
    return np.mean(families, axis=0)


@dataclass(frozen=True)
class Difference:
    """How far a variant is from the default, in points."""

    after: Scores
    before: Scores

    def points(self, *, left_out: str = "") -> npt.NDArray[np.float64]:
        means = {n: 100 * (self.after[n] - self.before[n]).mean(axis=0) for n in self.after}
        return np.asarray(macro(means, left_out=left_out))

    def interval(self, *, left_out: str = "") -> tuple[float, float]:
        """Of the mean of recall@5 and nDCG@10."""
        random = np.random.default_rng(0)
        drawn: dict[str, npt.NDArray[np.float64]] = {}
        for name, after in self.after.items():
            gains = 100 * (after - self.before[name])[:, JUDGED].mean(axis=1)
            drawn[name] = gains[random.integers(0, len(gains), (DRAWS, len(gains)))].mean(axis=1)
        low, high = np.quantile(np.asarray(macro(drawn, left_out=left_out)), [0.025, 0.975])
        return float(low), float(high)

    def family(self, name: str) -> float:
        """The mean of recall@5 and nDCG@10 in one family."""
        sets = [n for n in FAMILIES[name] if n in self.after]
        gains = [(self.after[n] - self.before[n])[:, JUDGED].mean() for n in sets]
        return 100 * float(np.mean(gains))

    def row(self) -> str:
        r1, r5, ndcg = self.points()
        low, high = self.interval()
        out = [self.points(left_out=f)[list(JUDGED)].mean() for f in FAMILIES]
        mark = " *" if low > 0 or high < 0 else ""
        each = " | ".join(f"{self.family(name):+.1f}" for name in FAMILIES)
        span = f"[{low:+.2f}, {high:+.2f}]{mark} | {min(out):+.2f} to {max(out):+.2f}"
        return f"{r1:+.2f} / {r5:+.2f} / {ndcg:+.2f} | {span} | {each}"


def print_figures(default: Scores, sets: Mapping[str, Asked]) -> None:
    print("| set | queries | recall@1 | recall@5 | nDCG@10 |\n|---|---|---|---|---|")

    def row(label: str, count: object, values: npt.NDArray[np.float64]) -> None:
        print(f"| {label} | {count} | " + " | ".join(f"{x:.3f}" for x in values) + " |")

    for name, scores in default.items():
        row(name, len(scores), scores.mean(axis=0))
        if name == "ha_intents_dev":
            known = np.array([q.lang in KNOWN_LANGUAGES for q in sets[name].queries])
            row("- languages that the encoder knows", known.sum(), scores[known].mean(axis=0))
            row("- other languages", (~known).sum(), scores[~known].mean(axis=0))
    means = {name: scores.mean(axis=0) for name, scores in default.items()}
    row("macro mean over families", "", np.asarray(macro(means)))


def print_differences(variants: Variants, sets: Mapping[str, Asked], default: Scores) -> None:
    """A table of parts and constants, and one of constants chosen without the family judged."""
    print(
        "\n| changed | recall@1 / recall@5 / nDCG@10, macro | interval | one family left out",
        end="",
    )
    print(" | " + " | ".join(FAMILIES) + " |\n|---|---|---|---|" + "---|" * len(FAMILIES))
    for label, make in variants.parts().items():
        print(f"| {label} | {Difference(measure(make, sets, label), default).row()} |", flush=True)
    chosen: list[str] = []
    for constant, values in variants.constants().items():
        found: dict[str, Difference] = {"": Difference(default, default)}
        for value, make in values.items():
            label = f"{constant}: {value}"
            found[value] = Difference(measure(make, sets, label), default)
            print(f"| {label} | {found[value].row()} |", flush=True)
        chosen.append(_choices(constant, found))
    print("\n| constant, chosen without the family | " + " | ".join(FAMILIES) + " | mean gain |")
    print("|---|" + "---|" * (len(FAMILIES) + 1))
    print("\n".join(chosen))


def _choices(constant: str, found: Mapping[str, Difference]) -> str:
    """For each family, the value that is best on the others, and what it gains there."""
    cells: list[str] = []
    gains: list[float] = []
    for family in FAMILIES:
        best = max(found, key=lambda v: found[v].points(left_out=family)[list(JUDGED)].mean())
        gains.append(found[best].family(family))
        cells.append(f"{best or 'same'} {gains[-1]:+.1f}")
    return f"| {constant} | " + " | ".join(cells) + f" | {np.mean(gains):+.2f} |"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--limit", type=int, default=100, help="about so many queries of a set")
    options.add_argument("--figures", action="store_true", help="all queries, no variants")
    options.add_argument("--sets", help="only these, separated by commas")
    chosen = options.parse_args()
    if not available():
        sys.exit(f"The public sets are not at {DATA}: set TOOLSCOUT_DATA to their folder.")
    sets = suite(None if chosen.figures else chosen.limit)
    if chosen.sets:
        sets = {name: sets[name] for name in chosen.sets.split(",")}
    variants = Variants()
    default = measure(variants.default(), sets, "default")
    print_figures(default, sets)
    if not chosen.figures:
        print_differences(variants, sets, default)
    variants.cache.close()


if __name__ == "__main__":
    main()
