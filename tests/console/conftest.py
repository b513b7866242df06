"""A real gateway in a process of its own, and a real browser that looks at its console.

Tests of the console share one event loop, one browser and one gateway per process.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect
from tests.attack.lab import Lab, Target
from tests.console.browser import open_browser, packages

HERE = Path(__file__).parent
SHOP = {"command": sys.executable, "args": [str(HERE / "shop.py")]}
HOSTILE = '<img src=x onerror="alert(1)"><script>document.title = "stolen"</script>'
SERIOUS = ("serious", "critical")
# A busy machine does not fail a test.
expect.set_options(timeout=20_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_here = HERE in item.path.parents and isinstance(item, pytest.Function)
        if is_here and asyncio.iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with open_browser() as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    """A gateway on loopback without authentication, in front of a small shop; with full records."""
    lab = Lab(tmp_path_factory.mktemp("console"))
    async with lab.gateway({"shop": SHOP}) as target:
        yield target


MENU = {"serve_dish": "Bring a dish to a table.", "wash_up": "Wash the plates."}


@dataclass
class Kitchen:
    """A gateway whose servers, tools and phrases the tests change."""

    target: Target
    menu: Path
    overlay: Path

    @property
    def config(self) -> Path:
        return self.target.home.parent / "mcp.json"

    def write_menu(self, **tools: str) -> None:
        self.menu.write_text(json.dumps({**MENU, **tools}), encoding="utf-8")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command that uses the same configuration and state."""
        return subprocess.run(
            [sys.executable, "-m", "toolscout.cli", *words],
            env={**os.environ, "TOOLSCOUT_HOME": str(self.target.home),
                 "TOOLSCOUT_EMBEDDER": "none"},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip


async def wait_for_tools(target: Target, count: int) -> None:
    async with asyncio.timeout(60):
        while (await target.health())["tools"] < count:  # noqa: ASYNC110 -- no event
            await asyncio.sleep(0.05)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kitchen(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Kitchen]:
    lab = Lab(tmp_path_factory.mktemp("kitchen"))
    menu, overlay = lab.folder / "menu.json", lab.folder / "phrases.toml"
    overlay.write_text("", encoding="utf-8")
    menu.write_text(json.dumps(MENU), encoding="utf-8")
    servers = {
        "menu": {"command": sys.executable, "args": [str(HERE / "menu.py"), str(menu)]},
        "shop": SHOP,
    }
    async with lab.gateway(servers, gateway={"overlay": "phrases.toml"}) as target:
        await wait_for_tools(target, 8)
        yield Kitchen(target, menu, overlay)


TOKENS = {
    "ann": "ann-has-a-long-secret",
    "root": {"token": "root-has-a-long-secret", "role": "admin"},
}
POLICIES = {
    "staff": {"principals": ["ann"], "deny": ["*delete*"]},
    "careful": {"principals": ["ann"], "tools": ["shop__*"], "read_only": True},
    "admins": {"roles": ["admin"]},
}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    """A gateway with tokens and policies, so that its console needs a login."""
    lab = Lab(tmp_path_factory.mktemp("guarded"))
    tables: dict[str, Any] = {"auth": {"tokens": TOKENS}, "policies": POLICIES}
    async with lab.gateway({"shop": SHOP}, **tables) as target:
        async with asyncio.timeout(60):
            while "shop: ready" not in target.log.read_text():  # noqa: ASYNC110 -- no event
                await asyncio.sleep(0.05)
        yield target


_cookies: dict[str, Any] = {}


async def become_admin(window: Window, target: Target) -> None:
    """Be logged in, with the login of an earlier test if there was one: links are rationed."""
    context = window.page.context
    if target.base not in _cookies:
        await log_in(window, target)
        await expect(window.page.locator("body")).to_contain_text("operator")
        _cookies[target.base] = await context.cookies()
    await context.add_cookies(_cookies[target.base])


async def log_in(window: Window, target: Target) -> None:
    """Use a login link of the gateway, a new one if the last was used."""
    async with httpx2.AsyncClient(base_url=target.base) as http, asyncio.timeout(60):
        while (await http.post("/login/link")).status_code == 429:  # noqa: ASYNC110 -- no event
            await asyncio.sleep(0.2)
    link = re.findall(r"https?://\S+/login\?key=\S+", target.log.read_text())[-1]
    await window.page.goto(link)
    await window.page.get_by_role("button", name="Log in").click()


@dataclass
class Window:
    """A page of the browser, and what went wrong on it."""

    page: Page
    base: str
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    """Parts of messages that a test provokes itself, such as `403`."""

    def __post_init__(self) -> None:
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._note_request)

    def _note_message(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} ({message.location.get('url')})")

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith(self.base):
            self.foreign.append(request.url)

    async def open(self, path: str = "") -> Page:
        """Open a page of the console by its path below `/console`."""
        await self.page.goto(f"{self.base}/console{path}")
        return self.page

    async def check_accessibility(self) -> None:
        """Fail if axe-core finds anything serious on the page as it is shown now."""
        script = packages() / "node_modules" / "axe-core" / "axe.min.js"
        # Playwright evaluates it outside of the page's content security policy.
        await self.page.evaluate(script.read_text(encoding="utf-8"))
        found = await self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [
            f"{v['id']}: {v['help']}: {[n['html'] for n in v['nodes']]}"
            for v in found["violations"]
            if v["impact"] in SERIOUS
        ]
        assert not serious, "\n".join(serious)

    def check(self) -> None:
        """Fail if the page reported an error, or asked another host for anything."""
        unexpected = [e for e in self.errors if not any(part in e for part in self.expected)]
        assert not unexpected, "\n".join(unexpected)
        assert not self.foreign, f"requests to other hosts: {self.foreign}"


OpenWindow = Callable[..., Awaitable[Window]]


@pytest_asyncio.fixture(loop_scope="session")
async def open_window(browser: Browser, gateway: Target) -> AsyncIterator[OpenWindow]:
    """Opens windows; at the end of a test each is checked for errors and foreign requests.

    Options are those of Playwright's `new_context`, such as `color_scheme` and `viewport`.
    """
    windows: list[Window] = []
    async with AsyncExitStack() as stack:

        async def open_one(target: Target = gateway, **options: Any) -> Window:
            # Not that of the machine, which may be no language tag.
            options = {"locale": "en-GB", **options}
            context: BrowserContext = await browser.new_context(**options)
            stack.push_async_callback(context.close)
            context.set_default_timeout(20_000)
            windows.append(Window(await context.new_page(), target.base))
            return windows[-1]

        yield open_one
    for window in windows:
        window.check()


@pytest_asyncio.fixture(loop_scope="session")
async def window(open_window: OpenWindow) -> Window:
    """One window on the shared gateway."""
    return await open_window()
