"""One suite for every log store: what holds for one holds for all."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.store.postgres_server import shared_server

from toolscout.config import Config
from toolscout.errors import StoreError
from toolscout.store.factory import log_path, open_log
from toolscout.store.log_contract import LogFilter, LogRow, LogStore
from toolscout.store.memory_log import MemoryLog
from toolscout.store.postgres_log import PostgresLog
from toolscout.store.sqlite_log import SqliteLog


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogStore]:
    store: LogStore
    match request.param:
        case "memory":
            store = MemoryLog()
        case "sqlite":
            store = SqliteLog(tmp_path / "deep" / "journal.db")
        case _:
            store = PostgresLog(shared_server().clean_database())
    yield store
    store.close()


def row(number: int, **values: Any) -> LogRow:
    plain = {"id": f"{number:020x}", "time": 1_000.0 + number, "kind": "call", "outcome": "ok"}
    return LogRow(**(plain | values))


def fill(log: LogStore, *rows: LogRow) -> None:
    for each in rows:
        assert log.append(each)


def numbers(rows: tuple[LogRow, ...]) -> list[int]:
    return [int(each.id, 16) for each in rows]


FULL = row(
    1,
    parent="run",
    session="talk",
    principal="ann",
    client="editor",
    tool="mail__send",
    server="mail",
    took_ms=1.5,
    process="host:1:2",
    data='{"shape":{"to":"text(3)"},"ä":"日本"}',
    vector=b"\x00\xff\x01",
)


def test_a_new_log_is_empty(log: LogStore):
    assert log.read() == ()
    assert log.find("") == ()
    assert log.count() == 0
    assert log.size().rows == 0


def test_a_row_reads_back_exactly_and_gets_a_sequence(log: LogStore):
    fill(log, FULL)
    assert log.read() == (replace(FULL, sequence=1),)


@pytest.mark.parametrize("text", ["a\0b", "\x1b0", "\x1b", "\x1b1\0"])
def test_every_character_reads_back_and_can_be_filtered_by(log: LogStore, text: str):
    fill(log, replace(FULL, session=text, tool=text, data=text), row(2, session="a", tool="\x1b01"))
    assert log.read(LogFilter(tool=text))[0].data == text
    assert numbers(log.read(LogFilter(session_prefix=text))) == [1]


def test_an_id_is_taken_once(log: LogStore):
    fill(log, FULL)
    assert not log.append(replace(FULL, tool="other"))
    assert [r.tool for r in log.read()] == ["mail__send"]


def test_an_outcome_is_set_once_and_only_for_a_row_that_is_there(log: LogStore):
    fill(log, row(1, outcome=None))
    assert not log.complete("nobody", outcome="ok")
    assert log.complete(row(1).id, outcome="timeout", took_ms=2.5, parent="run")
    assert not log.complete(row(1).id, outcome="ok", took_ms=9.0)
    (found,) = log.read()
    assert (found.outcome, found.took_ms, found.parent) == ("timeout", 2.5, "run")


def test_completing_without_a_parent_keeps_the_one_it_has(log: LogStore):
    fill(log, row(1, outcome=None, parent="run"))
    log.complete(row(1).id, outcome="ok")
    assert log.read()[0].parent == "run"


def test_rows_come_newest_or_oldest_first_and_in_pages(log: LogStore):
    fill(log, *(row(n) for n in range(1, 8)))
    assert numbers(log.read(limit=3)) == [7, 6, 5]
    first = log.read(limit=3, is_newest_first=False)
    assert numbers(first) == [1, 2, 3]
    after = LogFilter(after=first[-1].sequence)
    assert numbers(log.read(after, limit=3, is_newest_first=False)) == [4, 5, 6]
    assert numbers(log.read(LogFilter(before=first[-1].sequence))) == [2, 1]


def test_the_order_is_that_of_appending_even_if_ids_and_times_are_not(log: LogStore):
    fill(log, row(5), row(2), row(9))
    assert numbers(log.read()) == [9, 2, 5]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (LogFilter(kind="search"), [3]),
        (LogFilter(session="talk-1"), [1, 2]),
        (LogFilter(session_prefix="talk-1"), [1, 2, 4]),
        (LogFilter(principal="ann"), [1, 4]),
        (LogFilter(tool="send"), [1, 2]),
        (LogFilter(server="mail"), [1, 2]),
        (LogFilter(parent="run"), [2]),
        (LogFilter(outcome="ok"), [1, 3]),
        (LogFilter(outcome="timeout"), [2]),
        (LogFilter(is_open=True), [4]),
        (LogFilter(is_open=False), [1, 2, 3]),
        (LogFilter(since=1_002.0), [2, 3, 4]),
        (LogFilter(until=1_003.0), [1, 2]),
        (LogFilter(since=1_002.0, until=1_004.0), [2, 3]),
        (LogFilter(since=9_999.0), []),
        (LogFilter(until=1.0), []),
        (LogFilter(tool="send", session="talk-1", kind="call", outcome="ok"), [1]),
        (LogFilter(tool="send", principal="ann", since=1_000.0, until=2_000.0, after=0), [1]),
        (LogFilter(tool="ok"), []),
        (LogFilter(tool="' OR 1=1 --"), []),
    ],
)
def test_rows_are_filtered(log: LogStore, where: LogFilter, expected: list[int]):
    fill(
        log,
        row(1, session="talk-1", principal="ann", tool="send", server="mail"),
        row(2, session="talk-1", tool="send", server="mail", parent="run", outcome="timeout"),
        row(3, kind="search", session="other"),
        row(4, session="talk-10", principal="ann", outcome=None),
    )
    assert numbers(log.read(where, is_newest_first=False)) == expected
    assert log.count(where) == len(expected)


def test_a_row_is_found_by_the_start_of_its_id(log: LogStore):
    fill(log, row(1, id="abc1"), row(2, id="abc2"), row(3, id="abd"))
    assert [r.id for r in log.find("abc1")] == ["abc1"]
    assert [r.id for r in log.find("abc")] == ["abc1", "abc2"]
    assert [r.id for r in log.find("a", limit=1)] == ["abc1"]
    assert log.find("abc%") == ()


def prune_all(log: LogStore, **limits: Any) -> int:
    total = 0
    while deleted := log.prune(**limits):
        assert deleted <= 200
        total += deleted
    return total


def test_old_rows_are_pruned_in_small_batches(log: LogStore):
    fill(log, *(row(n) for n in range(450)))
    assert prune_all(log, older_than=1_440.0) == 440
    assert numbers(log.read(is_newest_first=False)) == list(range(440, 450))


def test_rows_beyond_a_count_are_pruned_oldest_first(log: LogStore):
    fill(log, *(row(n) for n in range(450)))
    assert prune_all(log, max_rows=100) == 350
    assert numbers(log.read(is_newest_first=False, limit=1)) == [350]


def test_rows_beyond_a_size_are_pruned_oldest_first(log: LogStore):
    fill(log, *(row(n, data=f'"{"x" * 2_000}"') for n in range(1_000)))
    assert log.size().bytes > 2_000_000
    assert prune_all(log, max_bytes=1_000_000) > 0
    assert log.size().bytes <= 1_000_000
    kept = numbers(log.read(is_newest_first=False, limit=1_000))
    assert 0 < len(kept) < 600
    assert kept == list(range(1_000 - len(kept), 1_000))


def test_pruning_within_the_limits_deletes_nothing(log: LogStore):
    assert log.prune(older_than=1.0, max_rows=1, max_bytes=1 << 20) == 0
    fill(log, row(1))
    assert log.prune() == 0
    assert log.prune(older_than=1.0, max_rows=1, max_bytes=1 << 20) == 0
    assert log.count() == 1


def test_a_sequence_is_never_used_twice(log: LogStore):
    fill(log, row(1), row(2))
    prune_all(log, max_rows=0)
    fill(log, row(3))
    assert log.read()[0].sequence == 3


def test_threads_may_write_at_once(log: LogStore):
    def write(number: int) -> None:
        log.append(row(number, outcome=None))
        log.complete(row(number).id, outcome="ok")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(400)))
    assert log.count(LogFilter(outcome="ok")) == 400
    assert sorted(r.sequence for r in log.read(limit=1_000)) == list(range(1, 401))


def test_a_closed_log_says_so(log: LogStore):
    log.close()
    log.close()
    with pytest.raises(StoreError, match="closed"):
        log.append(row(1))
    with pytest.raises(StoreError, match="closed"):
        log.read()


def test_the_settings_name_the_log(tmp_path: Path):
    home = str(tmp_path / "home")
    assert log_path(Config.read(home=home)) == tmp_path / "home" / "state" / "journal.db"
    named = Config.read(home=home, store=str(tmp_path / "my.db"))
    assert log_path(named) == tmp_path / "my.journal.db"
    assert log_path(Config.read(home=home, store="memory")) is None
    assert isinstance(open_log(Config.read(store="memory")), MemoryLog)
    log = open_log(named)
    assert not (tmp_path / "my.journal.db").exists()
    log.append(row(1))
    log.close()
    assert (tmp_path / "my.journal.db").exists()
