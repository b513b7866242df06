"""The audit file as a view of the journal: one line a call, whatever happens to the process."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolscout.events import (
    ApprovalEvent,
    DiscoveryResultEvent,
    DiscoveryStartEvent,
    Event,
    ToolCallEvent,
    ToolCallStartEvent,
    ToolNotFoundEvent,
    ToolRefusedEvent,
    combine_sinks,
    stamp,
)
from toolscout.gateway.operations.audit import AuditFile
from toolscout.journal.journal import Journal
from toolscout.store.log_contract import LogFilter
from toolscout.store.sqlite_log import SqliteLog

SRC = str(Path(__file__).parents[2] / "src")

CALLER = """
import sys
from pathlib import Path
from toolscout.events import ToolCallEvent, ToolCallStartEvent, combine_sinks, stamp
from toolscout.gateway.operations.audit import AuditFile
from toolscout.journal.journal import Journal
from toolscout.store.sqlite_log import SqliteLog

journal = Journal(SqliteLog(sys.argv[1]), audit_file=sys.argv[2])
sink = combine_sinks(journal, AuditFile(Path(sys.argv[2])))
for number in range(1_000_000):
    for name in ("a", "b"):  # two at a time, so that one is always running
        start = ToolCallStartEvent(parent=f"{name}{number}", tool="act", arguments={"n": number})
        sink(stamp(start, session="talk"))
    for name in ("a", "b"):
        sink(stamp(ToolCallEvent(id=f"{name}{number}", tool="act", took_ms=1.0), session="talk"))
    print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "audit.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(sink: Any, *events: Event) -> None:
    for event in events:
        sink(stamp(event, session="92ba1bcce8d1f00dfeed", principal="ann", client="editor"))


START = ToolCallStartEvent(
    parent="c1", time=1_794_789_156.5, tool="time__now", server="time", arguments={"zone": "Europe"}
)
END = ToolCallEvent(id="c1", tool="time__now", server="time", took_ms=38.26)


