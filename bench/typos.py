"""The gain of typo correction: labelled requests unchanged, and with random typos.

    python -m bench.typos [--limit 400] [--words]

In each request one word, or about two in five, get a typo: two letters are swapped, one is missing,
doubled, or replaced by its neighbour on the keyboard (with a fixed seed). Prints a Markdown table
of recall@5 and nDCG@10 without correction, and the gain of the correction in points, with the 95 %
interval of a paired bootstrap. `--words` uses keyword search only.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Callable

from toolscout.config import Config
from toolscout.embedders.cache import VectorCache
from toolscout.embedders.universal_encoder import default_encoder
from toolscout.evals.bench import ranking_metrics
from toolscout.evals.bootstrap import gain_interval
from toolscout.search.analyzer import terms
from toolscout.search.engine import Engine

from .catalogs import DATA, available
from .sets import LabelledSet, labelled_sets

SETS = ("azure_mcp", "bfcl", "seal_tools")
MANY = 0.4
SEED = 5

_WORD = re.compile(r"[A-Za-z]{4,}")
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_BESIDE = {
    letter: row[max(0, place - 1) : place] + row[place + 1 : place + 2]
    for row in _ROWS
    for place, letter in enumerate(row)
}


def add_typo(word: str, chance: random.Random) -> str:
    """A word with one typo, not in its first or last letter."""
    place = chance.randrange(1, len(word) - 1)
    before, letter, after = word[:place], word[place], word[place + 1 :]
    match chance.randrange(4):
        case 0:
            return before + after[0] + letter + after[1:]
        case 1:
            return before + after
        case 2:
            return before + letter + letter + after
        case _:
            return before + chance.choice(_BESIDE[letter.lower()]) + after


def mistyped(text: str, chance: random.Random, *, share: float | None) -> str:
    """A request with typos in a share of its content words, or in a single one."""
    spans = [match.span() for match in _WORD.finditer(text) if terms(match.group())]
    if share is None:
        chosen = [chance.choice(spans)] if spans else []
    else:
        chosen = [span for span in spans if chance.random() < share]
    for start, end in reversed(chosen):
        text = text[:start] + add_typo(text[start:end], chance) + text[end:]
    return text


def typing(share: float | None) -> Callable[[str], str]:
    """A function that adds the same typos every time."""
    chance = random.Random(SEED)
    return lambda text: mistyped(text, chance, share=share)


MEASURES = ("recall@5", "ndcg@10")


def measured(
    engine: Engine, chosen: LabelledSet, typed: Callable[[str], str]
) -> list[dict[str, float]]:
    """The measures of every query of a set, as somebody types it."""
    return [
        ranking_metrics(engine.search(typed(q.query), limit=10).names, q) for q in chosen.queries
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--limit", type=int, default=400, help="number of queries per set")
    options.add_argument("--words", action="store_true", help="keyword search only")
    chosen = options.parse_args()
    if not available():
        sys.exit(f"The public sets are not at {DATA}: set TOOLSCOUT_DATA to their folder.")
    cache = VectorCache(Config.read().cache_folder / "vectors.sqlite3")
    embedders = () if chosen.words else (default_encoder(),)
    print("| recall@5 / nDCG@10 | requests | as typed | gain |\n|---|---|---|---|")
    for each in labelled_sets(at_most=chosen.limit):
        if each.name not in SETS:
            continue
        engines = [
            Engine(each.catalog, embedders=embedders, cache=cache, corrects_typos=corrects)
            for corrects in (False, True)
        ]
        for engine in engines:
            engine.fill()
        for label, share in (("unchanged", 0.0), ("one typo", None), ("many typos", MANY)):
            before, after = (measured(engine, each, typing(share)) for engine in engines)
            plain = " / ".join(f"{sum(r[m] for r in before) / len(before):.3f}" for m in MEASURES)
            gains = [gain_interval([r[m] for r in after], [r[m] for r in before]) for m in MEASURES]
            told = " / ".join(
                f"{g.mean * 100:+.1f} [{g.low * 100:+.1f}, {g.high * 100:+.1f}]" for g in gains
            )
            print(f"| {each.name} | {label} | {plain} | {told} |", flush=True)
    cache.close()


if __name__ == "__main__":
    main()
