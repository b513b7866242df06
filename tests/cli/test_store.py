"""Checking, migrating and copying stores as a user does, with real files and a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from tests.cli.conftest import Shell
from tests.store.postgres_server import shared_server

from toolscout.config import Config
from toolscout.store.chain_verification import verify_chain
from toolscout.store.contract import StoreLimits
from toolscout.store.factory import open_log, open_store
from toolscout.store.log_contract import LogRow

KEPT = StoreLimits(cap=None)


@pytest.fixture
def url() -> str:
    return shared_server().new_database()


def with_password(url: str) -> str:
    return url.replace("postgres@", "postgres:hunter2@")


def fill(store: str, *, records: int = 1_200, rows: int = 700) -> None:
    config = Config.read(store=store)
    for space in ("sessions", "pins"):
        with closing(open_store(config, space=space, limits=KEPT)) as opened:
            for number in range(records):
                opened.put(f"{space}-{number}", f"text\0\x1b {number} ü", expected=0)
            opened.put(f"{space}-7", "again", expected=1)
    with closing(open_log(config)) as log:
        for number in range(rows):
            log.append(LogRow(id=f"{number:06}", time=float(number), kind="call", tool="a\0b",
                              outcome="ok", vector=b"\0\xff", data='{"ä":1}'))  # fmt: skip
        log.prune(older_than=10.0)
        log.append(LogRow(id="open", time=9_999.0, kind="call"))


def everything(store: str) -> tuple[object, ...]:
    config = Config.read(store=store)
    found: list[object] = []
    for space in ("sessions", "pins"):
        with closing(open_store(config, space=space, limits=KEPT)) as opened:
            found.append(opened.list(limit=100_000))
    with closing(open_log(config)) as log:
        found.append(log.read(limit=100_000))
    return tuple(found)


def test_a_copy_to_postgres_and_back_has_everything(shell: Shell, tmp_path: Path, url: str):
    first, last = str(tmp_path / "first.db"), str(tmp_path / "last.db")
    fill(first)
    there = shell("store", "copy", first, with_password(url), "--json")
    assert there.code == 0, there.err
    rows = {"log": 691, "records/pins": 1_200, "records/sessions": 1_200}
    assert json.loads(there.out)["rows"] == rows
    assert "hunter2" not in there.out + there.err
    back = shell("store", "copy", url, last)
    assert back.code == 0, back.err
    assert "Copied 3,091 rows" in back.out
    assert everything(first) == everything(url) == everything(last)


def test_a_copied_store_continues_where_the_first_ended(shell: Shell, tmp_path: Path, url: str):
    first = str(tmp_path / "first.db")
    fill(first, records=5, rows=20)
    assert shell("store", "copy", first, url).code == 0
    for store in (first, url):
        with closing(open_log(Config.read(store=store))) as log:
            log.append(LogRow(id="next", time=1.0, kind="call"))
            assert replace(log.read(limit=1)[0], id="") == LogRow(
                id="", time=1.0, kind="call", sequence=22
            )


def test_a_target_with_rows_is_replaced_only_by_force(shell: Shell, tmp_path: Path, url: str):
    first, second = str(tmp_path / "first.db"), str(tmp_path / "second.db")
    fill(first, records=3, rows=20)
    fill(second, records=4, rows=20)
    assert shell("store", "copy", first, url).code == 0
    before = everything(url)
    refused = shell("store", "copy", second, url)
    assert refused.code == 2
    assert "already has" in refused.err
    assert "--force" in refused.err
    assert everything(url) == before
    assert shell("store", "copy", second, url, "--force").code == 0
    assert everything(url) == everything(second) != before


def test_a_copy_that_fails_changes_nothing(shell: Shell, tmp_path: Path, url: str):
    first = str(tmp_path / "first.db")
    fill(first, records=3, rows=20)
    assert shell("store", "copy", first, url).code == 0
    before = everything(url)
    with closing(psycopg.connect(url, autocommit=True)) as sql:
        sql.execute("ALTER TABLE toolscout_log ADD CONSTRAINT no CHECK (id <> 'open') NOT VALID")
    failed = shell("store", "copy", first, url, "--force")
    assert failed.code == 2
    assert "violates check constraint" in failed.err
    assert "9999" not in failed.err  # the values of the row, which may be private
    assert everything(url) == before


def test_a_copy_to_itself_or_from_nowhere_is_refused(shell: Shell, tmp_path: Path, url: str):
    first = tmp_path / "first.db"
    fill(str(first), records=3, rows=20)
    same = shell("store", "copy", str(first), str(tmp_path / "." / "first.db"), "--force")
    assert same.code == 2
    assert "same store" in same.err
    assert "same store" in shell("store", "copy", url, url).err
    missing = shell("store", "copy", str(tmp_path / "none.db"), url)
    assert missing.code == 2
    assert "There is no store" in missing.err
    assert not (tmp_path / "none.db").exists()
    assert "only in its process" in shell("store", "copy", "memory", url).err


def test_a_hash_chain_is_not_copied_and_not_broken(shell: Shell, tmp_path: Path, url: str):
    first, second = str(tmp_path / "first.db"), str(tmp_path / "second.db")
    for store in (first, second):
        with closing(open_log(Config.read(store=store, journal_chain=True))) as log:
            log.append(LogRow(id=store, time=1.0, kind="call"))
        fill(store, records=1, rows=0)
    copied = shell("store", "copy", first, url)
    assert copied.code == 0
    assert "hash chain of the journal is not copied" in copied.err
    refused = shell("store", "copy", url, second, "--force")
    assert refused.code == 2
    assert "a copy would break" in refused.err
    assert verify_chain(tmp_path / "second.journal.db").is_intact


@pytest.mark.slow
def test_a_copy_takes_a_fixed_amount_of_memory(tmp_path: Path, url: str):
    script = """
