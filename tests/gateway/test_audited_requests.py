"""Reads without a tool, and requests over a limit, leave a line in the audit log."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import MCPError
from tests.gateway.conftest import SMALL, Running, Serve
from tests.gateway.test_limits import HEADERS, TOKEN, initialize, logged_in
from tests.gateway.test_passthrough import watch

from toolscout.events import Event, RequestRefusedEvent
from toolscout.gateway.limits.refused_requests import RefusalLog
from toolscout.store.log_contract import LogFilter, LogRow

UPSTREAM = str(Path(__file__).parent / "conformance" / "upstream.py")
ALL: dict[str, Any] = {"command": sys.executable, "args": [UPSTREAM], "prefix": False}
MODES = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


def audit(running: Running) -> list[dict[str, Any]]:
    text = (running.home / "state" / "audit.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def rows(running: Running, kind: str) -> list[LogRow]:
    found = running.gateway.operations.journal.store.read(LogFilter(kind=kind))
    return sorted(found, key=lambda row: row.sequence)


@MODES
async def test_every_direct_read_leaves_one_line_without_its_values(
    serve: Serve, mode: str
) -> None:
    reference = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
    async with serve({"all": ALL}, auth={"tokens": TOKEN}) as running:
        async with logged_in(running.url, "ann", mode) as ann:
            await ann.get_prompt("test_prompt_with_arguments", {"arg1": "tea", "arg2": "cake"})
            await ann.read_resource("test://static-text")
            await ann.read_resource("test://template/7777/data")
            await ann.complete(reference, {"name": "arg1", "value": "test"})
            with pytest.raises(MCPError):
                await ann.get_prompt("nothing")
            with pytest.raises(MCPError):
                await ann.read_resource("test://nowhere")
        lines = audit(running)
        kept = [(row.principal, row.tool, row.outcome) for row in rows(running, "read")]
    facts = ("principal", "method", "tool", "server", "outcome")
    assert [tuple(line[fact] for fact in facts) for line in lines] == [
        ("ann", "prompts/get", "test_prompt_with_arguments", "all", "ok"),
        ("ann", "resources/read", "test://static-text", "all", "ok"),
        ("ann", "resources/read", "Template", "all", "ok"),
        ("ann", "completion/complete", "test_prompt_with_arguments", "all", "ok"),
        ("ann", "prompts/get", "nothing", "", "unknown_content"),
        ("ann", "resources/read", "test://nowhere", "", "unknown_content"),
    ]
    assert lines[0]["arguments"] == {"arg1": "text(3)", "arg2": "text(4)"}
    assert "7777" not in json.dumps(lines)
    assert kept == [(line["principal"], line["tool"], line["outcome"]) for line in lines]


async def test_a_read_that_the_policy_forbids_leaves_a_line(serve: Serve) -> None:
    rule = {"policies": {"few": {"principals": ["ann"], "deny": ["test_prompt*"]}}}
    async with serve({"all": ALL}, auth={"tokens": TOKEN}, **rule) as running:
        async with logged_in(running.url, "ann", "legacy") as ann:
            with pytest.raises(MCPError, match="Unknown prompt"):
                await ann.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
        (line,) = audit(running)
    assert (line["principal"], line["tool"]) == ("ann", "test_prompt_with_arguments")
    assert line["outcome"] == "unknown_content"


async def test_a_subscription_leaves_a_line(serve: Serve) -> None:
    async with serve({"all": {**ALL, "protocol": "handshake"}}, auth={"tokens": TOKEN}) as running:
        async with logged_in(running.url, "ann", "legacy") as ann:
            await watch(ann, "test://watched-resource")
            with pytest.raises(MCPError):
                await watch(ann, "test://nowhere")
        lines = audit(running)
    facts = ("principal", "method", "tool", "server", "outcome")
    assert [tuple(line[fact] for fact in facts) for line in lines] == [
        ("ann", "resources/subscribe", "test://watched-resource", "all", "ok"),
        ("ann", "resources/subscribe", "test://nowhere", "", "unknown_content"),
    ]


async def test_a_stateless_subscription_leaves_a_line_too(serve: Serve) -> None:
    async with serve({"all": {**ALL, "protocol": "handshake"}}, auth={"tokens": TOKEN}) as running:
        wanted = ["test://watched-resource", "test://nowhere"]
        async with (
            logged_in(running.url, "ann", "2026-07-28") as ann,
            ann.listen(resource_subscriptions=wanted),
        ):
            lines = audit(running)
    facts = ("principal", "method", "tool", "server", "outcome")
    assert {tuple(line[fact] for fact in facts) for line in lines} == {
        ("ann", "subscriptions/listen", "test://watched-resource", "all", "ok"),
        ("ann", "subscriptions/listen", "test://nowhere", "", "unknown_content"),
    }


SLOW_READER = """
import pathlib, sys
from fastmcp import FastMCP

app = FastMCP("slow")
folder = pathlib.Path(sys.argv[1])

