"""URIs reach servers through the templates that servers write, and nothing that is denied."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest
from mcp import Client, MCPError
from tests.gateway.conftest import UPSTREAMS, Running, Serve

from toolscout.sources.mcp.uri_templates import matches_template

FOUND = {"find://books": "found all 10", "find://books?limit=2&word=tea": "found tea 2"}
READ = {
    "sdk": {
        **FOUND,
        "file:///a": "file a",
        "file:///a/b/c.txt": "file a/b/c.txt",
        "shelf://books/x/y": "shelf x|y",
    },
    "fastmcp": {**FOUND, "file:///a": "file a", "file:///a/b/c.txt": "file a/b/c.txt"},
}


def shelf(kind: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(UPSTREAMS / "shelf.py"), kind]}


async def read(client: Client, uri: str) -> str:
    return (await client.read_resource(uri)).contents[0].text  # type: ignore[union-attr]


async def get(client: Client, uri: str) -> str:
    wanted = {"server": "shelf", "uri": uri}
    called = await client.call_tool("call_tool", {"name": "get_resource", "arguments": wanted})
    return called.model_dump_json()


async def wait_until_listed(running: Running, client: Client) -> None:
    while not all(state.is_listed for state in running.gateway.upstreams.states()):
        await client.list_tools(cache_mode="bypass")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("kind", ["sdk", "fastmcp"])
async def test_a_template_matches_the_uris_that_its_server_answers(
    serve: Serve, kind: str, mode: str
) -> None:
    async with serve({"shelf": shelf(kind)}) as running, running.client(mode) as client:
        await wait_until_listed(running, client)
        for uri, content in READ[kind].items():
            assert await read(client, uri) == content
            assert content in await get(client, uri)
        for uri in ("find://books?other=1", "find://books/x", "other:///a"):
            with pytest.raises(MCPError, match="not found"):
                await client.read_resource(uri)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("kind", ["sdk", "fastmcp"])
@pytest.mark.parametrize("denied", ["shelf__key", "file:///private/*"])
async def test_no_path_through_a_template_reaches_a_denied_resource(
    serve: Serve, kind: str, mode: str, denied: str
) -> None:
    policies = {"some": {"deny": [denied]}}
    async with (
        serve({"shelf": shelf(kind)}, policies=policies) as running,
        running.client(mode) as client,
    ):
        await wait_until_listed(running, client)
        assert await read(client, "file:///public/a") == "file public/a"
        for path in (
            "private/key",
            "public/../private/key",
            "public/%2e%2e/private/key",
            "public/%2E%2E%2Fprivate%2Fkey",
            "public/%252e%252e/private/key",
            "public\\..\\private\\key",
            "../srv/private/key",
            "/private/key",
            "private//key",
            "./private/./key",
            "private%2Fkey",
            "PRIVATE/key?x#y",
        ):
            with pytest.raises(MCPError, match="not found"):
                await client.read_resource(f"file:///{path}")
            assert "has no resource" in await get(client, f"file:///{path}")
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource("file://localhost/private/key")


@pytest.mark.parametrize(
    ("template", "matching", "other"),
    [
        ("a://{x}", ["a://1", "a://1,2"], ["a://", "a://1/2"]),
        ("a://{x}/{y}", ["a://1/2"], ["a://1", "a://1/2/3"]),
        ("a://{+x}/end", ["a://1/2/end", "a://1/end/end"], ["a://end", "a://1/2"]),
        ("a://{x*}", ["a://1/2"], ["a://", "b://1"]),
        ("a://{x:3}", ["a://123"], ["a://1/2"]),
        ("a://x{/y}", ["a://x", "a://x/1"], ["a://x1", "a://x/1/2"]),
        ("a://x{/y,z}", ["a://x/1/2"], ["a://x/1/2/3"]),
        ("a://x{/y*}", ["a://x/1/2/3"], ["a://xy"]),
        ("a://x{.y}", ["a://x", "a://x.md"], ["a://xmd", "a://x/y"]),
        ("a://x{#y}", ["a://x", "a://x#1/2"], ["a://x1"]),
        ("a://x{?y,z}", ["a://x", "a://x?y=1", "a://x?z=1&y=/"], ["a://x?q=1", "a://xy=1"]),
        ("a://x{?y*}", ["a://x", "a://x?q=1&r=2"], ["a://xq"]),
        ("a://x?a=1{&y}", ["a://x?a=1", "a://x?a=1&y=2"], ["a://x?a=1&z=2", "a://x?a=2"]),
        ("a://{+x}{?y}", ["a://1/2?y=3"], ["b://1?y=3"]),
        ("a.b://{x}", ["a.b://1"], ["a-b://1"]),
        ("a://{x", ["a://{x"], ["a://1"]),
    ],
)
def test_expressions_of_templates(template: str, matching: list[str], other: list[str]) -> None:
    assert [uri for uri in matching if not matches_template(template, uri)] == []
    assert [uri for uri in other if matches_template(template, uri)] == []


def test_a_template_of_a_malicious_server_does_not_take_long() -> None:
    began = time.perf_counter()
    assert not matches_template("a://" + "{+x}a" * 30 + "b", "a://" + "a" * 5_000)
    assert not matches_template("a://" + "{+x}{?y,z}" * 10 + "b", "a://" + "?" * 60_000)
    assert not matches_template("a://" + "{+x}" * 5_000, "a://" + "a" * 60_000)
    assert time.perf_counter() - began < 10
