"""A real OpenID provider from npm: its tokens, its keys as they rotate, and its login."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
import pytest
from joserfc import jwk
from tests.gateway import node
from tests.gateway.conftest import Running, Serve, small, text
from tests.gateway.test_access import as_, post, run
from tests.upstreams.processes import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(node.missing()), reason=node.missing() or "never"),
    pytest.mark.timeout(600),
]
SCRIPT = Path(__file__).parent / "issuer.mjs"


@pytest.fixture(scope="session")
def packages() -> Path:
    return node.installed("issuer", node.ISSUER) / "node_modules"


class Issuer:
    """The provider, which can be stopped, and started again with another key."""

    def __init__(self, packages: Path, folder: Path, callback: str) -> None:
        self._packages = packages
        self._keys = folder / "issuer-keys.json"
        self.callback = callback
        self._port = free_port()
        self.base = f"http://127.0.0.1:{self._port}"

    @contextmanager
    def running(self, kid: str) -> Iterator[None]:
        fields: Any = {"kid": kid, "use": "sig", "alg": "RS256"}
        key = jwk.generate_key("RSA", 2048, fields)
        self._keys.write_text(json.dumps({"keys": [key.as_dict(private=True)]}))
        command = [str(self._packages / ".bin" / "node"), str(SCRIPT)]
        module = self._packages / "oidc-provider" / "lib" / "index.js"
        arguments = [str(module), str(self._port), str(self._keys), self.callback]
        with subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"listening\n"
            try:
                yield
            finally:
                process.kill()

    async def token(self, resource: str, client: str = "machine-admin") -> str:
        form = {"grant_type": "client_credentials", "resource": resource, "scope": "tools"}
        login = httpx2.BasicAuth(client, "a%20secret%20of%20the%20machine")
        async with httpx2.AsyncClient() as http:
            answer = await http.post(f"{self.base}/token", data=form, auth=login)
        return answer.json()["access_token"]


def settings(issuer: Issuer, **more: Any) -> dict[str, Any]:
    return {
        "issuer": issuer.base,
        "audience": "${GATEWAY_URL}/mcp",
        "role_claim": "roles",
        **more,
    }


async def status(running: Running, token: str) -> int:
    return (await post(running.url, Authorization=f"Bearer {token}")).status_code


async def test_tokens_follow_the_keys_of_the_provider_through_a_rotation(
    serve: Serve, packages: Path, tmp_path: Path
) -> None:
    issuer = Issuer(packages, tmp_path, "http://127.0.0.1:9/login/callback")
    auth = settings(issuer, keys_retry_seconds=1, keys_max_age_seconds=2)
    policies = {"none": {"principals": ["nobody"]}, "m": {"principals": ["machine-*"]}}
    async with serve({"one": small()}, auth=auth, policies=policies) as running:
        async with asyncio.timeout(120):
            with issuer.running("first"):
                old = await issuer.token(running.url)
                other = await issuer.token("https://other.example/mcp")
                while await status(running, old) == 503:
                    pass
                assert await status(running, old) == 200
                assert await status(running, other) == 401
                async with as_(running, old) as client:
                    assert text(await run(client, "one__echo", text="hi")) == "hi"
                async with httpx2.AsyncClient(timeout=60) as http:
                    login = {"Authorization": f"Bearer {old}"}
                    base = running.url.removesuffix("/mcp")
                    facts = (await http.get(f"{base}/health", headers=login)).json()
                    assert "parts" in facts, "the claim makes it an admin"
            # The provider is down, and the known keys stay in use.
            assert await status(running, old) == 200
            with issuer.running("second"):
                new = await issuer.token(running.url)
                while await status(running, new) != 200:
                    pass
                while await status(running, old) != 401:
                    pass
                assert await status(running, new) == 200
        log = (running.home / "state" / "audit.jsonl").read_text()
        assert json.loads(log.splitlines()[0])["principal"] == "machine-admin"


class Browser:
    """A person with a browser: follows redirects, fills in the forms of the provider."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self.callback = ""

    async def open(self, url: str) -> httpx2.Response:
        """Follow redirects by hand, as far as a page; keeps the address that came back."""
        answer = await self.http.get(url)
        while answer.is_redirect:
            url = urljoin(url, answer.headers["location"])
            if "/login/callback" in url:
                self.callback = url
                return answer
            answer = await self.http.get(url)
        return answer

    async def submit(self, page: httpx2.Response, **fields: str) -> httpx2.Response:
        """Send the form of a page, and follow."""
        (action,) = re.findall(r'action="([^"]+)"', page.text)
        hidden = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page.text))
        answer = await self.http.post(urljoin(str(page.url), action), data={**hidden, **fields})
        return await self.open(urljoin(str(page.url), answer.headers["location"]))

    async def log_in(self, base: str, name: str) -> None:
        """Log in and consent at the provider, up to the address of the gateway."""
        page = await self.open(f"{base}/login/openid")
        page = await self.submit(page, login=name, password="any")
        if not self.callback:
            await self.submit(page)