def test_a_call_is_one_line_as_the_page_documents_it(path: Path):
    write(AuditFile(path), START, ApprovalEvent(parent="c1", tool="time__now", approved=True), END)
    text = path.read_text(encoding="utf-8")
    assert text == (
        '{"time":1794789156.538,"principal":"ann","session":"92ba1bcce8d1","tool":"time__now",'
        '"server":"time","arguments":{"zone":"text(6)"},"outcome":"ok","took_ms":38.3}\n'
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_searches_and_refusals_have_their_lines_too(path: Path):
    write(
        AuditFile(path),
        DiscoveryStartEvent(parent="s1", tool="tool_search", arguments={"query": "the time"}),
        DiscoveryResultEvent(id="s1", tool="tool_search", took_ms=1.0),
        DiscoveryStartEvent(
            parent="c2", tool="call_tool", arguments={"name": "rm", "arguments": {"path": "/"}}
        ),
        ToolRefusedEvent(parent="c2", tool="rm", code="refused", why="No."),
        ToolNotFoundEvent(parent="c3", tool="nothing", arguments={"x": 1}),
    )
    assert [(r["tool"], r["arguments"], r["outcome"]) for r in lines(path)] == [
        ("tool_search", {"query": "text(8)"}, "ok"),
        ("rm", {"path": "text(1)"}, "refused"),
        ("nothing", {"x": "number"}, "unknown_tool"),
    ]


def test_a_caller_without_a_name_is_anonymous(path: Path):
    AuditFile(path)(stamp(ToolNotFoundEvent(tool="x")))
    assert lines(path)[0]["principal"] == "anonymous"


def test_without_a_path_nothing_is_written(tmp_path: Path):
    audit = AuditFile(None)
    write(audit, START, END)
    audit.write(tool="x")
    assert audit.recover(SqliteLog(tmp_path / "journal.db")) == 0
    assert list(tmp_path.iterdir()) == []


def test_half_a_line_never_swallows_the_next(path: Path):
    audit = AuditFile(path)
    write(audit, START, END)
    with path.open("ab") as file:
        file.write(b'{"time":1794789157.1,"principal":"a')
    write(audit, START, END)
    whole, torn, next_line = path.read_text(encoding="utf-8").splitlines()
    assert torn == '{"time":1794789157.1,"principal":"a'
    assert json.loads(next_line) == json.loads(whole)


def test_a_disk_that_fills_up_in_the_middle_of_a_line_costs_only_that_line(path: Path):
    script = """
import resource, sys
from pathlib import Path
from toolscout.gateway.operations.audit import AuditFile

audit = AuditFile(Path(sys.argv[1]))
audit.write(tool="before")
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (60, hard))
audit.write(tool="torn")
audit.write(tool="lost")
print(audit.is_failing)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
audit.write(tool="after")
print(audit.is_failing)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": SRC},
    )  # fmt: skip
    assert done.stdout.split() == ["True", "False"]
    before, _, after = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(before)["tool"] == "before"
    assert json.loads(after)["tool"] == "after"


def killed(journal: Path, audit: Path, rounds: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CALLER, str(journal), str(audit)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": SRC},
    )  # fmt: skip
    assert child.stdout is not None
    for _ in range(rounds):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.communicate()


@pytest.mark.parametrize("rounds", [1, 12, 70])
def test_every_call_of_a_killed_process_gets_exactly_one_line(
    tmp_path: Path, path: Path, rounds: int
):
    journal = tmp_path / "journal.db"
    killed(journal, path, rounds)
    log = SqliteLog(journal)
    started = log.count(LogFilter(kind="call"))
    unknown = log.count(LogFilter(is_open=True))
    audit = AuditFile(path)
    added = audit.recover(log)
    assert unknown <= added <= unknown + 1  # and the line of the last call that ended
    rows = [row for row in lines(path) if "tool" in row]
    assert len(rows) == started
    assert [row["outcome"] for row in rows].count("unknown") == unknown
    assert log.count(LogFilter(outcome="unknown")) == unknown
    assert audit.recover(log) == 0
    path.rename(path.with_suffix(".1"))  # as log rotation does
    assert AuditFile(path).recover(log) == 0
    log.close()


def test_a_call_that_ended_just_before_its_line_was_written_gets_it_later(
    tmp_path: Path, path: Path
):
    script = """
import sys
from pathlib import Path
from toolscout.events import ToolNotFoundEvent, stamp
from toolscout.gateway.operations.audit import AuditFile
from toolscout.journal.journal import Journal
from toolscout.store.sqlite_log import SqliteLog

journal = Journal(SqliteLog(sys.argv[1]), audit_file=sys.argv[2])
rotated, first, lost = (stamp(ToolNotFoundEvent(tool=name, time=time)) for name, time in
                        (("rotated", 1_000.0), ("first", 2_000.0), ("lost", 3_000.0)))
journal(rotated), journal(first), journal(lost)
AuditFile(Path(sys.argv[2]))(first)
journal.close()
"""
    journal = tmp_path / "journal.db"
    subprocess.run(
        [sys.executable, "-c", script, str(journal), str(path)],
        check=True, env={**os.environ, "PYTHONPATH": SRC},
    )  # fmt: skip
    log = SqliteLog(journal)
    assert AuditFile(path).recover(log) == 1
    assert [row["tool"] for row in lines(path)] == ["first", "lost"]
    assert AuditFile(path).recover(log) == 0
    log.close()


def test_running_calls_and_calls_of_others_get_no_line(tmp_path: Path, path: Path):
    log = SqliteLog(tmp_path / "journal.db")
    own = Journal(log, audit_file=str(path))
    write(own, START)
    audit = AuditFile(path)
    assert audit.recover(log) == 0  # it is running
    killed(tmp_path / "journal.db", tmp_path / "another.jsonl", 1)
    assert audit.recover(log) == 0  # another file has their lines
    assert not path.exists()
    own.close()


def test_a_journal_and_its_audit_file_have_the_same_line_of_a_call(tmp_path: Path, path: Path):
    log = SqliteLog(tmp_path / "journal.db")
    journal = Journal(log, record="full", audit_file=str(path))
    write(combine_sinks(journal, AuditFile(path)), START, END)
    assert AuditFile(path).recover(log) == 0
    assert len(lines(path)) == 1
    journal.close()


def test_a_journal_that_cannot_be_read_does_not_stop_the_gateway(tmp_path: Path, path: Path):
    (tmp_path / "journal.db").write_bytes(b"not a database at all, but long enough " * 40)
    assert AuditFile(path).recover(SqliteLog(tmp_path / "journal.db")) == 0
