"""PostgreSQL servers that freeze, die, refuse or are newer: clear errors, and no lost writes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from tests.store.postgres_server import Server, shared_server

from toolscout.config import Config
from toolscout.errors import ConfigError, StoreError
from toolscout.store.contract import StoreLimits
from toolscout.store.log_contract import LogFilter, LogRow
from toolscout.store.migrations import Migrations
from toolscout.store.postgres import PostgresStore
from toolscout.store.postgres_connection import open_connection
from toolscout.store.postgres_files import PostgresFiles
from toolscout.store.postgres_locks import PostgresLocks
from toolscout.store.postgres_log import INSERT, PostgresLog, row_values
from toolscout.store.postgres_migrations import MIGRATIONS, migrate_postgres, read_version
from toolscout.store.postgres_url import describe_url
from toolscout.store.store_info import inspect_store

SRC = str(Path(__file__).parents[2] / "src")
MAX_SECONDS = 3.0
BACK_SECONDS = 10.0
PAUSE_SECONDS = 0.3
Value = TypeVar("Value")

ADDER = """
import json, sys
from toolscout.store.postgres import PostgresStore

print("ready", flush=True)
sys.stdin.readline()
store = PostgresStore(sys.argv[1])
for number in range(int(sys.argv[3])):
    while True:
        old = store.get("s")
        names, version = (json.loads(old.text), old.version) if old else ([], 0)
        if store.put("s", json.dumps([*names, f"{sys.argv[2]}-{number}"]), expected=version):
            break
store.close()
"""

WITHOUT_DRIVER = """
import sys
sys.modules["psycopg"] = None
from toolscout.config import Config
from toolscout.errors import MissingExtraError
from toolscout.store.factory import open_store
try:
    open_store(Config.read(store="postgresql://ann:secret@localhost/db"))
except MissingExtraError as error:
    print(error)
