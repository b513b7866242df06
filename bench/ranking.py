"""What each part and constant of ranking is worth, judged on families of sets left out.

    make bench-ranking                      every set, about 100 queries of each
    python -m bench.ranking --limit 250     more queries
    python -m bench.ranking --figures       only the figures of the default, on every query
    python -m bench.ranking --plain         only the comparison with the plain recipe
    python -m bench.ranking --siblings      only how often siblings are confused
    python -m bench.ranking --only field    only the rows whose name contains this

Sets with the same tools or authors are one family. The macro mean is over families, so a large set
does not outvote the others. A part stays if the macro gets worse without it, whichever family is
left out: every choice was made after looking at some set, and this takes that set away. Intervals
are 95 % of a paired bootstrap over queries, drawn within each set.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.embedders.arrays import Floats
from toolscout.embedders.cache import VectorCache
from toolscout.embedders.tool_texts import embedding_texts
from toolscout.embedders.universal_encoder import UniversalEncoder
from toolscout.evals.bench import ranking_metrics
from toolscout.evals.dataset import LabelledQuery, read_queries
from toolscout.examples import CATALOG
from toolscout.search import clauses, fields, glossary
from toolscout.search.engine import Engine
from toolscout.search.pipeline import run_query
from toolscout.search.query import parse
from toolscout.search.rankers import cross_lingual, exact
from toolscout.search.rankers.bm25f import BM25F
from toolscout.search.rankers.cross_lingual import CrossLingual
from toolscout.search.rankers.dense import Dense
from toolscout.search.rankers.exact import Exact
from toolscout.search.ranking import Ranker
from toolscout.search.recipe import fuse
from toolscout.sources.files import read_tools

from .catalogs import DATA, available
from .home import read_home
from .plain_recipe import PlainRecipe
from .sets import KNOWN_LANGUAGES, labelled_sets, packaged_sets, thinned, written, written_sets
from .siblings import measure_siblings, sibling_groups

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

DRAWS = 1_000
Scores = Mapping[str, npt.NDArray[np.float64]]
"""By set, a row per query and a column per measure."""


class Names(Protocol):
    """The answer to one query."""

    @property
    def names(self) -> Sequence[str]: ...


class Searches(Protocol):
    """What is compared: the engine, or the plain recipe."""

    def fill(self) -> object: ...
    def search(self, query: str, *, limit: int) -> Names: ...


Make = Callable[[Sequence[Tool]], Searches]


class Found(NamedTuple):
    """The names that a search found."""

    names: Sequence[str]


@dataclass(frozen=True)
class Changed:
    """An engine with other parts, which shares its index."""

    engine: Engine
    parts: Mapping[str, object]

    def fill(self) -> None:
        self.engine.fill()

    def search(self, query: str, *, limit: int) -> Found:
        index = self.engine.snapshot.index
        pipeline = replace(self.engine.pipeline(), **self.parts)  # pyright: ignore[reportArgumentType] # fields of Pipeline
        found = run_query(pipeline, index, parse(query), index.alive, limit=limit)
        return Found([hit.name for hit in found.hits])


@dataclass(frozen=True)
class Variant:
    """A way to search, under other values of constants that the code has fixed."""

    make: Make
    module: object = None
    constants: Mapping[str, object] = field(default_factory=dict[str, object])

    @contextmanager
    def in_force(self) -> Generator[None]:
        """The other values, for as long as the block lasts."""
        before = {name: getattr(self.module, name) for name in self.constants}
        try:
            for name, value in self.constants.items():
                setattr(self.module, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self.module, name, value)


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
    """The default, and the default with one part or constant changed.

    What changes no index shares one for each set: filling it takes longer than the searches.
    """

    encoder: Remembering = field(default_factory=Remembering)
    cache: VectorCache = field(
        default_factory=lambda: VectorCache(Config.read().cache_folder / "vectors.sqlite3")
    )

    engines: dict[int, tuple[Sequence[Tool], Engine]] = field(
        default_factory=dict[int, tuple[Sequence[Tool], Engine]]
    )

    def engine(self, tools: Sequence[Tool], **changed: object) -> Engine:
        return Engine(Catalog(tools), embedders=[self.encoder], cache=self.cache, **changed)  # pyright: ignore[reportArgumentType] # keywords of Engine

    def changed(self, tools: Sequence[Tool], **parts: object) -> Changed:
        if id(tools) not in self.engines:  # the tools are kept too, so that the id stays theirs
            self.engines[id(tools)] = tools, self.engine(tools)
        return Changed(self.engines[id(tools)][1], parts)

    def default(self, **parts: object) -> Variant:
        return Variant(partial(self.changed, **parts))

    def plain(self) -> Variant:
        def make(tools: Sequence[Tool]) -> PlainRecipe:
            return PlainRecipe(Catalog(tools), embedder=self.encoder, cache=self.cache)

        return Variant(make)

    def fixed(self, module: object, name: str, values: Sequence[object]) -> dict[str, Variant]:
        # The fields are weighed when tools are indexed, the other constants in each search.
        make = self.engine if module is fields else self.changed
        return {f"{x:g}": Variant(make, module, {name: x}) for x in values}

    def field_weights(self, name: str, values: Sequence[float]) -> dict[str, Variant]:
        place = fields.FIELDS.index(name)
        before, after = fields.WEIGHTS[:place], fields.WEIGHTS[place + 1 :]
        return {
            f"{x:g}": Variant(self.engine, fields, {"WEIGHTS": (*before, x, *after)})
            for x in values
        }

    def rankers(
        self, words: float = 0.8, doubt: float = 1.0, meaning: float = 1.0, translation: float = 0.4
    ) -> Variant:
        chosen: list[Ranker] = [Exact()]
        chosen += [BM25F(weight=words, doubt=doubt)] if words else []
        chosen += [Dense(self.encoder, weight=meaning)] if meaning else []
        chosen += [CrossLingual(self.encoder, weight=translation)] if translation else []
        return self.default(rankers=tuple(chosen))

    def parts(self) -> dict[str, Variant]:
        texts = ("description", "bare name", "required parameters")
        return {
            "the plain recipe": self.plain(),
            "without words": self.rankers(words=0),
            "without meaning": self.rankers(meaning=0, translation=0),
            "without translated words": self.rankers(translation=0),
            "without names": self.default(
                rankers=(BM25F(), Dense(self.encoder), CrossLingual(self.encoder))
            ),
            "without doubt of unknown words": self.rankers(doubt=0),
            "without clauses": self.default(fusion=partial(fuse, clause_share=0.0, diversity=0.0)),
            "without diversity": self.default(fusion=partial(fuse, diversity=0.0)),
            "without typo correction": self.default(spelling=None),
            **{
                f"without the text of the {text}": Variant(
                    partial(self.engine, text_recipe=partial(without_text, number))
                )
                for number, text in enumerate(texts)
            },
        }

    def constants(self) -> dict[str, dict[str, Variant]]:
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
            "words of the shortest clause (4)": self.fixed(clauses, "_MIN_WORDS", (3, 6)),
            "score of a name in a sentence (6)": self.fixed(exact, "MENTION_SCORE", (3.0, 12.0)),
            **self.constants_of_words(),
            **self.constants_of_translation(),
        }

    def constants_of_words(self) -> dict[str, dict[str, Variant]]:
        others: dict[str, Sequence[float]] = {
            "name": (1.3, 3.0),
            "parameters": (0.4, 1.0),
            "parameter descriptions": (0.2, 0.7),
            "category": (0.0, 1.0),
            "server": (1.0, 3.0),
        }
        weights = dict(zip(fields.FIELDS, fields.WEIGHTS, strict=True))
        return {
            "saturation K1 (1)": self.fixed(fields, "K1", (0.6, 1.5)),
            "length B (0.5)": self.fixed(fields, "B", (0.3, 0.7)),
            "repeats of a word (3)": self.fixed(fields, "MAX_REPEATS", (1, 10)),
            "longest field (4)": self.fixed(fields, "MAX_LENGTH_RATIO", (2.0, 8.0)),
            **{
                f"weight of the field {name} ({weights[name]:g})": self.field_weights(name, values)
                for name, values in others.items()
            },
        }

    def constants_of_translation(self) -> dict[str, dict[str, Variant]]:
        threshold = UniversalEncoder.translation_threshold
        return {
            f"similarity of a translation ({threshold:g})": self.fixed(
                self.encoder, "translation_threshold", (0.45, 0.5, 0.6, 0.65)
            ),
            "known share without translation (0.5)": self.fixed(
                cross_lingual, "FLUENT_SHARE", (0.35, 0.7)
            ),
            "translations of a word (2)": self.fixed(glossary, "_MAX_TRANSLATIONS", (1, 3)),
            "margin of the second translation (0.08)": self.fixed(
                glossary, "_TRANSLATION_MARGIN", (0.04, 0.15)
            ),
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


def measure(variant: Variant, sets: Mapping[str, Asked], label: str) -> Scores:
    """The measures of every query."""
    scores: dict[str, npt.NDArray[np.float64]] = {}
    engine: Searches | None = None
    tools: Sequence[Tool] = ()
    with variant.in_force():
        for name, asked in sets.items():
            print(f"\r{label}: {name} …\033[K", end="", file=sys.stderr, flush=True)
            if engine is None or asked.tools != tools:  # some neighbours have the same catalog
                engine, tools = variant.make(asked.tools), asked.tools
                engine.fill()
            found = [(engine.search(q.query, limit=10).names, q) for q in asked.queries]
            rows = [ranking_metrics(names, q) for names, q in found]
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


def print_plain(default: Scores, plain: Scores) -> None:
    """The plain recipe on every set, and how far the default is ahead, with intervals."""
    print("\n| set | plain recipe: recall@1 | recall@5 | nDCG@10 | default ahead | interval |")
    print("|---|---|---|---|---|---|")

    def row(label: str, values: object, ahead: Difference) -> None:
        cells = " | ".join(f"{x:.3f}" for x in np.asarray(values))
        low, high = ahead.interval()
        mark = " *" if low > 0 or high < 0 else ""
        gain = ahead.points()[list(JUDGED)].mean()
        print(f"| {label} | {cells} | {gain:+.2f} | [{low:+.2f}, {high:+.2f}]{mark} |")

    for name, scores in plain.items():
        row(name, scores.mean(axis=0), Difference({name: default[name]}, {name: scores}))
    means = {name: scores.mean(axis=0) for name, scores in plain.items()}
    row("macro mean over families", macro(means), Difference(default, plain))


def print_siblings(variants: Variants, sets: Mapping[str, Asked]) -> None:
    """How often the right server is first, and the right tool among its siblings."""
    print("\n| set | queries | siblings | right server first | right tool first, inside it |")
    print("|---|---|---|---|---|")
    for name, asked in sets.items():
        if len(set(sibling_groups(asked.tools).values())) < 2:
            continue
        engine = variants.engine(asked.tools)
        engine.fill()
        found = measure_siblings(engine, asked.tools, asked.queries)
        print(f"| {name} | {found.row()} |", flush=True)


def print_differences(
    variants: Variants, sets: Mapping[str, Asked], default: Scores, *, only: str = ""
) -> None:
    """A table of parts and constants, and one of constants chosen without the family judged."""
    print(
        "\n| changed | recall@1 / recall@5 / nDCG@10, macro | interval | one family left out",
        end="",
    )
    print(" | " + " | ".join(FAMILIES) + " |\n|---|---|---|---|" + "---|" * len(FAMILIES))
    parts = {label: one for label, one in variants.parts().items() if only in label}
    for label, variant in parts.items():
        found = Difference(measure(variant, sets, label), default)
        print(f"| {label} | {found.row()} |", flush=True)
    chosen: list[str] = []
    constants = {name: values for name, values in variants.constants().items() if only in name}
    for constant, values in constants.items():
        by_value: dict[str, Difference] = {"": Difference(default, default)}
        for value, variant in values.items():
            label = f"{constant}: {value}"
            by_value[value] = Difference(measure(variant, sets, label), default)
            print(f"| {label} | {by_value[value].row()} |", flush=True)
        chosen.append(_choices(constant, by_value))
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
    options.add_argument("--plain", action="store_true", help="only against the plain recipe")
    options.add_argument("--siblings", action="store_true", help="only the tools of one server")
    options.add_argument("--only", default="", help="only rows whose name contains this")
    options.add_argument("--sets", help="only these, separated by commas")
    chosen = options.parse_args()
    if not available():
        sys.exit(f"The public sets are not at {DATA}: set TOOLSCOUT_DATA to their folder.")
    sets = suite(None if chosen.figures else chosen.limit)
    if chosen.sets:
        sets = {name: sets[name] for name in chosen.sets.split(",")}
    variants = Variants()
    if chosen.siblings:
        sets["verbs"] = Asked(read_tools(CATALOG).tools, written("verbs"))
        print_siblings(variants, sets)
        return
    default = measure(variants.default(), sets, "default")
    print_figures(default, sets)
    if chosen.figures:
        print_siblings(variants, sets)
    elif chosen.plain:
        print_plain(default, measure(variants.plain(), sets, "the plain recipe"))
    else:
        print_differences(variants, sets, default, only=chosen.only)
    variants.cache.close()


if __name__ == "__main__":
    main()
