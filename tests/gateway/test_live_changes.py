"""Servers that come, go, break and return while the gateway runs."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from tests.gateway.conftest import Running, Serve, small, text
from tests.gateway.test_access import ALICE, as_

from toolscout.gateway.upstream.upstreams import MAX_CONCURRENT_STARTS
from toolscout.telemetry.lines import render_event


async def run(client: Client, tool: str, **arguments: Any) -> Any:
    return await client.call_tool("call_tool", {"name": tool, "arguments": arguments})


def edit(running: Running, servers: dict[str, Any], **others: Any) -> None:
    running.path.write_text(json.dumps({"mcpServers": servers, **others}))


def statuses(running: Running) -> set[str]:
    return {s.status for s in running.gateway.upstreams.states()}


async def until(client: Client, tool: str, *, works: bool) -> None:
    """Call until it works, or until there is no such tool, or none any more."""
    gone = re.compile("no tool|not connected")
    async with asyncio.timeout(60):
        while True:
            result = await run(client, tool, text="x")
            if not result.is_error if works else gone.search(text(result)):
                return


async def test_edits_of_the_configuration_apply_without_a_restart(serve: Serve) -> None:
    async with serve({"one": small()}) as running, running.client() as client:
        await until(client, "one__echo", works=True)
        edit(running, {"one": small(), "two": small()})
        await until(client, "two__echo", works=True)
        edit(running, {"two": small()})
        await until(client, "one__echo", works=False)
        await until(client, "two__echo", works=True)
        edit(running, {"two": {**small(), "deny": ["echo"]}})
        await until(client, "two__echo", works=False)


async def test_a_call_that_runs_while_its_server_is_removed_comes_to_its_end(
    serve: Serve, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    servers = {"one": small(), "slow": small("gated", str(tmp_path))}
    async with serve(servers) as running, running.client() as client, running.client() as other:
        call = asyncio.create_task(run(client, "slow__echo", text="done"))
        async with asyncio.timeout(60):
            while not running.gateway.upstreams.states()[1].in_flight:
                await other.list_tools(cache_mode="bypass")
        edit(running, {"one": small()})
        async with asyncio.timeout(60):
            while "slow" in running.gateway.upstreams.sources:
                await other.list_tools(cache_mode="bypass")
        await asyncio.to_thread((tmp_path / "gate").write_text, "go")
        assert text(await call) == "done"
        assert (tmp_path / "calls.txt").read_text().splitlines() == ["echo"]


async def test_a_broken_edit_is_reported_and_the_old_configuration_stays(serve: Serve) -> None:
    async with serve({"one": small()}) as running, running.client() as client:
        await until(client, "one__echo", works=True)
        running.path.write_text('{"mcpServers": {')
        base = running.url.removesuffix("/mcp")
        async with asyncio.timeout(30), httpx2.AsyncClient() as http:
            while "problems" not in (health := (await http.get(f"{base}/health")).json()):
                pass
        assert "not valid JSON" in health["problems"][0]
        assert not (await run(client, "one__echo", text="x")).is_error
        edit(running, {"one": small(), "two": small()})
        await until(client, "two__echo", works=True)


@pytest.mark.parametrize(
    "table",
    [
        {"auth": "oauth"},
        {"gateway": {"audit": "~nosuchuser/a.jsonl"}},
        {"gateway": {"profile": "zzz"}, "policies": {"all": {"deny": ["*"]}}},
    ],
)
async def test_no_edit_ends_the_watching_and_none_is_taken_in_part(
    serve: Serve, table: dict[str, Any]
) -> None:
    variables = {**os.environ, "TOOLSCOUT_TOKEN": ALICE}
    async with (
        serve({"one": small()}, variables=variables) as running,
        as_(running, ALICE) as client,
    ):
        await until(client, "one__echo", works=True)
        edit(running, {"one": small()}, **table)
        async with asyncio.timeout(30):
            while not running.gateway.problem:
                await client.list_tools(cache_mode="bypass")
        assert not (await run(client, "one__echo", text="x")).is_error
        edit(running, {"one": small(), "two": small()})
        await until(client, "two__echo", works=True)


async def test_one_broken_server_takes_no_other_down(serve: Serve) -> None:
    servers = {
        "good": small(),
        "hangs": {**small("hangs"), "connect_timeout_seconds": 1},
        "exits": small("exits"),
        "garbage": small("garbage"),
        "nothing": {"command": "no-such-command"},
        "unset": {**small(), "env": {"KEY": "${NOT_SET}"}},
        "nonsense": "not an object",
    }
    async with serve(servers, variables={}) as running, running.client() as client:
        assert text(await run(client, "good__echo", text="fine")) == "fine"
        assert text(await run(client, "garbage__echo", text="fine")) == "fine"
        found = text(await client.call_tool("tool_search", {"query": "say it back"}))
        assert re.search(r"Not searched: hangs \((starting|failing)\), exits \(failing\)", found)
        states = {s.server: s for s in running.gateway.upstreams.states()}
        assert states["unset"].status == states["nonsense"].status == "misconfigured"
        assert states["exits"].status in ("failing", "starting")


async def test_a_server_that_was_broken_at_the_start_joins_once_it_is_fixed(
    serve: Serve, tmp_path: Path
) -> None:
    servers = {"good": small(), "late": small("mended", str(tmp_path))}
    async with serve(servers) as running, running.client() as client:
        found = text(await client.call_tool("tool_search", {"query": "say it back"}))
        assert "Not searched: late (failing)." in found
        (tmp_path / "mended").touch()
        async with asyncio.timeout(60):
            while "late__echo" not in found:
                found = text(await client.call_tool("tool_search", {"query": "say it back"}))
        assert text(await run(client, "late__echo", text="here")) == "here"


async def test_whatever_servers_list_the_others_work_and_each_problem_is_reported(
    serve: Serve,
) -> None:
    faults = ("many", "huge", "cyclic", "invalid", "duplicates", "hidden", "garbage")
    servers = {"good": small(), **{f: small(f) for f in faults}}
    async with serve(servers) as running, running.client() as client:
        assert text(await run(client, "good__echo", text="fine")) == "fine"
        found = text(await client.call_tool("tool_search", {"query": "select:many__tool_9999"}))
        assert "Does thing number 9999." in found
        assert text(await run(client, "many__tool_9999", text="the last")) == "the last"
        assert text(await run(client, "huge__small", text="beside it")) == "beside it"
        assert (await run(client, "huge__huge", x="y")).is_error
        assert not (await run(client, "cyclic__cyclic", node={"next": {}})).is_error
        assert text(await run(client, "invalid__good", text="good")) == "good"
        assert (await run(client, "invalid__wrong", x=1)).is_error
        assert text(await run(client, "hidden__echo", text="seen")) == "seen"
        async with httpx2.AsyncClient() as http:
            told = (await http.get(f"{running.url.removesuffix('/mcp')}/health")).json()
        assert told["servers"]["many"]["tools"] == 10_000
        assert "20,080,051 characters" in told["servers"]["huge"]["problems"][0]
        assert "listed twice" in told["servers"]["duplicates"]["problems"][0]
        problems = told["servers"]["invalid"]["problems"]
        assert [next(n for n in ("wrong", "list", "bare") if n in p) for p in sorted(problems)]
        assert len(problems) == 3


async def opened(folder: Path) -> None:
    """Let a server that waits at its gate go on."""
    await asyncio.to_thread((folder / "gate").write_text, "go")


async def configured(running: Running, server: str, client: Client) -> None:
    """Wait until an edit has been read."""
    async with asyncio.timeout(60):
        while server not in running.gateway.upstreams.sources:
            await client.list_tools(cache_mode="bypass")


async def test_a_call_waits_for_its_server_to_start(serve: Serve, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    async with (
        serve({"one": small()}) as running,
        running.client() as client,
        running.client() as other,
    ):
        edit(running, {"one": small(), "shy": small("shy", str(tmp_path)), "two": small()})
        await configured(running, "shy", other)
        calls = [asyncio.create_task(run(client, "shy__echo", text=f"{i}")) for i in range(3)]
        assert text(await run(other, "one__echo", text="meanwhile")) == "meanwhile"
        assert text(await run(other, "two__echo", text="new too")) == "new too"
        found = text(await other.call_tool("tool_search", {"query": "say it back"}))
        assert "Not searched: shy (starting)." in found
        assert not any(call.done() for call in calls)
        await opened(tmp_path)
        assert [text(await call) for call in calls] == ["0", "1", "2"]
        assert (tmp_path / "calls.txt").read_text().splitlines() == ["echo"] * 3


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("describe_tools", {"names": ["one__echo", "shy__echo"]}),
        ("tool_search", {"query": "select:shy__echo"}),
    ],
)
async def test_a_tool_asked_for_by_name_is_waited_for_while_its_server_starts(
    serve: Serve, tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    os.mkfifo(tmp_path / "gate")
    options = {"gateway": {"start_wait_seconds": 60}}
    async with serve({"one": small()}, **options) as running, running.client() as client:
        edit(running, {"one": small(), "shy": small("shy", str(tmp_path))}, **options)
        await configured(running, "shy", client)
        asked = asyncio.create_task(client.call_tool(tool, arguments))
        assert text(await run(client, "one__echo", text="meanwhile")) == "meanwhile"
        assert not asked.done()
        await opened(tmp_path)
        found = text(await asked)
        assert "shy__echo" in found
        assert "no tool" not in found.lower()
        assert "Not searched" not in found


@pytest.mark.slow
async def test_beside_twenty_thousand_tools_other_servers_are_found_and_called(
    serve: Serve, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    servers = {"one": small(), "vast": small("vast", str(tmp_path)), "two": small()}
    async with serve({"one": small()}) as running, running.client() as client:
        edit(running, servers)
        await configured(running, "vast", client)
        opening = asyncio.create_task(opened(tmp_path))
        last = asyncio.create_task(run(client, "vast__tool_19999", text="the last"))
        answers = 0
        while not last.done():
            assert text(await run(client, "two__echo", text="fine")) == "fine"
            found = text(await client.call_tool("tool_search", {"query": "say it back"}))
            assert "one__echo" in found
            assert "two__echo" in found
            answers += 1
        assert answers
        assert text(await last) == "the last"
        await opening
    # Now it is known from before, and does not come past its gate.
    async with serve(servers) as running, running.client() as client:
        found = text(await client.call_tool("tool_search", {"query": "select:vast__tool_19998"}))
        assert "Does thing number 19998." in found
        for name in ("one", "two"):
            assert text(await run(client, f"{name}__echo", text="fine")) == "fine"


async def test_pins_that_are_slow_to_read_hold_up_their_server_alone(
    serve: Serve, tmp_path: Path
) -> None:
    servers = {"one": small(), "two": small()}
    async with serve(servers) as running, running.client() as client:
        assert not (await run(client, "one__echo", text="x")).is_error
    (pins,) = (running.home / "state" / "pins").glob("one.*.json")
    kept = pins.rename(tmp_path / "kept.json")
    os.mkfifo(pins)

    def give() -> None:
        with pins.open("w") as pipe:  # opens when somebody reads it; the next reads a file
            pipe.write(kept.read_text())
            kept.replace(pins)

    brief = {"start_wait_seconds": 0.2}
    async with serve(servers, gateway=brief) as running, running.client() as client:
        await until(client, "two__echo", works=True)
        waiting = await run(client, "one__echo", text="x")
        assert "Its server one is still starting" in text(waiting)
        await asyncio.to_thread(give)
        await until(client, "one__echo", works=True)


@pytest.mark.behaviour("S25")
async def test_a_call_brings_a_dead_server_back(serve: Serve, tmp_path: Path) -> None:
    async with serve({"frail": small("dies", str(tmp_path))}) as running:
        async with running.client() as client:
            died = await run(client, "frail__echo", text="x")
            assert "may or may not have taken effect" in text(died)
            again = await run(client, "frail__echo", text="x")
            assert "may or may not have taken effect" in text(again)
        assert (tmp_path / "calls.txt").read_text().splitlines() == ["echo", "echo"]


@pytest.mark.behaviour("C43")
async def test_loaded_tools_of_a_server_that_was_away_are_there_again(serve: Serve) -> None:
    options = {"gateway": {"surface": "load"}}
    servers = {"one": small("several"), "two": small("several")}
    async with serve(servers, **options) as running, running.client("legacy") as client:
        await client.call_tool("tool_search", {"query": "select:two__tool_7"})
        loaded = [t.name for t in (await client.list_tools()).tools]
        assert "two__tool_7" in loaded
        running.path.write_text(json.dumps({"mcpServers": {"one": small("several")}, **options}))
        await until(client, "two__tool_7", works=False)
        running.path.write_text(json.dumps({"mcpServers": servers, **options}))
        await until(client, "two__tool_7", works=True)
        assert [t.name for t in (await client.list_tools()).tools] == loaded


async def test_after_a_restart_searches_are_answered_before_servers_are(
    serve: Serve, tmp_path: Path
) -> None:
    servers = {f"s{i}": small("several", str(tmp_path), str(i)) for i in range(6)}
    async with serve(servers) as running, running.client() as client:
        assert "s3" in (await client.list_tools()).model_dump_json()
    (tmp_path / "hang").touch()
    async with serve(servers) as running, running.client() as client:
        found = await client.call_tool("tool_search", {"query": "select:s3__tool_7"})
        assert "s3__tool_7" in text(found)
        assert "Not searched" not in text(found)
        assert statuses(running) <= {"idle", "starting"}


async def test_servers_known_from_before_sleep_until_the_first_answer(serve: Serve) -> None:
    servers = {f"s{i}": small("several") for i in range(4)}
    async with serve(servers) as running, running.client() as client:
        assert "s3" in (await client.list_tools()).model_dump_json()
    async with serve(servers, quiet_seconds=600) as running, running.client() as client:
        assert "s3" in (await client.list_tools()).model_dump_json()
        assert statuses(running) == {"idle"}
        async with httpx2.AsyncClient() as http:
            health = (await http.get(f"{running.url.removesuffix('/mcp')}/health")).json()
        assert health["ready"]
        assert {s["status"] for s in health["servers"].values()} == {"idle"}
        assert not (await run(client, "s3__tool_7", text="x")).is_error
        assert running.gateway.upstreams.states()[3].status == "ready"
        async with asyncio.timeout(60):
            while statuses(running) != {"ready"}:
                await client.list_tools(cache_mode="bypass")


async def test_servers_that_nobody_asks_for_come_up_by_themselves_a_few_at_a_time(
    serve: Serve,
) -> None:
    servers = {f"s{i}": small("several") for i in range(6)}
    async with serve(servers) as running, running.client() as client:
        assert "s5" in (await client.list_tools()).model_dump_json()
    async with serve(servers, quiet_seconds=0) as running, running.client() as client:
        most = 0
        async with asyncio.timeout(60):
            while statuses(running) != {"ready"}:
                states = running.gateway.upstreams.states()
                most = max(most, sum(s.status == "starting" for s in states))
                await client.list_tools(cache_mode="bypass")
        assert 0 < most <= MAX_CONCURRENT_STARTS


@pytest.mark.slow
async def test_servers_that_hang_do_not_keep_the_others_asleep(
    serve: Serve, tmp_path: Path
) -> None:
    ill = {
        f"ill{i}": small("several", str(tmp_path), str(i)) for i in range(MAX_CONCURRENT_STARTS + 1)
    }
    servers = {**ill, "well": small("several")}
    async with serve(servers) as running, running.client() as client:
        assert "well" in (await client.list_tools()).model_dump_json()
    (tmp_path / "hang").touch()
    async with serve(servers, quiet_seconds=0) as running, running.client() as client:
        async with asyncio.timeout(60):
            while running.gateway.upstreams.states()[-1].status != "ready":
                await client.list_tools(cache_mode="bypass")


@pytest.mark.behaviour("S7")
async def test_a_search_wakes_the_servers_of_what_it_found(serve: Serve) -> None:
    sleepy = {**small("several"), "idle_seconds": 0.05}
    async with serve({"one": sleepy}) as running, running.client() as client:
        async with asyncio.timeout(30):
            while running.gateway.upstreams.states()[0].status != "idle":
                await client.list_tools(cache_mode="bypass")
            while running.gateway.upstreams.states()[0].status == "idle":
                await client.call_tool("tool_search", {"query": "thing number 3"})


async def test_secrets_reach_only_their_server_and_no_text(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "hunter2-very-secret"
    servers = {
        "leaky": {**small("leaks"), "env": {"API_KEY": "${KEY}"}},
        "remote": {
            "url": "http://127.0.0.1:9/mcp?key=${KEY}",
            "headers": {"Authorization": "Bearer ${KEY}"},
        },
        "good": small(),
    }
    async with serve(servers, variables={"KEY": secret}) as running, running.client() as client:
        answers = [await run(client, f"{name}__echo", text="x") for name in servers]
        base = running.url.removesuffix("/mcp")
        async with httpx2.AsyncClient() as http:
            told = (await http.get(f"{base}/health")).text + (
                await http.get(f"{base}/metrics")
            ).text
    assert "•••" in told
    assert any(e.kind == "upstream_failed" for e in running.events)
    kept = repr(running.events) + "".join(
        p.read_text(errors="replace") for p in (running.home).rglob("*") if p.is_file()
    )
    for place in (told, caplog.text, kept, *(text(a) for a in answers)):
        assert secret not in place


async def test_ten_slow_servers_do_not_slow_a_call_to_another(serve: Serve) -> None:
    servers = {f"slow{i}": small("slow") for i in range(10)}
    async with serve({"quick": small(), **servers}) as running, running.client() as client:
        waiting = [asyncio.create_task(run(client, f"slow{i}__echo")) for i in range(10)]
        started = time.monotonic()
        assert text(await run(client, "quick__echo", text="x")) == "x"
        assert not any(task.done() for task in waiting), time.monotonic() - started
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_tool_of_a_server_that_still_starts_is_not_said_to_be_missing_for_good(
    serve: Serve,
) -> None:
    options = {"gateway": {"start_wait_seconds": 0.1}}
    async with (
        serve({"one": small(), "slow": small("hangs")}, **options) as running,
        running.client() as client,
    ):
        asked = {"name": "slow__echo", "arguments": {}}
        assert "Its server slow is still starting" in text(
            await client.call_tool("call_tool", asked)
        )
        described = {"names": ["one__echo", "slow__echo"]}
        found = text(await client.call_tool("describe_tools", described))
        assert "Its server slow is still starting" in found
        assert "one__echo" in found
        other = await client.call_tool("call_tool", {"name": "one__nothing", "arguments": {}})
        assert "still starting" not in text(other)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("call_tool", {"name": "echo", "arguments": {"text": "x"}}),
        ("describe_tools", {"names": ["echo"]}),
        ("tool_search", {"query": "select:echo"}),
        ("echo", {"text": "x"}),
    ],
)
async def test_a_bare_name_is_waited_for_while_a_server_starts_that_may_have_it(
    serve: Serve, tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    os.mkfifo(tmp_path / "gate")
    one = small("several")
    async with serve({"one": one}) as running, running.client() as client:
        edit(running, {"one": one, "shy": small("shy", str(tmp_path))})
        await configured(running, "shy", client)
        asked = asyncio.create_task(client.call_tool(tool, arguments))
        assert not (await run(client, "one__tool_1")).is_error
        assert not (await run(client, "tool_1")).is_error, "a bare name that is known waits not"
        assert not asked.done()
        await opened(tmp_path)
        answer = await asked
    assert not answer.is_error
    assert "still starting" not in text(answer)


async def test_a_bare_name_is_not_reported_as_missing_while_servers_start(serve: Serve) -> None:
    options = {"gateway": {"start_wait_seconds": 0.1}}
    servers = {"one": small("several"), "slow": small("hangs"), "late": small("hangs")}
    async with serve(servers, **options) as running, running.client() as client:
        called = await run(client, "echo")
        described = await client.call_tool("describe_tools", {"names": ["echo"]})
        lines = [render_event(event) for event in running.events]
    for answer in (called, described):
        assert answer.is_error
        assert "no tool" not in text(answer)
        assert "slow, late are still starting and may have it. Try again" in text(answer)
    assert "call echo: refused: servers that may have it are still starting" in lines
    assert any(
        line.startswith("describe_tools: failed: servers are still starting: slow, late (")
        for line in lines
    )


async def test_a_bare_name_says_nothing_of_a_starting_server_that_a_policy_hides(
    serve: Serve,
) -> None:
    options: dict[str, Any] = {
        "gateway": {"start_wait_seconds": 0.1},
        "policies": {"all": {"principals": ["*"], "servers": ["one"]}},
    }
    servers = {"one": small("several"), "slow": small("hangs")}
    async with serve(servers, **options) as running, running.client() as client:
        called = text(await run(client, "echo"))
    assert called.startswith("There is no tool 'echo'.")
    assert "slow" not in called


async def test_nobody_is_notified_of_a_starting_server_that_its_policy_hides(serve: Serve) -> None:
    options: dict[str, Any] = {
        "gateway": {"start_wait_seconds": 0.1},
        "policies": {"all": {"servers": ["one"]}},
    }
    async with (
        serve({"one": small(), "slow": small("hangs")}, **options) as running,
        running.client() as client,
    ):
        asked = {"name": "slow__echo", "arguments": {}}
        assert "starting" not in text(await client.call_tool("call_tool", asked))
