"""How far calls of hidden tools change what a caller with limits finds, through learning.

    python -m bench.hidden_calls [--quick] [--set NAME]

A third of the tools is hidden from the caller. Half of the requests of a set are observed, by
twenty principals who may call every tool. The caller searches the visible tools for the other half:
once with what all observations teach, and once with what they teach without the hidden tools. The
table has the share of answers whose first tool, whose first five tools or whose order among them
differ, and the largest difference of a lift, which is at most 6.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np

from toolscout.catalog.catalog import Catalog
from toolscout.learning.observation import Observation
from toolscout.learning.training import LearnedModel, train

from .catalogs import DATA, available
from .learning import Simulation, open_engine
from .progress import Progress
from .sets import LabelledSet, labelled_sets

HIDDEN_SHARE = 1 / 3
SEED = 7


def hide(chosen: LabelledSet) -> frozenset[str]:
    """The names of the tools that the caller may not see."""
    names = sorted(tool.name for tool in chosen.catalog)
    random.Random(SEED).shuffle(names)
    return frozenset(names[: round(len(names) * HIDDEN_SHARE)])


def without(rows: Sequence[Observation], keys: frozenset[str]) -> list[Observation]:
    """The observations as if some tools did not exist."""
    found: list[Observation] = []
    for row in rows:
        called = {key: name for key, name in row.called.items() if key not in keys}
        shown = {key: score for key, score in row.shown.items() if key not in keys}
        found += [replace(row, called=called, shown=shown)] if called else []
    return found


def largest_lift_difference(
    one: LearnedModel, other: LearnedModel, vectors: np.ndarray, hidden: frozenset[str]
) -> float:
    lifts = [
        {key: np.maximum(vectors @ row, 0) for key, row in zip(model.keys, model.rows, strict=True)}
        for model in (one, other)
    ]
    none = np.zeros(len(vectors), np.float32)
    keys = (lifts[0].keys() | lifts[1].keys()) - hidden
    pairs = ((lifts[0].get(key, none), lifts[1].get(key, none)) for key in keys)
    return max((float(np.abs(a - b).max()) for a, b in pairs), default=0.0)


def measure(chosen: LabelledSet) -> dict[str, float]:
    hidden = hide(chosen)
    visible = Catalog([tool for tool in chosen.catalog if tool.name not in hidden])
    with closing(open_engine(chosen.catalog)) as whole:
        observer = Simulation.of(whole, chosen.queries)
        rows = observer.observe()
        keys = frozenset(observer.keys[name] for name in hidden)
    with closing(open_engine(visible)) as engine:
        caller = Simulation.of(engine, chosen.queries)
        models = [train(rows), train(without(rows, keys))]
        answers: list[list[list[str]]] = []
        for model in models:
            caller.use(restrict(model, frozenset(caller.keys.values())))
            answers.append([caller.search(q.query) for q in caller.tested])
        vectors = np.stack([row.unit_vector for row in rows])
    pairs = list(zip(*answers, strict=True))
    return {
        "tools": len(chosen.catalog),
        "requests": len(pairs),
        "first": sum(a[:1] != b[:1] for a, b in pairs) / len(pairs),
        "five": sum(set(a[:5]) != set(b[:5]) for a, b in pairs) / len(pairs),
        "order": sum(a[:5] != b[:5] for a, b in pairs) / len(pairs),
        "lift": largest_lift_difference(*models, vectors, keys),
    }


def restrict(model: LearnedModel, visible: frozenset[str]) -> LearnedModel:
    """What a model has for the visible tools, as a search of theirs uses it."""
    kept = [place for place, key in enumerate(model.keys) if key in visible]
    following = {
        first: {key: lift for key, lift in others.items() if key in visible}
        for first, others in model.following.items()
        if first in visible
    }
    keys = tuple(model.keys[place] for place in kept)
    return LearnedModel(keys, model.rows[kept], model.typical[kept], following)


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m bench.hidden_calls", description=__doc__)
    asked.add_argument("--quick", action="store_true", help="a part of the requests")
    asked.add_argument("--set", action="append", default=[], help="only this set")
    options = asked.parse_args()
    if not available():
        sys.exit(f"The public sets are not at {DATA}: set TOOLSCOUT_DATA to their folder.")
    sets = labelled_sets(at_most=100 if options.quick else None)
    progress = Progress()
    print("| set | tools | requests | other first tool | other five | other order | lift |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for chosen in (s for s in sets if not options.set or s.name in options.set):
        progress.say(f"hidden calls · {chosen.name}")
        row = measure(chosen)
        shares = " | ".join(f"{row[name]:.1%}" for name in ("first", "five", "order"))
        head = f"| {chosen.name} | {row['tools']:,.0f} | {row['requests']:,.0f}"
        print(f"{head} | {shares} | {row['lift']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
