"""Damaged pins, a full disk, a store that is down: health and clients learn the cause."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from tests.gateway.conftest import Running, Serve, small, text

from toolscout.gateway.upstream.pin_store import PinStore
from toolscout.gateway.upstream.pins import Pin, PinLedger, ToolOffer


async def get_health(url: str) -> dict[str, Any]:
    async with httpx2.AsyncClient() as http:
        return (await http.get(f"{url.removesuffix('/mcp')}/health")).json()


def reports(health: dict[str, Any], problem: str) -> bool:
    return any(problem in each for each in health.get("problems", ()))


async def search(running: Running, query: str) -> str:
    async with running.client() as client:
        return text(await client.call_tool("tool_search", {"query": query}))


async def test_damaged_pins_degrade_health_and_clients_learn_the_cause(
    serve: Serve, tmp_path: Path
) -> None:
    folder = tmp_path / "home" / "state" / "pins"
    folder.mkdir(parents=True)
    (folder / "one.json").write_text("{")
    async with serve({"one": small(), "two": small()}) as running, running.client() as client:
        said = text(await client.call_tool("one__echo", {"text": "x"}))
        assert "The pins of 'one' are damaged" in said
        assert "still starting" not in said
        assert str(tmp_path) not in said
        found = await search(running, "say it back")
        assert "Not searched: one (The pins of 'one' are damaged" in found
        assert "starting" not in found
        health = await get_health(running.url)
        assert health["status"] == "degraded"
        assert reports(health, "pins of 'one' are damaged")


async def test_pins_that_are_damaged_later_degrade_health_until_they_are_restored(
    serve: Serve,
) -> None:
    async with serve({"one": small()}) as running, running.client() as client:
        assert text(await client.call_tool("one__echo", {"text": "x"})) == "x"
        (path,) = (running.home / "state" / "pins").glob("one*.json")
        good = path.read_text()
        path.write_text(good[: len(good) // 2])
        assert "are damaged" in text(await client.call_tool("one__echo", {"text": "x"}))
        # Nobody can call a tool of the only server.
        assert (await get_health(running.url))["status"] == "failing"
        path.write_text(good)
        assert text(await client.call_tool("one__echo", {"text": "x"})) == "x"
        assert (await get_health(running.url))["status"] == "ready"


async def test_a_state_that_this_version_does_not_know_counts_as_not_approved(
    serve: Serve,
) -> None:
    async with serve({"one": small()}) as running, running.client() as client:
        assert text(await client.call_tool("one__echo", {"text": "x"})) == "x"
        (path,) = (running.home / "state" / "pins").glob("one*.json")
        record = json.loads(path.read_text())
        record["tools"]["echo"]["standing"] = "quarantined"
        path.write_text(json.dumps(record))
        assert "held for approval" in text(await client.call_tool("one__echo", {"text": "x"}))
    # Also after the next start, where the server offers its tools again.
    async with serve({"one": small()}) as running, running.client() as client:
        assert "held for approval" in text(await client.call_tool("one__echo", {"text": "x"}))


def test_an_unknown_state_outlives_any_offer_until_it_is_approved_by_name(tmp_path: Path) -> None:
    unknown: Any = "quarantined"
    pin = Pin("echo", digest="a", offered_digest="a", standing=unknown)
    ledger = PinLedger("one", {"echo": pin}, is_known=True)
    store = PinStore.in_folder(tmp_path)
    store.save(ledger)
    again = store.ledger("one").record_offers([ToolOffer("echo", "a", {})], trusts_first=True)
    assert [held.tool for held in again.pins_on_hold] == ["echo"]
    assert again.approve().pins_on_hold  # approving all does not include it
    assert not again.approve("echo").pins_on_hold


LOOK_ALIKES = [
    *(("read", other) for other in ("READ", "re\u200bad", "read\u2060", "\uff52ead")),
    *(("read", other) for other in ("read ", " read", "read\t", "re\u2800ad", "read\u00a0")),
    *(("read", other) for other in ("re\u3164ad", "re\U0001d159ad", "rea\u3000d")),
    *(("xy", other) for other in ("x y", "x  y", "x\u00a0y")),
    *(("id", other) for other in ("\u0130d", "\u0130D", "\u0131d")),
]


@pytest.mark.parametrize(("name", "other"), LOOK_ALIKES)
async def test_names_of_one_server_that_look_the_same_are_held(
    serve: Serve, tmp_path: Path, name: str, other: str
) -> None:
    tools = [
        {"name": each, "description": f"Does {number}.", "inputSchema": {"type": "object"}}
        for number, each in enumerate((name, other, "write", "wr ite-2", "\u017c", "z"))
    ]
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "tool.json").write_text(json.dumps(tools))
    async with serve({"one": small("told", str(folder))}) as running, running.client() as client:
        assert not (await client.call_tool("one__write", {})).is_error
        assert "held for approval" in text(await client.call_tool(f"one__{name}", {}))
        pins = running.gateway.upstreams.sources["one"].ledger.pins
        assert {name for name, pin in pins.items() if not pin.is_open} == {name, other}
        note = pins[name].note
        assert "Only case, white space or hidden characters" in note
        assert all(c.isalnum() or (c.isascii() and c.isprintable()) for c in note)


@contextmanager
def process(folder: Path) -> Iterator[tuple[int, str]]:
    """A real `toolscout serve`: its process id and address."""
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"one": small()}}))
    with subprocess.Popen(
        [sys.executable, "-m", "toolscout.cli", "serve", "--config", "mcp.json", "--http", "0"],
        cwd=folder,
        env={**os.environ, "TOOLSCOUT_HOME": str(folder / "home"), "TOOLSCOUT_EMBEDDER": "none"},
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stderr is not None
        try:
            line = running.stderr.readline()
            found = re.search(rb"http://\S+/mcp", line)
            assert found, line
            yield running.pid, found[0].decode()
        finally:
            running.terminate()
            running.stderr.read()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits another process")
async def test_a_full_disk_degrades_health(tmp_path: Path) -> None:
    with process(tmp_path) as (pid, url):
        async with asyncio.timeout(60), Client(url, cache=None) as client:
            await client.call_tool("one__echo", {"text": "x"})
            assert (await get_health(url))["status"] == "ready"
            # From now on no file can grow, as on a full disk.
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            async with asyncio.timeout(30):
                while not reports(health := await get_health(url), "cannot be written to"):
                    await client.call_tool("tool_search", {"query": "echo"})
            assert health["status"] == "degraded"


async def test_a_store_that_is_down_degrades_health(serve: Serve) -> None:
    async with serve({"one": small()}) as running, running.client() as client:
        await client.call_tool("one__echo", {"text": "x"})
        assert (await get_health(running.url))["status"] == "ready"
        with sqlite3.connect(running.home / "state" / "toolscout.db") as store:
            found = store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for name in {name for (name,) in found if not name.startswith("sqlite_")}:
                store.execute(f'DROP TABLE "{name}"')
        health = await get_health(running.url)
        assert health["status"] == "degraded"
        assert reports(health, "store: ")


async def test_a_caller_with_limits_learns_that_the_store_is_down_without_hidden_names(
    serve: Serve,
) -> None:
    policies = {"some": {"servers": ["one"]}}
    servers = {"one": small(), "hidden": small()}
    async with serve(servers, policies=policies) as running, running.client() as client:
        await client.call_tool("one__echo", {"text": "x"})
        before = await get_health(running.url)
        assert (before["status"], before.get("problems")) == ("ready", None)
        with sqlite3.connect(running.home / "state" / "toolscout.db") as store:
            found = store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for name in {name for (name,) in found if not name.startswith("sqlite_")}:
                store.execute(f'DROP TABLE "{name}"')
        health = await get_health(running.url)
    assert health["status"] == "degraded"
    assert health["problems"] == [
        "The store of the gateway cannot be used: conversations are not saved."
    ]
    assert "hidden" not in str(health)
    assert str(running.home) not in str(health)