"""


def python(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": SRC},
    )  # fmt: skip


@pytest.fixture
def url() -> str:
    return shared_server().new_database()


@pytest.fixture(scope="module")
def fragile() -> Iterator[Server]:
    """A server of its own for tests that stop it."""
    server = Server().start()
    yield server
    server.stop()


@pytest.fixture
def store(fragile: Server) -> Iterator[PostgresStore]:
    with closing(PostgresStore(fragile.new_database())) as store:
        store.put("s", "kept", expected=0)
        yield store


def failure(act: Callable[[], object]) -> tuple[str, float]:
    """The text of the error that an action raises, and how long that took."""
    started = time.monotonic()
    with pytest.raises(StoreError) as caught:
        act()
    return str(caught.value), time.monotonic() - started


def when_back(act: Callable[[], Value]) -> Value:
    """The answer of the first attempt that works."""
    deadline = time.monotonic() + BACK_SECONDS
    while True:
        try:
            return act()
        except StoreError:
            if time.monotonic() > deadline:
                raise


def text_of(store: PostgresStore, key: str) -> str | None:
    record = store.get(key)
    return record.text if record else None


def test_a_frozen_server_is_an_error_within_three_seconds_and_is_used_again(
    fragile: Server, store: PostgresStore
):
    fragile.freeze()
    try:
        attempts = [
            failure(lambda: store.get("s")),
            failure(lambda: store.put("s", "new", expected=1)),
            failure(lambda: store.list()),
        ]
    finally:
        fragile.thaw()
    assert all("did not answer within 2.5 s" in text for text, _ in attempts)
    assert max(seconds for _, seconds in attempts) < MAX_SECONDS
    assert when_back(lambda: text_of(store, "s")) == "kept"
    assert store.put("s", "new", expected=1) is not None


def test_a_frozen_server_holds_up_no_row_of_threads(fragile: Server, store: PostgresStore):
    fragile.freeze()
    try:
        failure(lambda: store.get("s"))
        failure(lambda: store.get("s"))
        started = time.monotonic()
        with ThreadPoolExecutor(32) as pool:
            took = [seconds for _, seconds in pool.map(failure, [lambda: store.get("s")] * 100)]
        total = time.monotonic() - started
    finally:
        fragile.thaw()
    assert max(took) < MAX_SECONDS
    assert total < 2 * MAX_SECONDS
    assert when_back(lambda: text_of(store, "s")) == "kept"


def test_of_all_that_use_a_frozen_server_only_the_first_waits(
    fragile: Server, store: PostgresStore
):
    url = fragile.new_database()
    with (
        closing(PostgresStore(url)) as store,
        closing(PostgresLog(url)) as log,
        closing(PostgresLocks(url)) as locks,
    ):
        store.put("s", "kept", expected=0)
        uses: list[Callable[[], object]] = [
            lambda: store.get("s"),
            lambda: store.put("s", "new", expected=1),
            lambda: log.append(LogRow(id="call", time=1.0, kind="call")),
            log.count,
            lambda: locks.hold("name").__enter__(),
        ]
        fragile.freeze()
        try:
            # On a connection that has just worked: only an answer that is missing shows the fault.
            _, waited = failure(uses[0])
            until = time.monotonic() + 2 * MAX_SECONDS
            took = [0.0]
            while time.monotonic() < until:
                took += [failure(use)[1] for use in uses]
                time.sleep(PAUSE_SECONDS)
        finally:
            fragile.thaw()
        assert waited < MAX_SECONDS
        assert max(took) < 0.5
        assert when_back(lambda: text_of(store, "s")) == "kept"


@pytest.mark.parametrize("name", ["lock", "count"])
def test_a_use_with_much_time_notices_a_frozen_server_as_soon(
    fragile: Server, store: PostgresStore, name: str
):
    url = fragile.new_database()
    with closing(PostgresLog(url)) as log, closing(PostgresLocks(url)) as locks:
        log.count()
        fragile.freeze()
        try:
            text, seconds = failure(log.count if name == "count" else locks.hold("x").__enter__)
        finally:
            fragile.thaw()
    assert "did not answer within 2.5 s" in text
    assert seconds < MAX_SECONDS


def test_a_use_that_takes_too_long_does_not_stop_the_others(url: str):
    with closing(PostgresStore(url)) as store, closing(psycopg.connect(url)) as other:
        store.put("s", "kept", expected=0)
        store.put("t", "kept", expected=0)
        other.execute("SELECT FROM toolscout_records WHERE key = 's' FOR UPDATE")
        failure(lambda: store.put("s", "new", expected=1))
        assert text_of(store, "s") == "kept"
        assert store.put("t", "new", expected=1) is not None


def test_a_large_write_to_a_frozen_server_ends_too(fragile: Server, store: PostgresStore):
    large = "x" * 30_000_000  # more than the sockets can buffer
    fragile.freeze()
    try:
        text, seconds = failure(lambda: store.put("s", large, expected=1))
    finally:
        fragile.thaw()
    assert "did not answer" in text
    assert seconds < MAX_SECONDS
    assert when_back(lambda: text_of(store, "s")) == "kept"


def test_a_killed_server_keeps_every_acknowledged_write_and_is_used_again(
    fragile: Server, store: PostgresStore
):
    log = PostgresLog(fragile.new_database())
    with ThreadPoolExecutor(4) as pool:  # so that several connections are open
        list(pool.map(lambda n: store.put(f"k{n}", str(n), expected=0), range(200)))
    log.append(LogRow(id="call", time=1.0, kind="call"))
    fragile.kill()
    text, seconds = failure(lambda: store.get("s"))
    assert "cannot be reached" in text
    assert seconds < MAX_SECONDS
    fragile.start()
    # Dead connections are replaced, not each reported to somebody.
    assert [text_of(store, f"k{n}") for n in range(200)] == [str(n) for n in range(200)]
    assert [row.outcome for row in log.read(LogFilter(is_open=True))] == [None]
    log.close()


def test_a_server_that_is_not_there_can_be_named_and_appears_later(fragile: Server):
    url = fragile.new_database()
    fragile.kill()
    with closing(PostgresStore(url)) as store:
        text, seconds = failure(lambda: store.get("s"))
        assert "cannot be reached" in text
        assert seconds < MAX_SECONDS
        fragile.start()
        assert store.get("s") is None


def test_a_host_that_never_answers_is_an_error_within_three_seconds():
    # A socket whose queue of connections is full drops further ones, as a firewall does.

    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        host = f"127.0.0.1:{full.getsockname()[1]}"
        with closing(PostgresStore(f"postgresql://ann@{host},{host}/db")) as store:
            text, seconds = failure(lambda: store.get("s"))
    assert "did not answer" in text
    assert seconds < MAX_SECONDS


def test_eight_processes_that_start_on_an_empty_database_create_it_once(url: str):
    children = [python(ADDER, url, who, 3) for who in "abcdefgh"]
    for child in children:  # all are ready before one begins
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        child.communicate(timeout=60)
    assert [child.returncode for child in children] == [0] * 8
    with closing(PostgresStore(url)) as store:
        kept = store.get("s")
    assert kept is not None
    assert kept.version == 24
    assert sorted(json.loads(kept.text)) == sorted(f"{w}-{n}" for w in "abcdefgh" for n in range(3))
    with closing(psycopg.connect(url)) as sql:
        assert sql.execute("SELECT version FROM toolscout_schema").fetchall() == [(NOW,)]


NEXT: Migrations = (
    *MIGRATIONS,
    ("ALTER TABLE toolscout_records ADD COLUMN owner text NOT NULL DEFAULT 'nobody'",),
    ("CREATE TABLE owners AS SELECT DISTINCT owner FROM toolscout_records",),
)
NOW, LATER = len(MIGRATIONS), len(NEXT)
BROKEN: Migrations = (*NEXT, ("CREATE TABLE half ()", "INSERT INTO nowhere VALUES (1)"))


@pytest.fixture
def used(url: str) -> str:
    """A database with a record in it."""
    with closing(PostgresStore(url)) as store:
        store.put("s", "kept", expected=0)
    return url


def test_an_older_database_takes_every_step_it_lacks_and_loses_nothing(used: str):
    with closing(open_connection(used)) as sql:
        assert migrate_postgres(sql, NEXT) == (NOW, LATER)
        assert migrate_postgres(sql, NEXT) == (LATER, LATER)
        assert sql.execute("SELECT * FROM owners").fetchall() == [("nobody",)]
        assert sql.execute("SELECT key, text FROM toolscout_records").fetchall() == [("s", "kept")]


def test_a_database_of_the_first_version_is_checked_unchanged_and_then_migrated(url: str):
    with closing(open_connection(url)) as sql:
        assert migrate_postgres(sql, MIGRATIONS[:1]) == (0, 1)
        sql.execute("INSERT INTO toolscout_records VALUES (1, 'sessions', 's', 1, 'kept', 1, 1)")
    info = inspect_store(Config.read(store=url))
    assert (info.status, info.schema, info.rows) == ("older", 1, {"records/sessions": 1})
    with closing(PostgresFiles(url)) as files, closing(PostgresStore(url)) as store:
        assert [*files.entries()] == []
        kept = store.get("s")
        assert kept is not None
        assert kept.text == "kept"


def test_many_that_open_an_older_database_at_once_migrate_it_once(used: str):
    def open_it(_: int) -> int:
        with closing(open_connection(used)) as sql:
            return migrate_postgres(sql, NEXT)[1]

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(open_it, range(8))] == [LATER] * 8


def test_a_step_that_fails_leaves_the_database_unchanged(used: str):
    with closing(open_connection(used)) as sql:
        with pytest.raises(psycopg.errors.UndefinedTable, match="nowhere"):
            migrate_postgres(sql, BROKEN)
        assert read_version(sql) == NOW
        assert sql.execute("SELECT to_regclass('half'), to_regclass('owners')").fetchall() == [
            (None, None)
        ]
        assert migrate_postgres(sql, NEXT) == (NOW, LATER)


def test_a_database_of_a_newer_version_is_refused_and_left_alone(used: str):
    with closing(open_connection(used)) as sql:
        migrate_postgres(sql, NEXT)
    with (
        closing(PostgresStore(used)) as store,
        pytest.raises(
            StoreError, match=rf"newer version .schema {LATER}; .* knows {NOW}.* Upgrade"
        ),
    ):
        store.put("s", "mine", expected=1)
    with closing(open_connection(used)) as sql:
        assert read_version(sql) == LATER
        assert sql.execute("SELECT text FROM toolscout_records").fetchall() == [("kept",)]


def test_a_database_that_cannot_hold_every_text_is_refused():
    url = shared_server().new_database("ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    with closing(PostgresStore(url)) as store:
        text, _ = failure(lambda: store.get("s"))
    assert "encoding SQL_ASCII" in text
    assert "createdb --encoding UTF8" in text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda url: url.rpartition("/")[0] + "/nowhere", "has no such database"),
        (lambda url: url.replace("postgres@", "nobody:secret@"), "refused the login"),
        (lambda url: f"{url}?options=-cdefault_transaction_read_only%3Don", "is read-only"),
        (lambda url: url.replace("127.0.0.1:", "127.0.0.1:1"), None),
    ],
)
def test_a_database_that_refuses_says_why_and_never_prints_the_password(
    url: str, change: Callable[[str], str], expected: str | None
):
    changed = change(url)
    if expected is None:  # a port that is not one
        with pytest.raises(StoreError) as caught, closing(PostgresStore(changed)) as store:
            store.get("s")
        text = str(caught.value)
    else:
        with closing(PostgresStore(changed)) as store:
            text, _ = failure(lambda: store.get("s"))
        assert expected in text
    assert "secret" not in text


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:se%cret@host/db",
        "postgresql://ann:secret",
        "postgresql://ann:secret@host:secret/db",
        "postgresql://ann:se/cret@host/db",
        "postgresql://ann@host/db?password=se%cret",
        "postgresql://ann@host/db?passwort=secret",
    ],
)
def test_a_url_that_cannot_be_read_is_an_error_without_its_password(url: str):
    with pytest.raises(ConfigError, match=r"not a valid PostgreSQL URL") as caught:
        PostgresStore(url)
    assert "cret" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://ann:secret@host:5432/db?sslmode=require", "postgresql://ann@host:5432/db"),
        ("postgres://ann:se@cret@a:1,b:2/db", "postgresql://ann@a:1,b:2/db"),
        ("postgresql://ann:se?cret@host/db", "postgresql://ann@host/db"),
        ("postgresql://ann:se/cret@host/db", "postgresql://ann@host/db"),
        ("postgresql://host/db?user=ann&password=secret", "postgresql://host/db"),
        ("postgresql:///db", "postgresql:///db"),
        ("postgresql://ann:secret/db", "postgresql://ann:***/db"),
    ],
)
def test_a_url_is_printed_without_password_and_parameters(url: str, expected: str):
    assert describe_url(url) == expected


def test_a_missing_driver_names_the_pip_command():
    output = python(WITHOUT_DRIVER).communicate()[0]
    assert "pip install 'toolscout[postgres]'" in output


def test_stores_of_one_process_share_their_connections_until_the_last_is_closed(url: str):
    first, second = PostgresStore(url), PostgresStore(url, space="pins")
    first.put("s", "x", expected=0)
    second.put("s", "y", expected=0)
    first.close()
    first.close()
    assert text_of(second, "s") == "y"
    with closing(psycopg.connect(url, autocommit=True)) as sql:
        count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'toolscout'"
        count += " AND datname = current_database()"
        assert sql.execute(count.encode()).fetchone() == (1,)
        second.close()
        gone = time.monotonic() + BACK_SECONDS
        while sql.execute(count.encode()).fetchone() != (0,):
            assert time.monotonic() < gone


def test_the_cap_holds_when_many_insert_at_once(url: str):
    with closing(PostgresStore(url, limits=StoreLimits(cap=50))) as store:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: store.put(f"k{n}", "x", expected=0), range(400)))
        assert 50 <= len(store.list(limit=1_000)) <= 58
        store.put("last", "x", expected=0)
        assert len(store.list(limit=1_000)) == 50


def test_a_reader_that_pages_forward_never_passes_a_row_that_is_being_appended(url: str):
    log = PostgresLog(url)
    log.append(LogRow(id="first", time=1.0, kind="call"))
    total = 600
    with ThreadPoolExecutor(7) as pool:
        writes = [
            pool.submit(log.append, LogRow(id=f"{n:04}", time=2.0, kind="call"))
            for n in range(total)
        ]
        seen: list[str] = []
        last = 1
        while len(seen) < total:
            is_done = all(write.done() for write in writes)
            rows = log.read(LogFilter(after=last), limit=1_000, is_newest_first=False)
            seen += [row.id for row in rows]
            last = rows[-1].sequence if rows else last
            if is_done and not rows:
                break
    assert sorted(seen) == [f"{n:04}" for n in range(total)]
    log.close()


def test_a_reader_that_pages_forward_waits_for_a_row_that_is_not_yet_committed(url: str):
    log = PostgresLog(url)
    log.append(LogRow(id="first", time=1.0, kind="call"))
    with closing(psycopg.connect(url)) as slow, ThreadPoolExecutor(1) as pool:
        slow.execute(INSERT.encode(), row_values(LogRow(id="slow", time=2.0, kind="call")))
        log.append(LogRow(id="fast", time=3.0, kind="call"))
        assert [row.id for row in log.read()] == ["fast", "first"]  # newest first does not wait
        reader = pool.submit(log.read, LogFilter(after=1), is_newest_first=False)
        query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        deadline = time.monotonic() + BACK_SECONDS
        while not reader.done() and slow.execute(query.encode()).fetchone() != (1,):
            assert time.monotonic() < deadline
        slow.commit()
        assert [row.id for row in reader.result()] == ["slow", "fast"]
    log.close()
