"""The inner loops: what they find is what one would find by hand, compiled or not."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from math import isclose
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.search import kernel
from toolscout.search.kernel import ServerBoost
from toolscout.search.postings import PostingList

HERE = Path(kernel.__file__).parent
IS_COMPILED = any((HERE / name).is_file() for name in ("loops.so", "loops.dll"))
LOOPS = [
    pytest.param("plain", id="NumPy"),
    pytest.param(
        "compiled",
        id="compiled",
        marks=pytest.mark.skipif(
            not IS_COMPILED, reason="There was no C compiler to install with."
        ),
    ),
]
SIZE = 90
SLOTS = st.sets(st.integers(0, SIZE - 1), min_size=1)
CATALOGS = st.lists(SLOTS, min_size=1, max_size=12)


@pytest.fixture(params=LOOPS, scope="module")
def loops(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"toolscout.search.kernel.{request.param}")


def word(slots: set[int], seed: int = 0) -> PostingList:
    """A word that such tools have, and that gives each of them something else."""
    chance = np.random.default_rng(seed)
    weights = chance.random(len(slots), np.float32) * 5 + np.float32(0.1)
    worth = 0.5 + seed
    every = np.zeros(SIZE, np.float32)
    every[sorted(slots)] = weights * np.float32(worth)
    numbers = worth, 1.0 + seed, float(every.mean()), float(every.var())
    return PostingList.of(np.array(sorted(slots), np.int32), weights, *numbers)


def words(catalog: Sequence[set[int]]) -> list[PostingList]:
    return [word(slots, seed) for seed, slots in enumerate(sorted(catalog, key=len))]


def gain_table(some: Sequence[PostingList]) -> np.ndarray:
    """What each word gives every slot, a row a word."""
    table = np.zeros((len(some), SIZE), np.float64)
    for row, one in zip(table, some, strict=True):
        row[one.slots] = one.gains
    return table


def mask(hidden: set[int]) -> np.ndarray:
    allowed = np.ones(SIZE, np.bool_)
    allowed[list(hidden)] = False
    return allowed


class TestGathering:
    @given(catalog=CATALOGS, hidden=st.sets(st.integers(0, SIZE - 1)), depth=st.integers(1, SIZE))
    def test_the_best_allowed_tools_are_found_and_all_are_summed(
        self, loops: ModuleType, catalog: list[set[int]], hidden: set[int], depth: int
    ) -> None:
        scores, found = loops.score_slots(words(catalog), mask(hidden), depth)
        wanted = gain_table(words(catalog)).sum(axis=0)
        np.testing.assert_allclose(scores, wanted, rtol=1e-5)
        seen = sorted({*chain.from_iterable(catalog)} - hidden, key=lambda s: -wanted[s])
        assert len(found) == min(depth, len(seen))
        assert len({*found.tolist()}) == len(found)
        assert not {*found.tolist()} & hidden
        kept = sorted((wanted[s] for s in found.tolist()), reverse=True)
        np.testing.assert_allclose(kept, [wanted[s] for s in seen[: len(found)]], rtol=1e-5)

    def test_ties_with_the_last_hit_are_found_as_well(self, loops: ModuleType) -> None:
        slots = np.arange(0, SIZE, 2, dtype=np.int32)
        one = PostingList.of(slots, np.full(len(slots), 2, np.float32), 1, 1, 1, 1)
        _, found = loops.score_slots([one], mask(set()), 3)
        assert sorted(found.tolist()) == slots.tolist()

    def test_of_a_large_catalog_no_better_one_is_missed(self, loops: ModuleType) -> None:
        size, depth = 20_000, 100
        chance = np.random.default_rng(7)
        some: list[PostingList] = []
        for share in (0.0005, 0.003, 0.02, 0.1, 0.6):
            slots = np.flatnonzero(chance.random(size) < share).astype(np.int32)
            weights = chance.random(len(slots), np.float32)
            some.append(PostingList.of(slots, weights, 1 / share, 1, 1, 1))
        allowed = chance.random(size) < 0.5
        scores, found = loops.score_slots(some, allowed, depth)
        assert len(found) == depth
        assert scores[found].min() >= np.sort(scores[allowed])[-depth]
        assert allowed[found].all()

    def test_where_nothing_is_allowed_nothing_is_found(self, loops: ModuleType) -> None:
        scores, found = loops.score_slots([word({1, 5})], mask({*range(SIZE)}), 3)
        assert len(found) == 0
        assert scores.nonzero()[0].tolist() == [1, 5]


@given(catalog=CATALOGS, slot=st.integers(0, SIZE - 1))
def test_the_mass_of_a_tool_is_the_summed_idf_of_its_words(
    loops: ModuleType, catalog: list[set[int]], slot: int
) -> None:
    some = words(catalog)
    held = sum(one.idf for one in some if slot in one.slots)
    assert isclose(loops.idf_mass(some, slot), held)


@given(
    catalog=CATALOGS,
    slots=st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=40, unique=True),
    seed=st.integers(0, 99),
)
def test_each_clause_sees_tools_by_its_own_words(
    loops: ModuleType, catalog: list[set[int]], slots: list[int], seed: int
) -> None:
    some = words(catalog)
    membership = np.random.default_rng(seed).integers(0, 2, (3, len(some)), np.uint8)
    fits = loops.clause_scores(some, membership.tobytes(), np.array(slots, np.int32), SIZE)
    sums = membership @ gain_table(some)[:, slots]
    mean = membership @ [one.mean for one in some]
    variance = np.maximum(membership @ [one.variance for one in some], kernel.MIN_VARIANCE)
    wanted = (sums - mean[:, None]) / np.sqrt(variance)[:, None]
    np.testing.assert_allclose(fits, wanted, rtol=1e-3, atol=1e-3)


@given(
    scores=st.lists(st.integers(-3_000, 3_000), min_size=1, max_size=60),
    seen=st.integers(1, 70),
    servers=st.sampled_from([0, 1, 5]),
    nameless=st.sampled_from([-1, 0]),
)
def test_the_best_come_first_with_what_is_as_good_as_the_last(
    loops: ModuleType, scores: list[int], seen: int, servers: int, nameless: int
) -> None:
    given_scores = np.array(scores, np.float32) / 7
    slots = np.arange(len(scores), dtype=np.int32)[::-1].copy()
    server = np.arange(len(scores), dtype=np.int32) % max(1, servers)
    boost = ServerBoost(server, servers, nameless, 0.15) if servers else None
    order, shown, is_tied = loops.order_slots(slots, given_scores, len(scores), seen, boost)
    best = dict.fromkeys(range(servers), -np.inf)
    for slot, score in zip(slots.tolist(), given_scores.tolist(), strict=True):
        best[server[slot]] = max(score, best.get(server[slot], -np.inf))
    best[nameless] = 0.0
    boosted = {
        slot: score + (0.15 * best[server[slot]] if servers else 0.0)
        for slot, score in zip(slots.tolist(), given_scores.tolist(), strict=True)
    }
    ranked = sorted(boosted.values(), reverse=True)
    assert len(order) >= min(seen, len(scores))
    assert sorted(shown.tolist(), reverse=True) == shown.tolist()
    np.testing.assert_allclose(shown, ranked[: len(shown)], atol=2e-4)
    np.testing.assert_allclose(shown, [boosted[slot] for slot in order.tolist()], atol=2e-4)
    assert is_tied == (len({*shown.tolist()}) < len(shown))
    if len(shown) > seen:
        assert {*shown[seen - 1 :].tolist()} == {shown[seen - 1]}
    assert slots.tolist() == list(range(len(scores)))[::-1]  # what was given is left as it was
    assert given_scores.tolist() == (np.array(scores, np.float32) / 7).tolist()


@pytest.mark.parametrize("slot", [-1, SIZE])
def test_a_slot_that_is_not_there_is_refused(loops: ModuleType, slot: int) -> None:
    slots = np.array([3, slot], np.int32)
    boost = ServerBoost(np.zeros(SIZE, np.int32), 1, -1, 0.15)
    for each in (None, boost):
        with pytest.raises(IndexError, match=f"slot {slot}, but there are only 0 to {SIZE - 1}"):
            loops.order_slots(slots, np.ones(2, np.float32), SIZE, 5, each)
    with pytest.raises(IndexError, match=f"slot {slot}"):
        loops.clause_scores([word({1})], b"\1", slots, SIZE)


def test_numbers_of_other_kinds_and_in_another_order_of_memory_are_taken(
    loops: ModuleType,
) -> None:
    slots, scores = np.array([4, 2, 9]), np.array([[1.0, 0], [3.0, 0], [2.0, 0]])[:, 0]
    order, shown, is_tied = loops.order_slots(slots, scores, SIZE, 5, None)
    assert (order.tolist(), shown.tolist(), is_tied) == ([2, 9, 4], [3.0, 2.0, 1.0], False)
    fits = np.array([[0.0, 9.0], [9.0, 0.0], [9.0, 0.0]])
    turn = loops.diverse_order(np.array([3.0, 2.9, 2.8]), fits.T, 2, 0.5, 3.0)
    assert turn.tolist() == [0, 1, 2]
    several = loops.clause_scores([word({4, 9})], b"\1", np.array([4, 2, 9])[::-1], SIZE)
    assert several.shape == (1, 3)


@given(
    fits=st.lists(st.lists(st.integers(-40, 40), min_size=3, max_size=3), min_size=1, max_size=20),
    wanted=st.integers(1, 20),
)
def test_once_a_clause_is_served_tools_for_the_others_come_forward(
    loops: ModuleType, fits: list[list[int]], wanted: int
) -> None:
    scores = np.arange(len(fits), 0, -1, dtype=np.float32)
    table = np.array(fits, np.float32).T.copy() / 8
    wanted = min(wanted, len(fits))
    turn = loops.diverse_order(scores, table, wanted, 0.5, 3.0).tolist()
    assert sorted(turn) == list(range(len(fits)))
    assert turn[0] == 0
    served = np.zeros(3)
    for place in range(1, wanted):
        served[np.argmax(table[:, turn[place - 1]].astype(float) - served)] += 3.0
        worth = {
            slot: scores[slot]
            - 0.5 * (table[:, slot].max() - (table[:, slot].astype(float) - served).max())
            for slot in turn[place:]
        }
        assert isclose(worth[turn[place]], max(worth.values()), abs_tol=1e-6)
    assert turn[wanted:] == sorted(turn[wanted:])


@pytest.mark.skipif(not shutil.which("cc"), reason="There is no C compiler.")
def test_where_there_is_a_compiler_the_loops_are_compiled() -> None:
    assert kernel.score_slots.__module__ == "toolscout.search.kernel.compiled"


def test_where_nothing_was_compiled_the_loops_are_those_in_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_kernel(tmp_path, ignore="loops.*")
    assert imported(tmp_path, monkeypatch) == "loops.kernel.plain"


@pytest.mark.skipif(not IS_COMPILED, reason="There was no C compiler to install with.")
def test_a_library_compiled_from_another_source_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = copy_kernel(tmp_path)
    assert imported(tmp_path, monkeypatch) == "loops.kernel.compiled"
    with (copied / "loops.c").open("a", encoding="utf-8") as text:
        text.write("/* It has changed. */\n")
    assert imported(tmp_path, monkeypatch) == "loops.kernel.plain"


def copy_kernel(folder: Path, *, ignore: str = "__pyc*") -> Path:
    """Copy the kernel, without some of its files, into a package `loops` of its own."""
    ignored = shutil.ignore_patterns("__pyc*", ignore)
    copied = shutil.copytree(HERE, folder / "loops" / "kernel", ignore=ignored)
    for needed in ("arrays.py", "postings.py"):
        shutil.copy(HERE.parent / needed, folder / "loops")
    return copied


def imported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which loops a copy of the package takes."""
    monkeypatch.syspath_prepend(folder)
    try:
        return importlib.import_module("loops.kernel").score_slots.__module__
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "loops"]:
            del sys.modules[name]


LETTERS = st.text(st.sampled_from("abcdeéжю字"), min_size=1, max_size=9)


@given(some=st.lists(LETTERS, max_size=12), word=LETTERS, most=st.integers(0, 6), data=st.data())
def test_words_are_alike_that_differ_in_few_letters(
    loops: ModuleType, some: list[str], word: str, most: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(some)))
    found = loops.LetterSignatures(some).find_similar(word, start, len(some), most)
    assert found == [i for i, other in enumerate(some[start:]) if _apart(word, other) <= most]


def _apart(word: str, other: str) -> int:
    """How many letters only one of two words has once, and how many only one has more often."""
    return sum(
        len(
            {c for c, n in _counts(word).items() if n > often}
            ^ {c for c, n in _counts(other).items() if n > often}
        )
        for often in (0, 1)
    )


def _counts(word: str) -> Counter[int]:
    return Counter(ord(letter) % 32 for letter in word)
