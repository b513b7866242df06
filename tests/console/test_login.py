"""Who may open the console: everybody on loopback, and only admins where there is a login."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from playwright.async_api import expect
from tests.attack.lab import Lab, Target
from tests.console.conftest import SHOP, OpenWindow, log_in

from toolscout.console.navigation import PAGES
from toolscout.console.page import ROOT

HTML = {"accept": "text/html"}
ADMIN = {"authorization": "Bearer root-has-a-long-secret"}
USER = {"authorization": "Bearer ann-has-a-long-secret"}
ROUTES = [
    (route.method, f"{ROOT}{page.path}{route.path}".replace("{", "").replace("}", ""))
    for page in PAGES
    for route in page.routes
]


async def test_a_browser_logs_in_with_a_link_and_out_again(
    open_window: OpenWindow, guarded: Target
) -> None:
    window = await open_window(guarded)
    page = await window.open()
    await expect(page).to_have_url(f"{guarded.base}/login")
    await log_in(window, guarded)
    await page.get_by_role("link", name="Open the console").click()
    await expect(page.locator("h1")).to_have_text("Overview")
    await expect(page.locator(".account")).to_contain_text("operator")
    await window.check_accessibility()
    await page.get_by_role("button", name="Log out").click()
    await window.open()
    await expect(page).to_have_url(f"{guarded.base}/login")


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_no_route_answers_strangers_or_users_without_the_role(
    guarded: Target, method: str, path: str
) -> None:
    async with httpx2.AsyncClient(base_url=guarded.base) as http:
        stranger = await http.request(method, path)
        user = await http.request(method, path, headers=USER)
        wrong = await http.request(method, path, headers={"authorization": "Bearer wrong" * 4})
    assert (stranger.status_code, user.status_code, wrong.status_code) == (401, 403, 401)
    assert "shop" not in stranger.text + user.text + wrong.text


async def test_an_admin_may_use_a_token_and_htmx_is_sent_to_the_login(guarded: Target) -> None:
    async with httpx2.AsyncClient(base_url=guarded.base) as http:
        admin = await http.get("/console", headers={**HTML, **ADMIN})
        part = await http.get("/console/live", headers={**HTML, "hx-request": "true"})
        style = await http.get("/console/static/console.css")
    assert admin.status_code == 200
    assert (part.status_code, part.headers["hx-redirect"]) == (401, "/login")
    assert style.status_code == 200


POSTS = [path for method, path in ROUTES if method == "POST"]


@pytest.mark.parametrize("path", POSTS)
async def test_a_form_of_another_page_changes_nothing(gateway: Target, path: str) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    async with httpx2.AsyncClient(base_url=gateway.base, headers=form) as http:
        page = (await http.get("/console/playground/tools/shop__find_order", headers=HTML)).text
        csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
        neighbour = {"origin": "http://127.0.0.1:9"}
        refused = [
            await http.post(path),
            await http.post(path, content="csrf=wrong"),
            await http.post(path, content=f"csrf={csrf}", headers=neighbour),
            await http.post(path, content=f"csrf={csrf}", headers={"sec-fetch-site": "same-site"}),
        ]
        other = await http.post(path, content="{}", headers={"content-type": "application/json"})
        long = await http.post(path, content="csrf=" + "x" * 1_100_000)
    assert csrf
    assert [answer.status_code for answer in refused] == [403] * 4
    assert (other.status_code, long.status_code) == (415, 413)


async def test_the_console_can_be_switched_off_and_needs_a_login_under_a_public_name(
    tmp_path: Path,
) -> None:
    tables = {"gateway": {"console": False}}
    async with (
        Lab(tmp_path).gateway({"shop": SHOP}, **tables) as target,
        httpx2.AsyncClient(base_url=target.base, headers=HTML) as http,
    ):
        off = await http.get("/console")
        front = await http.get("/")
    assert (off.status_code, "/console" in front.text) == (404, False)
    assert "Console:" not in target.log.read_text()
    public = tmp_path / "public"
    public.mkdir()
    tables = {"gateway": {"allowed_hosts": ["tools.example.com"]}}
    async with Lab(public).gateway({"shop": SHOP}, **tables) as target:
        headers = {**HTML, "host": "tools.example.com"}
        async with httpx2.AsyncClient(base_url=target.base, headers=headers) as http:
            proxied = await http.get("/console")
    assert (proxied.status_code, proxied.headers["location"]) == (303, "/login")
