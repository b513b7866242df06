"""Servers that want a login: agreed to once in a browser, then kept alive without anybody."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.gateway.conftest import Serve, text
from tests.upstreams.processes import free_port, running

from toolscout.errors import SourceError
from toolscout.sources.mcp.login import log_in
from toolscout.sources.mcp.mcp_source import MCPSource
from toolscout.sources.mcp.oauth_tokens import Grant, OAuthTokenStore
from toolscout.sources.mcp.server_config import read_server_config
from toolscout.sources.mcp.servers import OAuthClient, Server

AUTHORITY = str(Path(__file__).parent / "authority.py")
PROTECTED = str(Path(__file__).parent.parent / "upstreams" / "protected.py")

NO_SERVER = """
import sys, uvicorn
from starlette.applications import Starlette
uvicorn.run(Starlette(), host="127.0.0.1", port=int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def authority() -> Iterator[str]:
    port = free_port()
    with running(AUTHORITY, str(port)):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def url(authority: str) -> Iterator[str]:
    """A server that has its logins made at another address than its own."""
    port = free_port()
    with running(PROTECTED, str(port), authority):
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture
def grants(tmp_path: Path) -> OAuthTokenStore:
    return OAuthTokenStore(tmp_path / "logins")


def agrees(address: str) -> None:
    """The person in front of the browser, who comes back with a code."""
    threading.Thread(target=httpx2.get, args=[address], kwargs={"follow_redirects": True}).start()


def reached(url: str, **more: Any) -> Server:
    return Server(name="safe", transport="http", url=url, **more)


@asynccontextmanager
async def opened(server: Server, grants: OAuthTokenStore) -> AsyncIterator[MCPSource]:
    source = MCPSource(server, grants=grants)
    try:
        yield source
    finally:
        await source.close()


async def echoed(server: Server, grants: OAuthTokenStore) -> str:
    async with opened(server, grants) as source:
        (tool,) = await source.tools()
        return str((await source.call(tool, {"text": "let in"})).content)


async def refused(server: Server, grants: OAuthTokenStore) -> str:
    async with opened(server, grants) as source:
        with pytest.raises(SourceError) as caught:
            await source.tools()
    return str(caught.value)


async def logged_in(url: str, grants: OAuthTokenStore, **changes: Any) -> Grant:
    """A login, after which time has passed or somebody has changed something."""
    grant = (await log_in(reached(url), show_url=agrees)).model_copy(update=changes)
    grants.save(grant)
    return grant


async def test_a_server_that_wants_a_login_is_used_after_one(
    url: str, grants: OAuthTokenStore
) -> None:
    assert "toolscout login safe" in await refused(reached(url), grants)
    await logged_in(url, grants)
    assert "let in" in await echoed(reached(url), grants)


async def test_tokens_of_a_login_are_readable_by_the_owner_only(
    url: str, grants: OAuthTokenStore, tmp_path: Path
) -> None:
    grant = await logged_in(url, grants)
    (file,) = (tmp_path / "logins").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert grant.access_token not in repr(grant)
    assert grant.refresh_token not in repr(grant)


@pytest.mark.parametrize("changes", [{"expires_at": 1.0}, {"access_token": "revoked meanwhile"}])
async def test_a_token_that_is_over_or_refused_is_renewed_without_anybody(
    url: str, grants: OAuthTokenStore, changes: dict[str, Any]
) -> None:
    old = await logged_in(url, grants, **changes)
    assert "let in" in await echoed(reached(url), grants)
    now = grants.load(url)
    assert now is not None
    assert now.refresh_token != old.refresh_token
    assert not now.is_expired


async def test_two_that_renew_at_once_both_continue(url: str, grants: OAuthTokenStore) -> None:
    await logged_in(url, grants, access_token="revoked meanwhile")
    both = await asyncio.gather(echoed(reached(url), grants), echoed(reached(url), grants))
    assert ["let in" in said for said in both] == [True, True]


async def test_a_login_that_is_no_longer_accepted_is_asked_for_again(
    url: str, grants: OAuthTokenStore
) -> None:
    await logged_in(url, grants, access_token="revoked", refresh_token="revoked, too")
    assert "toolscout login safe" in await refused(reached(url), grants)
    now = grants.load(url)
    assert now is not None
    assert not now.refresh_token, "what was refused for good is not sent again"


async def test_a_header_of_the_configuration_is_sent_in_place_of_a_login(
    url: str, grants: OAuthTokenStore, authority: str
) -> None:
    await logged_in(url, grants, access_token="revoked", refresh_token="revoked, too")
    async with httpx2.AsyncClient() as http:
        token = (await http.post(f"{authority}/mint", json={"aud": url})).text
    server = reached(url, headers={"authorization": f"Bearer {token}"})
    assert "let in" in await echoed(server, grants)


async def test_a_client_known_beforehand_logs_in_with_its_own_name_and_port(
    url: str, grants: OAuthTokenStore, authority: str
) -> None:
    port = free_port()
    back = f"http://localhost:{port}/callback"
    known = {"client_id": "ours", "client_secret": "our secret", "redirect_uri": back}
    async with httpx2.AsyncClient() as http:
        await http.post(f"{authority}/enrol", json=known)
    server = reached(url, oauth=OAuthClient("ours", "our secret", port))
    grant = (await log_in(server, show_url=agrees)).model_copy(update={"expires_at": 1.0})
    grants.save(grant)
    assert "let in" in await echoed(server, grants)


async def test_a_login_without_consent_times_out(url: str) -> None:
    shown: list[str] = []
    with pytest.raises(SourceError, match="no one gave consent within 1 seconds"):
        await log_in(reached(url), show_url=shown.append, timeout_seconds=1)
    assert len(shown) == 1


async def test_a_declined_login_is_reported(url: str) -> None:
    def declines(address: str) -> None:
        back = httpx2.URL(address).params["redirect_uri"]
        agrees(f"{back}?error=access_denied&state=x")

    with pytest.raises(SourceError, match="denied"):
        await log_in(reached(url), show_url=declines)


async def test_a_missing_server_is_reported() -> None:
    with pytest.raises(SourceError, match="nothing answers at"):
        await log_in(reached(f"http://127.0.0.1:{free_port()}/mcp"), show_url=agrees)

    port = free_port()
    with running("-c", NO_SERVER, str(port)), pytest.raises(SourceError, match="status 404"):
        await log_in(reached(f"http://127.0.0.1:{port}/mcp"), show_url=agrees)


async def test_a_server_that_asks_for_no_login_needs_none(talker: dict[str, str]) -> None:
    with pytest.raises(SourceError, match="does not require a login"):
        await log_in(reached(talker["url"]), show_url=agrees)


def test_the_configuration_sets_oauth_credentials_as_in_other_clients(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    oauth = {"clientId": "ours", "clientSecret": "${SECRET}", "callbackPort": 8123, "scopes": []}
    entry = {"url": "https://example.com/mcp", "auth": "oauth", "oauth": oauth}
    wrong = {**entry, "oauth": {"callbackPort": 99_999}}
    path.write_text(json.dumps({"mcpServers": {"a": entry, "b": wrong}}))
    document = read_server_config(path, variables={"SECRET": "hushhush"})
    first, second = document.servers
    assert first.oauth == OAuthClient("ours", "hushhush", 8123)
    assert "hushhush" not in repr(first)
    assert first.redact("it said hushhush") == "it said •••"
    assert "not a valid port" in second.problem
    assert not document.warnings


async def test_the_command_logs_in_and_the_gateway_uses_that_login(serve: Serve, url: str) -> None:
    async with serve({"safe": {"url": url}}) as started, started.client() as client:
        found = text(await client.call_tool("call_tool", {"name": "safe__echo", "arguments": {}}))
        assert "toolscout login safe" in found

        env = {**os.environ, "TOOLSCOUT_HOME": str(started.home)}
        said = await asyncio.to_thread(told_and_agreed, str(started.path), env)
        assert "Logged in to safe." in said

        arguments = {"name": "safe__echo", "arguments": {"text": "let in"}}
        assert "let in" in text(await client.call_tool("call_tool", arguments))
        logged_out = await asyncio.to_thread(run, "--forget", str(started.path), env)
        assert "Logged out of safe." in logged_out
    assert not list((started.home / "state" / "logins").iterdir())


def told_and_agreed(path: str, env: dict[str, str]) -> str:
    """Run the command, and agree at the address that it prints."""
    with subprocess.Popen(
        [sys.executable, "-m", "toolscout.cli", "login", "safe", "--config", path, "--no-browser"],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "Open this address" in process.stdout.readline()
        agrees(process.stdout.readline().strip())
        return process.stdout.read()


def run(option: str, path: str, env: dict[str, str]) -> str:
    command = [sys.executable, "-m", "toolscout.cli", "login", "safe", "--config", path, option]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"command": "x"}, "local command"),
        ({"url": "https://example.com", "headers": {"Authorization": "x"}}, "Authorization header"),
        ({"url": "no address"}, "not a valid URL"),
    ],
)
def test_the_command_says_where_there_is_nothing_to_log_in_to(
    tmp_path: Path, entry: dict[str, Any], why: str
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"safe": entry}}))
    command = [sys.executable, "-m", "toolscout.cli", "login", "safe", "--config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert why in done.stderr