@app.resource("test://slow")
def slow() -> str:
    (folder / "asked").touch()
    return (folder / "gate").read_text()

app.run(show_banner=False)
"""


async def test_a_read_has_a_row_before_its_server_is_asked(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_READER)
    os.mkfifo(tmp_path / "gate")
    command = {"command": sys.executable, "args": [str(tmp_path / "slow.py"), str(tmp_path)]}
    async with serve({"slow": command}) as running, running.client(cache=None) as client:
        reading = asyncio.create_task(client.read_resource("test://slow"))
        while not (tmp_path / "asked").exists():
            await asyncio.wait([reading], timeout=0.05)
            assert not reading.done()
        (row,) = rows(running, "read")
        assert (row.tool, row.server, row.outcome) == ("test://slow", "slow", None)
        assert not (running.home / "state" / "audit.jsonl").exists()  # its line says the outcome
        await asyncio.to_thread((tmp_path / "gate").write_text, "read at last")
        assert "read at last" in repr(await reading)
        (row,) = rows(running, "read")
        assert row.outcome == "ok"


@MODES
async def test_every_call_over_a_limit_leaves_one_line(serve: Serve, mode: str) -> None:
    limits = {"calls_per_minute": 12}
    async with serve({"one": SMALL}, limits=limits, auth={"tokens": TOKEN}) as running:
        async with logged_in(running.url, "ann", mode) as ann:
            asked = {"name": "one__echo", "arguments": {"text": "secret"}}
            calls = (ann.call_tool("call_tool", asked) for _ in range(10))
            done = await asyncio.gather(*calls, return_exceptions=True)
            refused = [each for each in done if isinstance(each, MCPError)]
            with pytest.raises(MCPError):
                await ann.read_resource("test://here")
        lines = [line for line in audit(running) if line["outcome"] == "over_limit"]
        kept = rows(running, "refusal")
    calls_refused = [line for line in lines if line["method"] == "tools/call"]
    assert len(refused) >= 8
    assert calls_refused
    assert len(lines) == len(refused) + 1  # some while the client listed the tools for its call
    for line in calls_refused:
        assert (line["principal"], line["tool"]) == ("ann", "one__echo")
        assert line["arguments"] == {"text": "text(6)"}
    (read,) = (line for line in lines if line["method"] == "resources/read")
    assert (read["principal"], read["tool"]) == ("ann", "test://here")
    assert [row.outcome for row in kept] == ["over_limit"] * len(lines)


async def test_a_session_and_a_body_over_a_limit_leave_a_line(serve: Serve) -> None:
    limits = {"sessions": 1, "request_bytes": 1_000}
    async with (
        serve({"one": SMALL}, limits=limits) as running,
        httpx2.AsyncClient(headers=HEADERS) as http,
    ):
        assert (await http.post(running.url, json=initialize())).status_code == 200
        assert (await http.post(running.url, json=initialize())).status_code == 503
        assert (await http.post(running.url, content=b"x" * 2_000)).status_code == 413
        session, body = audit(running)
        assert (session["method"], session["outcome"]) == ("initialize", "over_limit")
        assert (body["principal"], body["outcome"]) == ("anonymous", "over_limit")
        data = [json.loads(row.data) for row in rows(running, "refusal")]
        assert [each["status"] for each in data] == [503, 413]


async def test_a_flood_of_refusals_leaves_few_lines_that_count_all_of_them(serve: Serve) -> None:
    async with (
        serve({"one": SMALL}, limits={"sessions": 1, "request_bytes": 1_000}) as running,
        httpx2.AsyncClient(headers=HEADERS) as http,
    ):
        await http.post(running.url, json=initialize())
        for _ in range(60):
            assert (await http.post(running.url, json=initialize())).status_code == 503
        assert (await http.post(running.url, content=b"x" * 2_000)).status_code == 413
        assert len(audit(running)) == 21  # the other limit has a count of its own
    lines = audit(running)
    assert [line.get("times", 1) for line in lines] == [1] * 21 + [40]
    assert lines[-1]["outcome"] == "over_limit"


async def test_the_count_of_refusals_is_recorded_when_its_minute_ends() -> None:
    recorded: list[Event] = []
    refusals = RefusalLog(recorded.append, max_rows=2, window_seconds=0.1)
    for _ in range(5):
        refusals.record(RequestRefusedEvent(principal="ann", tool="x", why="busy"))
    refusals.record(RequestRefusedEvent(principal="bob", why="busy"))
    async with asyncio.timeout(10):
        while len(recorded) < 4:  # noqa: ASYNC110 -- no event
            await asyncio.sleep(0.02)
    refusals.record(RequestRefusedEvent(principal="ann", why="busy"))  # a new minute
    refusals.close()
    found = [each for each in recorded if isinstance(each, RequestRefusedEvent)]
    assert [(each.principal, each.times) for each in found] == [
        ("ann", 1),
        ("ann", 1),
        ("bob", 1),
        ("ann", 3),
        ("ann", 1),
    ]
