"""A catalog so large that vectors are scanned along their leading directions."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import islice, product

import numpy as np
import pytest
from tests.search.parts import Bag, Floats, filled, tool

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.search.engine import Engine
from toolscout.search.vectors import (
    EXACT_UP_TO,
    FLOAT32_UP_TO,
    PRINCIPAL_DIRECTIONS,
    REFIT_FACTOR,
    Vectors,
)


def words(stem: str, count: int) -> list[str]:
    """Words that are told apart by letters: a digit would make them values."""
    return [stem + "".join("bdfgklmnpt"[int(d)] for d in str(i)) for i in range(count)]


VERBS = words("verb", 40)
NOUNS = words("noun", 60)
PLACES = words("place", 10)
SYNONYMS = words("alias", 60)


class Quick(Bag):
    """A bag whose texts are sums of a table's rows, so that thousands take no time."""

    def __init__(self) -> None:
        super().__init__(name="quick", dimensions=PRINCIPAL_DIRECTIONS + 40)
        table = [*VERBS, *NOUNS, *PLACES]
        self._rows = {word: row for row, word in enumerate(table)}
        self._rows |= {s: self._rows[n] for s, n in zip(SYNONYMS, NOUNS, strict=True)}
        shape = (len(table), self.dimensions)
        self._table = np.random.default_rng(5).normal(size=shape).astype(np.float32)

    def encode(self, texts: Sequence[str]) -> Floats:
        found = [[self._rows[w] for w in re.findall(r"\w+", t) if w in self._rows] for t in texts]
        starts = np.cumsum([0, *map(len, found[:-1])])
        summed = np.add.reduceat(self._table[[row for rows in found for row in rows]], starts)
        return summed / np.linalg.norm(summed, axis=1, keepdims=True)


def many(count: int) -> list[Tool]:
    every = product(VERBS, NOUNS, PLACES)
    tools = [tool(f"{v}_{n}_{p}") for v, n, p in islice(every, count)]
    random.Random(2).shuffle(tools)
    return tools


@pytest.mark.slow
@pytest.mark.behaviour("S15")
@pytest.mark.parametrize("beyond", [EXACT_UP_TO, FLOAT32_UP_TO])
def test_a_large_catalog_is_searched_by_meaning_and_kept_up_to_date(beyond: int) -> None:
    tools = many(beyond + 500)
    engine = Engine(Catalog(tools[:-1]), embedders=[Quick()])
    engine.fill()
    assert engine.status.vectors == {"quick": beyond + 499}

    assert engine.search("verbg aliasn placef").names[0] == "verbg_nounn_placef"
    allowed = frozenset(t.name for t in tools if t.name.startswith("verbg_"))
    found = engine.search("verbt aliasn placef", allow=allowed)
    assert set(found.names) <= allowed
    assert found.names[0] == "verbg_nounn_placef"

    last = tools[-1].name
    said = last.replace("_", " ").replace("noun", "alias")
    assert engine.search(said).names[0] != last
    engine.update(engine.catalog.add(tools[-1]))
    engine.fill()
    assert engine.search(said).names[0] == last
    engine.update(engine.catalog.remove(last))
    assert last not in engine.search(said, limit=50).names

    few = [t for t in tools[:400] if t.name != last]
    engine.update(Catalog(few))
    fresh = filled(few, embedders=[Quick()])
    for query in ("verbg aliasn placef", "verbd", "aliasl placed and then verbn aliast"):
        ours, theirs = engine.search(query), fresh.search(query)
        assert ours.names == theirs.names
        scores = [h.score for h in theirs.hits]
        assert [h.score for h in ours.hits] == pytest.approx(scores, abs=2e-4)
    engine.close()
    fresh.close()


