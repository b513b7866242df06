"""The hash chain of a log finds every change that was not made by the log itself."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolscout.config import Config
from toolscout.errors import ConfigError, StoreError
from toolscout.store.chain_verification import ChainReport, read_head, verify_chain
from toolscout.store.factory import open_log
from toolscout.store.log_chain import ChainOptions, read_keys
from toolscout.store.log_contract import LogRow
from toolscout.store.sqlite_log import SqliteLog

SRC = str(Path(__file__).parents[2] / "src")
KEY = b"a key that only the gateway has"
OTHER = b"another key that nobody else has"

WRITER = """
import sys
from toolscout.store.log_chain import ChainOptions
from toolscout.store.log_contract import LogRow
from toolscout.store.sqlite_log import SqliteLog

log = SqliteLog(sys.argv[1], busy_timeout_seconds=30.0, chain=ChainOptions(is_on=True))
for number in range(int(sys.argv[3])):
    id = f"{sys.argv[2]}-{number}"
    log.append(LogRow(id=id, time=float(number), kind="call"))
    log.complete(id, outcome="ok", took_ms=1.5)
    print(number, flush=True)
"""


INSERTION = (
    "INSERT INTO log SELECT 6, 'new', parent, time, kind, session, principal, client, tool,"
    " server, outcome, took_ms, process, data, vector FROM log WHERE sequence = 5"
)


def row(number: int, **values: str) -> LogRow:
    return LogRow(id=f"{number:020x}", time=float(number), kind="call", **values)


def chained(path: Path, *keys: bytes, is_on: bool | None = True) -> SqliteLog:
    return SqliteLog(path, chain=ChainOptions(is_on=is_on, keys=keys))


def write(path: Path, numbers: Iterable[int], *keys: bytes, **values: str) -> None:
    with closing(chained(path, *keys)) as log:
        for number in numbers:
            assert log.append(row(number, **values))
            assert log.complete(row(number).id, outcome="ok", took_ms=2.0, parent="run")


def tamper(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        for statement in statements:
            assert raw.execute(statement).rowcount != 0


def found(report: ChainReport) -> list[tuple[str, int]]:
    return [(problem.what, problem.sequence) for problem in report.problems]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def test_a_log_that_only_the_log_changed_is_intact(path: Path):
    write(path, range(1, 6))
    report = verify_chain(path)
    assert report.is_intact
    assert (report.rows, report.uncovered_rows, report.unsigned_links) == (5, 0, report.links)


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["UPDATE log SET principal = 'eve' WHERE sequence = 3"], ("changed", 3)),
        (["UPDATE log SET outcome = 'error' WHERE sequence = 3"], ("changed", 3)),
        (["UPDATE log SET took_ms = 1.0 WHERE sequence = 3"], ("changed", 3)),
        (["UPDATE log SET data = '{\"x\":1}' WHERE sequence = 3"], ("changed", 3)),
        (["UPDATE log SET time = 9.0 WHERE sequence = 3"], ("changed", 3)),
        (["UPDATE log SET vector = 'text' WHERE sequence = 3"], ("changed", 3)),
        (["DELETE FROM log WHERE sequence = 3"], ("removed", 3)),
        (["DELETE FROM log WHERE sequence = 1"], ("removed", 1)),
        (["DELETE FROM log WHERE sequence = 5"], ("removed", 5)),
        (["DELETE FROM log WHERE sequence = 3", "DELETE FROM chain WHERE row = 3"], ("removed", 0)),
        (["DELETE FROM log WHERE sequence = 1", "DELETE FROM chain WHERE row = 1"], ("removed", 0)),
        (
            ["DELETE FROM log WHERE sequence = 5", "DELETE FROM chain WHERE row = 5"],
            ("truncated", 5),
        ),
        (
            [INSERTION],
            ("inserted", 6),
        ),
        (
            [
                "UPDATE log SET sequence = 99 WHERE sequence = 2",
                "UPDATE log SET sequence = 2 WHERE sequence = 4",
                "UPDATE log SET sequence = 4 WHERE sequence = 99",
            ],
            ("reordered", 2),
        ),
        (
            [
                "UPDATE chain SET position = 99 WHERE position = 4",
                "UPDATE chain SET position = 4 WHERE position = 6",
                "UPDATE chain SET position = 6 WHERE position = 99",
            ],
            ("reordered", 3),
        ),
        (["UPDATE chain SET digest = x'00' WHERE position = 4"], ("changed", 2)),
    ],
)
def test_a_change_in_the_file_is_found_and_named(
    path: Path, statements: list[str], expected: tuple[str, int]
):
    write(path, range(1, 6))
    tamper(path, *statements)
    report = verify_chain(path)
    assert not report.is_intact
    assert expected in found(report)
    assert found(report)[0][0] == expected[0]


def test_a_journal_cut_off_at_the_end_is_found_by_a_head_stored_elsewhere(path: Path):
    write(path, range(1, 6))
    head = read_head(path)
    assert verify_chain(path, since=head).is_intact
    tamper(
        path,
        "DELETE FROM log WHERE sequence > 3",
        "DELETE FROM chain WHERE row > 3",
        "UPDATE sqlite_sequence SET seq = 3",
    )
    assert verify_chain(path).is_intact  # nothing in the file itself shows it
    assert found(verify_chain(path, since=head)) == [("truncated", 3)]
    # New rows hide the missing ones from a count, but not from the hash.
    write(path, range(10, 20))
    assert found(verify_chain(path, since=head)) == [("replaced", 0)]


def test_a_chain_that_was_computed_again_is_found_by_a_head_stored_elsewhere(path: Path):
    write(path, range(1, 6))
    head = read_head(path)
    path.unlink()
    path.with_name(f"{path.name}.chain").unlink()  # the marker too
    write(path, [1, 2, 4, 5, 6])
    assert verify_chain(path).is_intact
    assert found(verify_chain(path, since=head)) == [("replaced", 0)]


def test_deleting_old_rows_leaves_an_intact_chain_without_their_links(path: Path):
    write(path, range(1, 301))
    log = chained(path)
    before = verify_chain(path)
    assert log.prune(older_than=150.0) == 149
    report = verify_chain(path)
    assert report.is_intact
    assert (report.rows, report.removed_rows) == (151, 149)
    assert report.links < before.links - 250
    while log.prune(max_rows=0):
        assert verify_chain(path).is_intact
    assert verify_chain(path).links == 1
    write(path, range(400, 405))
    assert verify_chain(path).is_intact
    # What the log deletes is told from what somebody else deletes.
    tamper(path, f"DELETE FROM log WHERE id = '{row(400).id}'")
    assert found(verify_chain(path)) == [("removed", 301)]


def test_erasing_a_principal_leaves_an_intact_chain(path: Path):
    write(path, range(1, 6), principal="ann")
    write(path, range(6, 11), principal="ben")
    with closing(chained(path)) as log:
        assert log.erase("ann") == 5
        assert {kept.principal for kept in log.read()} == {"ben"}
        log.append(row(20, principal="ann"))
        assert log.erase("nobody") == 0
    head = read_head(path)
    report = verify_chain(path, since=head)
    assert report.is_intact
    assert (report.rows, report.removed_rows) == (6, 5)


def test_an_erased_row_that_comes_back_is_found(path: Path):
    write(path, range(1, 6), principal="ann")
    write(path, [6])
    copy = path.with_name("copy.db")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    with closing(chained(path)) as log:
        log.erase("ann")
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("ATTACH ? AS copy", (str(copy),))
        raw.execute("INSERT INTO log SELECT * FROM copy.log WHERE sequence = 2")
    assert found(verify_chain(path)) == [("inserted", 2)]


def test_with_a_key_nobody_else_can_compute_the_chain_again(path: Path):
    write(path, range(1, 6), KEY)
    report = verify_chain(path, keys=[KEY])
    assert report.is_intact
    assert report.unsigned_links == 0
    # Somebody who can write the file but has no key: all links without one, all hashes right.
    forged = path.with_name("forged.db")
    write(forged, [1, 2, 4, 5, 6])
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("ATTACH ? AS forged", (str(forged),))
        raw.execute("DELETE FROM chain WHERE position > 4")
        raw.execute("INSERT INTO chain SELECT * FROM forged.chain WHERE position > 4")
    assert found(verify_chain(path, keys=[KEY]))[0][0] == "unsigned"


def test_a_chain_with_a_key_cannot_be_verified_or_written_without_it(path: Path):
    write(path, range(1, 6), KEY)
    with pytest.raises(StoreError, match="a key that is not given here"):
        verify_chain(path)
    with pytest.raises(StoreError, match="a key that is not given here"):
        verify_chain(path, keys=[OTHER])
    for keys in ((), (OTHER,)):
        log = chained(path, *keys, is_on=None)
        for change in (
            lambda log=log: log.append(row(9)),
            lambda log=log: log.prune(max_rows=1),
            lambda log=log: log.complete(row(1).id, outcome="ok"),
        ):
            with pytest.raises(StoreError, match="a key that this process does not have"):
                change()
    assert verify_chain(path, keys=[KEY]).rows == 5


def test_a_key_can_be_replaced_and_a_chain_can_get_one(path: Path):
    write(path, range(1, 4))
    write(path, range(4, 7), KEY)
    write(path, range(7, 9), OTHER, KEY)
    report = verify_chain(path, keys=[OTHER, KEY])
    assert report.is_intact
    assert (report.rows, report.unsigned_links) == (8, 7)


def test_rows_written_while_the_chain_is_off_are_counted_but_not_covered(path: Path):
    with closing(SqliteLog(path)) as log:
        log.append(row(1))
    write(path, [2, 3])
    with closing(chained(path, is_on=None)) as log:  # as the file is: on
        log.append(row(4))
    with closing(chained(path, is_on=False)) as log:
        log.append(row(5))
        log.complete(row(1).id, outcome="ok")
    with closing(chained(path, is_on=None)) as log:  # as the file is: off
        log.append(row(6))
    report = verify_chain(path)
    assert report.is_intact
    # The outcome of the first row is in the chain, and so the row.
    assert (report.rows, report.uncovered_rows) == (4, 2)
    write(path, [7])
    report = verify_chain(path)
    assert report.is_intact
    assert (report.rows, report.uncovered_rows) == (5, 2)
    tamper(path, "UPDATE log SET principal = 'eve' WHERE sequence = 3")
    assert found(verify_chain(path)) == [("changed", 3)]


def test_a_log_without_a_chain_has_no_links(path: Path):
    with closing(SqliteLog(path)) as log:
        log.append(row(1))
        log.complete(row(1).id, outcome="ok")
        log.prune(max_rows=0)
    with pytest.raises(StoreError, match="no hash chain"):
        verify_chain(path)
    assert read_head(path) is None


def test_a_head_from_before_the_oldest_row_cannot_be_compared(path: Path):
    write(path, [1])
    head = read_head(path)
    write(path, range(2, 11))
    with closing(chained(path)) as log:
        log.prune(max_rows=5)
    with pytest.raises(StoreError, match="older than the oldest row"):
        verify_chain(path, since=head)


def test_processes_that_write_at_once_keep_one_chain(path: Path):
    writers = [_start(path, name, 60) for name in ("a", "b", "c")]
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    report = verify_chain(path)
    assert report.is_intact
    assert (report.rows, report.links) == (180, 361)


def test_a_process_that_is_killed_leaves_an_intact_chain(path: Path):
    for name in ("a", "b", "c"):
        writer = _start(path, name, 1_000_000)
        assert writer.stdout is not None
        for _ in range(20):
            assert writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        writer.communicate(timeout=30)
        report = verify_chain(path)
        assert report.is_intact
    assert report.rows >= 60


def _start(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SRC},
    )


CHANGES: list[Callable[[SqliteLog, int], object]] = [
    lambda log, n: log.append(row(n, principal=f"p{n % 3}")),
    lambda log, n: log.complete(row(n // 2).id, outcome="ok", took_ms=1.0),
    lambda log, n: log.prune(max_rows=n // 2),
    lambda log, n: log.prune(older_than=float(n - 8)),
    lambda log, n: log.erase(f"p{n % 3}"),
]
STEPS = st.lists(
    st.tuples(st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3, 4]), st.sampled_from([True, None, False])),
    min_size=3,
    max_size=25,
)
COLUMNS = ["id", "parent", "time", "session", "principal", "tool", "outcome", "data", "process"]


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 50), st.sampled_from([*COLUMNS, "DELETE"]))
def test_any_sequence_of_changes_is_intact_until_a_covered_row_is_touched(
    steps: list[tuple[int, bool | None]], place: int, column: str
):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        chained(path).append(row(1_000))
        for number, (change, is_on) in enumerate(steps):
            with closing(chained(path, is_on=is_on)) as log:
                CHANGES[change](log, number)
            assert verify_chain(path).is_intact
        with closing(sqlite3.connect(path)) as raw:
            linked = "SELECT DISTINCT row FROM chain WHERE kind IN ('row', 'outcome')"
            query = f"SELECT sequence FROM log WHERE sequence IN ({linked}) ORDER BY sequence"
            covered = [sequence for (sequence,) in raw.execute(query)]
        if not covered:
            return
        sequence = covered[place % len(covered)]
        if column == "DELETE":
            tamper(path, f"DELETE FROM log WHERE sequence = {sequence}")
        else:
            tamper(path, f"UPDATE log SET {column} = '123456' WHERE sequence = {sequence}")
        what = "removed" if column == "DELETE" else "changed"
        assert found(verify_chain(path)) == [(what, sequence)]


def test_the_settings_switch_the_chain_on_and_name_its_key(tmp_path: Path):
    file = tmp_path / "keys"
    file.write_bytes(KEY + b"\n")
    config = Config.read(home=str(tmp_path), journal_chain=True, journal_key=f"file:{file}")
    with closing(open_log(config)) as log:
        log.append(row(1))
    assert verify_chain(tmp_path / "state" / "journal.db", keys=[KEY]).unsigned_links == 0


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("secret", "does not say where"),
        ("env:", "does not say where"),
        ("env:NOT_SET", "missing or shorter than 16"),
        ("env:SHORT", "missing or shorter than 16"),
        ("file:/nowhere/key", "cannot be read"),
    ],
)
def test_a_key_that_cannot_be_used_is_an_error_that_says_why(place: str, message: str):
    with pytest.raises(ConfigError, match=message):
        read_keys(place, {"SHORT": "abc"})
    assert read_keys("env:KEYS", {"KEYS": f"{KEY.decode()}\n{OTHER.decode()}\n"}) == (KEY, OTHER)


def test_a_chain_in_memory_is_refused():
    with pytest.raises(ConfigError, match="no hash chain"):
        open_log(Config.read(store="memory", journal_chain=True))
