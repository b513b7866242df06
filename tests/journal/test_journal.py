"""What the journal keeps of every kind of event, and what it never keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolscout import Toolbox, tool
from toolscout.config import Config
from toolscout.events import (
    ApprovalEvent,
    ApprovalNeededEvent,
    CatalogChangeEvent,
    ConfigAppliedEvent,
    DiscoveryResultEvent,
    DiscoveryStartEvent,
    Event,
    OffloadEvent,
    ToolCallEvent,
    ToolCallStartEvent,
    ToolHeldEvent,
    ToolNotFoundEvent,
    ToolRefusedEvent,
    ToolsEnabledEvent,
    UpstreamConfiguredEvent,
    UpstreamFailedEvent,
    UpstreamIdleEvent,
    UpstreamLostEvent,
    UpstreamReadyEvent,
    UpstreamRemovedEvent,
    stamp,
)
from toolscout.journal.journal import Journal, JournalStatus
from toolscout.journal.reading import current_outcome, row_data, row_values
from toolscout.journal.retention import LogLimits, prune_log
from toolscout.store.log_contract import LogFilter, LogRow
from toolscout.store.memory_log import MemoryLog
from toolscout.store.processes import current_process, is_running
from toolscout.store.sqlite_log import SqliteLog

SECRET = "hunter2-is-the-password"


@pytest.fixture
def journal() -> Iterator[Journal]:
    journal = Journal(MemoryLog())
    yield journal
    journal.close()


def emit(journal: Journal, *events: Event) -> None:
    for event in events:
        journal(stamp(event, session="talk", principal="ann", client="editor"))


def only(journal: Journal) -> LogRow:
    (row,) = journal.store.read()
    return row


START = ToolCallStartEvent(
    parent="c1", time=100.0, tool="mail__send", server="mail", arguments={"to": SECRET}
)
END = ToolCallEvent(id="c1", parent="run", tool="mail__send", server="mail", took_ms=4.5)


def test_a_call_has_a_row_before_it_runs_and_its_outcome_after(journal: Journal):
    emit(journal, START)
    row = only(journal)
    assert (row.id, row.kind, row.outcome) == ("c1", "call", None)
    assert current_outcome(row, now=row.time) == "running"
    emit(journal, END)
    row = only(journal)
    assert (row.outcome, row.took_ms, row.parent, row.time) == ("ok", 4.5, "run", 100.0)
    assert (row.session, row.principal, row.client) == ("talk", "ann", "editor")
    assert (row.tool, row.server, row.process) == ("mail__send", "mail", current_process())
    assert row_data(row) == {"shape": {"to": f"text({len(SECRET)})"}}


@pytest.mark.parametrize(
    ("code", "outcome"), [("timeout", "timeout"), ("", "error"), ("cancelled", "cancelled")]
)
def test_a_failed_call_has_its_error_code(journal: Journal, code: str, outcome: str):
    emit(journal, START, replace(END, is_error=True, code=code))
    assert only(journal).outcome == outcome


def test_a_call_whose_start_was_not_seen_is_recorded_whole(journal: Journal):
    emit(journal, replace(END, time=100.0))
    row = only(journal)
    assert (row.id, row.outcome, row.tool, row.time) == ("c1", "ok", "mail__send", 99.9955)


def test_a_search_keeps_hits_confidence_and_vector_but_no_text(journal: Journal):
    emit(
        journal,
        DiscoveryStartEvent(parent="s1", tool="tool_search", arguments={"query": SECRET}),
        DiscoveryResultEvent(
            id="s1",
            tool="tool_search",
            queries=(SECRET, "more"),
            names=("mail__send", "mail__read"),
            scores=(0.91234, 0.5),
            near=("mail__list",),
            confidence=0.8,
            vector=b"\x00\x3c",
            took_ms=3.0,
        ),
    )
    row = only(journal)
    assert (row.id, row.kind, row.outcome, row.took_ms) == ("s1", "search", "ok", 3.0)
    assert row.vector == b"\x00\x3c"
    assert row_data(row) == {
        "hits": [["mail__send", 0.9123], ["mail__read", 0.5]],
        "near": ["mail__list"],
        "confidence": 0.8,
        "queries": 2,
        "query_chars": len(SECRET) + 4,
        "shape": {"query": f"text({len(SECRET)})"},
    }


def test_a_search_without_scores_still_lists_its_hits(journal: Journal):
    emit(journal, DiscoveryResultEvent(tool="tool_search", names=("a",), is_error=True))
    row = only(journal)
    assert row.outcome == "error"
    assert row_data(row)["hits"] == [["a", None]]


def test_refusals_are_rows_with_their_code_but_not_their_reason(journal: Journal):
    emit(
        journal,
        ToolRefusedEvent(parent="c1", tool="rm", code="refused", why=f"because {SECRET}"),
        ToolRefusedEvent(parent="c2", tool="rm", arguments={"path": SECRET}),
        ToolNotFoundEvent(parent="c3", tool="nothing"),
    )
    rows = journal.store.read(is_newest_first=False)
    assert [(r.kind, r.tool, r.outcome, r.parent) for r in rows] == [
        ("refusal", "rm", "refused", "c1"),
        ("refusal", "rm", "refused", "c2"),
        ("refusal", "nothing", "unknown_tool", "c3"),
    ]
    assert row_data(rows[1])["shape"] == {"path": f"text({len(SECRET)})"}
    assert SECRET not in "".join(r.data for r in rows)


@pytest.mark.parametrize(
    "given", [{"name": "rm", "arguments": {"path": "x"}}, {"name": "rm", "path": "x"}]
)
def test_a_tool_refused_through_call_tool_has_the_shape_of_its_own_arguments(
    journal: Journal, given: dict[str, Any]
):
    emit(
        journal,
        DiscoveryStartEvent(parent="c1", tool="call_tool", arguments=given),
        ToolRefusedEvent(parent="c1", tool="rm", code="refused"),
    )
    assert row_data(only(journal))["shape"] == {"path": "text(1)"}


def test_approvals_are_rows_from_the_question_to_the_answer(journal: Journal):
    emit(
        journal,
        ApprovalNeededEvent(parent="c1", approval="a1", tool="rm", why="It deletes", expires=9.0),
        ApprovalEvent(parent="c1", tool="rm", approved=True, approval="a1"),
        ApprovalEvent(parent="c2", tool="rm", approved=False),
    )
    rows = journal.store.read(LogFilter(kind="approval"), is_newest_first=False)
    assert [r.outcome for r in rows] == ["needed", "approved", "denied"]
    assert row_data(rows[0]) == {"why": "It deletes", "approval": "a1", "expires": 9.0}


@pytest.mark.parametrize(
    ("event", "outcome", "data"),
    [
        (UpstreamConfiguredEvent(server="mail"), "configured", {}),
        (UpstreamReadyEvent(server="mail"), "ready", {}),
        (UpstreamIdleEvent(server="mail"), "idle", {}),
        (UpstreamRemovedEvent(server="mail"), "removed", {}),
        (UpstreamFailedEvent(server="mail", reason="no route"), "failed", {"reason": "no route"}),
        (UpstreamLostEvent(server="mail", reason=SECRET), "lost", {}),
        (
            ToolHeldEvent(server="mail", tool="send", standing="new"),
            "tool_held",
            {"standing": "new"},
        ),
        (
            CatalogChangeEvent(added=2, version=7),
            "catalog_changed",
            {"added": 2, "changed": 0, "removed": 0, "version": 7},
        ),
        (ConfigAppliedEvent(waiting=("store",)), "config_applied", {"waiting": ["store"]}),
    ],
)
def test_changes_of_servers_and_the_catalog_are_rows(
    journal: Journal, event: Event, outcome: str, data: dict[str, Any]
):
    journal(stamp(event))
    row = only(journal)
    assert (row.kind, row.outcome) == ("server", outcome)
    assert row.server == getattr(event, "server", "")
    assert row_data(row) == data


def test_events_that_only_detail_another_have_no_row(journal: Journal):
    emit(
        journal,
        ToolsEnabledEvent(names=("a",)),
        OffloadEvent(tool="a", before=2, after=1),
        DiscoveryStartEvent(parent="x", tool="tool_search", arguments={}),
    )
    assert journal.store.read() == ()


def all_with_secrets() -> tuple[Event, ...]:
    return (
        DiscoveryStartEvent(parent="s1", tool="tool_search", arguments={"query": SECRET}),
        DiscoveryResultEvent(id="s1", tool="tool_search", queries=(SECRET,)),
        START,
        replace(END, is_error=True, code="error"),
        ToolRefusedEvent(parent="c2", tool="rm", why=SECRET, arguments={"deep": [{"x": SECRET}]}),
        ToolNotFoundEvent(parent="c3", tool="nothing", arguments={"x": SECRET}),
        UpstreamLostEvent(server="mail", reason=SECRET),
    )


def every_byte(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))


@pytest.mark.parametrize(("record", "is_there"), [("shape", False), ("full", True)])
def test_text_of_requests_is_in_the_files_only_if_asked_for(
    tmp_path: Path, record: Any, is_there: bool
):
    journal = Journal(SqliteLog(tmp_path / "journal.db"), record=record)
    emit(journal, *all_with_secrets())
    assert (tmp_path / "journal.db-wal").stat().st_size > 0
    assert (SECRET.encode() in every_byte(tmp_path)) is is_there
    journal.close()
    assert (SECRET.encode() in every_byte(tmp_path)) is is_there


def test_a_full_record_has_arguments_and_queries(tmp_path: Path):
    journal = Journal(MemoryLog(), record="full")
    emit(journal, *all_with_secrets())
    calls = journal.store.read(LogFilter(kind="call"))
    searches = journal.store.read(LogFilter(kind="search"))
    assert row_data(calls[0])["arguments"] == {"to": SECRET}
    assert row_data(searches[0])["query_texts"] == [SECRET]
    journal.close()


def test_a_journal_that_is_off_writes_nothing_and_makes_no_file(tmp_path: Path):
    journal = Journal.open(Config.read(home=str(tmp_path), record="off"))
    emit(journal, START, END)
    assert journal.status == JournalStatus(status="off")
    journal.close()
    assert list(tmp_path.rglob("*")) == []


def test_strange_names_and_arguments_are_recorded_within_bounds(tmp_path: Path):
    journal = Journal(SqliteLog(tmp_path / "journal.db"), record="full")
    circle: dict[str, Any] = {}
    circle["in"] = circle
    deep: Any = "end"
    for _ in range(5_000):
        deep = [deep]
    for number, arguments in enumerate(
        ({"x": "y" * 200_000}, circle, {"deep": deep}, {"o": object()}, {("a", 1): 2})
    ):
        emit(
            journal,
            replace(START, parent=f"c{number}", tool="\ud800\0" + "x" * 9_000, arguments=arguments),
        )
    rows = journal.store.read(is_newest_first=False)
    assert journal.status.status == "ok"
    assert [row_data(r).get("left_out", []) for r in rows] == [
        ["arguments"],
        ["arguments"],
        ["arguments"],
        [],
        ["arguments"],
    ]
    assert {r.tool for r in rows} == {"text(9002)"}
    assert all(len(r.data) <= 64_000 for r in rows)
    journal.close()


def test_rows_beyond_the_limits_are_pruned_away_from_the_call(tmp_path: Path):
    store = SqliteLog(tmp_path / "journal.db")
    journal = Journal(store, limits=LogLimits(max_rows=50))
    for number in range(300):
        emit(journal, ToolNotFoundEvent(tool=f"t{number}"))
    journal.close()  # waits for the batch that is running
    limits = LogLimits(max_rows=50)
    store = SqliteLog(tmp_path / "journal.db")
    while prune_log(store, limits, now=0.0):
        pass
    assert store.count() == 50
    assert store.read(limit=1)[0].tool == "t299"
    store.close()


def test_rows_are_pruned_by_their_age_when_a_journal_is_opened():
    store = MemoryLog()
    for number in range(3):
        store.append(LogRow(id=str(number), time=float(number), kind="call", outcome="ok"))
    limits = LogLimits(max_age_seconds=10.0)
    assert prune_log(store, limits, now=12.0) == 2
    assert [r.id for r in store.read()] == ["2"]


def test_the_settings_bound_age_and_size(tmp_path: Path):
    config = Config.read(home=str(tmp_path), journal_days=2, journal_max_mb=1.5)
    journal = Journal.open(config, clock=lambda: 1_000_000.0)
    emit(journal, replace(START, time=999_999.0))
    assert (tmp_path / "state" / "journal.db").exists()
    journal.close()
    assert Config.read(environment={}).record == "shape"


def test_a_toolbox_with_a_journal_records_its_calls_and_searches(tmp_path: Path):
    @tool
    def ring(times: int = 1) -> str:
        """Ring the bell."""
        return "ding " * times

    journal = Journal(SqliteLog(tmp_path / "journal.db"))

    async def use() -> None:
        async with Toolbox(
            [ring], store="memory", config=Config.read(embedder="none"), sink=journal
        ) as box:
            session = await box.session("talk-1", principal="ann")
            await session.call("ring", {"times": 2})
            await session.call("ring", {"times": "never"})
            await session.call("nothing", {})

    asyncio.run(use())
    rows = journal.store.read(LogFilter(session="talk-1"), is_newest_first=False)
    assert [(r.kind, r.tool, r.outcome) for r in rows] == [
        ("call", "ring", "ok"),
        ("refusal", "ring", "invalid_arguments"),
        ("refusal", "nothing", "unknown_tool"),
    ]
    assert row_data(rows[0])["shape"] == {"times": "number"}
    journal.close()


def test_a_row_reads_as_plain_values():
    row = LogRow(id="a", time=1.0, kind="search", outcome="ok", data='{"near":[],"id":"no"}')
    values = row_values(replace(row, vector=b"\x01"), now=2.0)
    assert (values["id"], values["near"], values["vector"]) == ("a", [], "AQ==")


def test_a_process_is_distinguished_from_a_later_one_with_its_id():
    mine = current_process()
    host, pid, token = mine.rsplit(":", 2)
    assert is_running(mine) is True
    assert is_running(f"{host}:{pid}:{token}0") is False
    assert is_running(f"{host}:4194305:{token}") is False
    assert is_running(f"elsewhere:{pid}:{token}") is None
    assert is_running(f"{host}:{pid}:") is True  # where a system does not say when it started
    assert is_running(f"{host}:4194305:") is False
    assert is_running("") is None


def test_a_row_of_another_machine_counts_as_running_for_an_hour():
    row = LogRow(id="a", time=0.0, kind="call", process="elsewhere:1:2")
    assert current_outcome(row, now=3_500.0) == "running"
    assert current_outcome(row, now=3_700.0) == "unknown"
