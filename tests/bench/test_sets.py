import json
from pathlib import Path

import numpy as np
import pytest
from bench.catalogs import DATA
from bench.sets import CATALOGS, WRITTEN, labelled_sets, thinned, written, written_sets
from bench.vectors import Recombined
from hypothesis import given
from hypothesis import strategies as st

from toolscout.evals.dataset import resolve_queries


def test_sets_are_the_folders_with_tools_and_queries(tmp_path: Path):
    for name, has_queries in (("with", True), ("without", False)):
        (tmp_path / name).mkdir()
        tool = {"name": "send_email", "description": "Send an email."}
        (tmp_path / name / "tools.jsonl").write_text(json.dumps(tool), encoding="utf-8")
        if has_queries:
            row = {"id": "1", "query": "mail Ann", "relevant": ["send_email"]}
            (tmp_path / name / "queries.jsonl").write_text(json.dumps(row), encoding="utf-8")
    (found,) = labelled_sets(tmp_path)
    assert (found.name, len(found.catalog), len(found.queries)) == ("with", 1, 1)
    assert found.negatives == ()


@pytest.mark.parametrize("name", CATALOGS)
def test_every_request_written_for_a_catalog_can_be_read(name: str):
    rows = written(name)
    assert len(rows) == len((WRITTEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines())
    assert len({row.query for row in rows}) == len(rows)


def test_requests_written_for_a_catalog_name_tools_that_it_has():
    sets = written_sets()
    if not sets:
        pytest.skip(f"the public catalogs are not at {DATA}")
    for chosen in sets:
        assert resolve_queries(chosen.queries, chosen.catalog).problems == ()


def test_a_catalog_that_is_not_there_is_left_out(tmp_path: Path):
    assert written_sets(tmp_path) == []


@given(st.lists(st.integers(), unique=True, max_size=50), st.integers(1, 60))
def test_a_thinned_set_keeps_the_order_and_as_many_as_asked_for(items: list[int], at_most: int):
    kept = thinned(items, at_most)
    assert len(kept) == min(len(items), at_most)
    assert list(kept) == sorted(kept, key=items.index)


def test_recombined_vectors_have_length_one_and_depend_on_the_text_alone(tmp_path: Path):
    pool = np.random.default_rng(0).normal(size=(16, 512)).astype(np.float32)
    np.save(tmp_path / "pool.npy", pool)
    embedder = Recombined(tmp_path / "pool.npy")
    texts = [f"text {n}" for n in range(40)]
    rows = embedder.encode(texts)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.array_equal(embedder.encode(texts[::-1])[::-1], rows)
    assert len(np.unique(rows, axis=0)) == len(texts)
