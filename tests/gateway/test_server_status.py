"""One word for the status of a server, in every place that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, get_args

import httpx2
import pytest
from tests.gateway.conftest import Running, Serve, small

from toolscout.events import UpstreamIdleEvent, UpstreamLostEvent, UpstreamStartingEvent
from toolscout.gateway.operations.definition_problems import find_schema_flaws
from toolscout.gateway.operations.doctor import check_servers
from toolscout.gateway.operations.known_servers import read_known_servers
from toolscout.sources.server_status import OverallStatus, ServerStatus
from toolscout.telemetry.lines import render_event

PAGE = Path(__file__).parents[2] / "docs" / "gateway.md"
STATUSES = {
    "good": "ready",
    "exits": "failing",
    "private": "needs login",
    "unset": "misconfigured",
    "off": "disabled",
}


class _Unauthorised(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(401)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def private_url() -> Iterator[str]:
    """The address of a server that wants a login for everything."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Unauthorised) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()


async def get_json(running: Running, path: str) -> dict[str, object]:
    async with httpx2.AsyncClient() as http:
        base = running.url.removesuffix("/mcp")
        return (await http.get(base + path, headers={"accept": "application/json"})).json()


async def test_every_place_has_the_same_word_for_a_server(serve: Serve, private_url: str) -> None:
    servers = {
        "good": small(),
        "exits": small("exits"),
        "private": {"url": private_url},
        "unset": {**small(), "env": {"KEY": "${NOT_SET_ANYWHERE}"}},
        "off": {**small(), "disabled": True},
    }
    async with serve(servers) as running:
        async with running.client() as client:
            await client.call_tool("tool_search", {"query": "say it back"})
            found = await client.call_tool("tool_search", {"query": "say it back"})
        health, page = await get_json(running, "/health"), await get_json(running, "/")
        setup = running.gateway.setup
    assert "Not searched: exits (failing), private (needs login), unset (misc" in str(found.content)
    assert {n: row["status"] for n, row in health["servers"].items()} == STATUSES  # type: ignore[attr-defined]
    assert page["status"] == health["status"] == "degraded"
    assert {known.name: known.status for known in read_known_servers(setup)} == STATUSES
    lines = [render_event(event) for event in running.events]
    for server in ("good", "exits", "private"):
        assert any(line.startswith(f"{server}: {STATUSES[server]}") for line in lines)
    report = await check_servers(setup)
    assert {check.server: check.status for check in report.servers} == STATUSES
    assert report.verdict == "degraded"


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (UpstreamStartingEvent(server="a"), "starting"),
        (UpstreamIdleEvent(server="a"), "idle"),
        (UpstreamLostEvent(server="a", reason=""), "starting"),
    ],
)
def test_a_line_begins_with_the_status(event: UpstreamStartingEvent, status: str) -> None:
    assert render_event(event).startswith(f"a: {status}")


async def test_without_a_server_that_works_everything_is_failing(serve: Serve) -> None:
    async with serve({"exits": small("exits")}) as running:
        async with running.client() as client:
            await client.call_tool("tool_search", {"query": "say it back"})
        health, page = await get_json(running, "/health"), await get_json(running, "/")
        report = await check_servers(running.gateway.setup)
    assert health["status"] == page["status"] == report.verdict == "failing"


def test_the_page_lists_every_status() -> None:
    text = PAGE.read_text(encoding="utf-8")
    part = text.partition("### The status of a server")[2].partition("\n## ")[0]
    servers, overall = part.split("The whole has one of these")
    assert {*re.findall(r"^\| `([\w ]+)` \|", servers, re.MULTILINE)} == {*get_args(ServerStatus)}
    assert {*re.findall(r"^\| `([\w ]+)` \|", overall, re.MULTILINE)} == {*get_args(OverallStatus)}


@pytest.mark.parametrize(
    "flawed",
    [
        {"type": "objekt"},
        {"type": "object", "required": ["a", "a"]},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": 3}}}},
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
        {"type": "object", "description": 3},
        {"type": "object", "additionalProperties": "no"},
    ],
)
def test_a_flaw_in_a_simple_schema_is_found(flawed: dict[str, Any]) -> None:
    assert [*find_schema_flaws(flawed)]
