"""Token buckets: a steady rate, a bounded burst, and a wait that is long enough."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.postgres_server import shared_server

from toolscout.store.postgres_buckets import PostgresBuckets
from toolscout.store.rate_limits import BucketStore, MemoryBuckets, RateLimit
from toolscout.store.sqlite_buckets import SqliteBuckets

STEPS = st.lists(st.floats(0, 30, allow_nan=False), max_size=60)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def buckets(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BucketStore]:
    if request.param == "memory":
        yield MemoryBuckets()
        return
    if request.param == "sqlite":
        with closing(SqliteBuckets(tmp_path / "limits.db")) as local:
            yield local
        return
    with closing(PostgresBuckets(shared_server().clean_database())) as shared:
        yield shared


def check_rate(buckets: BucketStore, key: str, steps: list[float], per_minute: int) -> None:
    clock = Clock()
    rate = RateLimit(buckets, clock=clock)
    granted = 0
    for step in steps:
        clock.now += step
        granted += not rate.take(key, per_minute=per_minute)
    burst = max(1.0, per_minute / 6)
    assert granted <= burst + clock.now * per_minute / 60 + 1e-6


def check_wait(buckets: BucketStore, key: str, per_minute: int, calls: int) -> None:
    clock = Clock()
    rate = RateLimit(buckets, clock=clock)
    for _ in range(calls):
        rate.take(key, per_minute=per_minute)
    while wait := rate.take(key, per_minute=per_minute):
        clock.now += wait / 2
        assert rate.take(key, per_minute=per_minute)
        clock.now += wait / 2 + 1e-6


@given(STEPS, st.integers(1, 600))
def test_never_more_than_the_burst_and_the_rate_allow(steps: list[float], per_minute: int) -> None:
    check_rate(MemoryBuckets(), "ann", steps, per_minute)


@given(st.integers(1, 600), st.integers(0, 200))
def test_the_wait_is_exactly_long_enough(per_minute: int, calls: int) -> None:
    check_wait(MemoryBuckets(), "ann", per_minute, calls)


@pytest.fixture(scope="module")
def shared() -> Iterator[PostgresBuckets]:
    with closing(PostgresBuckets(shared_server().database)) as shared:
        yield shared


@settings(max_examples=25)
@given(steps=STEPS, per_minute=st.integers(1, 600))
def test_never_more_than_that_is_granted_by_postgres(
    shared: PostgresBuckets, steps: list[float], per_minute: int
) -> None:
    check_rate(shared, uuid4().hex, steps, per_minute)


@settings(max_examples=25)
@given(per_minute=st.integers(1, 600), calls=st.integers(0, 200))
def test_the_wait_is_exactly_long_enough_in_postgres(
    shared: PostgresBuckets, per_minute: int, calls: int
) -> None:
    check_wait(shared, uuid4().hex, per_minute, calls)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteBuckets]:
    with closing(SqliteBuckets(tmp_path_factory.mktemp("limits") / "limits.db")) as local:
        yield local


@given(STEPS, st.integers(1, 600))
@settings(max_examples=25)
def test_all_kinds_of_buckets_agree(
    shared: PostgresBuckets, local: SqliteBuckets, steps: list[float], per_minute: int
) -> None:
    clock, key = Clock(), uuid4().hex
    memory = RateLimit(MemoryBuckets(), clock=clock)
    others = [RateLimit(store, clock=clock) for store in (shared, local)]
    for step in steps:
        clock.now += step
        expected = memory.take(key, per_minute=per_minute)
        for other in others:
            assert other.take(key, per_minute=per_minute) == pytest.approx(expected)


def test_one_key_does_not_use_up_another(buckets: BucketStore) -> None:
    rate = RateLimit(buckets, clock=lambda: 0.0)
    while not rate.take("ann", per_minute=60):
        pass
    assert rate.take("bob", per_minute=60) == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_several_gateways_enforce_one_limit(kind: str, tmp_path: Path) -> None:
    url = shared_server().clean_database() if kind == "postgres" else ""
    path = tmp_path / "limits.db"
    gateways = [PostgresBuckets(url) if url else SqliteBuckets(path) for _ in range(4)]
    rates = [RateLimit(each, clock=lambda: 0.0) for each in gateways]
    with ThreadPoolExecutor(8) as pool:
        waits = list(pool.map(lambda n: rates[n % 4].take("ann", per_minute=60), range(100)))
    assert waits.count(0.0) == 10
    for each in gateways:
        each.close()


def test_no_limit_means_no_limit() -> None:
    rate = RateLimit(MemoryBuckets(), clock=lambda: 0.0)
    assert not any(rate.take("ann", per_minute=0) for _ in range(1_000))


def test_many_keys_take_a_fixed_amount_of_memory() -> None:
    check_many_keys(MemoryBuckets(capacity=10))


def test_many_keys_take_a_fixed_amount_of_rows() -> None:
    with closing(PostgresBuckets(shared_server().clean_database(), capacity=10)) as shared:
        check_many_keys(shared)


def test_many_keys_take_a_fixed_amount_of_a_file(tmp_path: Path) -> None:
    with closing(SqliteBuckets(tmp_path / "limits.db", capacity=10)) as local:
        check_many_keys(local)


def check_many_keys(buckets: BucketStore) -> None:
    rate = RateLimit(buckets, clock=lambda: 0.0)
    for number in range(1_000):
        rate.take(f"key {number}", per_minute=6)
    assert rate.take("key 999", per_minute=6) > 0
    assert rate.take("key 1", per_minute=6) == 0  # dropped, and so full again


def test_a_clock_that_goes_back_gives_nothing(buckets: BucketStore) -> None:
    clock = Clock()
    clock.now = 100.0
    rate = RateLimit(buckets, clock=clock)
    while not rate.take("ann", per_minute=60):
        pass
    clock.now = 50.0
    assert rate.take("ann", per_minute=60) > 0
