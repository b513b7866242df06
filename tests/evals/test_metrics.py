"""The figures, against cases worked out by hand and against a second way to compute them."""

from __future__ import annotations

from itertools import product
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.evals.bootstrap import confidence_interval, gain_interval
from toolscout.evals.calibration import auroc, false_refusal_rate, reliability
from toolscout.evals.metrics import ndcg, percentile, recall, reciprocal_rank

NAMES = st.sampled_from("abcdefgh")
RANKED = st.lists(NAMES, unique=True, max_size=8)
GROUPS = st.lists(st.frozensets(NAMES, min_size=1, max_size=3), min_size=1, max_size=4)
SCORES = st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=1, max_size=20)


def test_recall_is_the_share_of_needs_that_any_tool_of_a_group_meets() -> None:
    groups = [{"a", "b"}, {"c"}]

    assert recall(["x", "b", "c"], groups, at=1) == 0.0
    assert recall(["x", "b", "c"], groups, at=2) == 0.5
    assert recall(["x", "b", "c"], groups, at=3) == 1.0
    assert recall(["a", "b"], groups, at=2) == 0.5
    assert recall([], groups, at=5) == 0.0


def test_ndcg_counts_a_group_once_and_early_places_more() -> None:
    best = 1 + 1 / log2(3)

    assert ndcg(["a", "c"], [{"a", "b"}, {"c"}]) == 1.0
    assert ndcg(["a", "b", "c"], [{"a", "b"}, {"c"}]) == pytest.approx((1 + 1 / log2(4)) / best)
    assert ndcg(["x", "a"], [{"a"}]) == pytest.approx(1 / log2(3))
    assert ndcg([f"x{n}" for n in range(10)] + ["a"], [{"a"}]) == 0.0


def test_one_tool_meets_one_of_two_equal_needs_only() -> None:
    assert ndcg(["a"], [{"a"}, {"a"}]) == pytest.approx(1 / (1 + 1 / log2(3)))


def test_reciprocal_rank_is_that_of_the_first_tool_that_fits() -> None:
    assert reciprocal_rank(["x", "y", "c"], [{"a"}, {"c"}]) == pytest.approx(1 / 3)
    assert reciprocal_rank(["x"], [{"a"}]) == 0.0


@given(RANKED, GROUPS)
def test_figures_lie_between_nothing_and_all(
    ranked: list[str], groups: list[frozenset[str]]
) -> None:
    for value in (recall(ranked, groups, at=5), ndcg(ranked, groups)):
        assert 0.0 <= value <= 1.0 + 1e-9
    assert recall(ranked, groups, at=5) <= recall(ranked, groups, at=10)


def test_percentiles_are_values_that_were_measured() -> None:
    times = [5.0, 1.0, 4.0, 2.0, 3.0]

    assert percentile(times, 0.5) == 3.0
    assert percentile(times, 0.95) == 5.0
    assert percentile([], 0.5) == 0.0


@given(SCORES, SCORES)
def test_auroc_is_the_share_of_pairs_in_the_right_order(
    good: list[float], bad: list[float]
) -> None:
    pairs = [1.0 if g > b else 0.5 if g == b else 0.0 for g, b in product(good, bad)]

    assert auroc(good, bad) == pytest.approx(sum(pairs) / len(pairs))


def test_auroc_of_nothing_says_nothing() -> None:
    assert auroc([], [0.1]) == 0.5
    assert auroc([0.1], []) == 0.5


def test_refusals_are_counted_at_the_cut_that_catches_nine_in_ten_negatives() -> None:
    bad = [n / 10 for n in range(10)]  # the ninth is 0.8: all up to it must be refused

    assert false_refusal_rate([0.05, 0.8, 0.85, 0.95], bad) == 0.5
    assert false_refusal_rate([1.0], bad) == 0.0
    assert false_refusal_rate([0.0], bad) == 1.0
    assert false_refusal_rate([], bad) == 0.0


@given(SCORES, SCORES)
def test_the_cut_really_catches_nine_in_ten(good: list[float], bad: list[float]) -> None:
    cuts = [c for c in (0.05, 0.3, 0.7, 0.95, 1.1) if sum(b < c for b in bad) >= 0.9 * len(bad)]
    refused = sum(g < min(cuts) for g in good) / len(good)

    assert false_refusal_rate(good, bad) == pytest.approx(refused)


def test_reliability_compares_confidence_with_outcome_range_by_range() -> None:
    outcomes = [(0.05, False), (0.95, True), (0.95, False), (1.0, True)]

    found = reliability(outcomes)

    assert [(b.low, b.count) for b in found.bins] == [(0.0, 1), (0.9, 3)]
    assert found.bins[1].right == pytest.approx(2 / 3)
    assert found.error == pytest.approx((0.05 + 3 * abs(2.9 / 3 - 2 / 3)) / 4)
    assert reliability([]).error == 0.0


def test_intervals_hold_the_mean_and_repeat_exactly() -> None:
    values = [0.0, 1.0] * 50

    found = confidence_interval(values)

    assert found.mean == 0.5
    assert found.low < 0.5 < found.high
    assert found.high - found.low == pytest.approx(4 * 0.05, abs=0.02)
    assert confidence_interval(values) == found


def test_a_paired_gain_is_clear_where_every_query_gains() -> None:
    before = [0.1, 0.5, 0.9, 0.2]

    assert gain_interval([b + 0.05 for b in before], before).is_significant
    assert not gain_interval(before, before).is_significant
    assert not confidence_interval([]).is_significant


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(ValueError):
        gain_interval([1.0], [1.0, 2.0])
