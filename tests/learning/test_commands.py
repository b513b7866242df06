"""`toolscout learn`: status, reset, export and import."""

from __future__ import annotations

import json
import sqlite3
import stat
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Shell
from tests.cli.conftest import home as home
from tests.cli.conftest import shell as shell

from .office import DESCRIPTIONS, MEANT, REQUEST, learn, open_office, rank_of, use


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell) -> Path:
    monkeypatch.setenv("TOOLSCOUT_HOME", str(tmp_path))
    monkeypatch.setenv("TOOLSCOUT_LEARNING", "on")
    return tmp_path


@pytest.fixture
def catalog(place: Path) -> str:
    """The office as a file of tools, of the same definitions."""
    path = place / "tools.jsonl"
    empty = {"type": "object", "properties": {}, "additionalProperties": False}
    rows = [{"name": n, "description": d, "parameters": empty} for n, d in DESCRIPTIONS.items()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


async def observe(place: Path, *principals: str) -> None:
    async with open_office(place) as box:
        await box.wait_until_ready()
        for number, principal in enumerate(principals):
            await use(box, MEANT, session=f"s{number}", principal=principal)


def status(shell: Shell) -> Any:
    return json.loads(shell("learn", "status", "--json").out)


def test_before_anything_is_learned_status_says_so(place: Path, shell: Shell):
    done = shell("learn", "status")
    assert done.code == 0
    assert "Nothing was learned yet" in done.out


async def test_status_names_tools_and_counts(place: Path, shell: Shell):
    await observe(place, "ann", "bob")
    known = status(shell)
    assert known["observations"] == known["principals"] == 2
    assert known["tools"] == {MEANT: 2}
    (tool,) = known["learned"]
    assert (tool["name"], tool["observations"], tool["principals"]) == (MEANT, 2, 2)
    assert tool["lift"] > 0
    assert abs(tool["last_used"] - time.time()) < 60
    done = shell("learn", "status")
    assert f"{MEANT}\t2\t2\t" in done.out
    assert "ann" not in done.out


async def test_reset_forgets_a_tool_a_principal_or_everything(place: Path, shell: Shell):
    await observe(place, "ann", "bob", "cyd")
    assert shell("learn", "reset", "--principal", "ann").code == 0
    assert status(shell)["observations"] == 2
    wrong = shell("learn", "reset", "append_entri")
    assert wrong.code != 0
    assert f"Did you mean {MEANT}?" in wrong.err
    assert json.loads(shell("learn", "reset", MEANT, "--json").out) == {"removed": 2}
    assert status(shell)["observations"] == 0
    await observe(place, "ann")
    assert shell("learn", "reset", "--all").code == 0
    assert status(shell)["tools"] == {}


async def test_a_turn_that_was_open_at_a_reset_teaches_nothing(place: Path, shell: Shell):
    await observe(place, "bob")
    async with open_office(place) as box:
        await box.wait_until_ready()
        await use(box, MEANT, session="open", principal="ann")
        assert shell("learn", "reset", "--all").code == 0
    assert status(shell)["observations"] == 0
    await observe(place, "ann")
    assert status(shell)["observations"] == 1


def test_reset_without_a_choice_forgets_nothing(place: Path, shell: Shell):
    for arguments in ([], ["a", "--all"], ["--all", "--principal", "ann"]):
        done = shell("learn", "reset", *arguments)
        assert done.code != 0
        assert "Nothing was reset" in done.err


async def test_an_export_can_be_imported_elsewhere(place: Path, shell: Shell, catalog: str):
    await observe(place, "ann", "bob")
    file = place / "learned.jsonl"
    assert shell("learn", "export", "-o", str(file)).code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert REQUEST not in file.read_text()
    assert shell("learn", "reset", "--all").code == 0
    done = shell("learn", "import", str(file), "--catalog", catalog)
    assert "Learned from 2 observations." in done.out
    again = shell("learn", "import", str(file), "--catalog", catalog, "--json")
    assert json.loads(again.out)["observations"] == 0
    assert status(shell)["tools"] == {MEANT: 2}


async def test_requests_with_their_tools_seed_what_is_learned(
    place: Path, shell: Shell, catalog: str
):
    file = place / "seed.jsonl"
    rows = [
        {"request": REQUEST, "called": [MEANT]},
        {"request": "note what I think about", "called": MEANT},
        {"request": "x", "called": ["no_such_tool"]},
        {"called": [MEANT]},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + "not json\n")
    done = shell("learn", "import", str(file), "--catalog", catalog)
    assert "Learned from 2 observations." in done.out
    assert "Line 3 was left out: there is no tool 'no_such_tool'" in done.err
    assert "Line 4" in done.err
    assert "Line 5" in done.err
    async with open_office(place, settings={"learning": "off"}) as box:
        await box.wait_until_ready()
        before = rank_of(box, MEANT)
    async with open_office(place) as box:
        await box.wait_until_ready()
        learn(box)
        assert rank_of(box, MEANT) < before


def test_requests_are_those_of_the_servers_of_the_configuration(place: Path, shell: Shell):
    server = Path(__file__).parent / "office_server.py"
    config = place / "mcp.json"
    entry = {"command": sys.executable, "args": [str(server)]}
    config.write_text(json.dumps({"mcpServers": {"office": entry}}))
    file = place / "seed.jsonl"
    file.write_text(json.dumps({"request": REQUEST, "called": [f"office__{MEANT}"]}) + "\n")
    unknown = shell("learn", "import", str(file), "--config", str(config))
    assert unknown.code != 0
    assert "No tools of" in unknown.err
    assert shell("check", "--config", str(config)).code == 0
    done = shell("learn", "import", str(file), "--config", str(config))
    assert "Learned from 1 observations." in done.out
    assert "Using the 14 tools" in done.err


def test_the_same_requests_are_imported_once(place: Path, shell: Shell, catalog: str):
    file = place / "seed.jsonl"
    rows = [
        {"request": REQUEST, "called": [MEANT, "send_email"]},
        {"request": REQUEST, "called": ["send_email", MEANT]},
        {"request": REQUEST, "called": [MEANT]},
        {"request": REQUEST, "called": [MEANT], "principal": "ann"},
        {"request": "note what I think about", "called": MEANT},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = shell("learn", "import", str(file), "--catalog", catalog, "--json")
    assert json.loads(done.out)["observations"] == 4
    again = shell("learn", "import", str(file), "--catalog", catalog, "--json")
    assert json.loads(again.out)["observations"] == 0
    assert status(shell)["observations"] == 4
    # A tool of another definition starts again.
    tools = Path(catalog).read_text().replace("Append an entry", "Write an entry")
    Path(catalog).write_text(tools)
    changed = shell("learn", "import", str(file), "--catalog", catalog, "--json")
    assert json.loads(changed.out)["observations"] == 4


async def test_status_says_one_thing_about_state_that_cannot_be_used(place: Path, shell: Shell):
    await observe(place, "ann")
    with closing(sqlite3.connect(place / "state" / "toolscout.db")) as sql, sql:
        sql.execute("UPDATE records SET text = '{' WHERE space = 'learning' AND key = 'rows:0'")
    done = shell("learn", "status")
    assert "Learned state was ignored" in done.err
    assert "Nothing of what was learned before can be used" in done.out
    assert "Nothing was learned yet" not in done.out


async def test_a_journal_seeds_what_is_learned_once(place: Path, shell: Shell, catalog: str):
    async with open_office(place, settings={"learning": "off"}) as box:
        await box.wait_until_ready()
        await use(box, MEANT, session="s")
    done = shell("learn", "import", "--journal", "--catalog", catalog)
    assert "Learned from 1 observations." in done.out
    assert status(shell)["tools"] == {MEANT: 1}
    again = shell("learn", "import", "--journal", "--catalog", catalog)
    assert "Learned from 0 observations." in again.out


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("TOOLSCOUT_STORE", "memory", "exists only in its process"),
        ("TOOLSCOUT_EMBEDDER", "none", "embedder is none"),
    ],
)
def test_where_nothing_can_be_learned_the_command_says_why(
    place: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
):
    monkeypatch.setenv(variable, value)
    done = shell("learn", "status")
    assert done.code != 0
    assert says in done.err


def test_import_needs_a_file_or_the_journal(place: Path, shell: Shell):
    assert "Nothing was imported" in shell("learn", "import").err
    missing = shell("learn", "import", "--journal", "--catalog", "example")
    assert "There is no journal" in missing.err
