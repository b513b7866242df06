"""Login with a browser by a link that `toolscout serve` prints, over real sockets."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.attack.lab import HEADERS, Lab, Target, bad, initialize
from tests.gateway.key_server import DISCOVERY, key_server, new_key, sign

from toolscout.gateway.client.auth import build_issuer
from toolscout.gateway.identity.browser_sessions import BrowserSessions, OneTimeLinks
from toolscout.gateway.identity.login_attempts import LoginAttempts
from toolscout.gateway.identity.login_refusals import LoginRefusedError
from toolscout.gateway.identity.openid_login import OpenIDLogin
from toolscout.gateway.identity.roles import Identity
from toolscout.gateway.settings import Auth

TOKEN = "a-token-of-some-length"
KEY = new_key()
AUTH = {"tokens": {"ann": TOKEN}}


@asynccontextmanager
async def gateway(folder: Path, **tables: Any) -> AsyncIterator[Target]:
    async with Lab(folder).gateway({"one": bad("ok")}, auth=AUTH, **tables) as target:
        yield target


def links(target: Target) -> list[str]:
    """The links that the gateway has printed."""
    return re.findall(r"https?://\S+/login\?key=\S+", target.log.read_text())


def key_of(link: str) -> dict[str, str]:
    return {"key": link.partition("key=")[2]}


def csrf_of(page: str) -> str:
    (found,) = re.findall(r'name="csrf" value="([^"]+)"', page)
    return found


async def test_a_link_logs_in_once_and_its_cookie_opens_pages_but_not_mcp(tmp_path: Path) -> None:
    async with (
        gateway(tmp_path, policies={"none": {"deny": ["*"]}}) as target,
        httpx2.AsyncClient(base_url=target.base) as browser,
        httpx2.AsyncClient(base_url=target.base) as thief,
    ):
        (link,) = links(target)
        # A preview of the link does not use it up.
        for _ in range(2):
            preview = await browser.get(link)
            assert preview.status_code == 200
            assert "set-cookie" not in preview.headers
        opened = await browser.post("/login", data=key_of(link))
        assert (opened.status_code, opened.headers["location"]) == (303, "/")
        (cookie,) = SimpleCookie(opened.headers["set-cookie"]).values()
        assert cookie["httponly"]
        assert cookie["samesite"] == "strict"
        assert (cookie["path"], cookie["domain"], cookie["secure"]) == ("/", "", "")
        assert 0 < int(cookie["max-age"]) <= 12 * 3_600

        assert (await thief.post("/login", data=key_of(link))).status_code == 403
        assert (await thief.get("/metrics")).status_code == 401
        assert (await browser.get("/health")).json()["parts"]
        assert (await browser.get("/metrics")).status_code == 200
        page = (await browser.get("/", headers={"accept": "text/html"})).text
        assert "Logged in as operator (admin)" in page
        assert "<li>one: " in page

        answer = await browser.post("/mcp", json=initialize(), headers=HEADERS)
        assert answer.status_code == 401
        # A wrong token is not rescued by the cookie.
        wrong = {"authorization": "Bearer wrong-token-0123456789"}
        assert (await browser.get("/metrics", headers=wrong)).status_code == 401


async def test_logout_needs_the_forms_secret_and_ends_the_session(tmp_path: Path) -> None:
    async with (
        gateway(tmp_path) as target,
        httpx2.AsyncClient(base_url=target.base) as browser,
        httpx2.AsyncClient(base_url=target.base) as stranger,
    ):
        (link,) = links(target)
        await browser.post("/login", data=key_of(link))
        stolen = dict(browser.cookies)
        csrf = csrf_of((await browser.get("/", headers={"accept": "text/html"})).text)
        evil = {"origin": "https://evil.example"}
        refused = [
            await browser.post("/logout"),
            await browser.post("/logout", data={"csrf": "x" * 43}),
            await browser.post("/logout", data={"csrf": csrf}, headers=evil),
            await stranger.post("/logout", data={"csrf": csrf}),
        ]
        assert [answer.status_code for answer in refused] == [403] * 4
        assert (await browser.get("/metrics")).status_code == 200
        assert (await browser.get("/logout")).status_code == 405
        assert (await browser.post("/logout", data={"csrf": csrf})).status_code == 303
        assert not browser.cookies
        async with httpx2.AsyncClient(base_url=target.base, cookies=stolen) as thief:
            assert (await thief.get("/metrics")).status_code == 401


async def test_a_visitor_can_have_a_new_link_printed_but_does_not_see_it(tmp_path: Path) -> None:
    async with (
        gateway(tmp_path) as target,
        httpx2.AsyncClient(base_url=target.base) as browser,
    ):
        async with asyncio.timeout(60):
            while (printed := await browser.post("/login/link")).status_code == 429:
                assert int(printed.headers["retry-after"]) >= 1
        assert printed.status_code == 200
        first, second = links(target)
        assert key_of(second)["key"] not in printed.text
        for link in (second, first):
            assert (await browser.post("/login", data=key_of(link))).status_code == 303


async def test_the_login_page_runs_no_script_and_shows_a_key_as_text(tmp_path: Path) -> None:
    async with (
        gateway(tmp_path) as target,
        httpx2.AsyncClient(base_url=target.base) as browser,
    ):
        page = await browser.get("/login", params={"key": '"><script>alert(1)</script>'})
        assert "<script>" not in page.text
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "form-action 'self'" in policy
        assert "frame-ancestors 'none'" in policy


async def test_records_in_json_have_no_link(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    async with lab.gateway({"one": bad("ok")}, auth=AUTH, options=["--log", "json"]) as target:
        assert "key=" not in target.log.read_text()
        async with httpx2.AsyncClient(base_url=target.base) as browser:
            assert (await browser.post("/login/link")).status_code == 404
            assert "offers no login" in (await browser.get("/login")).text


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_link_and_a_session_expire_and_are_few() -> None:
    clock = Clock()
    one_time, sessions = OneTimeLinks(60, clock=clock), BrowserSessions(600, clock=clock)
    old = one_time.create()
    cookie = sessions.open(Identity("ann"))
    clock.now += 60
    assert not one_time.redeem(old)
    assert sessions.find(cookie)
    clock.now += 540
    assert sessions.find(cookie) is None
    many = [one_time.create() for _ in range(100)]
    assert sum(map(one_time.redeem, many)) == 8
    assert not any(map(one_time.redeem, many))
    cookies = [sessions.open(Identity("ann")) for _ in range(600)]
    assert sum(sessions.find(each) is not None for each in cookies) == 512


def test_neither_links_nor_cookies_are_kept_in_memory() -> None:
    one_time, sessions = OneTimeLinks(60), BrowserSessions(60)
    key, cookie = one_time.create(), sessions.open(Identity("ann"))
    assert key not in repr(vars(one_time))
    assert cookie not in repr(vars(sessions))


def test_an_attempt_is_of_one_browser_for_one_use_and_a_short_time() -> None:
    clock = Clock()
    attempts = LoginAttempts(clock=clock)
    first, other = attempts.begin(), attempts.begin()
    assert len({first.state, first.nonce, first.verifier, other.state}) == 4
    assert attempts.resume(other.cookie, first.state) is None
    assert attempts.resume("", first.state) is None
    assert attempts.resume(first.cookie[:-1], first.state) is None
    assert LoginAttempts(clock=clock).resume(first.cookie, first.state) is None
    assert attempts.resume(first.cookie, first.state) == first
    assert attempts.resume(first.cookie, first.state) is None
    clock.now += 601
    assert attempts.resume(other.cookie, other.state) is None


@pytest.mark.parametrize(
    ("claims", "answer", "says"),
    [
        ({}, {}, ""),
        ({"nonce": "of another attempt"}, {}, "belongs to another attempt"),
        ({"nonce": None}, {}, "belongs to another attempt"),
        ({"azp": "other"}, {}, "made for another program"),
        ({"aud": ["gateway", "other"]}, {}, "made for another program"),
        ({"aud": "other"}, {}, "another service"),
        ({"sub": None}, {}, "whose it is"),
        ({}, {"iss": "https://evil.example"}, "another login provider"),
        ({}, {"error": "access_denied"}, "did not log you in"),
        ({}, {"code": ""}, "did not log you in"),
    ],
)
async def test_an_id_token_must_be_of_this_attempt_this_client_and_this_issuer(
    claims: dict[str, Any], answer: dict[str, str], says: str
) -> None:
    with key_server() as issuer:
        issuer.publish(one=KEY)
        issuer.documents[DISCOVERY] |= {"token_endpoint": f"{issuer.base}/token"}
        auth = Auth(issuer=issuer.base, audience="toolscout", client_id="gateway")
        provider = build_issuer(auth)
        assert provider is not None
        login, attempt = OpenIDLogin(lambda: auth, provider), LoginAttempts().begin()
        told = {"iss": issuer.base, "aud": "gateway", "nonce": attempt.nonce, **claims}
        issuer.documents["/token"] = {"id_token": sign(KEY, told)}
        query = {"code": "c", **answer}
        if not says:
            assert await login.identify(attempt, query, "http://g") == Identity("carol")
            return
        with pytest.raises(LoginRefusedError, match=says):
            await login.identify(attempt, query, "http://g")


@pytest.mark.parametrize("name", ["toolscout_1", "__Host-toolscout_1"])
async def test_a_session_id_that_a_stranger_chose_is_never_used(tmp_path: Path, name: str) -> None:
    async with gateway(tmp_path) as target:
        port = target.address[1]
        chosen = {name.replace("1", str(port)): "chosen-by-a-stranger"}
        async with httpx2.AsyncClient(base_url=target.base, cookies=chosen) as browser:
            await browser.post("/login", data=key_of(links(target)[0]))
            values = [cookie.value for cookie in browser.cookies.jar]
        async with httpx2.AsyncClient(base_url=target.base, cookies=chosen) as thief:
            assert (await thief.get("/metrics")).status_code == 401
        assert any(value != "chosen-by-a-stranger" for value in values)
