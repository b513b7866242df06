"""The page Playground: a search as anybody, why tools rank where they do, and a call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import httpx2
import pytest
from playwright.async_api import Page, expect
from tests.attack.lab import Target
from tests.console.conftest import OpenWindow, Window, become_admin
from tests.console.shop import HOSTILE

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.console.schema_form import read_arguments
from toolscout.errors import InvalidArgumentsError
from toolscout.evals.tool_rank import rank_tool
from toolscout.search.engine import Engine

TOOLS = "/playground/tools"


async def search(page: Page, query: str, **fields: str) -> None:
    await page.get_by_label("Query").fill(query)
    for label, value in fields.items():
        await page.get_by_label(label.replace("_", " "), exact=True).fill(value)
    await page.get_by_role("button", name="Search").click()


async def test_a_search_shows_scores_by_ranker_field_and_word(window: Window) -> None:
    page = await window.open("/playground")
    await search(page, "delivery status of an order")
    side = page.locator("section.card").first
    await expect(side).to_contain_text("likely")
    await expect(side).to_contain_text("tokens")
    first = side.get_by_role("row").nth(1)
    await expect(first).to_contain_text("shop__find_order")
    await expect(first).to_contain_text("words")
    await expect(first).to_contain_text("order")
    await side.get_by_text("The reply that the model reads").click()
    await expect(side.locator("pre").first).to_contain_text("Run with call_tool")
    await window.check_accessibility()


async def test_a_tool_that_was_not_found_has_its_rank_in_every_ranker(window: Window) -> None:
    page = await window.open("/playground")
    await search(page, "find an order", Why_not_this_tool="shop__delete_customer")
    why = page.get_by_role("region", name="Rank of the tool", exact=True)
    await expect(why).to_contain_text("of 6 tools")
    await expect(why.get_by_role("row", name="words 2")).to_be_visible()
    await search(page, "find an order", Why_not_this_tool="shop__nothing")
    await expect(why).to_contain_text("cannot see a tool of this name")
    await window.check_accessibility()


async def test_two_profiles_and_embedders_stand_side_by_side(window: Window) -> None:
    page = await window.open("/playground")
    await page.get_by_label("Compare with").check()
    await page.get_by_label("Profile 2").select_option("cortex")
    await page.get_by_label("Embedder 2").select_option("none")
    await search(page, "send a bill")
    sides = page.locator(".sides section.card")
    await expect(sides).to_have_count(2)
    await expect(sides.nth(0)).to_contain_text("Profile default, embedder as configured")
    await expect(sides.nth(1)).to_contain_text("Profile cortex, embedder none")
    replies = [await sides.nth(n).locator("pre").text_content() for n in (0, 1)]
    assert replies[0] != replies[1]


async def test_a_search_as_somebody_sees_only_what_they_may(
    open_window: OpenWindow, guarded: Target
) -> None:
    window = await open_window(guarded)
    await become_admin(window, guarded)
    for principal, is_visible in (("ann", False), ("", False)):
        page = await window.open("/playground")
        await search(page, "delete a customer", Principal=principal)
        found = page.locator(".sides")
        await expect(found).to_be_visible()
        assert ("shop__delete_customer" in await found.inner_text()) is is_visible
    page = await window.open("/playground")
    await page.get_by_label("Role").select_option("admin")
    await search(page, "delete a customer")
    await expect(page.locator(".sides")).to_contain_text("shop__delete_customer")
    fields = {"Principal": "ann", "Why_not_this_tool": "shop__delete_customer"}
    await page.get_by_label("Role").select_option("user")
    await search(page, "delete a customer", **fields)
    await expect(page.locator("main")).to_contain_text("deny has '*delete*'")


async def test_a_call_with_a_form_runs_and_is_in_the_journal(window: Window) -> None:
    page = await window.open(f"{TOOLS}/shop__find_order")
    await page.get_by_label("number (required)").fill("12345")
    await page.get_by_label("detail").select_option("full")
    await window.check_accessibility()
    await page.get_by_role("button", name="Run").click()
    result = page.get_by_label("Result")
    await expect(result).to_contain_text("Order 12345 (full): on its way.")
    page = await window.open("/live?tool=shop__find_order")
    await expect(page.locator("section.card").first).to_contain_text("console")
    await expect(page.locator("section.card").first).to_contain_text("number: 12345")


async def test_lists_booleans_and_defaults_reach_the_tool(window: Window) -> None:
    page = await window.open(f"{TOOLS}/shop__list_customers")
    await page.get_by_label("city").fill("Bruges")
    await page.get_by_label("has_paid").select_option("true")
    await page.get_by_label("tags").fill('["vip", "new"]')
    await page.get_by_role("button", name="Run").click()
    text = "10 customers in Bruges, paid: True, tags: ['vip', 'new']"
    await expect(page.get_by_label("Result")).to_contain_text(text)


async def test_a_failure_of_a_tool_is_shown_and_a_wrong_argument_explained(window: Window) -> None:
    page = await window.open(f"{TOOLS}/shop__fail_always")
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_label("Result")).to_contain_text("The cash register is broken.")
    window.expected.append("400")
    page = await window.open(f"{TOOLS}/shop__list_customers")
    await page.get_by_label("tags").fill("[unclosed")
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_role("alert")).to_contain_text("is not valid JSON")


async def test_a_destructive_tool_runs_only_after_a_confirmation(
    window: Window, gateway: Target
) -> None:
    page = await window.open(f"{TOOLS}/shop__delete_customer")
    await page.get_by_role("textbox", name="customer").fill("Acme")
    await page.get_by_role("button", name="Run").click()  # the browser insists on the checkbox
    assert await page.get_by_label("Result").count() == 0
    csrf = await page.locator("main input[name=csrf]").get_attribute("value")
    async with httpx2.AsyncClient(base_url=gateway.base) as http:
        form = {"csrf": csrf, "argument.customer": "Acme"}
        forged = await http.post(f"/console{TOOLS}/shop__delete_customer", data=form)
    assert (forged.status_code, "was not run" in forged.text) == (400, True)
    await page.get_by_label("Run it although").check()
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_label("Result")).to_contain_text("Deleted Acme.")


async def test_a_hostile_tool_is_shown_as_text_everywhere(window: Window) -> None:
    for path in ("/playground?query=greeting+card", f"{TOOLS}/shop__show_greeting"):
        page = await window.open(path)
        assert await page.locator("main img, main script").count() == 0
    await expect(page.locator(".description")).to_contain_text(HOSTILE)
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_label("Result")).to_contain_text(f"Dear {HOSTILE}!")
    assert await page.title() == "shop__show_greeting · Toolscout"
    assert await page.locator("main img, main script").count() == 0


async def test_the_keyboard_alone_searches_and_opens_a_tool(window: Window) -> None:
    page = await window.open("/playground")
    assert await page.evaluate("document.activeElement.name") == "query"
    await page.keyboard.type("find an order")
    await page.keyboard.press("Enter")
    link = page.get_by_role("link", name="shop__find_order")
    await expect(link).to_be_visible()
    for _ in range(40):
        await page.keyboard.press("Tab")
        if await link.evaluate("element => element === document.activeElement"):
            break
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("shop__find_order")


SCHEMA: dict[str, Any] = {
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "level": {"enum": [1, 2, "high"]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "extra": {"type": "object"},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("form", "arguments"),
    [
        ({}, {"name": ""}),
        ({"name": "x", "count": "3"}, {"name": "x", "count": 3}),
        ({"name": "x", "level": "2"}, {"name": "x", "level": 2}),
        ({"name": "5", "maybe": "7", "extra": '{"a": 1}'},
         {"name": "5", "maybe": "7", "extra": {"a": 1}}),
    ],
)  # fmt: skip
def test_a_form_gives_arguments_of_the_types_in_the_schema(
    form: dict[str, str], arguments: dict[str, Any]
) -> None:
    assert read_arguments(SCHEMA, {f"argument.{k}": v for k, v in form.items()}) == arguments


def test_a_schema_with_alternatives_takes_json() -> None:
    schema = {"oneOf": [{"type": "object"}]}
    assert read_arguments(schema, {"arguments": '{"a": [1]}'}) == {"a": [1]}
    with pytest.raises(InvalidArgumentsError, match="not a JSON object"):
        read_arguments(schema, {"arguments": "[]"})


CATALOG = Catalog(
    [
        Tool(name="mail__send", description="Send a letter", server="mail"),
        Tool(name="mail__read", description="Read letters", server="mail"),
        Tool(name="files__copy", description="Copy a file", server="files"),
    ]
)


def test_the_rank_of_a_tool_is_its_place_among_all_hits() -> None:
    engine = Engine(CATALOG)
    for query in ("send a letter", "read letters", "copy a file to mail"):
        hits = engine.search(query, limit=10).names
        for name in hits:
            found = rank_tool(engine, query, name)
            assert (found.rank, found.tools) == (1 + hits.index(name), 3)
            assert sum(arm.score for arm in found.arms) == pytest.approx(found.score, abs=1e-3)


def test_a_tool_that_no_search_can_find_says_why() -> None:
    engine = Engine(CATALOG)
    hidden = rank_tool(engine, "letter", "mail__send", allow=frozenset({"mail__read"}))
    assert hidden.problem == "unknown"
    assert rank_tool(engine, "letter server:files", "mail__send").problem == "filtered"
    assert rank_tool(engine, "select:mail__send", "mail__send").problem == "without words"
    unmatched = rank_tool(engine, "letter", "files__copy")
    assert [arm.rank for arm in unmatched.arms if arm.arm == "words"] == [None]


def run(target: Target, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "toolscout.cli", *words, "--json",
         "--config", str(target.home.parent / "mcp.json")],
        env={**os.environ, "TOOLSCOUT_HOME": str(target.home), "TOOLSCOUT_EMBEDDER": "none"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_the_commands_rank_and_call_as_the_page_does(gateway: Target) -> None:
    ranked = run(gateway, "search", "find an order", "--why-not", "shop__delete_customer",
                 "--embedder", "none")  # fmt: skip
    row = json.loads(ranked.stdout)["why_not"]
    assert row["tools"] == 6
    assert row["rank"] > 1
    assert {arm["arm"] for arm in row["arms"]} >= {"words"}
    refused = run(gateway, "call", "shop__delete_customer", '{"customer": "Acme"}')
    assert refused.returncode != 0
    assert "--yes" in refused.stderr
    confirmed = run(gateway, "call", "shop__delete_customer", '{"customer": "Acme"}', "--yes")
    assert json.loads(confirmed.stdout)["text"] == "Deleted Acme."
