"""Files of older versions are brought up to date, whole or not at all."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolscout.catalog.tool import Tool
from toolscout.disclosure.profiles import DEFAULT
from toolscout.errors import StoreError
from toolscout.store.migrations import MIGRATIONS, Migrations, migrate
from toolscout.store.sqlite import SqliteStore
from toolscout.toolbox.toolbox import Toolbox

FIRST = (Path(__file__).parent / "version_1.sql").read_text(encoding="utf-8")
NEXT: Migrations = (
    *MIGRATIONS[:1],
    ("ALTER TABLE records ADD COLUMN owner TEXT NOT NULL DEFAULT 'nobody'",),
    ("CREATE TABLE owners (name TEXT)", "INSERT INTO owners SELECT DISTINCT owner FROM records"),
)
BROKEN: Migrations = (*NEXT, ("CREATE TABLE half (x)", "INSERT INTO nowhere VALUES (1)"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file as the first version left it."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(FIRST)
    return path


@pytest.fixture
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def rows(raw: sqlite3.Connection) -> list[Any]:
    columns = "sequence, space, key, version, text, created, updated"
    return raw.execute(f"SELECT {columns} FROM records ORDER BY sequence").fetchall()


def version(raw: sqlite3.Connection) -> int:
    return raw.execute("PRAGMA user_version").fetchone()[0]


def test_a_file_of_the_first_version_opens_with_all_that_is_in_it(
    path: Path, raw: sqlite3.Connection
):
    before = rows(raw)
    assert version(raw) == 1
    sessions, pins = SqliteStore(path), SqliteStore(path, space="pins")
    kept, pin = sessions.get("user-42"), pins.get("crm")
    assert kept is not None
    assert (kept.version, kept.created) == (3, 1_790_000_000.0)
    assert json.loads(kept.text)["loaded"] == ["merge_deal", "find_note", "create_lead"]
    assert pin is not None
    assert (pin.version, pin.text) == (2, '{"hash":"żółw 2"}')
    assert rows(raw) == before
    assert version(raw) == len(MIGRATIONS)
    assert sessions.put("user-42", "{}", expected=3) is not None
    sessions.close()
    pins.close()


async def test_a_conversation_of_the_first_version_continues_with_its_tools(
    path: Path,
):
    store = SqliteStore(path)
    there = [Tool(name=f"{verb}_deal", server="crm") for verb in ("drop", "merge", "sign")]
    profile = replace(DEFAULT, surface="load", policy=replace(DEFAULT.policy, threshold=0))
    async with Toolbox(there, store=store, profile=profile) as box:
        session = await box.session("user-42")
        names = ["tool_search", "merge_deal", "find_note", "create_lead"]
        shown = session.view()
        assert [t["name"] for t in shown.tools] == names
        assert shown.tools[1]["description"] == "Merge a deal."
        assert "find_note, merge_note" in shown.instructions
        assert session.state.searches == ("select:merge_deal", "select:find_note,create_lead")
        lost = await session.call("find_note", {"id": "7"})
        assert lost.is_error
        assert "crm is not connected" in lost.text
        await session.load("sign_deal")
        assert [t["name"] for t in session.view().tools] == [*names, "sign_deal"]
    async with Toolbox(there, store=store, profile=profile) as box:
        again = (await box.session("user-42")).view()
        assert [t["name"] for t in again.tools] == [*names, "sign_deal"]
    store.close()


def test_an_older_file_takes_every_step_it_lacks_and_loses_nothing(raw: sqlite3.Connection):
    before = rows(raw)
    migrate(raw, NEXT)
    assert version(raw) == 3
    assert rows(raw) == before
    assert raw.execute("SELECT name FROM owners").fetchall() == [("nobody",)]
    migrate(raw, NEXT)
    assert raw.execute("SELECT count(*) FROM owners").fetchone() == (1,)


def test_a_step_that_fails_leaves_the_file_as_it_was(raw: sqlite3.Connection):
    before, tables = rows(raw), raw.execute("SELECT * FROM sqlite_master").fetchall()
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(raw, BROKEN)
    assert version(raw) == 1
    assert rows(raw) == before
    assert raw.execute("SELECT * FROM sqlite_master").fetchall() == tables
    migrate(raw, NEXT)
    assert version(raw) == 3


def test_a_new_file_goes_through_the_same_steps(tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as raw:
        migrate(raw, NEXT)
        assert version(raw) == 3
        assert rows(raw) == []


def test_many_that_open_an_older_file_at_once_migrate_it_once(path: Path):
    def open_it(_: int) -> int:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as raw:
            migrate(raw, NEXT)
            return raw.execute("SELECT count(*) FROM owners").fetchone()[0]

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(open_it, range(8))] == [1] * 8


def test_a_file_of_a_later_version_is_refused_by_an_older_one(raw: sqlite3.Connection):
    migrate(raw, NEXT)
    with pytest.raises(StoreError, match=r"newer version .schema 3; this version knows 1"):
        migrate(raw, NEXT[:1])
    assert version(raw) == 3
