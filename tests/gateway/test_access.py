"""Who may connect, what each may do, and what is written down about it."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from fastmcp.server.auth import AuthProvider
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.gateway.conftest import Running, Serve, small, text

from toolscout.errors import ConfigError, SourceError
from toolscout.gateway.client.auth import build_auth_provider, check_exposure
from toolscout.gateway.client.sessions import Principal, scope_to_rule
from toolscout.gateway.settings import JWT, AccessPolicy, Auth
from toolscout.gateway.setup import AccessRule
from toolscout.gateway.sockets import bind_socket
from toolscout.sources.mcp.mcp_source import MCPSource
from toolscout.sources.mcp.server_config import read_server_config

ALICE, BOB = "alice-token-0123456789", "bob-token-0123456789"
TOKENS = {"auth": {"tokens": {"alice": ALICE, "bob": "${BOB_TOKEN}"}}}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def as_(running: Running, token: str, mode: str = "legacy") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(running.url, http_client=http), mode=mode) as client,
    ):
        yield client


async def run(client: Client, tool: str, **arguments: Any) -> Any:
    return await client.call_tool("call_tool", {"name": tool, "arguments": arguments})


async def post(url: str, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=60) as http:
        return await http.post(url, json=INITIALIZE, headers={**ACCEPT, **headers})


async def test_without_a_right_token_nobody_gets_in(serve: Serve) -> None:
    async with serve({"one": small()}, variables={"BOB_TOKEN": BOB}, **TOKENS) as running:
        assert (await post(running.url)).status_code == 401
        assert (await post(running.url, Authorization="Bearer wrong")).status_code == 401
        assert (await post(running.url, Authorization=f"Bearer {BOB}")).status_code == 200


async def test_an_upstream_that_wants_a_bearer_token_gets_it_from_the_environment(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve({"one": small()}, variables={"BOB_TOKEN": BOB}, **TOKENS) as running:
        config = tmp_path / "front.json"
        entry = {"url": running.url, "headers": {"Authorization": "Bearer ${UP}"}}
        config.write_text(json.dumps({"mcpServers": {"up": entry}}))

        async def tried(token: str) -> str:
            (server,) = read_server_config(config, variables={"UP": token}).servers
            source = MCPSource(server)
            try:
                tools = {t.local_name: t for t in await source.tools()}
                call = {"name": "one__echo", "arguments": {"text": "through two"}}
                return (await source.call(tools["call_tool"], call)).text
            except SourceError as error:
                return str(error)
            finally:
                await source.close()

        assert await tried(BOB) == "through two"
        refused = await tried("wrong-token-0123456789")
        assert "it answered with HTTP status 401" in refused
        assert "wrong-token" not in refused


async def test_policies_hold_for_search_and_call_alike(serve: Serve) -> None:
    policies = {
        "all": {"principals": ["alice"]},
        "some": {"principals": ["bob"], "servers": ["one"], "deny": ["one__tool_1*"]},
    }
    servers = {"one": small("several"), "two": small()}
    async with serve(servers, variables={"BOB_TOKEN": BOB}, policies=policies, **TOKENS) as running:
        async with as_(running, ALICE) as alice:
            assert not (await run(alice, "two__echo", text="x")).is_error
        for mode in ("legacy", "2026-07-28"):
            async with as_(running, BOB, mode) as bob:
                assert not (await run(bob, "one__tool_2", text="x")).is_error
                for hidden in ("two__echo", "one__tool_1", "one__tool_12"):
                    assert "no tool" in text(await run(bob, hidden, text="x"))
                    asked = {"query": f"select:{hidden}"}
                    answer = text(await bob.call_tool("tool_search", asked))
                    assert "Say it back" not in answer
                    assert f"thing number {hidden[-1]}" not in answer
                listed = json.dumps([t.model_dump() for t in (await bob.list_tools()).tools])
                assert "echo" not in listed


async def test_a_read_only_policy_believes_only_annotations(serve: Serve) -> None:
    policies = {"readers": {"read_only": True}}
    async with (
        serve({"one": small("hints")}, policies=policies) as running,
        running.client() as client,
    ):
        assert not (await run(client, "one__look", text="x")).is_error
        assert (await run(client, "one__change", text="x")).is_error
        assert (await run(client, "one__unknown", text="x")).is_error


def test_the_session_keys_of_0_1_stay_valid_for_rules_of_one_and_two_policies() -> None:
    one = AccessPolicy(
        principals=("alice", "bob"), servers=("one",), deny=("*__delete_*",), read_only=True
    )
    two = AccessPolicy(tools=("it's",))
    # What repr() gave in 0.1, when the classes were called Rule and Policy.
    first = (
        "Policy(principals=('alice', 'bob'), servers=('one',), tools=(),"
        " deny=('*__delete_*',), read_only=True)"
    )
    second = """Policy(principals=('*',), servers=(), tools=("it's",), deny=(), read_only=False)"""
    assert AccessRule((one,)).session_key_text == f"Rule(policies=({first},))"
    assert AccessRule((one, two)).session_key_text == f"Rule(policies=({first}, {second}))"
    scoped = scope_to_rule(Principal("alice", "k", "o"), AccessRule((one,)))
    assert scoped.session == "89959a626463fe2eef885a39b7373b25699f186b"


async def test_whom_no_policy_concerns_may_do_nothing(serve: Serve) -> None:
    policies = {"all": {"principals": ["alice"]}}
    async with (
        serve(
            {"one": small()}, variables={"BOB_TOKEN": BOB}, policies=policies, **TOKENS
        ) as running,
        as_(running, BOB) as bob,
    ):
        assert (await run(bob, "one__echo", text="x")).is_error


async def test_a_stateless_principal_keeps_its_tools_and_no_other_sees_them(serve: Serve) -> None:
    options = {"gateway": {"surface": "load"}, **TOKENS}
    async with serve(
        {"many": small("several")}, variables={"BOB_TOKEN": BOB}, **options
    ) as running:
        async with as_(running, ALICE, "2026-07-28") as alice:
            await alice.call_tool("tool_search", {"query": "select:many__tool_7"})
        async with as_(running, ALICE, "2026-07-28") as alice:
            assert "many__tool_7" in [t.name for t in (await alice.list_tools()).tools]
        async with as_(running, BOB, "2026-07-28") as bob:
            stolen: Any = {"toolscout/session": ""}
            listed = await bob.list_tools(meta=stolen)
            assert "many__tool_7" not in [t.name for t in listed.tools]


async def test_knowing_the_id_of_anothers_conversation_opens_none(serve: Serve) -> None:
    options = {"gateway": {"surface": "load"}, **TOKENS}
    async with serve(
        {"many": small("several")}, variables={"BOB_TOKEN": BOB}, **options
    ) as running:
        known: Any = {"toolscout/session": "our project"}
        for mode in ("legacy", "2026-07-28"):
            async with as_(running, ALICE, mode) as alice, as_(running, BOB, mode) as bob:
                asked = {"query": "select:many__tool_7"}
                await alice.call_tool("tool_search", asked, meta=known)
                for client, has in ((alice, True), (bob, False)):
                    names = [t.name for t in (await client.list_tools(meta=known)).tools]
                    assert ("many__tool_7" in names) is has


async def test_saved_tokens_add_up_and_outlive_the_gateway(serve: Serve) -> None:
    async def total(running: Running) -> int:
        async with running.client() as client:
            await client.list_tools()
        async with httpx2.AsyncClient() as http:
            base = running.url.removesuffix("/mcp")
            saved = (await http.get(f"{base}/health")).json()["tokens_saved"]
            metrics = (await http.get(f"{base}/metrics")).text
        assert f"toolscout_tokens_saved {saved:g}" in metrics
        return saved

    async with serve({"many": small("several")}) as running:
        once = await total(running)
        twice = await total(running)
    async with serve({"many": small("several")}) as running:
        thrice = await total(running)
    assert 0 < once < twice < thrice


async def test_jwt_is_checked_for_signature_issuer_and_audience(serve: Serve) -> None:
    secret = "a shared secret of some length, for HMAC"
    auth = {
        "jwt": {
            "public_key": secret,
            "algorithm": "HS256",
            "issuer": "https://issuer.example",
            "audience": "toolscout",
        }
    }

    def token(key: str = secret, **claims: Any) -> str:
        right = {"sub": "carol", "iss": "https://issuer.example", "aud": "toolscout"}
        return jwt.encode({**right, "exp": 4_000_000_000, **claims}, key, algorithm="HS256")

    async with serve({"one": small()}, auth=auth) as running:
        assert (await post(running.url, Authorization=f"Bearer {token()}")).status_code == 200
        for wrong in (token("another secret of some length, too"), token(aud="x"), token(iss="x")):
            answer = await post(running.url, Authorization=f"Bearer {wrong}")
            assert answer.status_code == 401


def test_any_fastmcp_provider_may_authenticate_users() -> None:
    options = {"client_id": "i", "client_secret": "s" * 20, "base_url": "https://gate.example"}
    github = "fastmcp.server.auth.providers.github.GitHubProvider"
    made = build_auth_provider(Auth(provider=github, options=options), tokens=dict)
    assert isinstance(made, AuthProvider)
    for auth, says in (
        (Auth(provider="os.system"), "not one of FastMCP's"),
        (Auth(provider=github, options={"nonsense": 1}), "cannot be used"),
        (Auth(tokens={"a": "short"}), "too short"),
        (Auth(jwt=JWT(public_key="k")), "audience and its issuer"),
    ):
        with pytest.raises(ConfigError, match=says):
            build_auth_provider(auth, tokens=dict)


@pytest.mark.parametrize(
    ("headers", "code", "setting"),
    [
        ({"Host": "evil.example"}, 421, "allowed_hosts"),
        ({"Origin": "https://evil.example"}, 403, "allowed_origins"),
        ({"Host": "127.0.0.1.evil.example"}, 421, "allowed_hosts"),
    ],
)
async def test_a_cross_site_request_of_a_browser_is_refused_with_the_setting_to_change(
    serve: Serve, headers: dict[str, str], code: int, setting: str
) -> None:
    async with serve({"one": small()}) as running:
        assert (await post(running.url)).status_code == 200
        refused = await post(running.url, **headers)
    assert refused.status_code == code
    assert f"to {setting} under [gateway]" in " ".join(refused.text.split())
    assert refused.headers["content-type"].startswith("text/plain")
    assert int(refused.headers["content-length"]) == len(refused.content)


def test_an_address_that_others_reach_needs_authentication() -> None:
    check_exposure("127.0.0.1", Auth())
    check_exposure("::1", Auth())
    check_exposure("0.0.0.0", Auth(tokens={"a": ALICE}))
    for host in ("0.0.0.0", "192.168.1.5", "::", "example.com"):
        with pytest.raises(ConfigError, match="needs authentication"):
            check_exposure(host, Auth())


def test_a_port_in_use_is_reported_with_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match=r"in use\. Stop the program that uses the port"):
            bind_socket("127.0.0.1", taken.getsockname()[1])


async def test_the_audit_log_has_caller_tool_and_outcome_but_no_values(serve: Serve) -> None:
    async with serve({"one": small()}, variables={"BOB_TOKEN": BOB}, **TOKENS) as running:
        async with as_(running, ALICE) as alice:
            await run(alice, "one__echo", text="my secret words")
            await run(alice, "one__nothing", text="my secret words")
        lines = (running.home / "state" / "audit.jsonl").read_text()
    assert "secret" not in lines
    called, refused = (json.loads(line) for line in lines.splitlines())
    assert called["principal"] == "alice"
    assert (called["tool"], called["server"]) == ("one__echo", "one")
    assert called["arguments"] == {"text": "text(15)"}
    assert called["outcome"] == "ok"
    assert refused["outcome"] == "unknown_tool"


async def test_health_and_metrics_tell_how_each_server_is(serve: Serve) -> None:
    servers = {"one": small(), "bad": small("exits"), "unset": {**small(), "env": {"A": "${NO}"}}}
    async with serve(servers, variables={}) as running, running.client() as client:
        await run(client, "one__echo", text="x")
        await client.call_tool("tool_search", {"query": "say it back"})
        base = running.url.removesuffix("/mcp")
        async with httpx2.AsyncClient() as http:
            health = (await http.get(f"{base}/health")).json()
            assert (health["live"], health["ready"]) == (True, True)
            assert health["status"] == "degraded"
            assert health["servers"]["one"]["status"] == "ready"
            assert "licence key" in health["servers"]["bad"]["reason"]
            assert "NO, which is not set" in health["servers"]["unset"]["reason"]
            assert health["tokens_saved"] >= 0
            metrics = (await http.get(f"{base}/metrics")).text
            assert 'toolscout_calls_total{outcome="ok",server="one"} 1' in metrics
            assert 'toolscout_searches_total{found="yes"} 1' in metrics
            assert 'toolscout_upstream_up{server="one",status="ready"} 1' in metrics
            assert "toolscout_call_seconds_count 1" in metrics
            sample = re.compile(r'[a-z_]+({([a-z_]+="[^"\n]*",?)+})? [0-9.e+-]+')
            for line in metrics.splitlines():
                assert line.startswith("# TYPE ") or sample.fullmatch(line), line


async def test_unauthenticated_callers_see_only_that_the_gateway_is_alive(serve: Serve) -> None:
    async with serve({"one": small()}, variables={"BOB_TOKEN": BOB}, **TOKENS) as running:
        base = running.url.removesuffix("/mcp")
        async with httpx2.AsyncClient() as http:
            assert set((await http.get(f"{base}/health")).json()) == {"status", "live", "ready"}
            assert (await http.get(f"{base}/metrics")).status_code == 401
            me = {"Authorization": f"Bearer {ALICE}"}
            known = (await http.get(f"{base}/health", headers=me)).json()
            assert "servers" in known
            assert known["parts"]["store"]["status"] == "ok"
