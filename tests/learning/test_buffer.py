"""Observations in a real store: shared, bounded, erased, damaged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolscout.learning.buffer import ReplayBuffer, retained_ids
from toolscout.store.contract import Store, StoreLimits
from toolscout.store.memory import MemoryStore
from toolscout.store.sqlite import SqliteStore

from .rows import SIZE, row, vector

NO_LIMIT = StoreLimits(cap=None)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened: Store = (
        MemoryStore(limits=NO_LIMIT)
        if request.param == "memory"
        else SqliteStore(tmp_path / "s.db", space="learning", limits=NO_LIMIT)
    )
    yield opened
    opened.close()


def open_buffer(store: Store, model: str = "model", **options: int) -> ReplayBuffer:
    return ReplayBuffer(store, model=model, dimensions=SIZE, **options)


def test_observations_are_read_back_as_they_were_written(store: Store):
    rows = [row(vector(n), "a", "b") for n in range(150)]
    buffer = open_buffer(store)
    buffer.append(rows[:3])
    buffer.append(rows[3:])
    assert open_buffer(store).read() == tuple(rows)
    assert buffer.read() == tuple(rows)


def test_another_reader_sees_new_rows_and_removals(store: Store):
    writer, reader = open_buffer(store), open_buffer(store)
    rows = [row(vector(n), "a", principal=str(n % 2)) for n in range(100)]
    writer.append(rows[:70])
    assert len(reader.read()) == 70
    assert not reader.has_changed()
    writer.append(rows[70:])
    assert reader.has_changed()
    assert reader.read() == tuple(rows)
    assert writer.remove(lambda o: None if o.principal == "1" else o) == 50
    assert reader.has_changed()
    assert {o.principal for o in reader.read()} == {"0"}


def test_counts_of_several_writers_add_up(store: Store):
    for _ in range(3):
        open_buffer(store).append([], counts={"shadow_calls": 2})
    assert open_buffer(store).counts() == {"shadow_calls": 6}


def test_the_state_of_another_model_is_not_used_and_not_lost(store: Store):
    open_buffer(store, "old").append([row(vector(1), "a")])
    new = open_buffer(store, "new")
    assert new.read() == ()
    assert new.problems == {"model": "What was learned with old is not used."}
    new.append([row(vector(2), "b")])
    assert [[*o.called] for o in new.read()] == [["b"]]
    assert [[*o.called] for o in open_buffer(store, "old").read()] == [["a"]]


def test_erasing_reaches_the_state_of_every_model(store: Store):
    for model in ("old", "new"):
        open_buffer(store, model).append([row(vector(1), "a", principal="eve")])
    assert open_buffer(store, "new").remove(lambda o: None if o.principal == "eve" else o) == 2
    assert open_buffer(store, "old").read() == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        '{"format": 99, "model": "model", "dimensions": 32, "rows": []}',
        '{"format": 1, "model": "model", "dimensions": 32, "rows": [{"id": "1"}]}',
        '{"format": 1, "model": "model", "dimensions": 32, "rows": [7]}',
        '{"format": 1, "model": "model", "dimensions": "x", "rows": []}',
    ],
)
def test_damaged_state_is_ignored_and_reported_and_learning_continues(store: Store, text: str):
    buffer = open_buffer(store)
    buffer.append([row(vector(n), "a") for n in range(64)])
    buffer.append([row(vector(99), "b")])
    record = store.get("rows:0")
    assert record is not None
    store.put("rows:0", text, expected=record.version)
    again = open_buffer(store)
    assert [[*o.called] for o in again.read()] == [["b"]]
    assert "Learned state was ignored" in again.problems["rows:0"]
    again.append([row(vector(100), "c")])
    assert len(open_buffer(store).read()) == 2


def change_part(store: Store, key: str, change: Callable[[Any], None]) -> None:
    """Edit a record as somebody else would."""
    record = store.get(key)
    assert record is not None
    values = json.loads(record.text)
    change(values)
    store.put(key, json.dumps(values), expected=record.version)


@pytest.mark.parametrize(
    "score", [float("nan"), float("inf"), 1e300, -1001.0, pytest.param(10**400, id="huge")]
)
def test_impossible_numbers_are_damage(store: Store, score: float):
    open_buffer(store).append([row(vector(1), "a"), row(vector(2), "b")])
    change_part(store, "rows:0", lambda part: part["rows"][0]["shown"].update(a=score))
    buffer = open_buffer(store)
    assert [[*o.called] for o in buffer.read()] == [["b"]]
    assert "1 of 2 observations" in buffer.problems["rows:0"]


def test_a_score_of_a_match_by_name_that_was_stored_unbounded_is_read(store: Store):
    open_buffer(store).append([row(vector(1), "a")])
    change_part(store, "rows:0", lambda part: part["rows"][0]["shown"].update(a=105.5))
    buffer = open_buffer(store)
    (read,) = buffer.read()
    assert 10 < read.shown["a"] < 100
    assert not buffer.problems


def test_a_damaged_observation_leaves_the_others_of_its_part(store: Store):
    rows = [row(vector(n), "a") for n in range(10)]
    open_buffer(store).append(rows)

    def damage(part: Any) -> None:
        part["rows"][3] = {"id": "x"}
        part["rows"][7]["vector"] = "AAAA"

    change_part(store, "rows:0", damage)
    buffer = open_buffer(store)
    good = [o for n, o in enumerate(rows) if n not in (3, 7)]
    assert buffer.read() == tuple(good)
    assert "2 of 10 observations" in buffer.problems["rows:0"]
    new = row(vector(99), "b")
    buffer.append([new])
    again = open_buffer(store)
    assert again.read() == (*good, new)
    assert "2 of 10 observations" in again.problems["rows:0"]
    assert again.remove(lambda o: o) == 2  # it may contain what has to go
    assert (again.read(), again.problems) == ((*good, new), {})


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_part_that_is_missing_is_reported(store: Store, number: int):
    open_buffer(store).append([row(vector(n), "a") for n in range(150)])
    store.delete(f"rows:{number}")
    buffer = open_buffer(store)
    assert len(buffer.read()) == (86 if number < 2 else 128)
    assert "it is missing" in buffer.problems[f"rows:{number}"]


def test_a_part_without_a_list_of_observations_is_reported(store: Store):
    open_buffer(store).append([row(vector(1), "a")])
    change_part(store, "rows:0", lambda part: part.update(rows={}))
    buffer = open_buffer(store)
    assert buffer.read() == ()
    assert "not a list" in buffer.problems["rows:0"]
    assert buffer.remove(lambda o: o) == 1
    assert (buffer.read(), buffer.problems) == ((), {})


def test_nothing_is_reported_after_removals_resets_and_compaction(store: Store):
    buffer = open_buffer(store, max_rows=200)
    assert (open_buffer(store).read(), buffer.problems) == ((), {})
    for start in range(0, 600, 50):
        buffer.append([row(vector(start + n), f"t{start + n}") for n in range(50)])
        reader = open_buffer(store)
        assert (len(reader.read()) > 0, reader.problems) == (True, {})
    buffer.remove(lambda _: None)
    for reader in (buffer, open_buffer(store)):
        assert (reader.read(), reader.problems) == ((), {})
    buffer.append([row(vector(1), "a")])
    buffer.clear()
    for reader in (buffer, open_buffer(store)):
        assert (reader.read(), reader.problems) == ((), {})


def test_a_damaged_head_is_rebuilt_from_what_is_there(store: Store):
    rows = [row(vector(n), "a") for n in range(100)]
    open_buffer(store).append(rows)
    record = store.get("head")
    assert record is not None
    store.put("head", "garbage", expected=record.version)
    buffer = open_buffer(store)
    assert buffer.read() == tuple(rows)
    assert "rebuilt" in buffer.problems["head"]
    buffer.append([row(vector(200), "b")])
    assert open_buffer(store).problems == {}


@pytest.mark.parametrize(
    "head",
    [
        '{"format": 1, "first": 0, "last": 1e300, "epoch": 0, "rows": 1, "counts": {}}',
        '{"format": 1, "first": 0, "last": 1e999, "epoch": 0, "rows": 1, "counts": {}}',
        '{"format": 1, "first": 7, "last": 0, "epoch": 0, "rows": 1, "counts": {}}',
        '{"format": 1, "first": -9, "last": 0, "epoch": 0, "rows": 1, "counts": {}}',
        '{"format": 1, "first": 0, "last": 0, "epoch": 0, "rows": 1, "counts": {"x": -1}}',
        "[" * 100_000,
    ],
)
def test_a_head_with_impossible_numbers_is_rebuilt(store: Store, head: str):
    rows = [row(vector(n), "a") for n in range(100)]
    open_buffer(store).append(rows)
    store.put("rows:foreign", "{}", expected=0)
    record = store.get("head")
    assert record is not None
    store.put("head", head, expected=record.version)
    buffer = open_buffer(store)
    assert buffer.read() == tuple(rows)
    assert "rebuilt" in buffer.problems["head"]
    buffer.append([row(vector(200), "b")])
    again = open_buffer(store)
    assert (len(again.read()), again.problems) == (101, {})


def test_a_last_segment_that_is_damaged_is_left_behind(store: Store):
    open_buffer(store).append([row(vector(1), "a")])
    record = store.get("rows:0")
    assert record is not None
    store.put("rows:0", "garbage", expected=record.version)
    open_buffer(store).append([row(vector(2), "b")])
    assert [[*o.called] for o in open_buffer(store).read()] == [["b"]]


def test_the_buffer_is_bounded_and_a_flood_crowds_out_only_itself(store: Store):
    buffer = open_buffer(store, max_rows=200)
    kind = [row(vector(n), f"k{n}", principal=f"p{n % 5}") for n in range(50)]
    buffer.append(kind)
    for start in range(0, 1_000, 50):
        flood = [
            row(vector(start + n + 1_000), f"f{start + n}", principal="eve") for n in range(50)
        ]
        buffer.append(flood)
    left = Counter(o.principal for o in buffer.read())
    assert left.total() <= 200
    assert sum(left[f"p{n}"] for n in range(5)) == 50


def test_rows_that_no_longer_count_go_first(store: Store):
    buffer = open_buffer(store, max_rows=100)
    same = [row(vector(n + 100, near=1, noise=0.01), "a") for n in range(90)]
    buffer.append(same)
    buffer.append([row(vector(n + 500), f"t{n}") for n in range(20)])
    tools = Counter(key for o in buffer.read() for key in o.called)
    assert tools["a"] == 1
    assert len(tools) == 21


def test_clearing_forgets_rows_and_counts(store: Store):
    buffer = open_buffer(store)
    buffer.append([row(vector(n), "a") for n in range(70)], counts={"shadow_calls": 1})
    assert buffer.clear() == 70
    assert open_buffer(store).read() == ()
    assert open_buffer(store).counts() == {}
    buffer.append([row(vector(1), "a")])
    assert len(open_buffer(store).read()) == 1


def test_an_observation_of_a_clock_ahead_is_kept_and_ages_like_the_others(store: Store):
    day, now = 86_400.0, 1e9
    buffer = open_buffer(store)
    early = row(vector(1), "early", id="9", time=now + 9_000 * day)
    buffer.append([early])
    assert buffer.bound_times(now) == 1
    assert buffer.bound_times(now) == 0
    assert [o.id for o in buffer.read()] == ["9"]
    buffer.append([row(vector(n + 2), f"t{n}", time=now + n * 5 * day) for n in range(90)])
    rows = buffer.read()
    kept = retained_ids(rows, at_most=1_000)
    assert early.id not in kept  # 445 days later
    assert rows[-1].id in kept


WRITER = """
import sys
from toolscout.learning.buffer import ReplayBuffer
from toolscout.store.contract import StoreLimits
from toolscout.store.sqlite import SqliteStore
sys.path.insert(0, sys.argv[3])
from tests.learning.rows import SIZE, row, vector

store = SqliteStore(sys.argv[1], space="learning", limits=StoreLimits(cap=None))
buffer = ReplayBuffer(store, model="model", dimensions=SIZE)
for number in range(100):
    new = row(vector(number), "a", id=f"{sys.argv[2]}-{number:03}", principal=sys.argv[2])
    buffer.append([new], counts={"shadow_calls": 1})
"""


def test_two_processes_that_learn_at_once_lose_nothing(tmp_path: Path):
    path = tmp_path / "s.db"
    root = str(Path(__file__).parents[2])
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, root], cwd=root)
        for name in ("one", "two")
    ]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    store = SqliteStore(path, space="learning", limits=NO_LIMIT)
    buffer = open_buffer(store)
    ids = [o.id for o in buffer.read()]
    assert sorted(ids) == [f"{name}-{n:03}" for name in ("one", "two") for n in range(100)]
    assert buffer.counts() == {"shadow_calls": 200}
    store.close()
