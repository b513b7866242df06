"""HTTP APIs beside MCP servers, behind one gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateway import node
from tests.gateway.conftest import Serve, small, text
from tests.gateway.test_access import as_

from toolscout.errors import ConfigError, SourceError
from toolscout.gateway.setup import Setup
from toolscout.sources.openapi.api_source import API, OpenAPISource
from toolscout.toolbox.toolbox import Toolbox

HEALTH = {
    "openapi": "3.1.0",
    "info": {"title": "Health", "version": "1"},
    "paths": {
        "/health": {"get": {"operationId": "health", "summary": "How the gateway is doing"}},
        "/health/live": {"get": {"operationId": "live", "summary": "Whether it lives"}},
    },
}


async def test_an_api_is_searched_and_called_like_any_server(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "health.json"
    path.write_text(json.dumps(HEALTH))
    async with serve({"one": small()}) as first, first.client() as waits:
        await waits.list_tools()
        base = first.url.removesuffix("/mcp")
        spec = {"document": str(path), "base_url": base, "exclude": ["live"]}
        async with (
            serve({"one": small()}, openapi={"status": spec}) as running,
            running.client() as client,
        ):
            found = await client.call_tool("tool_search", {"query": "how the gateway is doing"})
            assert "status__health" in text(found)
            called = await client.call_tool(
                "call_tool", {"name": "status__health", "arguments": {}}
            )
            assert json.loads(text(called))["live"] is True
            hidden = await client.call_tool("call_tool", {"name": "status__live", "arguments": {}})
            assert hidden.is_error


async def test_an_apis_secret_comes_from_the_environment_and_is_shown_to_nobody(
    serve: Serve, tmp_path: Path
) -> None:
    token = "a-token-for-the-metrics"
    figures = {"operationId": "figures", "summary": "Figures", "security": [{"key": []}]}
    document: dict[str, Any] = {
        **HEALTH,
        "paths": {"/metrics": {"get": figures}},
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }
    path = tmp_path / "metrics.json"
    path.write_text(json.dumps(document))
    spec = {"document": str(path), "base_url": "${GATEWAY_URL}", "auth": {"key": "${METRICS_KEY}"}}
    options: dict[str, Any] = {
        "openapi": {"mine": spec},
        "auth": {"tokens": {"me": "${METRICS_KEY}"}},
    }
    variables = {"METRICS_KEY": token}
    async with (
        serve({"one": small()}, variables=variables, **options) as running,
        as_(running, token) as client,
    ):
        called = await client.call_tool("call_tool", {"name": "mine__figures", "arguments": {}})
        assert "toolscout_tools" in text(called)
        told = repr(running.events) + "".join(
            p.read_text(errors="replace") for p in running.home.rglob("*") if p.is_file()
        )
        assert token not in told


@pytest.mark.slow
@pytest.mark.skipif(bool(node.missing()), reason=node.missing() or "never")
@pytest.mark.timeout(600)
async def test_a_real_api_of_a_thousand_operations_is_found_by_what_it_does() -> None:
    folder = node.installed("github", {"@octokit/openapi": "23.0.2"})
    generated = folder / "node_modules" / "@octokit" / "openapi" / "generated"
    for unused in generated.glob("*.deref.json"):
        unused.unlink()
    source = OpenAPISource(API(name="github", document=str(generated / "api.github.com.json")))
    tools = await source.tools()
    assert len(tools) > 1_000
    assert len({t.name for t in tools}) == len(tools)
    assert all(len(t.name) <= 64 for t in tools)
    assert not [t.name for t in tools if t.parameters.text.count("#/components/")]
    async with Toolbox([source], store="memory") as box:
        for query, name in (
            ("create an issue in a repository", "github__issues_create"),
            ("merge a pull request", "github__pulls_merge"),
            ("list the branches of a repository", "github__repos_list_branches"),
        ):
            assert name in box.search(query, limit=5).names


async def test_an_unset_variable_of_an_api_costs_that_api_alone(serve: Serve) -> None:
    spec = {"document": "https://example.com/api.json", "auth": {"key": "${NOBODY_SET_THIS}"}}
    async with (
        serve({"one": small()}, variables={}, openapi={"shop": spec}) as running,
        running.client() as client,
    ):
        called = await client.call_tool("call_tool", {"name": "one__echo", "arguments": {}})
        assert not called.is_error
        (problem,) = running.gateway.setup.problems
        assert "openapi.shop" in problem
        assert "NOBODY_SET_THIS" in problem


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("http://127.0.0.1:9/api.json?key=key-in-the-address", "Cannot fetch"),
        ("http://me:key-in-the-address@127.0.0.1:9/api.json", "Cannot fetch"),
        ("http://[::1/api.json", "Cannot fetch"),
        ("http://127.0.0.1:99999/api.json", "Cannot fetch"),
    ],
)
async def test_a_document_that_cannot_be_fetched_is_reported_without_the_secret_in_its_address(
    place: str, says: str
) -> None:
    with pytest.raises(SourceError, match=says) as told:
        await OpenAPISource(API(name="shop", document=place)).tools()
    assert "key-in-the-address" not in str(told.value)


@pytest.mark.parametrize("name", ["one", "my api"])
def test_an_api_with_the_name_of_another_source_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mcp.json"
    apis = {name: {"document": "x"}, "my_api": {"document": "y"}}
    path.write_text(json.dumps({"mcpServers": {"one": small()}, "openapi": apis}))
    with pytest.raises(ConfigError, match="would both be called"):
        Setup.read(path)
