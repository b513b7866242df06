"""What learning from use gains, what it costs, and what wrong or hostile calls do to it.

    python -m bench.learning [--quick] [--set NAME]

Half of the requests of a set are observed: each is searched, and of the tools that it needs those
among the first ten are called. The other half is searched before and after. *Never used* are the
requests of that half all of whose tools nobody called. *30 % wrong* calls a random tool of the
first ten instead, three times out of ten. The *attacker* is one principal who makes 50 of the
observed requests and calls the same unrelated tool for each, a hundred times.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Any

import numpy as np

from toolscout.evals.bootstrap import gain_interval
from toolscout.evals.dataset import LabelledQuery
from toolscout.evals.metrics import ndcg, recall
from toolscout.learning.observation import Observation, tool_keys
from toolscout.learning.training import LearnedModel, train
from toolscout.search import embedders
from toolscout.search.embedders.cache import VectorCache
from toolscout.search.engine import Engine
from toolscout.search.rankers.usage import UsageRanker, UsageWeights, after_calls

from .catalogs import DATA, available
from .progress import Progress
from .retrieval import spanned
from .sets import LabelledSet, labelled_sets
from .work import FOLDER

SEVERAL = ("acebench_zh_many", "azure_mcp", "bfcl", "bfcl_ar", "ha_intents_dev", "seal_tools")
"""The sets with several requests for many of their tools."""

TASKS = ("acebench_zh_many", "mcp_bench", "seal_tools")
"""The sets whose requests need several tools."""

ATTACKED = ("azure_mcp", "bfcl")
CALLABLE = 10
PRINCIPALS = 20
WRONG = 0.3
REQUESTS, CALLS = 50, 100
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
    usage: UsageRanker
    observed: Sequence[LabelledQuery]
    tested: Sequence[LabelledQuery]
    seed: int = 7

    @classmethod
    def of(cls, engine: Engine, queries: Sequence[LabelledQuery], *, seed: int = 7) -> Simulation:
        assert engine.usage is not None
        engine.usage.mode = "on"
        shuffled = [*queries]
        random.Random(seed).shuffle(shuffled)
        half = len(shuffled) // 2
        return cls(engine, engine.usage, shuffled[:half], shuffled[half:], seed)

    def forget(self) -> None:
        self.usage.weights = None

    def observe(self, *, principals: int = PRINCIPALS, wrong: float = 0.0) -> list[Observation]:
        """What half of the requests teaches."""
        self.forget()
        chance = random.Random(self.seed)
        found: list[Observation] = []
        for number, query in enumerate(self.observed):
            shown = self.search(query.query)
            first = [next((n for n in shown if n in group), None) for group in query.groups]
            called = [name for name in dict.fromkeys(first) if name is not None]
            if called and chance.random() < wrong:
                called = [chance.choice(shown)]
            if called:
                found.append(self.observation(number, query.query, called, number % principals))
        return found

    def observation(
        self, number: int, query: str, called: Sequence[str], principal: int
    ) -> Observation:
        """A request with the tools called for it, as the gateway would record it."""
        vector = self.engine.search(query, limit=5).vectors[0].values
        vector = vector.astype(np.float16).tobytes()
        trace = self.usage.find_trace(vector)
        assert trace is not None
        scores = [*trace.base_scores.items()][:CALLABLE]
        return Observation(
            id=f"{number:08}",
            turn=str(number),
            time=number,
            principal=str(principal),
            vector=vector,
            called={self.keys[name]: name for name in called},
            shown={self.keys[name]: score for name, score in scores},
        )

    def search(self, query: str) -> list[str]:
        """The first ten names of a reply."""
        found = self.engine.search(query, limit=5)
        return [*found.names, *found.near][:CALLABLE]

    def learn(self, rows: Sequence[Observation]) -> None:
        """Use what these observations teach."""
        self.use(train(rows))

    def use(self, model: LearnedModel) -> None:
        names = {key: name for name, key in self.keys.items()}
        catalog = self.engine.catalog
        graph = {
            names[first]: {names[key]: lift for key, lift in others.items()}
            for first, others in model.following.items()
        }
        tools = [catalog[names[key]] for key in model.keys]
        self.usage.weights = UsageWeights.of(self.usage.embedder.id, tools, model.rows, graph)

    @property
    def keys(self) -> dict[str, str]:
        catalog = self.engine.catalog
        if _KEYS.get("catalog") is not catalog:
            _KEYS.update(catalog=catalog, keys=tool_keys(catalog))
        return _KEYS["keys"]

    def judge(self, queries: Sequence[LabelledQuery] | None = None) -> Figures:
        """The figures of each tested request."""
        names = [self.search(q.query) for q in queries or self.tested]
        return {
            name: [figure(n, q.groups) for n, q in zip(names, queries or self.tested, strict=True)]
            for name, figure in FIGURES.items()
        }


_KEYS: dict[str, Any] = {}


def gains(after: Figures, before: Figures, chosen: Sequence[bool] | None = None) -> dict[str, Any]:
    """The gain of every figure in points, with its interval."""
    kept = [*range(len(before["recall@5"]))]
    if chosen is not None:
        kept = [place for place in kept if chosen[place]]
    if not kept:
        return {}
    found: dict[str, Any] = {"requests": len(kept)}
    for name in FIGURES:
        pair = [after[name][k] for k in kept], [before[name][k] for k in kept]
        found[name] = {k: 100 * v for k, v in spanned(gain_interval(*pair)).items()}
    return found


def measure_set(chosen: LabelledSet, *, progress: Progress) -> list[dict[str, Any]]:
    """All rows of one set."""
    progress.say(f"learning · {chosen.name}")
    rows: list[dict[str, Any]] = []
    with closing(_engine(chosen)) as engine:
        simulation = Simulation.of(engine, chosen.queries)
        before = simulation.judge()
        observed = simulation.observe()
        used = {name for row in observed for name in row.called.values()}
        unused = [used.isdisjoint(q.relevant) for q in simulation.tested]

        def add(kind: str, rows_seen: Sequence[Observation]) -> None:
            simulation.learn(rows_seen)
            after = simulation.judge()
            rows.append({"set": chosen.name, "kind": kind, "gain": gains(after, before)})
            if kind == "half observed":
                row = {"set": chosen.name, "kind": "never used"}
                rows.append(row | {"gain": gains(after, before, unused)})

        add("half observed", observed)
        add("one principal", [replace(row, principal="0") for row in observed])
        add("30 % wrong", simulation.observe(wrong=WRONG))
        simulation.forget()
    return rows


def measure_attack(chosen: LabelledSet, *, progress: Progress) -> dict[str, Any]:
    """One principal against a set: how often its tool is shown, and what the others still gain."""
    progress.say(f"learning · attack on {chosen.name}")
    with closing(_engine(chosen)) as engine:
        simulation = Simulation.of(engine, chosen.queries)
        chance = random.Random(simulation.seed)
        wanted = {name for q in chosen.queries for name in q.relevant}
        target = chance.choice(sorted(set(engine.catalog.tools) - wanted) or sorted(wanted))
        before, shown_before = simulation.judge(), _shown(simulation, target)
        rows = simulation.observe()
        requests = chance.sample([*simulation.observed], min(REQUESTS, len(simulation.observed)))
        for number, query in enumerate(requests):
            row = simulation.observation(0, query.query, [target], -1)
            rows += [
                replace(row, id=f"9{number:03}{call:04}", turn=f"9-{number}-{call}")
                for call in range(CALLS)
            ]
        simulation.learn(rows)
        after, shown = simulation.judge(), _shown(simulation, target)
    return {
        "set": chosen.name,
        "target": target,
        "before": shown_before,
        "after": shown,
        "others": gains(after, before),
    }


def _shown(simulation: Simulation, target: str) -> dict[str, float]:
    asked = [q for q in simulation.tested if target not in q.relevant]
    names = [simulation.search(q.query) for q in asked]
    return {
        "top 1": mean(n[:1] == [target] for n in names),
        "top 5": mean(target in n[:5] for n in names),
    }


def measure_tasks(chosen: LabelledSet, *, progress: Progress) -> dict[str, Any]:
    """Recall@5 of the other tools of a task after its first one was called: vectors, and graph."""
    progress.say(f"learning · tasks of {chosen.name}")
    with closing(_engine(chosen)) as engine:
        simulation = Simulation.of(engine, [q for q in chosen.queries if len(q.groups) > 1])
        figures: dict[str, list[float]] = {"before": [], "vectors": [], "graph": []}
        rows = simulation.observe()
        for kind, values in figures.items():
            simulation.forget()
            if kind != "before":
                simulation.learn(rows)
            for query in simulation.tested:
                values.append(_remaining(simulation, query, uses_graph=kind == "graph"))
    return {"set": chosen.name, **{kind: mean(values) for kind, values in figures.items()}}


def _remaining(simulation: Simulation, query: LabelledQuery, *, uses_graph: bool) -> float:
    first = min(query.groups[0])
    rest = [g for g in query.groups if first not in g]
    with after_calls([first] if uses_graph else []):
        found = [n for n in simulation.engine.search(query.query, limit=6).names if n != first]
    return recall(found, rest, at=5)


def measure_cost(tools: int, *, used: int, searches: int) -> dict[str, float]:
    """Milliseconds that past use adds to a search, and that a training of one row takes."""
    from .catalogs import recombine  # noqa: PLC0415

    raise NotImplementedError(recombine)


def _engine(chosen: LabelledSet) -> Engine:
    cache = VectorCache(FOLDER / "vectors.db")
    engine = Engine(chosen.catalog, embedders=embedders.load_embedders("use"), cache=cache)
    engine.fill()
    return engine


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m bench.learning", description=__doc__)
    asked.add_argument("--set", action="append", default=[])
    asked.add_argument("--part", action="append", default=[])
    options = asked.parse_args()
    progress = Progress()
    sets = {s.name: s for s in labelled_sets()}
    for name in options.set or SEVERAL:
        started = time.monotonic()
        if not options.part or "gain" in options.part:
            for row in measure_set(sets[name], progress=progress):
                g = row["gain"]
                if g:
                    print(
                        name,
                        row["kind"],
                        g["requests"],
                        *(f"{f} {g[f]['mean']:+.1f}" for f in FIGURES),
                        flush=True,
                    )
        if "attack" in options.part and name in ATTACKED:
            print(json.dumps(measure_attack(sets[name], progress=progress)), flush=True)
        if "tasks" in options.part and name in TASKS:
            print(measure_tasks(sets[name], progress=progress), flush=True)
        print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
