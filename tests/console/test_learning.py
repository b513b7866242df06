"""The page Learning: what was learned, the gain of shadow mode, and a reset for each tool."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import expect
from tests.attack.lab import Lab, Target
from tests.console.conftest import SHOP, TOKENS, OpenWindow, Window, become_admin

CALLED = "shop__find_order"
VARIABLES = {"TOOLSCOUT_EMBEDDER": "use", "TOOLSCOUT_LEARNING": "shadow"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def learner(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    """A gateway in shadow mode, with vectors."""
    lab = Lab(tmp_path_factory.mktemp("learner"))
    async with lab.gateway({"shop": SHOP}, variables=VARIABLES) as target:
        yield target


async def use_tool(target: Target, query: str, name: str, arguments: dict[str, Any]) -> None:
    """Search, call, and search again, which ends the turn."""
    async with asyncio.timeout(60), target.client("legacy") as client:
        while "still" in str((await client.call_tool("tool_search", {"query": query})).content):
            pass
        await client.call_tool("call_tool", {"name": name, "arguments": arguments})
        await client.call_tool("tool_search", {"query": "something else"})


async def run_command(target: Target, *words: str) -> str:
    """The output of a command over the state of the gateway."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "toolscout.cli", *words,
        env={**os.environ, **VARIABLES, "TOOLSCOUT_HOME": str(target.home)},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_calls_are_learned_and_a_tool_is_reset_with_the_keyboard(
    open_window: OpenWindow, learner: Target
) -> None:
    page = await (window := await open_window(learner)).open("/learning")
    assert "Nothing was learned yet" in await page.locator("main").inner_text()
    await use_tool(learner, "where is my parcel", CALLED, {"number": 7})
    await use_tool(learner, "list customers of a city", "shop__list_customers", {"city": "Ghent"})

    page = await window.open("/learning")
    assert await page.get_by_text("Forget it for good").count() == 0
    await become_admin(window, learner)
    page = await window.open("/learning")
    text = await page.locator("main").inner_text()
    assert "Learning is shadow" in text
    assert "Of 2 calls of a tool that a search had listed." in text
    row = page.get_by_role("row", name=CALLED)
    cells = await row.locator("td").all_inner_texts()
    assert cells[:2] == ["1", "1"]
    assert float(cells[3]) > 0
    await window.check_accessibility()

    known = json.loads(await run_command(learner, "learn", "status", "--json"))
    (same,) = [tool for tool in known["learned"] if tool["name"] == CALLED]
    assert (same["observations"], same["principals"]) == (1, 1)
    assert same["lift"] == float(cells[3])

    await row.get_by_text("Reset", exact=True).focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_have_text(f"Forgotten: 1 observation of {CALLED}.")
    await expect(page.get_by_role("row", name=CALLED)).to_have_count(0)
    await expect(page.get_by_role("row", name="shop__list_customers")).to_have_count(1)
    assert CALLED not in await run_command(learner, "learn", "status")


async def test_tools_are_found_by_a_part_of_their_name(
    open_window: OpenWindow, learner: Target
) -> None:
    await use_tool(learner, "list the people who buy", "shop__list_customers", {"city": "Bonn"})
    page = await (await open_window(learner)).open("/learning")
    await page.get_by_label("Part of a name").fill("CUSTOMERS")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("row", name="shop__list_customers")).to_have_count(1)
    await page.get_by_label("Part of a name").fill("order")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("No tool matches.")).to_be_visible()


async def test_only_a_form_of_an_admin_resets_a_tool(
    open_window: OpenWindow, learner: Target, guarded: Target
) -> None:
    form = {"tool": CALLED}
    await use_tool(learner, "is my order on its way", CALLED, {"number": 8})
    window = await open_window(learner)
    await become_admin(window, learner)
    cookies = {c["name"]: c["value"] for c in await window.page.context.cookies()}
    async with httpx2.AsyncClient(base_url=learner.base) as stranger:
        page = (await stranger.get("/console/learning")).text
        own = re.findall(r'name="csrf" value="([^"]+)"', page)
        data = {**form, "csrf": own[0] if own else "x" * 43}
        assert (await stranger.post("/console/learning/reset", data=data)).status_code == 403
    async with httpx2.AsyncClient(base_url=learner.base, cookies=cookies) as http:
        page = (await http.get("/console/learning")).text
        without = await http.post("/console/learning/reset", data=form)
        token = re.findall(r'name="csrf" value="([^"]+)"', page)
        wrong = await http.post("/console/learning/reset", data={**form, "csrf": "x" * 43})
        right = await http.post("/console/learning/reset", data={**form, "csrf": token[0]})
    assert (without.status_code, wrong.status_code, right.status_code) == (403, 403, 303)
    ann = {"authorization": f"Bearer {TOKENS['ann']}"}
    async with httpx2.AsyncClient(base_url=guarded.base, headers=ann) as http:
        refused = [await http.get("/console/learning"),
                   await http.post("/console/learning/reset", data=form)]  # fmt: skip
    assert [answer.status_code for answer in refused] == [403, 403]


async def test_without_vectors_the_page_says_why_nothing_is_learned(window: Window) -> None:
    page = await window.open("/learning")
    assert "embedder is none" in await page.locator("main").inner_text()
