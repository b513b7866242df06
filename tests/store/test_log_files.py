"""The SQLite log as a file: its mode, its indexes, its damage, and what happens beside it."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from toolscout.errors import DamagedStoreError, StoreError
from toolscout.store.log_contract import LogFilter, LogRow
from toolscout.store.sqlite import SqliteStore
from toolscout.store.sqlite_log import SqliteLog, filter_condition


def row(number: int, **values: str) -> LogRow:
    return LogRow(id=f"{number:020x}", time=float(number), kind="call", outcome="ok", **values)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def test_only_its_owner_can_read_the_file(path: Path):
    log = SqliteLog(path)
    log.append(row(1))
    files = sorted(f.name for f in path.parent.iterdir())
    assert files == ["journal.db", "journal.db-shm", "journal.db-wal"]
    assert {stat.S_IMODE(f.stat().st_mode) for f in path.parent.iterdir()} == {0o600}
    log.close()


@pytest.mark.parametrize(
    ("where", "index"),
    [
        (LogFilter(session="s", kind="call"), "log_by_session"),
        (LogFilter(session_prefix="s"), "log_by_session"),
        (LogFilter(tool="t", kind="call", server="s"), "log_by_tool"),
        (LogFilter(outcome="timeout", kind="call"), "log_by_failure"),
        (LogFilter(server="s", principal="p"), "log_by_server"),
        (LogFilter(principal="p", kind="call"), "log_by_principal"),
        (LogFilter(parent="p", kind="call"), "log_by_parent"),
        (LogFilter(kind="gap"), "log_by_kind"),
        (LogFilter(is_open=True), "log_open"),
        (LogFilter(since=1.0), "INTEGER PRIMARY KEY"),
    ],
)
def test_a_filtered_read_uses_an_index_and_sorts_nothing(path: Path, where: LogFilter, index: str):
    SqliteLog(path).append(row(1))
    condition, values = filter_condition(where)
    query = f"EXPLAIN QUERY PLAN SELECT * FROM log WHERE {condition} ORDER BY sequence DESC LIMIT 9"
    with closing(sqlite3.connect(path)) as raw:
        plan = "\n".join(str(step[3]) for step in raw.execute(query, values))
    assert index in plan.splitlines()[0], plan
    # A range of sessions is the only one that is not in the order of the rows.
    assert ("TEMP B-TREE" in plan) == bool(where.session_prefix)


def test_a_damaged_file_is_renamed_and_a_new_one_started(path: Path):
    path.write_bytes(b"not a database at all, but long enough to look like one " * 40)
    before = path.read_bytes()
    log = SqliteLog(path)
    with pytest.raises(DamagedStoreError):
        log.append(row(1))
    aside = Path(log.set_aside())
    assert aside.name.startswith("journal.db.damaged-")
    assert aside.read_bytes() == before
    assert log.append(row(1))
    assert log.count() == 1
    log.close()


def test_a_file_that_another_process_has_replaced_is_not_renamed(path: Path):
    path.write_bytes(b"not a database at all, but long enough to look like one " * 40)
    first, second = SqliteLog(path), SqliteLog(path)
    for log in (first, second):
        with pytest.raises(DamagedStoreError):
            log.append(row(1))
    assert first.set_aside()
    first.append(row(1))
    assert second.set_aside() == ""
    assert second.append(row(2))
    assert first.count() == 2
    first.close()
    second.close()


def test_a_deleted_file_is_made_again_by_the_next_row(path: Path):
    log = SqliteLog(path)
    log.append(row(1))
    for file in path.parent.iterdir():
        file.unlink()
    assert log.append(row(2))
    assert [r.id for r in SqliteLog(path).read()] == [row(2).id]
    log.close()


def test_a_store_of_sessions_is_left_alone(path: Path):
    store = SqliteStore(path)
    store.put("s", "text", expected=0)
    log = SqliteLog(path)
    with pytest.raises(StoreError, match="another program"):
        log.append(row(1))
    kept = store.get("s")
    assert kept is not None
    assert kept.text == "text"
    store.close()


def test_a_journal_of_a_newer_version_is_left_alone(path: Path):
    log = SqliteLog(path)
    log.append(row(1))
    log.close()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match=r"newer version .*99.* Upgrade toolscout"):
        SqliteLog(path).append(row(2))


def test_pruned_rows_leave_no_bytes_and_no_room_behind(path: Path):
    log = SqliteLog(path)
    for number in range(3_000):
        log.append(row(number, data=f'{{"a":"secret-{number}-{"x" * 2_000}"}}'))
    large = path.stat().st_size
    while log.prune(max_rows=0):
        pass
    while path.stat().st_size > large / 2:
        log.prune()
    log.close()
    assert b"secret-" not in path.read_bytes()
