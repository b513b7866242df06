"""Vectors that gateways share: one computes them, the others read them, and none depends on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import psycopg
import pytest
from tests.search.parts import Bag, Floats, filled, tool
from tests.store.postgres_server import Server, shared_server

from toolscout.config import Config
from toolscout.embedders.cache import VectorStore
from toolscout.embedders.shared_cache import open_vectors

TOOLS = [tool("send_mail", "send mail"), tool("weather", "weather forecast")]
Open = Callable[..., VectorStore]


@pytest.fixture(params=["sqlite", "postgres"])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same place again each time: the same file, or the same database elsewhere."""
    url = shared_server().clean_database() if request.param == "postgres" else ""
    opened: list[VectorStore] = []

    def build() -> VectorStore:
        home = tmp_path / (f"machine-{len(opened)}" if url else "one")
        opened.append(open_vectors(Config(store=url or "sqlite", home=home)))
        return opened[-1]

    yield build
    for each in opened:
        each.close()


def vectors(count: int, width: int = 16) -> dict[bytes, Floats]:
    rows = np.random.default_rng(3).normal(size=(count, width)).astype(np.float16)
    return {bytes([i >> 8, i & 255]) * 8: row.astype(np.float32) for i, row in enumerate(rows)}


def assert_same(found: dict[bytes, Floats], expected: dict[bytes, Floats]) -> None:
    assert found.keys() == expected.keys()
    assert all((found[key] == expected[key]).all() for key in expected)


def test_vectors_come_back_unchanged_and_unknown_keys_are_left_out(open_again: Open) -> None:
    known = vectors(1_200)
    open_again().put(known.items())
    assert_same(open_again().get([*known, b"unknown"]), known)
    assert open_again().get([]) == {}


def test_a_vector_that_is_stored_again_replaces_the_first(open_again: Open) -> None:
    key = b"k" * 16
    one, other = np.ones(4, np.float32), np.zeros(4, np.float32)
    cache = open_again()
    cache.put([(key, one), (key, one)])
    cache.put([(key, other)])
    assert_same(open_again().get([key]), {key: other})


def test_a_second_start_computes_nothing(open_again: Open) -> None:
    first = Bag()
    filled(TOOLS, embedders=[first], cache=open_again()).close()
    assert first.encoded
    second = Bag()
    engine = filled(TOOLS, embedders=[second], cache=open_again())
    assert engine.status.is_complete
    assert not second.encoded
    assert engine.search("forecast").names[0] == "weather"
    engine.close()


def shared(url: str, home: Path) -> VectorStore:
    return open_vectors(Config(store=url, home=home))


def test_damaged_vectors_of_the_database_are_computed_again_and_replaced(tmp_path: Path) -> None:
    url = shared_server().clean_database()
    filled(TOOLS, embedders=[Bag()], cache=shared(url, tmp_path / "a")).close()
    with psycopg.connect(url) as sql:
        sql.execute("UPDATE toolscout_vectors SET vector = '\\x00'")
    again = Bag()
    filled(TOOLS, embedders=[again], cache=shared(url, tmp_path / "b")).close()
    assert again.encoded
    third = Bag()
    filled(TOOLS, embedders=[third], cache=shared(url, tmp_path / "c")).close()
    assert not third.encoded


def test_vectors_of_a_file_from_before_the_database_are_added_to_it(tmp_path: Path) -> None:
    url = shared_server().clean_database()
    filled(TOOLS, embedders=[Bag()], cache=shared("sqlite", tmp_path / "a")).close()
    again = Bag()
    filled(TOOLS, embedders=[again], cache=shared(url, tmp_path / "a")).close()
    other = Bag()
    filled(TOOLS, embedders=[other], cache=shared(url, tmp_path / "b")).close()
    assert not again.encoded
    assert not other.encoded


def test_a_start_without_its_database_has_the_vectors_of_its_machine(tmp_path: Path) -> None:
    url = shared_server().clean_database()
    filled(TOOLS, embedders=[Bag()], cache=shared(url, tmp_path / "a")).close()
    # One that read them from the database has them as well.
    filled(TOOLS, embedders=[Bag()], cache=shared(url, tmp_path / "b")).close()
    away = "postgresql://postgres@127.0.0.1:1/nowhere"
    for machine, is_known in (("a", True), ("b", True), ("c", False)):
        embedder = Bag()
        engine = filled(TOOLS, embedders=[embedder], cache=shared(away, tmp_path / machine))
        assert engine.status.is_complete
        assert engine.problem == ""
        assert bool(embedder.encoded) is not is_known
        assert engine.search("forecast").names[0] == "weather"
        engine.close()


def test_a_frozen_database_is_waited_for_once(tmp_path: Path) -> None:
    server = Server().start()
    try:
        url = server.new_database()
        known = vectors(5_000)
        keys = [*known]
        with closing(shared(url, tmp_path)) as cache:
            cache.put(known.items())
            server.freeze()
            started = time.monotonic()
            for start in range(0, len(keys), 500):
                assert len(cache.get(keys[start : start + 500])) == 500
            assert time.monotonic() - started < 4
            server.thaw()
    finally:
        server.stop()
