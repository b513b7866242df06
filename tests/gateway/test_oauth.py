"""OAuth from end to end on loopback: an authorisation server, a client, and the gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl
from tests.gateway.conftest import Running, Serve, small, text
from tests.gateway.test_access import ALICE, as_, post, run
from tests.upstreams.processes import free_port, running

from toolscout.errors import ConfigError
from toolscout.gateway.client.auth import build_auth_provider
from toolscout.gateway.settings import JWT, Auth

AUTHORITY = str(Path(__file__).parent / "authority.py")
CALLBACK = "http://127.0.0.1:9/callback"


@pytest.fixture(scope="module")
def authority() -> Iterator[str]:
    port = free_port()
    with running(AUTHORITY, str(port)):
        yield f"http://127.0.0.1:{port}"


def jwt_of(authority: str, **more: Any) -> dict[str, Any]:
    return {
        "jwks_uri": f"{authority}/keys",
        "issuer": f"{authority}/",
        "audience": "${GATEWAY_URL}/mcp",
        "base_url": "${GATEWAY_URL}",
        **more,
    }


class Browser:
    """The user's part: opens what it is sent to, and follows until it is back at the client."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.info: OAuthClientInformationFull | None = None
        self.hosts: list[str] = []
        self._answer: dict[str, list[str]] = {}

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as http:
            while not url.startswith(CALLBACK):
                self.hosts.append(urlsplit(url).netloc)
                answer = await http.get(url)
                assert answer.is_redirect, answer.text
                url = urljoin(url, answer.headers["location"])
        self._answer = parse_qs(urlsplit(url).query)

    async def returned(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**{k: v[0] for k, v in self._answer.items()})

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.info = client_info

    def auth(self, url: str) -> OAuthClientProvider:
        metadata = OAuthClientMetadata(
            client_name="a client", redirect_uris=[AnyUrl(CALLBACK)], scope="tools"
        )
        return OAuthClientProvider(url, metadata, self, self.open, self.returned)


async def echoed(running: Running, browser: Browser, mode: str = "auto") -> str:
    async with (
        httpx2.AsyncClient(auth=browser.auth(running.url), timeout=60) as http,
        Client(streamable_http_client(running.url, http_client=http), mode=mode) as client,
    ):
        return text(await run(client, "one__echo", text="let in"))


def principals(running: Running) -> set[str]:
    rows = (running.home / "state" / "audit.jsonl").read_text().splitlines()
    return {json.loads(row)["principal"] for row in rows}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_that_follows_the_metadata_gets_a_token_and_is_let_in(
    serve: Serve, authority: str, mode: str
) -> None:
    auth = {"jwt": jwt_of(authority, required_scopes=["tools"])}
    async with serve({"one": small()}, auth=auth) as running:
        refused = await post(running.url)
        assert refused.status_code == 401
        base = running.url.removesuffix("/mcp")
        place = f"{base}/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{place}"' in refused.headers["www-authenticate"]
        async with httpx2.AsyncClient() as http:
            told = (await http.get(place)).json()
        assert told["resource"] == running.url
        assert told["authorization_servers"] == [f"{authority}/"]

        browser = Browser()
        assert await echoed(running, browser, mode) == "let in"
        assert browser.hosts == [urlsplit(authority).netloc]
        assert principals(running) == {"ann"}


async def test_a_token_for_another_service_or_time_is_refused(serve: Serve, authority: str) -> None:
    auth = {"jwt": jwt_of(authority, required_scopes=["tools"])}
    async with serve({"one": small()}, auth=auth) as running, httpx2.AsyncClient() as http:

        async def status(**claims: Any) -> int:
            wanted = {"aud": running.url, **claims}
            token = (await http.post(f"{authority}/mint", json=wanted)).text
            return (await post(running.url, Authorization=f"Bearer {token}")).status_code

        assert await status() == 200
        assert await status(aud="https://other.example/mcp") == 401
        assert await status(exp=1_000_000_000) == 401
        assert await status(iss="https://evil.example/") == 401
        assert await status(is_forged=True) == 401
        assert await status(scope="nothing") == 401


async def test_policies_hold_for_whom_the_authorisation_server_names(
    serve: Serve, authority: str
) -> None:
    auth = {"jwt": jwt_of(authority), "tokens": {"alice": ALICE}}
    policies = {"ann": {"principals": ["ann"], "servers": ["one"]}, "a": {"principals": ["alice"]}}
    servers = {"one": small(), "two": small()}
    async with serve(servers, auth=auth, policies=policies) as running:
        browser = Browser()
        assert await echoed(running, browser) == "let in"
        assert browser.tokens is not None
        async with as_(running, browser.tokens.access_token) as ann:
            assert (await run(ann, "two__echo", text="x")).is_error
        async with as_(running, ALICE) as alice:
            assert not (await run(alice, "two__echo", text="x")).is_error


async def test_one_of_fastmcps_providers_lets_users_in_through_their_own_login(
    serve: Serve, authority: str
) -> None:
    options = {
        "config_url": f"{authority}/.well-known/openid-configuration",
        "client_id": "gateway",
        "client_secret": "${SECRET}",
        "base_url": "${GATEWAY_URL}",
        "jwt_signing_key": "a signing key of the gateway's own, long enough",
        "require_authorization_consent": False,
        "token_endpoint_auth_method": "client_secret_post",
        "required_scopes": ["tools"],
    }
    auth = {"provider": "fastmcp.server.auth.oidc_proxy.OIDCProxy", "options": options}
    secret = "the-gateways-own-secret"
    async with serve({"one": small()}, auth=auth, variables={"SECRET": secret}) as running:
        base = running.url.removesuffix("/mcp")
        known = {
            "client_id": "gateway",
            "client_secret": secret,
            "redirect_uri": f"{base}/auth/callback",
        }
        async with httpx2.AsyncClient() as http:
            await http.post(f"{authority}/enrol", json=known)
        refused = await post(running.url)
        assert refused.status_code == 401
        assert "resource_metadata=" in refused.headers["www-authenticate"]
        browser = Browser()
        assert await echoed(running, browser) == "let in"
        assert urlsplit(authority).netloc in browser.hosts
        assert principals(running) == {"ann"}


def test_a_protected_resource_needs_addresses() -> None:
    jwt = JWT(public_key="k" * 40, algorithm="HS256", issuer="not a url", audience="a")
    with pytest.raises(ConfigError, match="needs addresses"):
        build_auth_provider(Auth(jwt=jwt.model_copy(update={"base_url": "gateway"})), tokens=dict)
