"""The page Live: what clients do appears at once, grouped, filtered, and as a full record."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
from playwright.async_api import Route, expect
from tests.attack.lab import Lab, Target
from tests.console.conftest import SHOP, OpenWindow, Window
from tests.console.shop import HOSTILE

HTML = {"accept": "text/html"}


async def search_and_call(gateway: Target, query: str, number: int) -> None:
    await gateway.call("tool_search", query=query)
    await gateway.call("call_tool", name="shop__find_order", arguments={"number": number})


async def test_a_search_and_a_call_appear_while_the_page_is_open(
    window: Window, gateway: Target
) -> None:
    page = await window.open("/live")
    await search_and_call(gateway, "where is my parcel", 4711)
    rows = page.locator("#rows")
    await expect(rows.get_by_text("where is my parcel").first).to_be_visible()
    call = page.locator("li.call", has_text="number: 4711").first
    await expect(call).to_contain_text("shop__find_order")
    await expect(call).to_contain_text("ok")
    await window.check_accessibility()


async def test_the_page_follows_also_if_a_script_arrives_late(
    window: Window, gateway: Target
) -> None:
    async def answer_late(route: Route) -> None:
        await asyncio.sleep(0.5)
        await route.continue_()

    await window.page.route("**/hx-sse.min.js*", answer_late)
    page = await window.open("/live")
    await search_and_call(gateway, "a script came late", 4712)
    await expect(page.locator("#rows").get_by_text("a script came late").first).to_be_visible()


async def test_the_turn_of_a_session_holds_its_search_and_the_calls_after_it(
    window: Window, gateway: Target
) -> None:
    async with gateway.client("legacy") as client:
        for query, number in (("first question", 1), ("second question", 2)):
            await client.call_tool("tool_search", {"query": query})
            arguments = {"name": "shop__find_order", "arguments": {"number": number}}
            await client.call_tool("call_tool", arguments)
    page = await window.open("/live")
    card = page.locator("section.card", has_text="second question").first
    turns = card.locator("ol.turn")
    assert await turns.count() == 2
    assert "second question" in await turns.nth(0).inner_text()
    assert "number: 2" in await turns.nth(0).inner_text()
    assert "first question" in await turns.nth(1).inner_text()


async def test_a_filter_leaves_only_its_rows_and_holds_for_what_comes_later(
    window: Window, gateway: Target
) -> None:
    page = await window.open("/live")
    await page.get_by_label("Tool", exact=True).fill("shop__list_customers")
    await page.get_by_role("button", name="Show").click()
    await gateway.call("call_tool", name="shop__find_order", arguments={"number": 77_001})
    await gateway.call("call_tool", name="shop__list_customers", arguments={"city": "Ghent"})
    await expect(page.locator("#rows").get_by_text("city: Ghent")).to_be_visible()
    assert await page.get_by_text("77001").count() == 0


async def test_a_row_opens_to_its_full_record(window: Window, gateway: Target) -> None:
    await search_and_call(gateway, "delivery of an order", 99)
    page = await window.open("/live?kind=search")
    await page.locator("li.search a").first.click()
    await expect(page.locator("h1")).to_have_text("Search: tool_search")
    await expect(page.get_by_role("heading", name="Hits")).to_be_visible()
    assert "shop__find_order" in await page.locator("main").inner_text()
    assert "delivery of an order" in await page.locator("main").inner_text()
    await window.check_accessibility()


async def test_paging_leads_back_through_the_journal(window: Window, gateway: Target) -> None:
    async with gateway.client("legacy") as client:
        for number in range(60):
            arguments = {"name": "shop__find_order", "arguments": {"number": number}}
            await client.call_tool("call_tool", arguments)
    page = await window.open("/live?tool=shop__find_order")
    await page.get_by_role("link", name="Older").click()
    await expect(page.get_by_text("number: 9", exact=True)).to_be_visible()
    await page.get_by_role("link", name="Newest").click()
    await expect(page.get_by_text("number: 59", exact=True)).to_be_visible()


async def test_rows_before_a_moment_are_found(gateway: Target) -> None:
    await search_and_call(gateway, "something", 5)
    async with httpx2.AsyncClient(base_url=gateway.base, headers=HTML) as http:
        past = await http.get("/console/live", params={"until": "2020-01-01T00:00"})
        future = await http.get("/console/live", params={"until": "2100-01-01T00:00"})
        wrong = await http.get("/console/live", params={"until": "soon"})
    assert "No rows match." in past.text
    assert "shop__find_order" in future.text
    assert (wrong.status_code, "is not a time" in wrong.text) == (400, True)


async def test_hostile_text_of_callers_and_servers_is_shown_as_text(
    window: Window, gateway: Target
) -> None:
    await gateway.call("tool_search", query=HOSTILE)
    await gateway.call("call_tool", name="shop__show_greeting", arguments={"name": HOSTILE})
    page = await window.open("/live")
    await expect(page.get_by_text(HOSTILE).first).to_be_visible()
    assert await page.title() == "Live · Toolscout"
    assert await page.locator("main img, main script").count() == 0


async def test_texts_stay_hidden_unless_they_are_recorded_in_full(
    tmp_path: Path, open_window: OpenWindow
) -> None:
    shape = {"TOOLSCOUT_RECORD": "shape"}
    async with Lab(tmp_path).gateway({"shop": SHOP}, variables=shape) as gateway:
        await gateway.call("tool_search", query="a secret wish")
        await gateway.call("call_tool", name="shop__send_invoice",
                           arguments={"customer": "Secret Ltd", "amount": 12.5})  # fmt: skip
        page = await (await open_window(gateway)).open("/live")
        text = await page.locator("#rows").inner_text()
        assert "shop__send_invoice" in text
        assert "13 characters" in text
        assert "ecret" not in text
        await page.locator("li.call a").first.click()
        record = await page.locator("main").inner_text()
    assert "this is their shape" in record
    assert "Secret Ltd" not in record


async def test_a_stream_ends_when_its_page_is_closed(gateway: Target) -> None:
    async with httpx2.AsyncClient(base_url=gateway.base, timeout=20) as http:
        for _ in range(40):  # more than may be open at once
            async with http.stream("GET", "/console/live/events") as response:
                assert response.status_code == 200
                assert await anext(response.aiter_bytes())
        await asyncio.sleep(0)
