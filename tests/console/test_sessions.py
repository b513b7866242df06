"""The page Sessions: the turns of a conversation, and what its model sees."""

from __future__ import annotations

from playwright.async_api import expect
from tests.attack.lab import Target
from tests.console.conftest import Window


async def test_a_session_shows_its_turns_and_what_is_in_view(
    window: Window, gateway: Target
) -> None:
    async with gateway.client("legacy") as client:
        await client.list_tools()
        await client.call_tool("tool_search", {"query": "status of my session order"})
        call = {"name": "shop__find_order", "arguments": {"number": 31}}
        await client.call_tool("call_tool", call)
    page = await window.open("/sessions")
    await page.get_by_role("table").get_by_role("link").first.click()
    tools = page.get_by_role("region", name="Tools in view")
    await expect(tools).to_contain_text("tool_search")
    await expect(tools.get_by_role("row", name="shop__find_order")).to_be_visible()
    turn = page.locator("ol.turn")
    await expect(turn).to_contain_text("status of my session order")
    await expect(turn).to_contain_text("number: 31")
    await expect(page.locator("main")).to_contain_text("tokens with the instructions")
    await window.check_accessibility()


async def test_looking_at_a_session_does_not_change_it(window: Window, gateway: Target) -> None:
    async with gateway.client("legacy") as client:
        await client.call_tool("tool_search", {"query": "unchanged order"})
        page = await window.open("/sessions")
        before = await page.get_by_role("table").inner_text()
        await page.get_by_role("table").get_by_role("link").first.click()
        await expect(page.locator("main")).to_contain_text("unchanged order")
        page = await window.open("/sessions")
        assert await page.get_by_role("table").inner_text() == before


async def test_a_session_that_is_not_stored_says_so(window: Window) -> None:
    page = await window.open("/sessions/none-such")
    await expect(page.locator("main")).to_contain_text("It is not stored")
    await expect(page.locator("main")).to_contain_text("No rows match.")