@asynccontextmanager
async def login_gateway(
    serve: Serve, packages: Path, folder: Path, **more: Any
) -> AsyncIterator[tuple[str, Issuer]]:
    # The provider has to know the address of the gateway, whose port is free only once it runs.
    callback = folder / "callback"
    callback.mkdir()
    issuer = Issuer(packages, callback, "")
    auth = settings(issuer, client_id="gateway", client_secret="a secret of the gateway", **more)
    policies = {"all": {"deny": ["one__*"]}}
    async with serve({"one": small()}, auth=auth, policies=policies) as running:
        base = running.url.removesuffix("/mcp")
        issuer.callback = f"{base}/login/callback"
        with issuer.running("first"):
            yield base, issuer


async def test_a_person_logs_in_with_the_code_flow_and_gets_the_role_of_the_claim(
    serve: Serve, packages: Path, tmp_path: Path
) -> None:
    async with login_gateway(serve, packages, tmp_path) as (base, _), asyncio.timeout(120):
        for name, role in (("admin-eve", "admin"), ("ann", "user")):
            async with httpx2.AsyncClient(timeout=60) as http:
                browser = Browser(http)
                await browser.log_in(base, name)
                begun = parse_qs(urlsplit(browser.callback).query)
                assert {"code", "state", "iss"} <= begun.keys()
                done = await http.get(browser.callback)
                assert done.status_code == 200
                assert 'http-equiv="refresh"' in done.text
                cookies = done.headers.get_list("set-cookie")
                (session,) = [c for c in cookies if "toolscout_login" not in c]
                assert "HttpOnly" in session
                assert "SameSite=strict" in session
                page = (await http.get(f"{base}/", headers={"accept": "text/html"})).text
                assert f"Logged in as {name} ({role})" in page
                health = (await http.get(f"{base}/health")).json()
                assert ("parts" in health) is (role == "admin")
                assert (await post(f"{base}/mcp", Cookie=session)).status_code == 401
                # The same answer again, even in the same browser, logs nobody in.
                again = await http.get(browser.callback)
                assert again.status_code == 403


async def test_an_answer_for_another_browser_or_with_another_code_logs_nobody_in(
    serve: Serve, packages: Path, tmp_path: Path
) -> None:
    async with (
        login_gateway(serve, packages, tmp_path) as (base, _),
        httpx2.AsyncClient(timeout=60) as mine,
        httpx2.AsyncClient(timeout=60) as other,
        asyncio.timeout(120),
    ):
        eve, ann = Browser(mine), Browser(other)
        await eve.log_in(base, "admin-eve")
        await ann.log_in(base, "ann")

        def query(address: str) -> dict[str, str]:
            return {k: v[0] for k, v in parse_qs(urlsplit(address).query).items()}

        evil, good = query(eve.callback), query(ann.callback)
        for answer in (
            {**good, "state": "x"},
            {k: v for k, v in good.items() if k != "state"},
            evil,  # login CSRF: her answer in his browser
        ):
            refused = await other.get(f"{base}/login/callback", params=answer)
            assert refused.status_code == 403
            assert "set-cookie" not in refused.headers
        # Her code with his state: PKCE and the nonce belong to another attempt.
        mixed = await other.get(f"{base}/login/callback", params={**good, "code": evil["code"]})
        assert mixed.status_code == 403
        assert (await other.get(f"{base}/metrics")).status_code == 401


async def test_while_the_provider_is_down_the_login_page_says_so(
    serve: Serve, tmp_path: Path, packages: Path
) -> None:
    issuer = Issuer(packages, tmp_path, "")
    auth = settings(issuer, client_id="gateway")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", urlsplit(issuer.base).port or 0))
        async with serve({"one": small()}, auth=auth) as running, httpx2.AsyncClient() as http:
            base = running.url.removesuffix("/mcp")
            answer = await http.get(f"{base}/login/openid")
            assert answer.status_code == 502
            assert "does not answer" in answer.text
