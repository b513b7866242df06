"""One suite for every store: what holds for one holds for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.store.postgres_server import shared_server

from toolscout.errors import StoreError
from toolscout.store.contract import Record, Store, StoreLimits
from toolscout.store.memory import MemoryStore
from toolscout.store.postgres import PostgresStore
from toolscout.store.sqlite import SqliteStore


class Hands:
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


Make = Callable[[StoreLimits], Store]


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: Hands) -> Iterator[Make]:
    opened: list[Store] = []
    url = shared_server().clean_database() if request.param == "postgres" else ""

    def build(limits: StoreLimits) -> Store:
        store: Store
        match request.param:
            case "memory":
                store = MemoryStore(limits=limits, clock=clock)
            case "sqlite":
                store = SqliteStore(tmp_path / "deep" / "store.db", limits=limits, clock=clock)
            case _:
                store = PostgresStore(url, limits=limits, clock=clock)
        opened.append(store)
        return store

    yield build
    for store in opened:
        store.close()


@pytest.fixture
def store(make: Make) -> Store:
    return make(StoreLimits())


def test_a_record_that_was_never_written_is_missing(store: Store):
    assert store.get("nobody") is None
    assert store.list() == ()


def test_a_written_text_reads_back_exactly(store: Store):
    text = '{"loaded":["a","ä","日本"],"empty":""}'
    store.put("user-42", text, expected=0)
    assert store.get("user-42") == Record("user-42", 1, text, 1_000.0, 1_000.0)


@pytest.mark.parametrize("text", ["", "a\0b", "\x1b0", "\x1b", "\x1b1\0", "\U0010ffff"])
def test_every_character_reads_back_exactly(store: Store, text: str):
    store.put("s", text, expected=0)
    assert [r.text for r in (store.get("s"), *store.list()) if r] == [text, text]


def test_each_write_counts_the_version_up_and_keeps_the_birthday(store: Store, clock: Hands):
    store.put("s", "1", expected=0)
    clock.now = 1_500.0
    second = store.put("s", "2", expected=1)
    assert second == Record("s", 2, "2", 1_000.0, 1_500.0)
    assert store.get("s") == second


@pytest.mark.parametrize("stale", [0, 1, 3])
def test_a_writer_that_read_something_else_writes_nothing(store: Store, stale: int):
    store.put("s", "first", expected=0)
    store.put("s", "second", expected=1)
    assert store.put("s", "mine", expected=stale) is None
    kept = store.get("s")
    assert kept is not None
    assert (kept.version, kept.text) == (2, "second")


def test_writing_a_first_version_of_what_is_not_there_needs_zero(store: Store):
    assert store.put("s", "x", expected=4) is None
    assert store.get("s") is None


def test_a_deleted_record_is_gone_and_may_be_created_again(store: Store):
    store.put("s", "x", expected=0)
    assert store.delete("s")
    assert not store.delete("s")
    assert store.get("s") is None
    again = store.put("s", "y", expected=0)
    assert again is not None
    assert again.version == 1


def test_lists_show_the_last_written_first(store: Store):
    for name in ("a", "b", "c"):
        store.put(name, name, expected=0)
    store.put("a", "again", expected=1)
    assert [r.key for r in store.list()] == ["a", "c", "b"]
    assert [r.key for r in store.list(limit=2)] == ["a", "c"]


@pytest.mark.behaviour("S1")
def test_the_cap_drops_what_was_not_written_for_longest(make: Make):
    store = make(StoreLimits(cap=3))
    for name in ("a", "b", "c"):
        store.put(name, name, expected=0)
    store.put("a", "again", expected=1)
    store.put("d", "d", expected=0)
    assert sorted(r.key for r in store.list()) == ["a", "c", "d"]
    assert store.get("b") is None


@pytest.mark.behaviour("S1")
def test_four_thousand_and_ninety_six_sessions_are_kept_by_default(store: Store):
    for number in range(4_097):
        store.put(f"s{number}", "{}", expected=0)
    assert store.get("s0") is None
    assert store.get("s1") is not None
    assert len(store.list(limit=10_000)) == 4_096


def test_without_a_cap_nothing_is_dropped(make: Make):
    store = make(StoreLimits(cap=None))
    for number in range(20):
        store.put(str(number), "{}", expected=0)
    assert len(store.list()) == 20


def test_old_records_are_gone_the_moment_they_expire(make: Make, clock: Hands):
    store = make(StoreLimits(ttl_seconds=60))
    store.put("old", "x", expected=0)
    clock.now += 30
    store.put("young", "y", expected=0)
    clock.now += 30
    assert store.get("old") is None
    assert [r.key for r in store.list()] == ["young"]
    assert not store.delete("old")


def test_writing_keeps_a_record_alive(make: Make, clock: Hands):
    store = make(StoreLimits(ttl_seconds=60))
    store.put("s", "x", expected=0)
    clock.now += 50
    store.put("s", "y", expected=1)
    clock.now += 50
    assert store.get("s") is not None


def test_expiry_says_how_many_went(make: Make, clock: Hands):
    store = make(StoreLimits(ttl_seconds=60))
    store.put("a", "x", expected=0)
    store.put("b", "x", expected=0)
    clock.now += 60
    store.put("c", "x", expected=0)
    assert store.expire() == 2
    assert store.expire() == 0
    assert [r.key for r in store.list()] == ["c"]


def test_an_expired_record_may_be_written_again(make: Make, clock: Hands):
    store = make(StoreLimits(ttl_seconds=60))
    store.put("s", "x", expected=0)
    clock.now += 60
    assert store.put("s", "mine", expected=1) is None
    anew = store.put("s", "y", expected=0)
    assert anew == Record("s", 1, "y", 1_060.0, 1_060.0)


@pytest.mark.parametrize("key", ["", "x" * 513, "a\0b", "\ud800", None, 42])
def test_an_impossible_id_is_refused_with_what_would_do(store: Store, key: Any):
    for act in (store.get, store.delete, lambda k: store.put(k, "x", expected=0)):
        with pytest.raises(StoreError, match="1 to 512 characters"):
            act(key)


def test_text_that_is_not_unicode_is_refused_and_nothing_is_written(store: Store):
    with pytest.raises(StoreError, match="surrogate"):
        store.put("s", '"\ud800"', expected=0)
    assert store.get("s") is None


def test_a_closed_store_says_so(store: Store):
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.get("s")
    with pytest.raises(StoreError, match="closed"):
        store.put("s", "x", expected=0)


def test_many_threads_adding_to_one_record_lose_nothing(store: Store):
    def add(number: int) -> None:
        while True:
            old = store.get("shared")
            text = f"{old.text},{number}" if old else str(number)
            if store.put("shared", text, expected=old.version if old else 0):
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(64)))
    kept = store.get("shared")
    assert kept is not None
    assert kept.version == 64
    assert sorted(int(n) for n in kept.text.split(",")) == list(range(64))


class StoresAgree(RuleBasedStateMachine):
    """Whatever is done to all, all stores answer alike."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Hands()
        limits = StoreLimits(cap=3, ttl_seconds=50)
        self.memory = MemoryStore(limits=limits, clock=self.clock)
        self.folder = TemporaryDirectory()
        path = Path(self.folder.name) / "store.db"
        sqlite = SqliteStore(path, limits=limits, clock=self.clock)
        url, space = shared_server().database, uuid4().hex
        shared = PostgresStore(url, space=space, limits=limits, clock=self.clock)
        self.others: list[Store] = [sqlite, shared]

    keys = st.sampled_from(["a", "b", "c", "d", "é"])

    @rule(key=keys, text=st.text(st.characters(codec="utf-8")), expected=st.integers(0, 3))
    def put(self, key: str, text: str, expected: int) -> None:
        put = self.memory.put(key, text, expected=expected)
        assert [o.put(key, text, expected=expected) for o in self.others] == [put, put]

    @rule(key=keys)
    def rewrite(self, key: str) -> None:
        kept = self.memory.get(key)
        self.put(key, "again", kept.version if kept else 0)

    @rule(key=keys)
    def delete(self, key: str) -> None:
        deleted = self.memory.delete(key)
        assert [o.delete(key) for o in self.others] == [deleted, deleted]

    @rule(seconds=st.sampled_from([1, 20, 50]))
    def wait(self, seconds: int) -> None:
        self.clock.now += seconds

    @rule()
    def expire(self) -> None:
        expired = self.memory.expire()
        assert [o.expire() for o in self.others] == [expired, expired]

    @invariant()
    def they_keep_the_same(self) -> None:
        kept = self.memory.list()
        assert [o.list() for o in self.others] == [kept, kept]

    def teardown(self) -> None:
        for store in (self.memory, *self.others):
            store.close()
        self.folder.cleanup()


TestStoresAgree = StoresAgree.TestCase
TestStoresAgree.settings = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
