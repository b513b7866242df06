"""The page at `/`, what `/health` says of servers, and the tokens saved by configuration."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import httpx2
from tests.gateway.conftest import Running, Serve, small

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.gateway.operations.savings import Savings
from toolscout.gateway.operations.savings_total import TotalFile
from toolscout.tokens import default_counter

TOKEN = "0123456789abcdef-token"


async def get(running: Running, path: str, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient() as http:
        return await http.get(running.url.removesuffix("/mcp") + path, headers=headers)


async def test_a_browser_gets_a_page_that_loads_nothing(serve: Serve) -> None:
    async with serve({"mailroom": small()}) as running:
        page = await get(running, "/", accept="text/html,*/*")
        stranger = await get(running, "/", host="evil.example")
    assert page.headers["content-type"].startswith("text/html")
    assert running.url in page.text
    assert "claude mcp add" in page.text
    assert re.findall(r"(?:src|href)=\"?([^\" >]+)", page.text) == ["/health", "/metrics"]
    policy = page.headers["content-security-policy"]
    style = re.search(r"<style>(.*)</style>", page.text)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert "mailroom" not in page.text, "strangers learn no names of servers"
    assert stranger.status_code == 421


async def test_programs_get_json_or_text_and_a_token_is_asked_for_not_shown(serve: Serve) -> None:
    async with serve({"one": small()}, auth={"tokens": {"ann": TOKEN}}) as running:
        facts = await get(running, "/", accept="application/json")
        text = await get(running, "/")
    assert facts.json()["mcp"] == running.url
    assert facts.json()["needs_token"] is True
    assert "Authorization: Bearer TOKEN" in text.text
    assert TOKEN not in facts.text + text.text


async def health(running: Running) -> tuple[int, dict[str, Any]]:
    response = await get(running, "/health")
    return response.status_code, response.json()


async def search(running: Running) -> None:
    async with running.client() as client:
        await client.call_tool("tool_search", {"query": "say it back"})


async def test_health_tells_failing_servers_from_others(serve: Serve) -> None:
    servers = {"good": small(), "exits": small("exits"), "off": {**small(), "disabled": True}}
    async with serve(servers) as running:
        await search(running)
        code, report = await health(running)
    rows = report["servers"]
    assert (code, report["status"], report["ready"]) == (200, "degraded", True)
    assert {name: row["status"] for name, row in rows.items()} == {
        "good": "ready",
        "exits": "failing",
        "off": "disabled",
    }
    assert rows["exits"]["failures"] >= 1
    assert re.match(r"\d{4}-\d\d-\d\dT", rows["exits"]["since"])
    assert "needs a licence key" in rows["exits"]["reason"]
    assert "since" not in rows["good"]


async def test_a_gateway_without_a_working_server_is_not_ready(serve: Serve) -> None:
    async with serve({"exits": small("exits")}) as running:
        await search(running)
        code, report = await health(running)
    assert (code, report["status"], report["ready"]) == (503, "failing", False)


def savings(folder: Path, config: str) -> Savings:
    return Savings(TotalFile.of(folder, Path(config)), default_counter())


def test_tokens_saved_are_counted_by_configuration(tmp_path: Path) -> None:
    (tmp_path / "savings.json").write_text('{"tokens_saved": 100}')
    one = savings(tmp_path, "one.json")
    assert one.total == 100, "the total of version 0.1 goes to the first configuration"
    one.record_answer("a word")
    one.save()
    two = savings(tmp_path, "two.json")
    assert two.total == 0
    assert savings(tmp_path, "one.json").total == one.total < 100


async def test_the_total_is_on_disk_while_gateways_run_and_adds_up(tmp_path: Path) -> None:
    catalog = Catalog([Tool(name=f"tool_{n}", description="Does it. " * 20) for n in range(9)])
    one, two = (savings(tmp_path, "one.json") for _ in range(2))
    saved = await one.record_listing(catalog, ["short"])
    assert TotalFile.of(tmp_path, Path("one.json")).read() == saved > 0
    await two.record_listing(catalog, ["short"])
    assert TotalFile.of(tmp_path, Path("one.json")).read() == two.total == 2 * saved
