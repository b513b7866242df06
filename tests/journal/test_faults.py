"""A journal that cannot be written stops no call and says afterwards what it missed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from toolscout.events import Event, ToolCallEvent, ToolCallStartEvent, ToolNotFoundEvent, stamp
from toolscout.journal.journal import Journal
from toolscout.journal.reading import current_outcome, row_data
from toolscout.store.log_contract import LogFilter, LogRow
from toolscout.store.sqlite_log import SqliteLog

SRC = str(Path(__file__).parents[2] / "src")

CALLER = """
import asyncio, sys
from pathlib import Path
from toolscout import Toolbox, tool
from toolscout.config import Config
from toolscout.journal.journal import Journal
from toolscout.store.sqlite_log import SqliteLog

effects = open(sys.argv[2], "ab", buffering=0)

@tool
async def act(number: int) -> str:
    "Do something that cannot be undone."
    effects.write(b"%d\\n" % number)
    await asyncio.sleep(0)
    return "done"

async def main():
    journal = Journal(SqliteLog(sys.argv[1]), record="full")
    config = Config.read(embedder="none", store="memory")
    async with Toolbox([act], config=config, sink=journal) as box:
        session = await box.session("s")
        for start in range(0, 1_000_000, 4):
            numbers = range(start, start + 4)
            await asyncio.gather(*(session.call("act", {"number": n}) for n in numbers))
            print(start, flush=True)

asyncio.run(main())
"""

WRITER = """
import sys
from toolscout.events import ToolCallStartEvent, ToolCallEvent, stamp
from toolscout.journal.journal import Journal
from toolscout.store.sqlite_log import SqliteLog

journal = Journal(SqliteLog(sys.argv[1], busy_timeout_seconds=30.0))
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    id = f"{sys.argv[2]}-{number}"
    journal(stamp(ToolCallStartEvent(parent=id, tool="t", arguments={})))
    journal(stamp(ToolCallEvent(id=id, tool="t")))
journal.close()
"""


def python(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SRC},
    )


class Hands:
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def not_found(journal: Journal, name: str) -> None:
    journal(stamp(ToolNotFoundEvent(tool=name)))


def call(journal: Journal, name: str) -> None:
    events: tuple[Event, ...] = (
        ToolCallStartEvent(parent=name, tool="t", arguments={}),
        ToolCallEvent(id=name, tool="t", took_ms=1.0),
    )
    for event in events:
        journal(stamp(event))


def rows(path: Path, where: LogFilter | None = None) -> tuple[LogRow, ...]:
    log = SqliteLog(path)
    found = log.read(where or LogFilter(), limit=100_000, is_newest_first=False)
    log.close()
    return found


@pytest.mark.parametrize("rounds", [1, 9, 25])
def test_every_effect_of_a_killed_process_is_in_its_journal(path: Path, rounds: int):
    effects = path.with_name("effects")
    child = python(CALLER, path, effects)
    assert child.stdout is not None
    for _ in range(rounds):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.communicate()

    done = {int(line) for line in effects.read_bytes().split()}
    recorded = rows(path, LogFilter(kind="call"))
    by_number = {row_data(r)["arguments"]["number"]: r for r in recorded}
    assert len(done) >= 4 * rounds
    assert done <= set(by_number)
    now = time.time()
    outcomes = {current_outcome(r, now=now) for r in recorded}
    assert outcomes <= {"ok", "unknown"}
    assert all(current_outcome(by_number[n], now=now) == "ok" for n in range(4 * rounds))


def test_a_call_that_was_running_when_its_process_was_killed_reads_as_unknown(path: Path):
    script = """
import sys
from toolscout.events import ToolCallStartEvent, stamp
from toolscout.journal.journal import Journal
from toolscout.store.sqlite_log import SqliteLog

