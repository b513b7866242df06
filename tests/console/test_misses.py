"""The page Misses and its commands: find what was missed, add a phrase, and find the tool by it."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import expect
from tests.attack.lab import Lab, Target
from tests.console.conftest import SHOP, Kitchen, OpenWindow, become_admin, wait_for_tools

QUERY = "polish the silverware"
WISH = "frobnicate <svg onload=frob()>gizmo</svg>"


async def ask(kitchen: Target, *queries: str) -> str:
    async with kitchen.client("legacy") as client:
        for query in queries:
            answer = await client.call_tool("tool_search", {"query": query})
    return str(answer.content)


async def test_a_phrase_is_added_to_the_right_tool_which_is_found_by_it_then(
    open_window: OpenWindow, kitchen: Kitchen
) -> None:
    await ask(kitchen.target, QUERY, "please polish the silverware", WISH)
    window = await open_window(kitchen.target)
    await become_admin(window, kitchen.target)
    page = await window.open("/misses")
    row = page.get_by_role("row", name="polish the silverware")
    await expect(row).to_contain_text("low confidence: 2")
    await expect(page.get_by_label("Misses", exact=True)).to_contain_text(WISH)
    assert await page.locator("main svg").count() == 0
    await window.check_accessibility()
    await row.get_by_role("link").click()
    await page.get_by_label("Tool", exact=True).fill("menu__wash_up")
    await page.get_by_label("Phrase").fill(QUERY)
    before = kitchen.overlay.read_text()
    await page.get_by_role("button", name="Preview").click()
    preview = page.get_by_label("Preview")
    ranks = preview.get_by_role("row", name=QUERY).last.get_by_role("cell")
    assert [await ranks.nth(n).inner_text() for n in (0, 2)] == ["not ranked", "1 of 8"]
    assert kitchen.overlay.read_text() == before, "a preview saves nothing"
    await window.check_accessibility()
    await preview.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status")).to_have_text(f"Added to menu__wash_up: {QUERY}")
    assert "menu__wash_up" in await ask(kitchen.target, QUERY)
    assert QUERY in kitchen.overlay.read_text()


async def test_the_keyboard_alone_adds_an_alias(open_window: OpenWindow, kitchen: Kitchen) -> None:
    await ask(kitchen.target, "launder napkins")
    window = await open_window(kitchen.target)
    await become_admin(window, kitchen.target)
    page = await window.open("/misses")
    await page.get_by_role("link", name="launder napkins").focus()
    await page.keyboard.press("Enter")
    await page.get_by_label("Tool", exact=True).focus()
    await page.keyboard.type("menu__wash_up")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Delete")
    await page.keyboard.press("Tab")
    await page.keyboard.type("launder_napkins")
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Save").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_contain_text("launder_napkins")
    async with kitchen.target.client("legacy") as client:
        call = {"name": "launder_napkins", "arguments": {"dish": "soup"}}
        assert not (await client.call_tool("call_tool", call)).is_error


async def test_the_commands_list_and_preview_as_the_page_does(kitchen: Kitchen) -> None:
    await ask(kitchen.target, "yodel at dawn")
    found = json.loads(kitchen.run("misses", "--json").stdout)
    # The command was not started with record = "full", so it shows no text.
    assert [cluster["texts"] for cluster in found] == [[]] * len(found)
    file = str(kitchen.config)
    words = ("catalog", "phrases", "add", "menu__serve_dish", "yodel at dawn", "--preview",
             "--config", file, "--embedder", "none", "--json")  # fmt: skip
    before = kitchen.overlay.read_text()
    (row,) = json.loads(kitchen.run(*words).stdout)
    assert (row["before"]["rank"], row["after"]["rank"]) == (None, 1)
    assert kitchen.overlay.read_text() == before


async def test_nobody_adds_a_phrase_without_a_login(kitchen: Kitchen, guarded: Target) -> None:
    await ask(kitchen.target, "whistle a tune")
    before = kitchen.overlay.read_text()
    async with httpx2.AsyncClient(base_url=kitchen.target.base) as http:
        page = (await http.get("/console/playground/tools/menu__wash_up")).text
        csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
        form = {"csrf": csrf, "tool": "menu__wash_up", "phrase": "whistle a tune"}
        assert (await http.post("/console/misses/x", data=form)).status_code == 401
        assert (await http.post("/console/misses/x", data={**form, "csrf": "y"})).status_code == 403
    login = {"authorization": "Bearer ann-has-a-long-secret"}
    async with httpx2.AsyncClient(base_url=guarded.base, headers=login) as http:
        assert (await http.get("/console/misses")).status_code == 403
        assert (await http.post("/console/misses/x", data={})).status_code == 403
    assert kitchen.overlay.read_text() == before


async def test_without_full_records_no_text_is_shown_and_without_an_overlay_nothing_is_added(
    open_window: OpenWindow, tmp_path: Path
) -> None:
    variables = {"TOOLSCOUT_RECORD": "shape"}
    async with Lab(tmp_path).gateway({"shop": SHOP}, variables=variables) as target:
        await wait_for_tools(target, 6)
        await ask(target, "a very secret wish")
        window = await open_window(target)
        page = await window.open("/misses")
        await page.get_by_role("link", name="18 characters").click()
        await expect(page.locator("main")).to_contain_text("No overlay file is configured")
        assert "secret" not in await page.content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_group_of_misses_fits_a_phone(
    open_window: OpenWindow, kitchen: Kitchen, scheme: str
) -> None:
    await ask(kitchen.target, "tune the old piano")
    size = {"width": 375, "height": 700}
    window = await open_window(kitchen.target, color_scheme=scheme, viewport=size)
    page = await window.open("/misses")
    await page.get_by_role("link", name="tune the old piano").click()
    await expect(page.locator("h1")).to_have_text("Missed searches")
    assert await page.evaluate("document.documentElement.scrollWidth") <= 375
    await window.check_accessibility()
