"""Servers at which every principal logs in with an account of their own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2
import mcp_types as types
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.gateway.conftest import Running, Serve, text
from tests.gateway.test_logins import agrees
from tests.upstreams.processes import free_port, running

from toolscout.catalog.principals import bind_principal
from toolscout.errors import SourceError
from toolscout.sources.mcp.login import log_in
from toolscout.sources.mcp.mcp_source import MCPSource
from toolscout.sources.mcp.oauth_tokens import Grant, OAuthTokenStore
from toolscout.sources.mcp.server_config import read_server_config
from toolscout.sources.mcp.servers import OAuthClient, Server, ServerLimits

ACCOUNTS = str(Path(__file__).parent.parent / "upstreams" / "accounts.py")
TOKENS = {"ann": "ann-has-a-long-secret", "bob": "bob-has-a-long-secret"}
NAMES = ("ann", "bob", "Ann", "")
OWN = {"per_principal": True}


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, str]]:
    """Two servers, each of which knows only its own logins."""
    ports = (free_port(), free_port())
    with running(ACCOUNTS, *map(str, ports)):
        for port in ports:
            wait_until_served(f"http://127.0.0.1:{port}")
        yield (f"http://127.0.0.1:{ports[0]}/mcp", f"http://127.0.0.1:{ports[1]}/mcp")


def wait_until_served(base: str) -> None:
    with httpx2.Client(transport=httpx2.HTTPTransport(retries=20)) as http:
        http.get(f"{base}/seen")


def ask(url: str, path: str, method: str = "GET") -> dict[str, Any]:
    return httpx2.request(method, url.replace("/mcp", path)).json()


def own(url: str, name: str = "safe", **limits: Any) -> Server:
    oauth = OAuthClient(is_per_principal=True)
    return Server(name=name, transport="http", url=url, oauth=oauth, limits=ServerLimits(**limits))


async def logged_in(url: str, grants: OAuthTokenStore, principal: str) -> Grant:
    grant = await log_in(own(url), show_url=agrees, principal=principal)
    grants.save(grant)
    return grant


@pytest.fixture
def grants(tmp_path: Path) -> OAuthTokenStore:
    return OAuthTokenStore(tmp_path / "logins")


@asynccontextmanager
async def opened(*servers: Server, grants: OAuthTokenStore) -> AsyncIterator[list[MCPSource]]:
    sources = [MCPSource(server, grants=grants) for server in servers]
    try:
        yield sources
    finally:
        for source in sources:
            await source.close()


async def called(source: MCPSource, principal: str) -> str:
    """The answer to a call of a principal, or the error."""
    with bind_principal(principal):
        try:
            source.note_caller()
            (tool,) = await source.tools()
            return (await source.call(tool, {})).text
        except SourceError as error:
            return str(error)


# The promise


# Two principals at one server, of whom one is at the other server too: most mix-ups need that.
BEGINNING = [("login", "ann", 0), ("login", "bob", 0), ("login", "ann", 1), ("call", "ann", 0)]
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["login", "call", "call", "read", "logout", "expire", "idle"]),
        st.sampled_from(NAMES),
        st.sampled_from([0, 1]),
    ),
    min_size=4,
    max_size=10,
)


@settings(
    max_examples=8,
    deadline=None,
    # A failure says enough without the minutes that shrinking takes over real sockets.
    phases=(Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(moves=MOVES)
def test_a_token_reaches_only_its_own_server_and_only_for_its_own_principal(
    urls: tuple[str, str], tmp_path_factory: pytest.TempPathFactory, moves: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("state")
    asyncio.run(drive(urls, OAuthTokenStore(folder / "logins"), [*BEGINNING, *moves]))


async def drive(urls: tuple[str, str], grants: OAuthTokenStore, moves: list[Any]) -> None:
    """Make the moves, and compare what each server saw with who was logged in there."""
    logins: dict[tuple[str, int], str] = {}
    everything: tuple[set[str], set[str]] = (set(), set())
    marks = [len(ask(url, "/seen")["logins"]) for url in urls]
    servers = [own(url, f"s{i}") for i, url in enumerate(urls)]
    async with opened(*servers, grants=grants) as sources:
        for move, principal, index in moves:
            url, source, key = urls[index], sources[index], (principal, index)
            before = [len(ask(u, "/seen")["used"]) for u in urls]
            match move:
                case "login":
                    logins[key] = (await logged_in(url, grants, principal)).client_id
                    everything[index].add(logins[key])
                    continue
                case "logout":
                    assert grants.forget(url, principal) == (logins.pop(key, None) is not None)
                case "expire":
                    ask(url, "/expire", "POST")
                case "idle":
                    await source.close()
                    sources[index] = MCPSource(servers[index], grants=grants)
                case "read":
                    with bind_principal(principal):
                        try:
                            said = (await source.read_resource("account://me")).text
                        except SourceError as error:
                            said = str(error)
                    assert_answer(said, logins.get(key))
                case _:
                    assert_answer(await called(source, principal), logins.get(key))
            # A call reaches one server, with the login of one principal, or none at all.
            used = [ask(u, "/seen")["used"][n:] for u, n in zip(urls, before, strict=True)]
            is_call = move in ("call", "read") and key in logins
            assert used[index] == ([logins[key]] if is_call else [])
            assert used[1 - index] == []
    # Nor did any other request have a token that the server had not given out itself.
    for url, mark, known in zip(urls, marks, everything, strict=True):
        assert set(ask(url, "/seen")["logins"][mark:]) <= known


def assert_answer(said: str, login: str | None) -> None:
    if login is None:
        assert "login" in said
        assert "login " + str(login) not in said
        assert "toolscout login" in said
    else:
        assert said == f"login {login}"


# Connections


async def test_tools_are_listed_with_the_shared_login_and_called_with_the_callers(
    urls: tuple[str, str], grants: OAuthTokenStore
) -> None:
    shared = await logged_in(urls[0], grants, "")
    ann = await logged_in(urls[0], grants, "ann")
    async with opened(own(urls[0]), grants=grants) as (source,):
        assert [tool.local_name for tool in await source.tools()] == ["whoami"]
        assert await called(source, "ann") == f"login {ann.client_id}"
        assert await called(source, "") == f"login {shared.client_id}"
        assert "needs your own login" in await called(source, "bob")


async def test_a_login_is_used_at_once_and_no_longer_after_a_logout(
    urls: tuple[str, str], grants: OAuthTokenStore
) -> None:
    await logged_in(urls[0], grants, "")
    async with opened(own(urls[0]), grants=grants) as (source,):
        said = await called(source, "ann o'hara")
        assert "toolscout login safe --principal 'ann o'\"'\"'hara'" in said
        ann = await logged_in(urls[0], grants, "ann o'hara")
        assert await called(source, "ann o'hara") == f"login {ann.client_id}"
        grants.forget(urls[0], "ann o'hara")
        assert "needs your own login" in await called(source, "ann o'hara")


async def test_a_login_that_the_server_revokes_is_asked_for_again(grants: OAuthTokenStore) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    with running(ACCOUNTS, str(port)):
        await logged_in(url, grants, "ann")
        async with opened(own(url), grants=grants) as (source,):
            assert "login" in await called(source, "ann")
            ask(url, "/revoke", "POST")
            assert "needs your own login" in await called(source, "ann")
            again = await logged_in(url, grants, "ann")
            assert await called(source, "ann") == f"login {again.client_id}"


async def test_connections_of_principals_are_bounded(
    urls: tuple[str, str], grants: OAuthTokenStore
) -> None:
    logins = {name: await logged_in(urls[0], grants, name) for name in ("", "ann", "bob", "cy")}
    async with opened(own(urls[0], principal_connections=2), grants=grants) as (source,):
        for name in ("ann", "bob", "cy", "ann"):
            assert await called(source, name) == f"login {logins[name].client_id}"
        kept = [n for n in logins if source._principals.find(n) is not None]
        assert kept == ["ann", "cy"]


async def test_a_token_is_renewed_once_by_many_calls_in_many_processes(
    urls: tuple[str, str], tmp_path: Path
) -> None:
    url, grants = urls[0], OAuthTokenStore(tmp_path / "state" / "logins")
    ann = await logged_in(url, grants, "ann")
    ask(url, "/expire", "POST")
    before = ask(url, "/seen")["renewals"]
    program = [sys.executable, "-m", __name__, url, str(tmp_path / "state" / "logins")]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    root = Path(__file__).parents[2]
    async with opened(own(url), own(url), grants=grants) as sources:
        others = [
            await asyncio.create_subprocess_exec(*program, **pipes, cwd=root) for _ in range(2)
        ]
        for process in others:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
        work = asyncio.gather(*(process.communicate(b"go\n") for process in others))
        here = await asyncio.gather(*(called(s, "ann") for s in sources for _ in range(3)))
        there = [output.decode().strip() for output, _ in await work]
    assert set(here) | set(there) == {f"login {ann.client_id}"}
    assert ask(url, "/seen")["renewals"] == before + 1


# The configuration


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"command": "x", "oauth": OWN}, "is started once for everybody"),
        (
            {"url": "https://x.example/mcp", "headers": {"authorization": "x"}, "oauth": OWN},
            "has an Authorization header",
        ),
        ({"url": "https://x.example/mcp", "oauth": {"per_principal": "yes"}}, "true or false"),
    ],
)
def test_a_login_per_principal_needs_a_url_and_no_header(
    tmp_path: Path, entry: dict[str, Any], why: str
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"safe": entry}}))
    (server,) = read_server_config(path).servers
    assert why in server.problem


# Through the gateway


@asynccontextmanager
async def client_of(
    running: Running, name: str, mode: str = "2026-07-28", **options: Any
) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {TOKENS[name]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(
            streamable_http_client(running.url, http_client=http), mode=mode, cache=None, **options
        ) as client,
    ):
        yield client


async def whoami(client: Client) -> str:
    return text(await client.call_tool("call_tool", {"name": "safe__whoami", "arguments": {}}))


def link_in(said: str) -> str:
    (link,) = [word for word in said.split() if "/connect/safe?ticket=" in word]
    return link


async def browse(link: str, http: httpx2.AsyncClient, *, stop_at: str = "") -> httpx2.Response:
    """What a person does who opens a link: read it, continue, and follow to the end."""
    page = await http.get(link)
    assert "Continue" in page.text, page.text
    ticket = link.partition("ticket=")[2]
    answer = await http.post(link.partition("?")[0], data={"ticket": ticket})
    while answer.is_redirect:
        url = urljoin(str(answer.request.url), answer.headers["location"])
        if stop_at and stop_at in url:
            return answer
        answer = await http.get(url)
    return answer


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_caller_without_a_login_gets_a_link_and_is_let_in_afterwards(
    serve: Serve, urls: tuple[str, str], mode: str
) -> None:
    servers = {"safe": {"url": urls[0], "oauth": OWN}}
    async with (
        serve(servers, auth={"tokens": TOKENS}) as started,
        client_of(started, "ann", mode) as ann,
        client_of(started, "bob", mode) as bob,
        httpx2.AsyncClient() as http,
    ):
        said = await whoami(ann)
        assert "toolscout login safe --principal ann" in said
        done = await browse(link_in(said), http)
        assert "Logged in to safe" in done.text
        store = OAuthTokenStore(started.home / "state" / "logins")
        grant = store.load(urls[0], "ann")
        assert grant is not None
        assert await whoami(ann) == f"login {grant.client_id}"
        said = await whoami(bob)
        assert "needs your own login" in said
        assert "--principal bob" in said
        assert store.load(urls[0], "bob") is None
        assert store.load(urls[0], "") is None


async def test_a_link_is_used_once_and_only_for_its_server(
    serve: Serve, urls: tuple[str, str]
) -> None:
    servers = {"safe": {"url": urls[0], "oauth": OWN}, "other": {"url": urls[1], "oauth": OWN}}
    async with (
        serve(servers, auth={"tokens": TOKENS}) as started,
        client_of(started, "ann") as ann,
        httpx2.AsyncClient() as http,
    ):
        link = link_in(await whoami(ann))
        for wrong in (link.replace("/safe", "/other"), f"{link}x", link.partition("?")[0]):
            assert (await http.get(wrong)).status_code == 403
        assert "Logged in" in (await browse(link, http)).text
        assert (await http.get(link)).status_code == 403


async def test_only_the_browser_that_started_a_login_completes_it(
    serve: Serve, urls: tuple[str, str]
) -> None:
    async with (
        serve({"safe": {"url": urls[0], "oauth": OWN}}, auth={"tokens": TOKENS}) as started,
        client_of(started, "ann") as ann,
        httpx2.AsyncClient() as anns_browser,
        httpx2.AsyncClient() as bobs_browser,
    ):
        link = link_in(await whoami(ann))
        stopped = await browse(link, anns_browser, stop_at="/callback")
        back = stopped.headers["location"]
        refused = await bobs_browser.get(back)
        assert refused.status_code == 403
        assert "was not started here" in refused.text
        wrong_state = back.replace("state=", "state=x")
        assert (await anns_browser.get(wrong_state)).status_code == 403
        assert "Logged in" in (await anns_browser.get(back)).text
        assert (await anns_browser.get(back)).status_code == 403


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_that_opens_addresses_is_asked_while_its_call_waits(
    serve: Serve, urls: tuple[str, str], mode: str
) -> None:
    shown: list[str] = []

    async def open_page(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestURLParams)
        shown.append(params.url)
        async with httpx2.AsyncClient() as http:
            await browse(params.url, http)
        return types.ElicitResult(action="accept")

    async with serve({"safe": {"url": urls[0], "oauth": OWN}}, auth={"tokens": TOKENS}) as started:
        # Somebody has to list the tools first.
        store = OAuthTokenStore(started.home / "state" / "logins")
        await logged_in(urls[0], store, "")
        async with client_of(started, "ann", mode, elicitation_callback=open_page) as ann:
            said = await whoami(ann)
        grant = store.load(urls[0], "ann")
        assert grant is not None
        assert said == f"login {grant.client_id}"
        assert len(shown) == 1


def test_the_command_logs_in_lists_and_logs_out_principals(
    urls: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "mcp.json"
    servers = {"safe": {"url": urls[0], "oauth": OWN}, "all": {"url": urls[1]}}
    path.write_text(json.dumps({"mcpServers": servers}))
    env = {**os.environ, "TOOLSCOUT_HOME": str(tmp_path / "home")}

    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "toolscout.cli", "login", *arguments]
        with subprocess.Popen(
            [*command, "--config", str(path)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                said += line
                if line.startswith("http"):
                    agrees(line.strip())
            return process.wait(), said

    code, said = run("safe", "--principal", "ann", "--no-browser")
    assert (code, "for ann" in said) == (0, True), said
    code, said = run("--list", "--json")
    assert json.loads(said) == [{"server": "safe", "principal": "ann", "status": "renews itself"}]
    assert run("all", "--principal", "ann")[0] == 2
    assert "no stored login" in run("safe", "--forget")[1]
    assert "Logged out of safe." in run("safe", "--principal", "ann", "--forget")[1]
    assert json.loads(run("--list", "--json")[1]) == []
    assert run()[0] == 2


async def main() -> None:
    """Another process: one call of Ann's."""
    url, folder = sys.argv[1:]
    print("ready", flush=True)  # noqa: T201 -- for the process that started this one
    sys.stdin.readline()
    async with opened(own(url), grants=OAuthTokenStore(folder)) as (source,):
        print(await called(source, "ann"))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