journal = Journal(SqliteLog(sys.argv[1]))
journal(stamp(ToolCallStartEvent(parent="c1", tool="t", arguments={})))
print("started", flush=True)
sys.stdin.readline()
"""
    child = python(script, path)
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    (row,) = rows(path)
    assert current_outcome(row, now=time.time()) == "running"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert row.outcome is None
    assert current_outcome(row, now=time.time()) == "unknown"


def test_processes_that_write_at_once_lose_nothing(path: Path):
    children = [python(WRITER, path, who, 150) for who in ("left", "right")]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        child.communicate()
        assert child.returncode == 0
    found = rows(path)
    assert [r for r in found if r.kind == "gap"] == []
    for who in ("left", "right"):
        mine = [(r.id, r.outcome) for r in found if r.id.startswith(who)]
        assert mine == [(f"{who}-{n}", "ok") for n in range(150)]


def test_a_locked_file_is_a_gap_that_is_recorded_when_the_lock_is_gone(path: Path, clock: Hands):
    journal = Journal(SqliteLog(path, busy_timeout_seconds=0.01), clock=clock)
    not_found(journal, "before")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        not_found(journal, "lost")
        clock.now = 1_030.0
        not_found(journal, "lost too")
        status = journal.status
        assert (status.status, status.missed) == ("degraded", 2)
        assert "locked" in status.reason
        other.execute("ROLLBACK")
    clock.now = 1_060.0
    not_found(journal, "after")
    assert journal.status.status == "ok"
    journal.close()
    found = rows(path)
    assert [(r.kind, r.tool) for r in found] == [
        ("refusal", "before"),
        ("gap", ""),
        ("refusal", "after"),
    ]
    gap = row_data(found[1])
    assert (gap["from"], gap["to"], gap["missing"]) == (1_000.0, 1_060.0, 2)
    assert "locked" in gap["reason"]


def test_a_failing_file_is_not_tried_for_every_row(path: Path, clock: Hands):
    journal = Journal(SqliteLog(path, busy_timeout_seconds=0.05), clock=clock)
    not_found(journal, "before")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        started = time.perf_counter()
        for _ in range(2_000):  # would take 100 seconds if each waited for the lock
            not_found(journal, "lost")
        assert time.perf_counter() - started < 5
        other.execute("ROLLBACK")
    assert journal.status.missed == 2_000
    journal.close()
    assert row_data(rows(path, LogFilter(kind="gap"))[0])["missing"] == 2_000


def test_the_outcome_of_a_call_that_ended_in_a_gap_is_written_later(path: Path, clock: Hands):
    journal = Journal(SqliteLog(path, busy_timeout_seconds=0.01), clock=clock)
    journal(stamp(ToolCallStartEvent(parent="c1", tool="t", arguments={})))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        journal(stamp(ToolCallEvent(id="c1", tool="t", took_ms=1.0)))
        call(journal, "c2")
        other.execute("ROLLBACK")
    clock.now = 2_000.0
    call(journal, "c3")
    journal.close()
    calls = rows(path, LogFilter(kind="call"))
    assert [(r.id, r.outcome) for r in calls] == [("c1", "ok"), ("c2", "ok"), ("c3", "ok")]
    (gap,) = rows(path, LogFilter(kind="gap"))
    assert gap.outcome == "late"
    assert (row_data(gap)["missing"], row_data(gap)["late"]) == (0, 2)


FULL_DISK = """
import json, resource, sys
from toolscout.events import ToolCallStartEvent, ToolCallEvent, ToolNotFoundEvent, stamp
from toolscout.journal.journal import Journal
from toolscout.store.sqlite_log import SqliteLog

now = 1_000.0
journal = Journal(SqliteLog(sys.argv[1]), record="full", clock=lambda: now)

def call(id):
    journal(stamp(ToolCallStartEvent(parent=id, tool="t", arguments={"x": "y" * 20_000})))
    journal(stamp(ToolCallEvent(id=id, tool="t", took_ms=1.0)))

