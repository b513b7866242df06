"""Two toolboxes with one PostgreSQL database: sessions, journal and settings."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.postgres_server import shared_server

from toolscout import Toolbox, tool
from toolscout.cli.app import run
from toolscout.config import Config
from toolscout.errors import ConfigError
from toolscout.store.change_feed import MemoryFeed
from toolscout.store.factory import open_buckets, open_feed, open_log, open_store
from toolscout.store.log_contract import LogFilter, LogRow
from toolscout.store.memory import MemoryStore
from toolscout.store.memory_log import MemoryLog
from toolscout.store.polled_feed import PolledFeed
from toolscout.store.postgres import PostgresStore
from toolscout.store.postgres_log import PostgresLog
from toolscout.store.rate_limits import MemoryBuckets
from toolscout.store.shared_buckets import SharedBuckets
from toolscout.store.sqlite import SqliteStore


@tool
def ring(times: int = 1) -> str:
    """Ring the bell."""
    return "ding " * times


async def test_a_session_goes_from_one_toolbox_to_another():
    url = shared_server().new_database()
    config = Config.read(store=url, embedder="none")
    async with Toolbox([ring], config=config) as first:
        session = await first.session("ann")
        await session.load("ring")
        assert (await session.call("ring", {"times": 2})).text == "ding ding "
    async with Toolbox([ring], config=config) as second:
        assert (await second.session("ann")).state.loaded == ("ring",)
        assert (await second.health()).parts["store"].status == "ok"
    with closing(open_log(config)) as log:
        assert [(row.kind, row.tool, row.outcome) for row in log.read()][:1] == [
            ("call", "ring", "ok")
        ]


def test_the_journal_is_read_from_postgres(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    url = shared_server().new_database()
    monkeypatch.setenv("TOOLSCOUT_STORE", url)
    with Toolbox([ring], config=Config.read(embedder="none")).sync() as box:
        box.session("ann").call("ring", {})
    assert run(["journal", "tail", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0]["tool"] == "ring"
    with closing(open_log(Config.read())) as log:
        log.append(LogRow(id="a", time=1.0, kind="call", principal="ann"))
        log.append(LogRow(id="b", time=2.0, kind="call", principal="ben"))
    assert run(["journal", "erase", "--principal", "ann"]) == 0
    assert "1 rows erased" in capsys.readouterr().out
    with closing(open_log(Config.read())) as log:
        assert not log.count(LogFilter(principal="ann"))
        assert log.count(LogFilter(principal="ben")) == 1
    assert run(["audit", "verify"]) == 2
    assert "no hash chain" in capsys.readouterr().err


def test_a_hash_chain_in_postgres_is_refused():
    config = Config.read(store=shared_server().database, journal_chain=True)
    with pytest.raises(ConfigError, match="in PostgreSQL has no file, and so no hash chain"):
        open_log(config)


def test_the_settings_choose_the_parts(tmp_path: Path):
    url = shared_server().database
    memory, file = Config.read(store="memory"), Config.read(store=str(tmp_path / "my.db"))
    shared = Config.read(environment={"TOOLSCOUT_STORE": url})
    assert url not in repr(shared)
    expected = {
        memory: [MemoryStore, MemoryLog, MemoryFeed, MemoryBuckets],
        shared: [PostgresStore, PostgresLog, PolledFeed, SharedBuckets],
    }
    for config, kinds in expected.items():
        parts = [open_store(config), open_log(config), open_feed(config), open_buckets(config)]
        assert [type(part) for part in parts] == kinds
        for part in parts:
            part.close()
    with closing(open_feed(file)) as feed:
        feed.publish("t")
    assert (tmp_path / "my.changes.db").exists()
    with closing(open_store(file)) as store:
        assert isinstance(store, SqliteStore)
