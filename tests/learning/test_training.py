"""What observations teach, and the guards against wrong and hostile ones."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from toolscout.catalog.tool import Tool
from toolscout.learning.observation import Observation, tool_keys
from toolscout.learning.training import (
    MAX_NORM_ALONE,
    LearnedModel,
    age_weights,
    select_calls,
    train,
)

from .rows import row, vector

DAY = 86_400.0


def lift(model: LearnedModel, key: str, request: bytes) -> float:
    if key not in model.keys:
        return 0.0
    values = np.frombuffer(request, np.float16).astype(np.float32)
    return max(0.0, float(model.rows[model.keys.index(key)] @ values))


def test_a_called_tool_is_lifted_for_similar_requests_and_for_no_others():
    model = train([row(vector(1), "d")])
    assert lift(model, "d", vector(2, near=1)) > 0.3
    assert lift(model, "d", vector(3)) < 0.2
    assert lift(model, "a", vector(1)) == 0


def test_a_tool_that_is_shown_and_never_called_is_not_lowered():
    model = train([row(vector(n), "d") for n in range(5)])
    assert model.keys == ("d",)


def test_the_same_observations_in_any_order_give_the_same_weights():
    rows = [row(vector(n), random.Random(n).choice("abcde"), principal=str(n)) for n in range(40)]
    shuffled = [*rows]
    random.Random(1).shuffle(shuffled)
    one, other = train(rows), train(shuffled)
    assert one.keys == other.keys
    assert np.array_equal(one.rows, other.rows)
    assert one.following == other.following


def test_a_principal_that_repeats_a_request_counts_once():
    others = [row(vector(n), "a", principal=f"p{n}") for n in range(50, 60)]
    once = train([*others, row(vector(1), "d", principal="eve", id="9")])
    flood = [
        row(vector(n, near=1, noise=0.01), "d", principal="eve", id=f"9{n:04}")
        for n in range(100, 300)
    ]
    often = train([*others, *flood])
    assert lift(often, "d", vector(1)) == pytest.approx(lift(once, "d", vector(1)), abs=0.15)


def test_one_of_several_principals_alone_lifts_a_tool_only_a_little():
    eve = [row(vector(n, near=1, noise=0.6), "e", principal="eve") for n in range(100, 160)]
    ann = [row(vector(7), "a", principal="ann")]
    model = train([*eve, *ann])
    assert np.linalg.norm(model.rows[model.keys.index("e")]) <= MAX_NORM_ALONE + 1e-4
    # Alone in the state there is nobody to harm, and all requests count.
    alone = train(eve)
    assert lift(alone, "e", vector(1)) > 1.5 * lift(model, "e", vector(1))


def test_agreement_of_several_principals_lifts_a_tool_further():
    requests = [vector(n, near=1, noise=0.6) for n in range(100, 116)]
    other = row(vector(7), "a", principal="zoe")
    eve = [row(r, "e", principal="eve") for r in requests]
    agreed = [row(r, "e", principal=f"p{n % 4}") for n, r in enumerate(requests)]
    lone, together = train([other, *eve]), train([other, *agreed])
    assert lift(together, "e", vector(1)) > lift(lone, "e", vector(1))


def test_one_principal_counts_for_a_tool_no_more_than_all_others():
    eve = [row(vector(n), "a", principal="eve") for n in range(100, 150)]
    others = [row(vector(n), "a", principal=f"p{n}") for n in range(6)]
    kept = [o.principal for o, _ in select_calls(sorted([*eve, *others], key=lambda o: o.id))]
    assert kept.count("eve") == 6
    assert len(kept) == 12


def test_older_observations_count_less():
    rows = [row(vector(n), "a", time=n * DAY) for n in range(100)]
    weights = age_weights(rows)
    assert weights == sorted(weights)
    assert weights[-1] == 1
    assert weights[9] == pytest.approx(0.5, abs=0.02)  # 90 days and 90 calls before


@pytest.mark.parametrize("jump", [-5_000 * DAY, 5_000 * DAY])
def test_a_clock_that_jumps_erases_nothing(jump: float):
    rows = [row(vector(n), "a", time=n * 60.0) for n in range(50)]
    late = [replace(o, time=o.time + jump) for o in rows[25:]]
    weights = age_weights([*rows[:25], *late])
    assert min(weights) > 0.9


def turns(principal: str, *called: tuple[str, ...]) -> list[Observation]:
    return [row(vector(n), *keys, principal=principal) for n, keys in enumerate(called)]


def test_tools_that_are_used_together_lift_each_other():
    graph = train(turns("ann", ("a", "b"), ("a", "b"), ("a", "c"), ("d",))).following
    assert graph["a"]["b"] > graph["a"]["c"] > 0
    assert graph["b"]["a"] > 0
    assert "d" not in graph


def test_several_searches_of_one_turn_are_one_use_in_the_graph():
    once = train([row(vector(1), "a", "b", turn="t")])
    twice = train([row(vector(1), "a", "b", turn="t"), row(vector(2), "a", "b", turn="t")])
    assert once.following == twice.following


def test_tools_that_only_one_principal_uses_together_lift_each_other_only_a_little():
    eve = turns("eve", *[("a", "b")] * 50)
    alone = train(eve).following["a"]["b"]
    among = train([*eve, *turns("ann", ("c",))]).following["a"]["b"]
    assert among == MAX_NORM_ALONE < alone


def test_a_renamed_tool_keeps_its_key_and_a_changed_one_gets_another():
    tool = Tool(name="mail__send", server="mail", description="Send a message.")
    [key] = tool_keys([tool]).values()
    renamed = replace(tool, name="send", local="send")
    assert tool_keys([renamed]) == {"send": key}
    changed = replace(tool, description="Send a message to eve.")
    assert tool_keys([changed])["mail__send"] != key
    elsewhere = replace(tool, name="evil__send", server="evil")
    assert tool_keys([elsewhere])["evil__send"] != key


def test_two_tools_of_the_same_definition_have_different_keys():
    tools = [Tool(name=name, description="Do it.", server="s") for name in ("one", "two")]
    assert len({*tool_keys(tools).values()}) == 2
