"""What one resolved lookup costs on real queries over real, heavy schemas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.lookup import SHAPES, measure

from toolscout import embedders
from toolscout.catalog.catalog import Catalog
from toolscout.config import Config
from toolscout.evals.dataset import LabelledQuery, read_queries, resolve_queries
from toolscout.search.engine import Engine
from toolscout.sources.files import read_tools

DATA = Path(__file__).parents[3] / "shared" / "data" / "azure_mcp"
EVERY = 4
"""One query of so many: enough to hold the promise, and quick."""

PROMISES = {"full schema, dispatch": 900, "full schema, load": 900, "compact, dispatch": 600}
BY_LABEL = {shape.label: shape for shape in SHAPES}


@pytest.fixture(scope="module")
def asked() -> tuple[Catalog, list[LabelledQuery]]:
    if not (DATA / "queries.jsonl").exists():
        pytest.skip("the labelled queries of azure_mcp are not here")
    catalog = Catalog(read_tools(DATA / "tools.jsonl").tools)
    queries = resolve_queries(read_queries(DATA / "queries.jsonl").rows, catalog).rows
    assert len(queries) == 473
    return catalog, [*queries][::EVERY]


@pytest.fixture(scope="module", params=["", Config().embedder])
def engine(
    request: pytest.FixtureRequest, asked: tuple[Catalog, list[LabelledQuery]]
) -> Iterator[Engine]:
    """By words alone, and as it is by default."""
    engine = Engine(asked[0], embedders=embedders.load_embedders(request.param))
    engine.fill()
    yield engine
    engine.close()


@pytest.mark.parametrize("label", PROMISES)
def test_a_resolved_lookup_stays_within_its_promise(
    engine: Engine, asked: tuple[Catalog, list[LabelledQuery]], label: str
) -> None:
    measured: dict[str, Any] = measure(BY_LABEL[label], engine, asked[1])
    assert measured["lookups"] == 119
    assert measured["resolved"] >= 0.97
    assert measured["tokens_per_resolved"] <= PROMISES[label]
