"""The frame around every page: navigation, style, keyboard, and who may see it."""

from __future__ import annotations

import httpx2
import pytest
from tests.attack.lab import Target
from tests.console.conftest import OpenWindow, Window

from toolscout.console.navigation import PAGES

HTML = {"accept": "text/html"}
ENTRIES = [(page.title, page.path) for page in PAGES]


@pytest.mark.parametrize(("title", "path"), ENTRIES)
async def test_every_page_of_the_navigation_loads_and_is_accessible(
    window: Window, title: str, path: str
) -> None:
    page = await window.open(path)
    assert await page.locator("h1").inner_text() == title
    assert await page.locator("nav [aria-current=page]").inner_text() == title
    await window.check_accessibility()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("title", "path"), ENTRIES)
async def test_a_page_fits_a_phone_and_is_readable_in_light_and_dark(
    open_window: OpenWindow, title: str, path: str, scheme: str
) -> None:
    window = await open_window(color_scheme=scheme, viewport={"width": 375, "height": 700})
    page = await window.open(path)
    width = await page.evaluate("document.documentElement.scrollWidth")
    assert width <= 375, f"{title} is wider than the phone"
    await window.check_accessibility()


async def test_dark_mode_follows_the_system(open_window: OpenWindow) -> None:
    colours = []
    for scheme in ("light", "dark"):
        page = await (await open_window(color_scheme=scheme)).open()
        colours.append(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(20, 24, 30)"]


async def test_the_keyboard_reaches_the_content_past_the_navigation(window: Window) -> None:
    page = await window.open()
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "content"


async def test_pages_may_not_be_stored_framed_or_run_anything_inline(gateway: Target) -> None:
    async with httpx2.AsyncClient(base_url=gateway.base) as http:
        headers = (await http.get("/console", headers=HTML)).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["cache-control"] == "no-store"


async def test_a_page_of_another_site_reaches_nothing(gateway: Target) -> None:
    async with httpx2.AsyncClient(base_url=gateway.base) as http:
        rebound = await http.get("/console", headers={**HTML, "host": "evil.example"})
        foreign = await http.get("/console", headers={**HTML, "origin": "https://evil.example"})
    assert (rebound.status_code, foreign.status_code) == (421, 403)


async def test_static_files_are_only_those_of_the_package(gateway: Target) -> None:
    async with httpx2.AsyncClient(base_url=gateway.base) as http:
        style = await http.get("/console/static/console.css")
        outside = await http.get("/console/static/..%2Fconsole.py")
        unknown = await http.get("/console/static/secret.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert style.headers["cache-control"] == "no-cache"
    assert (outside.status_code, unknown.status_code) == (404, 404)
