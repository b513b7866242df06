"""The page Savings and health: figures of real calls, over time, and after a restart."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx2
from playwright.async_api import Page, expect
from tests.attack.lab import Lab, Target
from tests.console.conftest import SHOP, TOKENS, OpenWindow, Window

HTML = {"accept": "text/html"}


async def make_calls(target: Target) -> None:
    """One search, three calls of one tool and one of a tool that fails."""
    async with target.client("legacy") as client:
        await client.list_tools()
        await client.call_tool("tool_search", {"query": "find an order"})
        for number in range(3):
            arguments = {"name": "shop__find_order", "arguments": {"number": number}}
            await client.call_tool("call_tool", arguments)
        await client.call_tool("call_tool", {"name": "shop__fail_always", "arguments": {}})


async def read_cells(page: Page, label: str, name: str) -> list[str]:
    row = page.get_by_label(label, exact=True).get_by_role("row", name=name)
    return await row.locator("td").all_inner_texts()


async def read_fact(page: Page, name: str) -> str:
    fact = page.locator("dl.facts > div", has=page.get_by_text(name, exact=True)).first
    return await fact.locator("dd").inner_text()


async def run_stats(home: Path, *words: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "toolscout.cli", "stats", "--json", *words,
        env={**os.environ, "TOOLSCOUT_HOME": str(home)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out)


async def test_calls_appear_and_survive_a_kill_of_the_gateway(
    open_window: OpenWindow, tmp_path: Path
) -> None:
    lab = Lab(tmp_path)
    async with lab.gateway({"shop": SHOP}) as target:
        await make_calls(target)
        page = await (window := await open_window(target)).open("/savings")
        assert (await read_cells(page, "By tool", "shop__find_order"))[:3] == ["shop", "3", "0"]
        assert (await read_cells(page, "By tool", "shop__fail_always"))[:3] == ["shop", "1", "1"]
        assert (await read_cells(page, "By server", "shop"))[:2] == ["4", "1"]
        assert await read_fact(page, "searches") == "1"
        assert int((await read_fact(page, "tokens saved")).replace(",", "")) != 0
        await expect(page.locator("figure canvas")).to_have_count(3)
        await window.check_accessibility()
        saved = await read_fact(page, "tokens saved")
        await make_calls(target)
        # Written behind: nothing asks for the figures until the gateway is killed.
        async with asyncio.timeout(20):
            while (await run_stats(target.home))["total"]["calls"] < 8:
                pass
        target.process.send_signal(signal.SIGKILL)
        target.process.wait()
    known = await run_stats(tmp_path / "home")
    async with lab.gateway({"shop": SHOP}) as target:
        page = await (await open_window(target)).open("/savings")
        assert (await read_cells(page, "By tool", "shop__find_order"))[:3] == ["shop", "6", "0"]
        assert await read_fact(page, "tokens saved") == f"{known['tokens_saved']:,}" != saved
        # Together with the calls of this process.
        await make_calls(target)
        for choice in ("week", "month"):
            await page.get_by_role("combobox", name="Range").select_option(choice)
            await page.get_by_role("button", name="Show").click()
            assert (await read_cells(page, "By tool", "shop__find_order"))[:2] == ["shop", "9"]
    assert (known["total"]["calls"], known["total"]["errors"]) == (8, 2)
    assert known["searches"]["calls"] == 2
    assert known["tools"][0]["p50_ms"] > 0


async def test_a_filter_leaves_the_figures_of_one_tool_with_the_keyboard_alone(
    window: Window, gateway: Target
) -> None:
    await make_calls(gateway)
    page = await window.open("/savings")
    await page.get_by_label("Tool", exact=True).focus()
    await page.keyboard.type("shop__fail_always")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("clear the filters")).to_be_visible()
    rows = page.get_by_label("By tool", exact=True).locator("tbody tr")
    await expect(rows).to_have_count(1)
    calls, errors = (await read_cells(page, "By tool", "shop__fail_always"))[1:3]
    assert calls == errors == await read_fact(page, "calls")
    await page.get_by_role("combobox", name="Server", exact=True).select_option("shop")
    await page.get_by_role("button", name="Show").click()
    await expect(rows).to_have_count(1)


async def test_a_chart_has_its_numbers_as_a_table(window: Window, gateway: Target) -> None:
    await make_calls(gateway)
    page = await window.open("/savings")
    figure = page.locator("figure", has_text="Calls").first
    await figure.get_by_text("As a table").focus()
    await page.keyboard.press("Enter")
    rows = figure.locator("details tbody tr")
    assert await rows.count() == 24
    last = rows.last
    calls, errors, searches = await last.locator("td").all_inner_texts()
    assert int(calls) >= 4
    assert int(errors) >= 1
    assert int(searches) >= 1
    await window.check_accessibility()


async def test_the_health_is_that_of_the_health_page(window: Window, gateway: Target) -> None:
    health = await gateway.health()
    page = await window.open("/savings")
    text = await page.locator("main").inner_text()
    assert await read_fact(page, "status") == health["status"]
    assert await read_fact(page, "tools") == str(health["tools"])
    assert (await read_cells(page, "Servers", "shop"))[0] == health["servers"]["shop"]["status"]
    assert all(name in text for name in health["parts"])


async def test_only_an_admin_sees_the_figures(guarded: Target) -> None:
    ann = {"authorization": f"Bearer {TOKENS['ann']}", **HTML}
    root = {"authorization": f"Bearer {TOKENS['root']['token']}", **HTML}  # type: ignore[index]
    async with httpx2.AsyncClient(base_url=guarded.base) as http:
        answers = [await http.get("/console/savings", headers=h) for h in (ann, root)]
    assert [answer.status_code for answer in answers] == [403, 200]


async def test_nothing_is_counted_if_nothing_is_recorded(
    open_window: OpenWindow, tmp_path: Path
) -> None:
    off = {"TOOLSCOUT_RECORD": "off"}
    async with Lab(tmp_path).gateway({"shop": SHOP}, variables=off) as target:
        await make_calls(target)
        page = await (await open_window(target)).open("/savings")
        assert "No figures" in await page.locator("main").inner_text()
    assert (await run_stats(tmp_path / "home"))["total"]["calls"] == 0
