"""`toolscout journal`: rows are followed, shown and exported."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolscout.cli.app import app
from toolscout.config import Config
from toolscout.events import (
    ApprovalEvent,
    DiscoveryResultEvent,
    ToolCallEvent,
    ToolCallStartEvent,
    ToolNotFoundEvent,
    UpstreamReadyEvent,
    stamp,
)
from toolscout.journal.journal import Journal

DAY = 86_400.0
NOON = 1_790_000_000.0  # 21 September 2026


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Any) -> Path:
    monkeypatch.setenv("TOOLSCOUT_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def journal(place: Path) -> Iterator[Journal]:
    journal = Journal.open(Config.read(home=str(place), journal_days=0))
    events = (
        DiscoveryResultEvent(id="aa1", time=NOON, tool="tool_search", names=("mail__send",)),
        ToolCallStartEvent(parent="aa2", time=NOON + 1, tool="mail__send", server="mail",
                           arguments={"to": "ann"}),
        ApprovalEvent(id="aa3", parent="aa2", time=NOON + 1, tool="mail__send", approved=True),
        ToolCallEvent(id="aa2", time=NOON + 2, tool="mail__send", server="mail", took_ms=12.34),
        ToolNotFoundEvent(id="bb1", time=NOON + DAY, tool="=no\x1b[31m"),
        ToolCallStartEvent(parent="bb2", time=NOON + DAY, tool="slow", arguments={}),
    )  # fmt: skip
    for event in events:
        journal(stamp(event, session="0123456789abcdef", principal="ann"))
    journal(stamp(UpstreamReadyEvent(id="cc1", time=NOON + 2 * DAY, server="mail")))
    yield journal
    journal.close()


def ids(out: str) -> list[str]:
    return [line.split("\t")[-1] for line in out.splitlines() if not line.startswith("#")]


@pytest.mark.usefixtures("journal")
def test_tail_prints_the_newest_rows_with_the_last_at_the_end(shell) -> None:
    done = shell("journal", "tail", "-n", "3")
    assert done.code == 0
    assert ids(done.out) == ["bb1", "bb2", "cc1"]
    whole = shell("journal", "tail").out
    assert "mail__send\tok\t12.3\tann\t0123456789ab\taa2" in whole
    assert "tool_search: 1 found, best mail__send" in whole
    assert "slow\trunning" in whole
    assert "\x1b" not in whole


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--kind", "call"], ["aa2", "bb2"]),
        (["--session", "0123456789abcdef", "--kind", "search"], ["aa1"]),
        (["--session", "0123", "--kind", "search"], ["aa1"]),
        (["--session", "nobody"], []),
        (["--principal", "ann", "--outcome", "approved"], ["aa3"]),
        (["--tool", "mail__send"], ["aa2", "aa3"]),
        (["--server", "mail"], ["aa2", "cc1"]),
        (["--outcome", "running"], ["bb2"]),
        (["--outcome", "unknown"], []),
        (["--since", "2026-09-22T00:00+00:00", "--kind", "server"], ["cc1"]),
        (["--until", "2026-09-22"], ["aa1", "aa2", "aa3"]),
        (["--until", "36500d"], []),
    ],
)
def test_rows_are_chosen_by_options(shell, options: list[str], expected: list[str]) -> None:
    done = shell("journal", "tail", *options)
    assert done.code == 0
    assert ids(done.out) == expected
    exported = shell("journal", "export", *options)
    assert [json.loads(line)["id"] for line in exported.out.splitlines()] == expected


@pytest.mark.usefixtures("journal")
def test_json_rows_are_lines_with_their_data(shell) -> None:
    row = json.loads(
        shell("journal", "tail", "--json", "--kind", "call", "-n", "2").out.split("\n")[0]
    )
    assert (row["id"], row["outcome"], row["took_ms"]) == ("aa2", "ok", 12.34)
    assert row["shape"] == {"to": "text(3)"}


@pytest.mark.usefixtures("journal")
def test_show_has_a_row_and_its_parts(shell) -> None:
    plain = shell("journal", "show", "aa2")
    assert "tool: mail__send" in plain.out
    assert 'shape: {"to": "text(3)"}' in plain.out
    assert "aa3" in plain.out
    shown = json.loads(shell("journal", "show", "aa2", "--json").out)
    assert [part["id"] for part in shown["parts"]] == ["aa3"]
    assert shell("journal", "show", "cc").code == 0


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "zz"], "no row 'zz'"),
        (["show", "aa"], "Write more of the id: aa1, aa2, aa3"),
        (["tail", "--since", "yesterday"], "how long ago"),
        (["tail", "--kind", "calls"], "'calls' is not one of"),
        (["export", "-o", "no/such/folder/x.csv"], "cannot be written"),
    ],
)
def test_an_error_says_what_to_do(shell, words: list[str], said: str) -> None:
    done = shell("journal", *words)
    assert done.code == 2
    assert said in " ".join(done.err.split())


@pytest.mark.usefixtures("place")
def test_without_a_journal_nothing_is_made(shell, place: Path) -> None:
    done = shell("journal", "tail")
    assert done.code == 2
    assert "There is no journal at" in done.err
    assert list(place.iterdir()) == []


@pytest.mark.usefixtures("place")
def test_a_journal_in_memory_cannot_be_read(shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSCOUT_STORE", "memory")
    done = shell("journal", "tail")
    assert done.code == 2
    assert "Set store to sqlite" in done.err


@pytest.mark.usefixtures("journal")
def test_the_home_of_a_configuration_is_used(
    shell, place: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOOLSCOUT_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("other")))
    config = place / "gateway.toml"
    config.write_text(f'[settings]\nhome = "{place}"\n', encoding="utf-8")
    assert shell("journal", "tail").code == 2
    assert ids(shell("journal", "tail", "-n", "1", "--config", str(config)).out) == ["cc1"]


@pytest.mark.usefixtures("journal")
def test_an_export_to_a_file_is_its_owners_and_no_formula(shell, place: Path) -> None:
    file = place / "rows.csv"
    done = shell("journal", "export", "--format", "csv", "-o", str(file))
    assert done.out.startswith("6 rows written to")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))
    assert [row["id"] for row in rows] == ["aa1", "aa2", "aa3", "bb1", "bb2", "cc1"]
    assert rows[3]["tool"] == "text(8)"  # a name that is none, and would be a formula
    assert json.loads(rows[1]["data"])["shape"] == {"to": "text(3)"}


def test_an_export_of_many_rows_has_all_of_them(shell, journal: Journal) -> None:
    for number in range(2_500):
        journal(stamp(ToolNotFoundEvent(tool=f"t{number}", session="many")))
    out = shell("journal", "export", "--session", "many").out
    assert [json.loads(line)["tool"] for line in out.splitlines()] == [
        f"t{n}" for n in range(2_500)
    ]


def test_following_prints_new_rows_and_the_end_of_running_ones(
    journal: Journal, place: Path
) -> None:
    words = ("journal", "tail", "-f", "-n", "1", "--kind", "call")
    child = subprocess.Popen(
        [sys.executable, "-m", "toolscout.cli", *words],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "TOOLSCOUT_HOME": str(place)},
    )  # fmt: skip
    assert child.stdout is not None
    assert "slow\trunning" in child.stdout.readline()
    journal(stamp(ToolCallEvent(id="bb2", tool="slow", is_error=True, code="timeout")))
    assert "slow\ttimeout" in child.stdout.readline()
    journal(stamp(ToolCallEvent(id="dd1", tool="new")))
    assert "new\tok" in child.stdout.readline()
    child.send_signal(signal.SIGINT)
    child.communicate()
    assert child.returncode == 130


def test_the_commands_are_those_of_the_page() -> None:
    command = app.get_command(None, "journal")  # type: ignore[arg-type]
    assert sorted(command.commands) == ["erase", "export", "show", "tail"]  # type: ignore[union-attr]
