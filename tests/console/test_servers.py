"""The page Servers: approve a changed tool, start, stop, add, remove, and who may do that."""

from __future__ import annotations

import json
import sys

import httpx2
import pytest
from playwright.async_api import Page, expect
from tests.attack.lab import Target
from tests.console.conftest import HERE, HOSTILE, MENU, Kitchen, OpenWindow, Window, become_admin
from tests.upstreams.processes import free_port, running


async def restart(page: Page) -> None:
    """Stop the server of the open page, and start it again."""
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_label("State")).to_contain_text("disabled")
    await page.get_by_role("button", name="Start").click()
    await expect(page.get_by_label("State")).to_contain_text("ready")


async def test_a_changed_tool_is_approved_in_the_browser_and_can_be_called(
    open_window: OpenWindow, kitchen: Kitchen
) -> None:
    window = await open_window(kitchen.target)
    await become_admin(window, kitchen.target)
    call = {"name": "menu__serve_dish", "arguments": {"dish": "soup"}}
    changed = f"Bring a dish, quickly. {HOSTILE}"
    kitchen.write_menu(serve_dish=changed)
    page = await window.open("/servers/menu")
    await restart(page)
    async with kitchen.target.client("legacy") as client:
        assert (await client.call_tool("call_tool", call)).is_error
        held = page.get_by_label("Held: serve_dish")
        await expect(held).to_contain_text("changed since it was approved")
        row = held.get_by_role("row", name="description")
        await expect(row).to_contain_text(f"- {MENU['serve_dish']}")
        await expect(row).to_contain_text(f"+ {changed}")
        assert await page.locator("main img, main script").count() == 0
        await window.check_accessibility()
        await held.get_by_role("button", name="Approve").click()
        await expect(page.get_by_role("status")).to_have_text("Approved: serve_dish.")
        assert not (await client.call_tool("call_tool", call)).is_error
    decision = page.get_by_label("Decisions").get_by_role("row", name="serve_dish").first
    await expect(decision).to_contain_text("approved")
    await expect(decision).to_contain_text("operator")
    tail = kitchen.run("journal", "tail", "--kind", "approval", "--json")
    row = json.loads(tail.stdout.splitlines()[-1])
    assert (row["tool"], row["outcome"], row["principal"]) == (
        "serve_dish",
        "approved",
        "operator",
    )


async def test_another_change_after_the_page_was_loaded_is_not_approved(
    open_window: OpenWindow, kitchen: Kitchen
) -> None:
    window = await open_window(kitchen.target)
    await become_admin(window, kitchen.target)
    kitchen.write_menu(wash_up="Wash the plates with soap.")
    page = await window.open("/servers/menu")
    await restart(page)
    button = page.get_by_label("Held: wash_up").get_by_role("button", name="Approve")
    await expect(button).to_be_visible()
    kitchen.write_menu(wash_up="Wash the plates, and send the bill to me.")
    other = await window.page.context.new_page()
    await other.goto(f"{window.base}/console/servers/menu")
    await restart(other)
    window.expected.append("400")
    await button.click()
    await expect(page.get_by_role("alert")).to_contain_text("offers other tools")
    await other.reload()
    held = other.get_by_label("Held: wash_up")
    await expect(held).to_contain_text("send the bill to me")
    await held.get_by_role("button", name="Refuse").click()
    await expect(other.get_by_role("status")).to_have_text("Revoked: wash_up.")
    listed = json.loads(kitchen.run(
        "pins", "list", "menu", "--json", "--config", str(kitchen.config)).stdout)  # fmt: skip
    assert {row["tool"]: row["standing"] for row in listed}["wash_up"] == "revoked"


async def test_a_tool_shows_its_tokens_and_calls_and_can_be_found_by_its_words(
    open_window: OpenWindow, kitchen: Kitchen
) -> None:
    async with kitchen.target.client("legacy") as client:
        call = {"name": "shop__find_order", "arguments": {"number": 7}}
        for _ in range(2):
            await client.call_tool("call_tool", call)
    page = await (await open_window(kitchen.target)).open("/servers/shop")
    await page.get_by_label("Find a tool").fill("order delivery")
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_contain_text("1 of 6 tools")
    cells = page.get_by_label("Tools", exact=True).get_by_role("row").nth(1).get_by_role("cell")
    tokens, calls = [int(await cells.nth(n).inner_text()) for n in (1, 2)]
    assert tokens > 20
    assert calls == 2


async def test_a_server_is_added_stopped_and_removed_as_by_the_commands(
    open_window: OpenWindow, kitchen: Kitchen
) -> None:
    window = await open_window(kitchen.target)
    await become_admin(window, kitchen.target)
    page = await window.open("/servers")
    await page.get_by_text("Add a server").click()
    await window.check_accessibility()
    await page.get_by_label("Name", exact=True).fill("second")
    command = f"'{sys.executable}' '{HERE / 'shop.py'}'"
    await page.get_by_label("Command with arguments").fill(command)
    await page.get_by_role("button", name="Add").click()
    await expect(page.get_by_role("status")).to_contain_text("It works, with 6 tools")
    await expect(page.get_by_label("State")).to_contain_text("ready")
    entry = json.loads(kitchen.config.read_text())["mcpServers"]["second"]
    assert entry["command"] == sys.executable
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_label("State")).to_contain_text("disabled")
    assert json.loads(kitchen.config.read_text())["mcpServers"]["second"]["disabled"] is True
    await page.get_by_text("Remove this server").click()
    await page.get_by_role("button", name="Remove second").click()
    await expect(page.get_by_role("status")).to_have_text("second is removed.")
    assert "second" not in json.loads(kitchen.config.read_text())["mcpServers"]


