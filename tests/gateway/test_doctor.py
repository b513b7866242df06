"""What a check tells of APIs, and limits that mean what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.gateway.conftest import Serve, small, text
from tests.gateway.test_apis import HEALTH

from toolscout.cli.app import run
from toolscout.errors import SourceError
from toolscout.gateway.setup import Setup
from toolscout.sources.mcp.mcp_source import MCPSource
from toolscout.sources.mcp.server_config import read_server_config


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOLSCOUT_HOME", str(tmp_path / "home"))
    return tmp_path


def checked(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    path = folder / "gateway.toml"
    path.write_text(text)
    code = run(["check", "--config", str(path), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_file_of_apis_alone_is_checked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "api.json").write_text(json.dumps(HEALTH))
    code, found = checked(home, f'[openapi.shop]\ndocument = "{home / "api.json"}"', capsys)
    assert (code, found["status"], found["tools"]) == (0, "ready", 2)
    assert [(s["server"], s["status"], s["tools"]) for s in found["servers"]] == [
        ("shop", "ready", 2)
    ]


def test_an_api_whose_document_cannot_be_read_is_reported(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "api.json").write_text(json.dumps(HEALTH))
    (home / "bad.json").write_text('{"swagger": "2.0"}')
    text = "\n".join(f'[openapi.{n}]\ndocument = "{home / n}.json"' for n in ("api", "bad", "no"))
    code, found = checked(home, text, capsys)
    assert (code, found["status"]) == (10, "degraded")
    reasons = {s["server"]: s["reason"] for s in found["servers"] if s["status"] != "ready"}
    assert set(reasons) == {"bad", "no"}
    assert "OpenAPI" in reasons["bad"]


async def test_health_is_degraded_by_an_api_that_cannot_be_read(
    serve: Serve, tmp_path: Path
) -> None:
    spec = {"document": str(tmp_path / "nowhere.json")}
    async with serve({"one": small()}, openapi={"shop": spec}) as running:
        async with running.client() as client:
            await client.list_tools()
        async with httpx2.AsyncClient() as http:
            found = (await http.get(running.url.removesuffix("/mcp") + "/health")).json()
    assert found["status"] == "degraded"
    assert found["problems"][0].startswith("shop: ")


def test_no_call_ends_before_the_limit_of_an_api_or_of_a_server_without_one(home: Path) -> None:
    path = home / "gateway.toml"
    path.write_text('[openapi.slow]\ndocument = "x"\ntimeout_seconds = 900')
    assert Setup.read(path).toolbox_config.call_timeout_seconds > 900
    path.write_text('[servers.slow]\ncommand = "x"\ncall_timeout_seconds = 0')
    assert Setup.read(path).toolbox_config.call_timeout_seconds > 86_400


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ("concurrency = 0", "without a fraction"),
        ("concurrency = 2.5", "without a fraction"),
        ("connect_timeout_seconds = 0", "positive number"),
        ("call_timeout_seconds = -1", "or 0 for none"),
        ("idle_seconds = inf", "or 0 for none"),
        ("poll_seconds = nan", "or 0 for none"),
    ],
)
def test_a_limit_that_cannot_be_one_is_a_problem_of_its_server(
    home: Path, limit: str, says: str
) -> None:
    path = home / "gateway.toml"
    path.write_text(f'[servers.one]\ncommand = "x"\n{limit}')
    (server,) = read_server_config(path).servers
    assert limit.partition(" ")[0] in server.problem
    assert says in server.problem


def test_a_timeout_of_zero_seconds_is_valid_where_it_means_none(home: Path) -> None:
    path = home / "gateway.toml"
    zeros = "".join(f"{n}_seconds = 0\n" for n in ("call_timeout", "idle", "poll"))
    path.write_text(f'[servers.one]\ncommand = "x"\n{zeros}')
    assert not read_server_config(path).servers[0].problem


async def test_a_place_has_its_port_and_no_password(home: Path) -> None:
    path = home / "mcp.json"
    url = "http://ann:hunter22@127.0.0.1:9/mcp?key=1"
    path.write_text(json.dumps({"mcpServers": {"one": {"url": url}}}))
    (server,) = read_server_config(path).servers
    assert server.location == "http://127.0.0.1:9/mcp"


async def test_a_server_that_is_disabled_or_closed_says_what_to_do(home: Path) -> None:
    path = home / "mcp.json"
    servers = {"off": {**small(), "disabled": True}, "on": small()}
    path.write_text(json.dumps({"mcpServers": servers}))
    off, on = (MCPSource(server) for server in read_server_config(path).servers)
    (tool,) = await on.tools()
    await on.close()
    with pytest.raises(SourceError, match=r"closed\. .*search again"):
        await on.call(tool, {"text": "x"})
    with pytest.raises(SourceError, match=r"disabled\. Remove"):
        await off.refresh()


def tool_with(folder: Path, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A server whose one tool takes what the schema says."""
    (folder / name).mkdir()
    definition = {"name": name, "description": name, "inputSchema": {"type": "object", **schema}}
    (folder / name / "tool.json").write_text(json.dumps(definition))
    return small("told", str(folder / name))


LOOP = {
    "properties": {"n": {"$ref": "#/$defs/A"}},
    "$defs": {"A": {"allOf": [{"$ref": "#/$defs/B"}]}, "B": {"$ref": "#/$defs/A"}},
}
FAR = {"properties": {"n": {"$ref": "http://127.0.0.1:9/x.json"}}}
MISSING = {"properties": {"n": {"items": {"$ref": "#/$defs/none"}}}}
TREE = {
    "properties": {"n": {"$ref": "#/$defs/node"}, "m": {"$ref": "#named"}},
    "$defs": {
        "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}},
        "other": {"$anchor": "named", "enum": [{"$ref": "#/nowhere"}]},
    },
}


def test_tools_whose_schema_cannot_be_followed_are_named_with_the_reason(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schemas = {"loop": LOOP, "far": FAR, "missing": MISSING, "tree": TREE}
    servers = {name: tool_with(home, name, schema) for name, schema in schemas.items()}
    path = home / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    assert run(["check", "--config", str(path), "--json"]) == 10
    found = {s["server"]: s["problems"] for s in json.loads(capsys.readouterr().out)["servers"]}
    assert "refers to '#/$defs/A', which leads back to itself" in found["loop"][0]
    assert "refers to 'http://127.0.0.1:9/x.json', which cannot be followed" in found["far"][0]
    assert "refers to '#/$defs/none', which cannot be followed" in found["missing"][0]
    assert found["tree"] == []


async def test_calling_a_tool_whose_schema_cannot_be_followed_says_why(
    serve: Serve, tmp_path: Path
) -> None:
    servers = {n: tool_with(tmp_path, n, s) for n, s in (("loop", LOOP), ("far", FAR))}
    async with serve(servers) as running, running.client() as client:
        said = {}
        for name in servers:
            asked = {"name": f"{name}__{name}", "arguments": {"n": 1}}
            result = await client.call_tool("call_tool", asked)
            assert result.is_error
            said[name] = text(result)
    assert "its references form a cycle" in said["loop"]
    assert "it refers to 'http://127.0.0.1:9/x.json', which cannot be followed" in said["far"]
