"""Past use lifts tools, in an engine with made-up weights."""

from __future__ import annotations

import numpy as np
import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.embedders import load_embedders
from toolscout.learning.usage import UsageLift, UsageWeights, after_calls, attach_usage
from toolscout.search.engine import Engine
from toolscout.search.rankers.dense import Dense

QUERY = "put my thoughts somewhere"
TYPICAL = np.ones(400, np.float32)
TOOLS = [Tool(name=f"tool_{n}", description=f"Handle the case {n} of a thing.") for n in range(400)]


@pytest.fixture(scope="module")
def engine() -> Engine:
    engine = Engine(Catalog(TOOLS), embedders=load_embedders("use"))
    engine.fill()
    return engine


@pytest.fixture
def usage(engine: Engine) -> UsageLift:
    lift = attach_usage(engine)
    assert lift is not None
    lift.mode = "on"
    lift.weights = None
    return lift


def weights(engine: Engine, lifts: dict[str, float], *, noise: int = 0) -> UsageWeights:
    """Vectors that lift some tools for the query by so much, and other tools hardly."""
    vector = engine.search(QUERY).vectors[0].values
    random = np.random.default_rng(0)
    names = [*lifts, *(t.name for t in TOOLS[-noise:] if noise and t.name not in lifts)]
    rows = 0.05 * random.standard_normal((len(names), len(vector))).astype(np.float32)
    for place, lift in enumerate(lifts.values()):
        rows[place] = lift * vector
    return UsageWeights.of([engine.catalog[name] for name in names], rows, TYPICAL[: len(rows)], {})


@pytest.mark.parametrize("noise", [0, 300])
def test_a_lift_is_exact_with_few_and_with_many_learned_vectors(
    engine: Engine, usage: UsageLift, noise: int
):
    usage.weights = weights(engine, {"tool_7": 9.0, "tool_8": 5.0}, noise=noise)
    first, second = engine.search(QUERY).hits[:2]
    assert (first.name, second.name) == ("tool_7", "tool_8")
    parts = {str(reason): reason.score for reason in first.why}
    assert parts["used for similar requests"] == pytest.approx(9, abs=1e-2)
    assert sum(parts.values()) == pytest.approx(first.score, abs=1e-3)


@pytest.mark.parametrize("noise", [0, 300])
def test_a_tool_that_a_caller_may_not_see_decides_nothing(
    engine: Engine, usage: UsageLift, noise: int
):
    visible = frozenset(t.name for t in TOOLS[1:100])
    usage.weights = weights(engine, {"tool_7": 2.0, "tool_8": 1.0}, noise=noise)
    alone = engine.search(QUERY, allow=visible, limit=50)
    usage.weights = weights(engine, {"tool_7": 2.0, "tool_8": 1.0, "tool_0": 99.0}, noise=noise)
    beside = engine.search(QUERY, allow=visible, limit=50)
    assert [(h.name, h.score) for h in beside.hits] == [(h.name, h.score) for h in alone.hits]
    assert beside.near == alone.near


def test_a_negative_similarity_lowers_nothing(engine: Engine, usage: UsageLift):
    before = engine.search(QUERY, limit=400)
    usage.weights = weights(engine, {before.names[0]: -6.0, "tool_7": 1.0})
    after = {hit.name: hit.score for hit in engine.search(QUERY, limit=400).hits}
    assert [h.name for h in before.hits if after[h.name] < h.score] == []


def test_tools_that_left_the_catalog_are_not_lifted(usage: UsageLift, engine: Engine):
    kept = Engine(Catalog(TOOLS[:50]), embedders=engine.embedders)
    kept.fill()
    lift = attach_usage(kept)
    assert lift is not None
    lift.mode = "on"
    before = kept.search(QUERY, limit=50)
    lift.weights = weights(engine, {"tool_300": 9.0})
    assert kept.search(QUERY, limit=50).hits == before.hits


def test_a_tool_that_is_often_used_next_is_proposed_after_the_other_was_called(
    engine: Engine, usage: UsageLift
):
    one = weights(engine, {"tool_7": 0.0})
    usage.weights = UsageWeights.of(one.tools, one.rows, one.typical, {"tool_3": {"tool_9": 9.0}})
    assert engine.search(QUERY).names[0] != "tool_9"
    with after_calls(["tool_3"]):
        hit = engine.search(QUERY).hits[0]
    assert hit.name == "tool_9"
    assert "often used next" in [str(reason) for reason in hit.why]


def test_an_engine_with_rankers_of_its_own_learns_if_one_compares_vectors(engine: Engine):
    own = Engine(Catalog(TOOLS), embedders=engine.embedders, rankers=[Dense(engine.embedders[0])])
    own.fill()
    lift = attach_usage(own)
    assert lift is not None
    assert attach_usage(own) is lift
    lift.mode = "on"
    lift.weights = weights(engine, {"tool_7": 9.0})
    assert own.search(QUERY).names[0] == "tool_7"


def test_an_engine_without_an_embedder_has_nothing_to_learn_with():
    assert attach_usage(Engine(Catalog(TOOLS[:5]))) is None


def test_a_keyword_search_is_not_lifted(engine: Engine, usage: UsageLift):
    usage.weights = weights(engine, {"tool_7": 9.0})
    names = engine.search("handle case 12", arms="words").names
    assert names[0] == "tool_12"


def test_a_lift_never_makes_a_search_less_sure(engine: Engine, usage: UsageLift):
    request = "handle the case 12"
    before = engine.search(request)
    vector = before.vectors[0].values
    usage.weights = UsageWeights.of([engine.catalog["tool_7"]], 50 * vector[None], TYPICAL[:1], {})
    after = engine.search(request)
    assert after.names[0] == "tool_7"
    assert after.confidence >= before.confidence
    assert after.evidence is not None
    assert before.evidence is not None
    assert after.evidence.similarity == before.evidence.similarity


def test_a_tool_is_not_lifted_for_requests_of_the_same_domain_that_are_not_similar(
    engine: Engine, usage: UsageLift
):
    vector = engine.search(QUERY).vectors[0].values
    usage.weights = UsageWeights.of(
        [engine.catalog["tool_7"]], 6 * vector[None], 0.9 * TYPICAL[:1], {}
    )
    near = engine.search("put what I think somewhere").vectors[0].values
    far = engine.search("forecast of the weather").vectors[0].values
    assert near @ vector > 0.9 * 0.9
    assert 0.1 < far @ vector < 0.3
    assert lift_of(engine, "put what I think somewhere") == pytest.approx(
        6 * near @ vector, rel=1e-2
    )
    assert lift_of(engine, "forecast of the weather") == 0


def lift_of(engine: Engine, request: str) -> float:
    hits = engine.search(request, limit=len(TOOLS)).hits
    found = next(hit for hit in hits if hit.name == "tool_7")
    return sum(r.score for r in found.why if str(r) == "used for similar requests")
