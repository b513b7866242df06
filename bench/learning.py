"""What learning from use gains, what it costs, and what wrong or hostile calls do to it.

    python -m bench.learning [--quick] [--set NAME]

Half of the requests of a set are observed: each is searched, and of the tools that it needs those
among the first ten are called, by twenty principals in turn. The other half is searched before and
after. For *never used*, half of the tools are called by nobody, and their requests count. *30 %
wrong* calls a random tool of the first ten instead, three times out of ten. The *attacker* is one
principal who makes 50 of the observed requests and calls one tool for each of them a hundred times.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean, median
from typing import Any

import numpy as np

from toolscout import embedders
from toolscout.catalog.catalog import Catalog
from toolscout.embedders.cache import VectorCache
from toolscout.evals.bootstrap import gain_interval
from toolscout.evals.dataset import LabelledQuery
from toolscout.evals.metrics import ndcg, recall
from toolscout.learning.observation import Observation, tool_keys
from toolscout.learning.training import LearnedModel, train
from toolscout.learning.usage import UsageLift, UsageMode, UsageWeights, after_calls, attach_usage
from toolscout.search.engine import Engine

from .catalogs import DATA, available
from .progress import Progress
from .retrieval import spanned
from .sections.learning import WRONG as WRONG_KIND
from .sections.learning import hostile_calls, learning
from .sets import LabelledSet, labelled_sets
from .work import FOLDER

ATTACKED = ("azure_mcp", "bfcl")
CALLABLE = 10
PRINCIPALS = 20
WRONG = 0.3
TARGETS, REQUESTS, CALLS = 5, 50, 100
FIGURES: dict[str, Callable[[Sequence[str], Any], float]] = {
    "recall@1": lambda names, groups: recall(names, groups, at=1),
    "recall@5": lambda names, groups: recall(names, groups, at=5),
    "ndcg@10": lambda names, groups: ndcg(names, groups, at=10),
}

Figures = dict[str, list[float]]


@dataclass
class Simulation:
    """A set, split into requests that are observed and requests that are tested."""

    engine: Engine
    usage: UsageLift
    observed: Sequence[LabelledQuery]
    tested: Sequence[LabelledQuery]
    seed: int = 7

    @classmethod
    def of(cls, engine: Engine, queries: Sequence[LabelledQuery], *, seed: int = 7) -> Simulation:
        usage = attach_usage(engine)
        assert usage is not None
        usage.mode = "on"
        shuffled = [*queries]
        random.Random(seed).shuffle(shuffled)
        half = len(shuffled) // 2
        return cls(engine, usage, shuffled[:half], shuffled[half:], seed)

    @cached_property
    def keys(self) -> dict[str, str]:
        """The key of each tool by name."""
        return tool_keys(self.engine.catalog)

    def search(self, query: str) -> list[str]:
        """The first ten names of a reply."""
        found = self.engine.search(query, limit=5)
        return [*found.names, *found.near][:CALLABLE]

    def observe(self, *, wrong: float = 0.0) -> list[Observation]:
        """What the observed requests teach an engine that has learned nothing yet."""
        self.usage.weights = None
        chance = random.Random(self.seed)
        found: list[Observation] = []
        for number, query in enumerate(self.observed):
            shown = self.search(query.query)
            first = [next((n for n in shown if n in group), None) for group in query.groups]
            called = [name for name in dict.fromkeys(first) if name is not None]
            if called and chance.random() < wrong:
                called = [chance.choice(shown)]
            row = self.observation(number, query.query, called) if called else None
            found += [row] if row is not None else []
        return found

    def observation(self, number: int, query: str, called: Sequence[str]) -> Observation | None:
        """A request with the tools called for it; none if it has no vector."""
        vectors = self.engine.search(query, limit=5).vectors
        vector = vectors[0].values.astype(np.float16).tobytes() if vectors else b""
        trace = self.usage.find_trace(vector)
        if trace is None:
            return None
        scores = [*trace.base_scores.items()][:CALLABLE]
        return Observation(
            id=f"{number:08}",
            turn=str(number),
            time=number,
            principal=str(number % PRINCIPALS),
            vector=vector,
            called={self.keys[name]: name for name in called},
            shown={self.keys[name]: score for name, score in scores},
        )

    def learn(self, rows: Sequence[Observation]) -> None:
        """Use what these observations teach."""
        self.use(train(rows))

    def use(self, model: LearnedModel) -> None:
        """Lift tools as a model says."""
        names = {key: name for name, key in self.keys.items()}
        following = {
            names[first]: {names[key]: lift for key, lift in others.items()}
            for first, others in model.following.items()
        }
        tools = [self.engine.catalog[names[key]] for key in model.keys]
        self.usage.weights = UsageWeights.of(tools, model.rows, model.typical, following)

    def judge(self) -> Figures:
        """The figures of each tested request."""
        names = [self.search(q.query) for q in self.tested]
        return {
            name: [figure(n, q.groups) for n, q in zip(names, self.tested, strict=True)]
            for name, figure in FIGURES.items()
        }

    def shares(self, target: str) -> dict[str, float]:
        """How often a tool is first, or among the first five, for requests that do not need it."""
        asked = [q for q in self.tested if target not in q.relevant]
        names = [self.search(q.query) for q in asked]
        first = mean(n[:1] == [target] for n in names)
        return {"top 1": first, "top 5": mean(target in n[:5] for n in names)}


def gains(after: Figures, before: Figures, chosen: Sequence[bool] | None = None) -> dict[str, Any]:
    """The gain of every figure in points, with its interval."""
    places = [p for p in range(len(before["recall@5"])) if chosen is None or chosen[p]]
    if not places:
        return {}
    found: dict[str, Any] = {"requests": len(places)}
    for name in FIGURES:
        pair = [after[name][p] for p in places], [before[name][p] for p in places]
        found[name] = {k: 100 * v for k, v in spanned(gain_interval(*pair)).items()}
    return found


def measure(sets: Sequence[LabelledSet], *, progress: Progress) -> dict[str, Any]:
    """Gains on every set, and the cost of a search."""
    return {
        "gains": [row for chosen in sets for row in _measure_gains(chosen, progress)],
        "cost": [_cost(s, progress) for s in sets if s.name in ATTACKED],
    }


def measure_hostile(sets: Sequence[LabelledSet], *, progress: Progress) -> dict[str, Any]:
    """What is left of the gains with wrong calls, on every set, and attacks on some."""
    return {
        "wrong": [_measure_wrong(chosen, progress) for chosen in sets],
        "attacks": [_attack(s, progress) for s in sets if s.name in ATTACKED],
    }


def _measure_gains(chosen: LabelledSet, progress: Progress) -> list[dict[str, Any]]:
    progress.say(f"learning · {chosen.name}")
    head = _describe(chosen)
    rows: list[dict[str, Any]] = []
    with closing(open_engine(chosen.catalog)) as engine:
        simulation = Simulation.of(engine, chosen.queries)
        before = simulation.judge()
        observed = simulation.observe()
        kinds = {
            "half observed": observed,
            "one principal": [replace(row, principal="0") for row in observed],
        }
        for kind, learned in kinds.items():
            simulation.learn(learned)
            after = simulation.judge()
            rows.append(head | {"kind": kind, "gain": gains(after, before)})
        rows.append(head | _measure_never_used(simulation, observed, before))
        rows.append(head | _measure_tasks(simulation, observed))
    return rows


def _measure_never_used(
    simulation: Simulation, observed: Sequence[Observation], before: Figures
) -> dict[str, Any]:
    """What tools that nobody called lose to the others, if nobody calls half of them."""
    # Split by tools and not by what happened to be observed: in a set with many requests for each
    # tool, every tool would have been called.
    labelled = sorted({name for query in simulation.tested for name in query.relevant})
    unused = set(random.Random(simulation.seed).sample(labelled, len(labelled) // 2))
    simulation.learn([row for row in observed if unused.isdisjoint(row.called.values())])
    asked = [unused.issuperset(query.relevant) for query in simulation.tested]
    return {"kind": "never used", "gain": gains(simulation.judge(), before, asked)}


def _measure_wrong(chosen: LabelledSet, progress: Progress) -> dict[str, Any]:
    progress.say(f"learning · wrong calls on {chosen.name}")
    with closing(open_engine(chosen.catalog)) as engine:
        simulation = Simulation.of(engine, chosen.queries)
        before = simulation.judge()
        simulation.learn(simulation.observe(wrong=WRONG))
        return _describe(chosen) | {"kind": WRONG_KIND, "gain": gains(simulation.judge(), before)}


def _describe(chosen: LabelledSet) -> dict[str, Any]:
    labelled = {name for query in chosen.queries for name in query.relevant}
    return {"set": chosen.name, "per_tool": len(chosen.queries) / max(1, len(labelled))}


def _measure_tasks(simulation: Simulation, rows: Sequence[Observation]) -> dict[str, Any]:
    """Recall@5 of the other tools of a task after one was called, without and with the graph."""
    simulation.learn(rows)
    tasks = [q for q in simulation.tested if len(q.groups) > 1]
    figures = [
        [_remaining(simulation, q, uses_graph=is_graph) for q in tasks]
        for is_graph in (False, True)
    ]
    if not tasks:
        return {"kind": "next tools", "gain": {}}
    span = spanned(gain_interval(figures[1], figures[0]))
    gain = {"requests": len(tasks), "recall@5": {k: 100 * v for k, v in span.items()}}
    return {"kind": "next tools", "gain": gain}


def _remaining(simulation: Simulation, query: LabelledQuery, *, uses_graph: bool) -> float:
    called = min(query.groups[0])
    rest = [group for group in query.groups if called not in group]
    with after_calls([called] if uses_graph else []):
        names = [n for n in simulation.search(query.query) if n != called]
    return recall(names, rest, at=5)


def _attack(chosen: LabelledSet, progress: Progress) -> dict[str, Any]:
    """One principal against a set: how often its tools are shown, and what the others gain."""
    progress.say(f"learning · attack on {chosen.name}")
    with closing(open_engine(chosen.catalog)) as engine:
        simulation = Simulation.of(engine, chosen.queries)
        chance = random.Random(simulation.seed)
        before, rows = simulation.judge(), simulation.observe()
        found: list[dict[str, Any]] = []
        for target in chance.sample(sorted(engine.catalog.tools), TARGETS):
            simulation.usage.weights = None
            shown = simulation.shares(target)
            hostile = _hostile_rows(simulation, target, chance)
            simulation.learn([*rows, *hostile])
            others = gains(simulation.judge(), before)
            found.append({"before": shown, "after": simulation.shares(target), "others": others})
    mean_of = {
        when: {top: mean(f[when][top] for f in found) for top in ("top 1", "top 5")}
        for when in ("before", "after")
    }
    others = {name: mean(f["others"][name]["mean"] for f in found) for name in FIGURES}
    return {"set": chosen.name, **mean_of, "others": others}


def _hostile_rows(simulation: Simulation, target: str, chance: random.Random) -> list[Observation]:
    count = min(REQUESTS, len(simulation.observed))
    simulation.usage.weights = None
    rows: list[Observation] = []
    for number, query in enumerate(chance.sample([*simulation.observed], count)):
        row = simulation.observation(0, query.query, [target])
        for call in range(CALLS if row is not None else 0):
            mark = f"9{number:03}{call:04}"
            rows.append(replace(row, id=mark, turn=mark, principal="attacker"))
    return rows


def _cost(chosen: LabelledSet, progress: Progress) -> dict[str, Any]:
    """CPU milliseconds of a search, and how many of them past use adds after half of the set."""
    progress.say(f"learning · cost on {chosen.name}")
    with closing(open_engine(chosen.catalog)) as engine:
        simulation = Simulation.of(engine, chosen.queries)
        simulation.learn(simulation.observe())
        usage, queries = simulation.usage, [q.query for q in simulation.tested[:100]]
        used = len(usage.weights.tools) if usage.weights is not None else 0

        def one_round(mode: UsageMode) -> float:
            usage.mode = mode
            started = time.thread_time()
            for query in queries:
                engine.search(query)
            return (time.thread_time() - started) * 1_000 / len(queries)

        # Alternated, because other work on the machine comes and goes.
        pairs = [(one_round("off"), one_round("on")) for _ in range(22)][2:]
    return {
        "set": chosen.name,
        "tools": len(chosen.catalog),
        "used": used,
        "search_ms": median(off for off, _ in pairs),
        "added_ms": median(on - off for off, on in pairs),
    }


def open_engine(catalog: Catalog) -> Engine:
    cache = VectorCache(FOLDER / "vectors.db")
    engine = Engine(catalog, embedders=embedders.load_embedders("use"), cache=cache)
    engine.fill()
    return engine


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m bench.learning", description=__doc__)
    asked.add_argument("--quick", action="store_true", help="a part of the requests")
    asked.add_argument("--set", action="append", default=[], help="only this set")
    options = asked.parse_args()
    if not available():
        sys.exit(f"The public sets are not at {DATA}: set TOOLSCOUT_DATA to their folder.")
    sets = labelled_sets(at_most=100 if options.quick else None)
    chosen = [s for s in sets if not options.set or s.name in options.set]
    progress = Progress()
    print(learning({"learning": measure(chosen, progress=progress)}), flush=True)
    print(f"\n{hostile_calls(measure_hostile(chosen, progress=progress))}")


if __name__ == "__main__":
    main()