call("before")
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (400 * 1024, hard))
for number in range(60):
    call(f"full-{number}")
    journal(stamp(ToolNotFoundEvent(tool="refused")))
status = journal.status
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
now = 2_000.0
call("after")
print(json.dumps([status.status, status.reason, status.missed, journal.status.status]))
journal.close()
"""


def test_a_full_disk_stops_no_call_and_leaves_a_gap_and_whole_rows(path: Path):
    child = python(FULL_DISK, path)
    status, reason, missed, after = json.loads(child.communicate()[0])
    assert child.returncode == 0
    assert (status, after) == ("degraded", "ok")
    assert str(path) in reason
    assert missed > 0
    found = rows(path)
    (gap,) = [r for r in found if r.kind == "gap"]
    ids = {r.id for r in found}
    assert {"before", "full-0", "full-59", "after"} <= ids  # outcomes are kept until there is room
    assert {r.outcome for r in found if r.kind == "call"} == {"ok"}
    refused = len([r for r in found if r.tool == "refused"])
    assert row_data(gap)["missing"] == 60 - refused > 0
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that any user may enter, unlike the ones that belong to a test run."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_read_only_journal_stops_no_call_and_can_still_be_read(shared: Path):
    path = shared / "journal.db"
    journal = Journal(SqliteLog(path))
    call(journal, "c1")
    journal.close()
    with closing(sqlite3.connect(path)) as raw:  # so that no side files are needed to read it
        raw.execute("PRAGMA journal_mode = DELETE")
    path.chmod(0o444)
    # Root may write everywhere; the superuser's rights are given up where they are held.
    script = """
import json, os, sys
sys.path.insert(0, sys.argv[2])
from toolscout.events import ToolNotFoundEvent, stamp
from toolscout.journal.journal import Journal
from toolscout.store.sqlite_log import SqliteLog
if os.getuid() == 0:
    os.setuid(65534)
journal = Journal(SqliteLog(sys.argv[1]))
journal(stamp(ToolNotFoundEvent(tool="x")))
status = journal.status
print(json.dumps([status.status, status.reason, status.missed, len(journal.store.read())]))
journal.close()
"""
    child = python(script, path, SRC)
    status, reason, missed, read = json.loads(child.communicate()[0])
    assert child.returncode == 0
    assert (status, missed, read) == ("degraded", 1, 1)
    assert "read-only" in reason


@pytest.mark.parametrize("damage", ["header", "middle"])
def test_a_damaged_journal_is_renamed_and_a_new_one_says_so(path: Path, damage: str):
    journal = Journal(SqliteLog(path))
    for number in range(400):
        call(journal, f"c{number}")
    journal.close()
    data = bytearray(path.read_bytes())
    start = 0 if damage == "header" else 4096
    data[start : len(data)] = b"\xff" * (len(data) - start)
    path.write_bytes(data)

    journal = Journal(SqliteLog(path))
    call(journal, "new")
    assert journal.status.status == "ok"
    journal.close()
    gap, new = rows(path)
    assert (gap.kind, new.id, new.outcome) == ("gap", "new", "ok")
    (aside,) = [f for f in path.parent.iterdir() if re.search(r"\.damaged-[0-9-]+$", f.name)]
    assert str(aside) in row_data(gap)["reason"]
    assert aside.read_bytes()[4096:] == data[4096:]


def test_a_folder_that_cannot_be_made_degrades_the_journal_only(tmp_path: Path, clock: Hands):
    (tmp_path / "file").touch()
    journal = Journal(SqliteLog(tmp_path / "file" / "journal.db"), clock=clock)
    call(journal, "c1")
    assert journal.status.status == "degraded"
    (tmp_path / "file").unlink()
    clock.now = 2_000.0
    call(journal, "c2")
    assert journal.status.status == "ok"
    journal.close()
    found = rows(tmp_path / "file" / "journal.db")
    assert [r.id for r in found if r.kind == "call"] == ["c1", "c2"]
