"""`toolscout audit`: the journal is verified, and the first broken row is named."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolscout.config import Config
from toolscout.events import ToolCallEvent, ToolCallStartEvent, stamp
from toolscout.journal.journal import Journal


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Any) -> Path:
    monkeypatch.setenv("TOOLSCOUT_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def record(place: Path) -> Callable[..., None]:
    def calls(*names: str, **settings: Any) -> None:
        journal = Journal.open(Config.read(home=str(place), **settings))
        for name in names:
            start = ToolCallStartEvent(parent=name, tool=name, arguments={})
            journal(stamp(start, principal="ann"))
            journal(stamp(ToolCallEvent(id=name, tool=name)))
        journal.close()

    return calls


def tamper(place: Path, statement: str) -> None:
    with closing(sqlite3.connect(place / "state" / "journal.db")) as raw, raw:
        assert raw.execute(statement).rowcount


def test_an_intact_journal_exits_with_0_and_prints_its_head(shell, place, record) -> None:
    record("a", "b", journal_chain=True)
    done = shell("audit", "verify")
    assert done.code == 0
    assert "The journal is intact: 2 rows, 5 links." in done.out
    assert "Set journal_key" in done.out
    head = json.loads(shell("audit", "head").out)
    assert f"Head: {head['position']} {head['hash']}" in done.out


def test_a_changed_row_exits_with_10_and_is_named_first(shell, place, record) -> None:
    record("a", "b", "c", journal_chain=True)
    tamper(place, "UPDATE log SET principal = 'eve' WHERE id = 'b'")
    done = shell("audit", "verify")
    assert done.code == 10
    assert done.out.startswith("changed: row 2 (b). Its content is not what was recorded.")
    assert "broken" in done.out
    report = json.loads(shell("audit", "verify", "--json").out)
    assert report["intact"] is False
    assert report["problems"][0]["what"] == "changed"
    assert report["problems"][0]["id"] == "b"


def test_a_stored_head_finds_a_journal_that_was_cut_off(shell, place, record) -> None:
    record("a", "b", "c", journal_chain=True)
    head = place / "head.json"
    head.write_text(shell("audit", "head").out)
    assert shell("audit", "verify", "--since-head", str(head)).code == 0
    tamper(place, "DELETE FROM log WHERE sequence > 1")
    tamper(place, "DELETE FROM chain WHERE row > 1")
    tamper(place, "UPDATE sqlite_sequence SET seq = 1")
    assert shell("audit", "verify").code == 0
    done = shell("audit", "verify", "--since-head", str(head))
    assert done.code == 10
    assert "truncated: after link 3 of 7. The newest rows of the journal are gone." in done.out


def test_erasing_a_principal_is_recorded_and_keeps_the_chain_intact(shell, place, record) -> None:
    record("a", "b", journal_chain=True)
    done = shell("journal", "erase", "--principal", "ann")
    assert done.code == 0
    assert done.out.startswith("2 rows erased.")
    done = shell("audit", "verify")
    assert done.code == 0
    assert "2 rows were deleted by retention or erasure." in done.out


def test_with_a_key_verifying_needs_it(shell, place, record, monkeypatch) -> None:
    monkeypatch.setenv("AUDIT_KEY", "0123456789abcdef0123456789abcdef")
    record("a", journal_chain=True, journal_key="env:AUDIT_KEY")
    done = shell("audit", "verify")
    assert done.code == 2
    assert "a key that is not given here" in done.err
    monkeypatch.setenv("TOOLSCOUT_JOURNAL_KEY", "env:AUDIT_KEY")
    done = shell("audit", "verify")
    assert done.code == 0
    assert "Set journal_key" not in done.out


@pytest.mark.parametrize("text", [None, "", "{}", '{"position": 0, "hash": "x"}'])
def test_a_head_that_cannot_be_read_is_an_error(shell, place, record, text: str | None) -> None:
    record("a", journal_chain=True)
    head = place / "head.json"
    if text is not None:
        head.write_text(text)
    done = shell("audit", "verify", "--since-head", str(head))
    assert done.code == 2
    assert "cannot be read" in done.err


def test_a_journal_without_a_chain_is_not_called_intact(shell, place, record) -> None:
    record("a")
    for command in (("verify",), ("head",)):
        done = shell("audit", *command)
        assert done.code == 2
        assert "no hash chain" in done.err
        assert "journal_chain = true" in done.err


@pytest.mark.parametrize("has_key", [False, True])
def test_a_chain_whose_links_were_all_deleted_is_broken_even_after_a_restart(
    shell, place, record, monkeypatch, has_key: bool
) -> None:
    monkeypatch.setenv("AUDIT_KEY", "0123456789abcdef")
    settings = {"journal_key": "env:AUDIT_KEY"} if has_key else {}
    if has_key:
        monkeypatch.setenv("TOOLSCOUT_JOURNAL_KEY", "env:AUDIT_KEY")
    record("a", "b", journal_chain=True, **settings)
    tamper(place, "DELETE FROM chain")
    for _ in range(2):
        done = shell("audit", "verify")
        assert done.code == 10
        assert "removed: all links" in done.out
        record("c", journal_chain=True, **settings)  # a restart, which starts another chain


@pytest.mark.parametrize("table", ["chain", "log"])
def test_a_journal_whose_tables_were_dropped_is_broken(shell, place, record, table: str) -> None:
    record("a", "b", journal_chain=True)
    head = place / "head.json"
    head.write_text(shell("audit", "head").out)
    tamper(place, f"DROP TABLE {table}")
    for arguments in (("--since-head", str(head)), ()):
        done = shell("audit", "verify", *arguments)
        assert done.code == 10
        assert "The journal is not intact" in done.out
    (place / "state" / "journal.db.chain").unlink()
    assert shell("audit", "verify", "--since-head", str(head)).code == 10


def test_a_journal_that_was_deleted_is_missing_and_not_unverified(shell, place, record) -> None:
    record("a", "b", journal_chain=True)
    head = place / "head.json"
    head.write_text(shell("audit", "head").out)
    for file in (place / "state").glob("journal.db*"):
        if file.suffix != ".chain":
            file.unlink()
    for arguments in (("--since-head", str(head)), ()):
        done = shell("audit", "verify", *arguments)
        assert done.code == 10
        assert "removed: the whole journal" in done.out
    assert json.loads(shell("audit", "verify", "--json").out)["intact"] is False
    (place / "state" / "journal.db.chain").unlink()
    assert shell("audit", "verify", "--since-head", str(head)).code == 10
