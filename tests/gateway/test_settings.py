"""Mistakes in the tables beside the servers: found before they leave a door open."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.gateway.conftest import Running, Serve, small
from tests.gateway.test_access import ALICE, run

from toolscout.cli.app import run as toolscout
from toolscout.errors import ConfigError
from toolscout.gateway.setup import Setup

GITHUB = "fastmcp.server.auth.providers.github"
SERVER = '[servers.one]\ncommand = "x"\n'


def setup(folder: Path, text: str, *, name: str = "gateway.toml", **variables: str) -> Setup:
    path = folder / name
    path.write_text(text)
    return Setup.read(path, variables=variables)


def told(folder: Path, text: str, *, name: str = "gateway.toml", **variables: str) -> str:
    with pytest.raises(ConfigError) as caught:
        setup(folder, text, name=name, **variables)
    return str(caught.value)


def test_settings_that_would_not_be_read_are_refused(tmp_path: Path) -> None:
    text = json.dumps({"mcpServers": {"one": {"command": "x"}}, "settings": {"home": "here"}})
    assert "Write it as TOML" in told(tmp_path, text, name="mcp.json")
    others = json.dumps({"mcpServers": {"one": {"command": "x"}}, "settings": {"theme": "dark"}})
    assert setup(tmp_path, others, name="mcp.json").problems == ()


@pytest.mark.parametrize(
    ("table", "meant"),
    [("polices", "policies"), ("policy", "policies"), ("Auth", "auth"), ("gatway", "gateway")],
)
def test_a_misspelled_table_is_an_error_that_names_the_one_meant(
    tmp_path: Path, table: str, meant: str
) -> None:
    assert f"Did you mean [{meant}]?" in told(tmp_path, f"{SERVER}[{table}.all]\nread_only = true")
    text = json.dumps({"mcpServers": {}, table: {"all": {"read_only": True}}})
    assert f"Did you mean [{meant}]?" in told(tmp_path, text, name="mcp.json")


def test_a_table_of_nobodys_is_an_error_that_names_all_there_are(tmp_path: Path) -> None:
    said = told(tmp_path, f"{SERVER}[rules]\nread_only = true")
    assert "no table [rules]" in said
    assert "policies" in said
    text = json.dumps({"mcpServers": {}, "gateway": {}, "rules": {}})
    assert "no table [rules]" in told(tmp_path, text, name="mcp.json")


def test_the_file_of_a_client_may_hold_what_only_concerns_the_client(tmp_path: Path) -> None:
    theirs: dict[str, Any] = {"mcpServers": {}, "inputs": [], "globalShortcut": "", "projects": {}}
    assert setup(tmp_path, json.dumps(theirs), name="mcp.json").document.rest
    codex = 'model = "x"\n[mcp_servers.one]\ncommand = "x"\n[profiles.fast]\nmodel = "y"'
    assert setup(tmp_path, codex, name="config.toml").document.servers


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[gateway]\nprofil = "x"', ["no setting gateway.profil.", "Did you mean profile?"]),
        ('[auth.jwt]\nisuer = "x"', ["no setting auth.jwt.isuer.", "Did you mean issuer?"]),
        ("[policies.a]\nzzz = 1", ["no setting policies.a.zzz.", "Known: principals, servers"]),
        ('[gateway]\nsurface = "x"', ["gateway.surface is wrong", "'dispatch' or 'load'"]),
        ('[auth.tokens]\nbob = "${NONE}"', ["The setting auth.tokens.bob needs", "Set NONE"]),
        (
            '[gateway]\naudit = "~nosuchuser/a"',
            ["gateway.audit is wrong", "home folder of an unknown user"],
        ),
        ('[gateway]\naudit = "a\\u0000b"', ["gateway.audit is wrong", "null character"]),
        ('[gateway]\nprofile = "zzz"', ["'zzz'"]),
        (f"[gateway]\naudit = {'[' * 100}{']' * 100}", ["gateway is nested more than"]),
        ('[auth.tokens]\nbob = ""', ["token of 'bob' is too short", "at least 16"]),
    ],
)
def test_a_wrong_setting_is_reported_with_what_to_do(
    tmp_path: Path, text: str, says: list[str]
) -> None:
    said = told(tmp_path, SERVER + text)
    assert [part for part in says if part not in said] == []


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.json", '{"mcpServers": {}; }', "commas between entries"),
        ("a.toml", "[servers.x] y", "Fix that"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_what_to_do(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    said = told(tmp_path, text, name=name)
    assert "line 1" in said
    assert says in said


async def get(running: Running, path: str, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=60) as http:
        return await http.get(running.url.removesuffix("/mcp") + path, headers=headers)


async def test_an_edit_that_empties_a_token_opens_no_door(serve: Serve) -> None:
    servers = {"one": small()}
    async with serve(servers, auth={"tokens": {"alice": ALICE}}) as running:
        gateway = running.gateway
        assert (await get(running, "/metrics", Authorization=f"Bearer {ALICE}")).is_success
        emptied = {"tokens": {"alice": "", "bob": "x" * 15}}
        running.path.write_text(json.dumps({"mcpServers": servers, "auth": emptied}))
        async with asyncio.timeout(60):
            while not gateway.problem and gateway.setup.settings.auth.tokens["alice"]:
                await get(running, "/health/live")
        for said in ("Bearer", f"Bearer {'x' * 15}"):
            assert (await get(running, "/metrics", Authorization=said)).status_code == 401
            health = (await get(running, "/health", Authorization=said)).json()
            assert "servers" not in health
        kept = await get(running, "/health", Authorization=f"Bearer {ALICE}")
        assert "too short" in kept.json()["problems"][0]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_tool_that_an_edit_forbids_leaves_the_list_of_a_running_conversation(
    serve: Serve, mode: str
) -> None:
    servers = {"one": {**small("several"), "pinned": ["tool_1"]}, "two": small("several")}
    surface = {"surface": "load"}
    meta: Any = {"toolscout/session": "mine"}
    async with serve(servers, gateway=surface) as running, running.client(mode) as client:

        async def names() -> set[str]:
            listed = await client.list_tools(meta=meta, cache_mode="bypass")
            return {t.name for t in listed.tools if "__tool_" in t.name}

        query = {"query": "select:two__tool_7,one__tool_9"}
        await client.call_tool("tool_search", query, meta=meta)
        assert await names() == {"one__tool_1", "one__tool_9", "two__tool_7"}
        policies = {"all": {"deny": ["two__*", "one__tool_1"]}}
        edited = {"mcpServers": servers, "gateway": surface, "policies": policies}
        running.path.write_text(json.dumps(edited))
        async with asyncio.timeout(60):
            while not running.gateway.setup.settings.policies:
                await get(running, "/health/live")
        assert not await names() & {"one__tool_1", "two__tool_7"}


@pytest.fixture
def open_handed() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_handed")
async def test_the_audit_log_is_its_owners_alone(serve: Serve) -> None:
    async with serve({"one": small()}) as running, running.client() as client:
        await run(client, "one__echo", text="x")
        log = running.home / "state" / "audit.jsonl"
        assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("auth", "says"),
    [
        ('[auth.jwt]\npublic_key = "k"', "audience and its issuer"),
        ('[auth]\nprovider = "os.system"', "not one of FastMCP's"),
        (
            f'[auth]\nprovider = "{GITHUB}.GitHubProvider"\noptions = {{ id = 1 }}',
            "cannot be used",
        ),
        (f'[auth]\nprovider = "{GITHUB}.Nobody"', "cannot be used"),
    ],
)
def test_wrong_authentication_is_reported_before_the_welcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], auth: str, says: str
) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(f'{SERVER}{auth}\n[settings]\nhome = "{tmp_path / "home"}"')
    assert toolscout(["serve", "--config", str(path), "--http", "127.0.0.1:0"]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "Connect a client" not in said