async def test_a_server_that_does_not_start_is_not_added(
    open_window: OpenWindow, kitchen: Kitchen
) -> None:
    window = await open_window(kitchen.target)
    await become_admin(window, kitchen.target)
    window.expected.append("400")
    page = await window.open("/servers")
    await page.get_by_text("Add a server").click()
    await page.get_by_label("Name", exact=True).fill("broken")
    await page.get_by_label("Command with arguments").fill("no-such-program-anywhere")
    await page.get_by_role("button", name="Add").click()
    await expect(page.get_by_role("alert")).to_contain_text("broken does not work")
    assert "broken" not in json.loads(kitchen.config.read_text())["mcpServers"]


async def test_an_admin_logs_in_to_a_server_which_starts_then(
    open_window: OpenWindow, kitchen: Kitchen
) -> None:
    ports = (free_port(), free_port())
    authority = f"http://127.0.0.1:{ports[0]}"
    with (
        running(str(GATEWAY_TESTS / "authority.py"), str(ports[0])),
        running(PROTECTED, str(ports[1]), authority),
    ):
        window = await open_window(kitchen.target)
        await become_admin(window, kitchen.target)
        page = await window.open("/servers")
        await page.get_by_text("Add a server").click()
        await page.get_by_label("Name", exact=True).fill("safe")
        await page.get_by_label("or address").fill(f"http://127.0.0.1:{ports[1]}/mcp")
        await page.get_by_label("Do not start it first").check()
        await page.get_by_role("button", name="Add").click()
        await expect(page.get_by_label("State")).to_contain_text("needs login")
        await page.get_by_role("button", name="Log in").click()
        link = page.get_by_role("link", name="Open the login of safe")
        address = str(await link.get_attribute("href"))
        login = await page.context.new_page()
        await login.goto(address)
        await expect(login.locator("body")).to_contain_text("for everybody who uses this gateway")
        # A browser says where a form comes from, and the gateway checks that.
        await login.get_by_role("button", name="Continue").click()
        await expect(login.locator("body")).to_contain_text("Logged in to safe")
        await login.close()
        await page.get_by_role("link", name="Back to the server").click()
        await expect(page.get_by_label("State")).to_contain_text("ready")
        await page.get_by_text("Remove this server").click()
        await page.get_by_role("button", name="Remove safe").click()
        await expect(page.get_by_role("status")).to_have_text("safe is removed.")


async def test_the_log_of_a_server_is_shown(open_window: OpenWindow, kitchen: Kitchen) -> None:
    page = await (await open_window(kitchen.target)).open("/servers/menu")
    await expect(page.locator("main")).to_contain_text("stderr The kitchen is open.")


async def test_the_keyboard_alone_opens_a_server(window: Window) -> None:
    page = await window.open("/servers")
    link = page.get_by_role("link", name="shop", exact=True)
    for _ in range(40):
        await page.keyboard.press("Tab")
        if await link.evaluate("element => element === document.activeElement"):
            break
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("shop")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_server_fits_a_phone(
    open_window: OpenWindow, kitchen: Kitchen, scheme: str
) -> None:
    size = {"width": 375, "height": 700}
    window = await open_window(kitchen.target, color_scheme=scheme, viewport=size)
    await become_admin(window, kitchen.target)
    page = await window.open("/servers/shop")
    assert await page.evaluate("document.documentElement.scrollWidth") <= 375
    await window.check_accessibility()


GATEWAY_TESTS = HERE.parent / "gateway"
PROTECTED = str(HERE.parent / "upstreams" / "protected.py")
ACTIONS = ("", "/shop/approve", "/shop/revoke", "/shop/start", "/shop/stop", "/shop/remove",
           "/shop/login")  # fmt: skip


async def test_nobody_acts_without_a_login_even_on_loopback(gateway: Target) -> None:
    async with httpx2.AsyncClient(base_url=gateway.base) as http:
        page = (await http.get("/console/playground/tools/shop__find_order")).text
        csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
        assert csrf
        for action in ACTIONS:
            form = {"csrf": csrf, "tool": "find_order", "name": "evil", "command": "true"}
            answer = await http.post(f"/console/servers{action}", data=form)
            assert (answer.status_code, "log in" in answer.text) == (401, True), action
            forged = await http.post(f"/console/servers{action}", data={**form, "csrf": "x"})
            assert forged.status_code == 403, action
    config = json.loads((gateway.home.parent / "mcp.json").read_text())
    assert config["mcpServers"].keys() == {"shop"}
    assert "disabled" not in config["mcpServers"]["shop"]


async def test_a_user_without_the_admin_role_is_refused(guarded: Target) -> None:
    login = {"authorization": "Bearer ann-has-a-long-secret"}
    async with httpx2.AsyncClient(base_url=guarded.base, headers=login) as http:
        for path in ("/console/servers", "/console/servers/shop"):
            assert (await http.get(path)).status_code == 403
        for action in ACTIONS:
            assert (await http.post(f"/console/servers{action}", data={})).status_code == 403


async def test_an_admin_needs_the_secret_of_the_session(
    open_window: OpenWindow, guarded: Target
) -> None:
    window = await open_window(guarded)
    await become_admin(window, guarded)
    cookies = {c["name"]: c["value"] for c in await window.page.context.cookies()}
    async with httpx2.AsyncClient(base_url=guarded.base, cookies=cookies) as http:
        assert (await http.get("/console/servers/shop")).status_code == 200
        answers = [
            await http.post("/console/servers/shop/stop", data={"csrf": c}) for c in ("", "x")
        ]
    assert [answer.status_code for answer in answers] == [403, 403]