import resource, sys
from toolscout.cli.app import run
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert run(["store", "check", sys.argv[1]]) == 0
loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert run(sys.argv[2:]) == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - loaded)
"""
    large = str(tmp_path / "large.db")
    with closing(open_store(Config.read(store=large), limits=KEPT)) as opened:
        for number in range(10_000):  # 200 MB in all
            opened.put(str(number), f"{number}" + "x" * 20_000, expected=0)
    for source, target in ((large, url), (url, str(tmp_path / "back.db"))):
        done = subprocess.run(
            [sys.executable, "-c", script, url, "store", "copy", source, target],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert int(done.stdout.split()[-1]) < 100_000  # kB


def test_checking_says_what_is_there_and_changes_nothing(
    shell: Shell, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TOOLSCOUT_STORE", with_password(url))
    new = shell("store", "check", "--json")
    assert new.code == 0, new.err
    assert json.loads(new.out)["status"] == "new"
    with closing(psycopg.connect(url)) as sql:
        query = "SELECT count(*) FROM pg_class WHERE relname LIKE 'toolscout%'"
        assert sql.execute(query).fetchone() == (0,)
    moved = shell("store", "migrate", "--json")
    assert json.loads(moved.out) == {"before": 0, "after": 4}
    assert "Up to date: schema 4" in shell("store", "migrate").out
    fill(url, records=3, rows=20)
    shown = shell("store", "check")
    assert shown.code == 0
    assert "records/pins\t3 rows" in shown.out
    assert "log\t11 rows" in shown.out
    assert "PostgreSQL 1" in shown.out
    assert "hunter2" not in new.out + moved.out + shown.out
    file = tmp_path / "none.db"
    assert json.loads(shell("store", "check", str(file), "--json").out)["status"] == "new"
    assert not file.exists()
    fill(str(file), records=3, rows=20)
    checked = json.loads(shell("store", "check", str(file), "--json").out)
    assert (checked["status"], checked["rows"]["records/pins"]) == ("ok", 3)


def test_the_url_of_another_database_is_an_error_of_every_command(shell: Shell, tmp_path: Path):
    url, file = "mysql://ann:hunter2@host/db", str(tmp_path / "some.db")
    for command in (["check", url], ["migrate", url], ["copy", file, url], ["copy", url, file]):
        done = shell("store", *command)
        assert done.code == 2
        assert "begins with mysql:/" in done.err
        assert "hunter2" not in done.err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("damage", ["DELETE FROM toolscout_schema", "DROP TABLE toolscout_schema"])
def test_tables_without_their_version_are_an_error_and_left_alone(
    shell: Shell, url: str, damage: str
):
    fill(url, records=3, rows=20)
    with closing(psycopg.connect(url, autocommit=True)) as sql:
        sql.execute(damage.encode())
        for command in ("check", "migrate"):
            done = shell("store", command, url)
            assert done.code == 2
            assert "not their version (toolscout_schema)" in done.err
            assert "Restore all of them" in done.err
        assert sql.execute("SELECT count(*) FROM toolscout_log").fetchone() == (11,)


def test_checking_says_that_a_database_cannot_hold_every_text(shell: Shell):
    url = shared_server().new_database("ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    done = shell("store", "check", url)
    assert done.code == 2
    assert "encoding SQL_ASCII" in done.err
    assert "createdb --encoding UTF8" in done.err


def test_a_store_in_memory_has_no_keys_to_rotate(shell: Shell, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOOLSCOUT_STORE", "memory")
    done = shell("store", "rotate-keys")
    assert done.code == 2
    assert "exists only in its process" in done.err


def test_a_toml_file_names_the_store(shell: Shell, tmp_path: Path, url: str):
    config = tmp_path / "gateway.toml"
    config.write_text(f'[settings]\nstore = "{with_password(url)}"\n', encoding="utf-8")
    assert shell("store", "migrate", "--config", str(config)).code == 0
    assert json.loads(shell("store", "check", url, "--json").out)["status"] == "ok"


def test_a_store_of_a_newer_version_and_one_that_is_away_are_errors(shell: Shell, url: str):
    assert shell("store", "migrate", url).code == 0
    with closing(psycopg.connect(url, autocommit=True)) as sql:
        sql.execute("UPDATE toolscout_schema SET version = 99")
    newer = shell("store", "check", url)
    assert newer.code == 1
    assert "upgrade toolscout" in newer.out
    refused = shell("store", "migrate", url)
    assert refused.code == 2
    assert "newer version" in refused.err
    away = shell("store", "check", "postgresql://ann:hunter2@127.0.0.1:1/db", "--json")
    assert away.code == 2
    assert json.loads(away.err)["error"]["code"] == "store"
    assert "hunter2" not in away.err
