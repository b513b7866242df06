"""The page Policies and its command: what a caller sees, and which policy decides."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest
from playwright.async_api import expect
from tests.attack.lab import Target
from tests.console.conftest import OpenWindow, become_admin

DECISIONS = [
    ("ann", "user", "shop__find_order", "allowed", "admits it"),
    ("ann", "user", "shop__delete_customer", "refused", "deny has '*delete*'"),
    ("ann", "user", "shop__send_invoice", "refused", "read_only"),
    ("bob", "user", "shop__find_order", "refused", "No policy is for this caller"),
    ("bob", "admin", "shop__delete_customer", "allowed", "[policies.admins]"),
]


async def test_the_page_says_which_policy_decides(open_window: OpenWindow, guarded: Target) -> None:
    window = await open_window(guarded)
    await become_admin(window, guarded)
    page = await window.open("/policies")
    for principal, role, tool, verdict, why in DECISIONS:
        await page.get_by_label("Principal").fill(principal)
        await page.get_by_label("Role").select_option(role)
        await page.get_by_label("Tool", exact=True).fill(tool)
        await page.get_by_role("button", name="Explain").click()
        decision = page.get_by_label("Decision")
        await expect(decision).to_contain_text(f"{tool}: {verdict}")
        await expect(decision).to_contain_text(why)
    await window.check_accessibility()


async def test_the_page_counts_what_a_caller_sees_of_each_server(
    open_window: OpenWindow, guarded: Target
) -> None:
    window = await open_window(guarded)
    await become_admin(window, guarded)
    page = await window.open("/policies?principal=ann")
    row = page.get_by_role("region", name="Servers").get_by_role("row").nth(1)
    assert (await row.inner_text()).split() == ["shop", "4", "6"]


def run_command(target: Target, *words: str) -> subprocess.CompletedProcess[str]:
    file = str(target.home.parent / "mcp.json")
    return subprocess.run(
        [sys.executable, "-m", "toolscout.cli", "policies", *words, "--config", file, "--json"],
        env={**os.environ, "TOOLSCOUT_HOME": str(target.home)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("principal", "role", "tool", "verdict", "why"), DECISIONS[1:3])
async def test_the_command_decides_as_the_page_does(
    guarded: Target, principal: str, role: str, tool: str, verdict: str, why: str
) -> None:
    words = (principal, "--role", role, "--tool", tool)
    done = await asyncio.to_thread(run_command, guarded, *words)
    found = json.loads(done.stdout)
    assert (done.returncode, found["allowed"]) == (1, verdict == "allowed")
    assert why in found["why"]
    assert [p["policy"] for p in found["policies"] if p["applies"]] == ["staff", "careful"]


async def test_the_command_lists_every_tool_and_names_an_unknown_one(guarded: Target) -> None:
    done = await asyncio.to_thread(run_command, guarded, "ann")
    wrong = await asyncio.to_thread(run_command, guarded, "ann", "--tool", "shop__find_ordr")
    allowed = [row["tool"] for row in json.loads(done.stdout) if row["allowed"]]
    assert len(allowed) == 4
    assert "shop__send_invoice" not in allowed
    assert "shop__find_order" in json.loads(wrong.stderr.splitlines()[-1])["error"]["hint"]