def test_vectors_of_another_kind_that_come_later_are_scanned_as_well() -> None:
    """The directions that lead are those of all vectors, not of the first ones."""
    width, later = 2 * PRINCIPAL_DIRECTIONS, REFIT_FACTOR * (EXACT_UP_TO + 1)
    kinds = (
        np.random.default_rng(7)
        .normal(size=(2, later, PRINCIPAL_DIRECTIONS - 4))
        .astype(np.float32)
    )
    rows = np.zeros((EXACT_UP_TO + 1 + later, width), np.float32)
    rows[: EXACT_UP_TO + 1, : PRINCIPAL_DIRECTIONS - 4] = kinds[0, : EXACT_UP_TO + 1]
    rows[EXACT_UP_TO + 1 :, PRINCIPAL_DIRECTIONS + 4 :] = kinds[1]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    slots = np.arange(len(rows), dtype=np.int32)

    known = Vectors.empty(width).resize(len(rows))
    for some in np.split(slots, [EXACT_UP_TO + 1]):
        known = known.put(some, rows[some])
    everything = np.ones(len(rows), np.bool_)
    for wanted in range(EXACT_UP_TO + 1, len(rows), 997):
        found, closeness = known.scan(rows[wanted : wanted + 1], everything, count=100)
        assert (closeness >= closeness[found == wanted]).sum() <= 100


def test_a_catalog_that_gave_way_to_another_is_scanned_by_what_it_has_now() -> None:
    width = 2 * PRINCIPAL_DIRECTIONS
    kinds = np.zeros((2, EXACT_UP_TO + 1, width), np.float32)
    some = np.random.default_rng(8).normal(size=(2, EXACT_UP_TO + 1, PRINCIPAL_DIRECTIONS - 4))
    kinds[0, :, : PRINCIPAL_DIRECTIONS - 4], kinds[1, :, PRINCIPAL_DIRECTIONS + 4 :] = some
    kinds /= np.linalg.norm(kinds, axis=2, keepdims=True)
    slots = np.arange(EXACT_UP_TO + 1, dtype=np.int32)

    known = Vectors.empty(width).resize(len(slots)).put(slots, kinds[0])
    known = known.drop(slots[10:]).compact(slots[:10]).resize(len(slots) + 10)
    known = known.put(slots + 10, kinds[1])
    everything = np.ones(len(slots) + 10, np.bool_)
    for wanted in range(0, len(slots), 499):
        found, closeness = known.scan(kinds[1, wanted : wanted + 1], everything, count=100)
        assert (closeness >= closeness[found == wanted + 10]).sum() <= 100


def test_vectors_that_came_in_batches_are_scanned_as_if_they_had_come_at_once() -> None:
    count, width = 4 * EXACT_UP_TO, 2 * PRINCIPAL_DIRECTIONS
    rows = np.random.default_rng(9).normal(size=(count, width)).astype(np.float16)
    vectors = rows.astype(np.float32)
    slots = np.arange(count, dtype=np.int32)
    at_once = Vectors.empty(width).resize(count).put(slots, vectors)

    batched = Vectors.empty(width).resize(count)
    for start in range(0, count, 2_048):
        batched = batched.put(slots[start : start + 2_048], vectors[start : start + 2_048])
    assert batched.fitted < count
    batched = batched.fit(added=count)

    everything = np.ones(count, np.bool_)
    for found, expected in zip(
        batched.scan(vectors[:3], everything, count=100),
        at_once.scan(vectors[:3], everything, count=100),
        strict=True,
    ):
        assert (found == expected).all()


def test_a_few_more_vectors_leave_the_directions_as_they_are() -> None:
    width = 2 * PRINCIPAL_DIRECTIONS
    count = EXACT_UP_TO + 1
    rows = np.random.default_rng(9).normal(size=(count + 1, width)).astype(np.float32)
    slots = np.arange(count + 1, dtype=np.int32)
    known = Vectors.empty(width).resize(count + 1).put(slots[:count], rows[:count])
    known = known.put(slots[count:], rows[count:])
    assert known.fit(added=1) is known
