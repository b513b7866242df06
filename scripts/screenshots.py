"""Take the pictures of the console in docs/figures: `python scripts/screenshots.py`.

A real gateway serves a small shop, a real client asks it, and a headless browser looks at it.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from tests.attack.lab import Lab, Target  # noqa: E402 -- found by the path above
from tests.console.browser import open_browser  # noqa: E402
from tests.console.conftest import SHOP  # noqa: E402

FIGURES = PROJECT / "docs" / "figures"
SIZE = {"width": 1_100, "height": 760}
PHONE = {"width": 390, "height": 760}
PLAYGROUND = "/playground?query=delivery+status+of+an+order&tool=shop__send_invoice"
PAGES = (
    ("console-live.png", "/live", {"viewport": SIZE}),
    ("console-playground.png", PLAYGROUND, {"viewport": SIZE}),
    ("console-dark-phone.png", "/live", {"viewport": PHONE, "color_scheme": "dark"}),
)


async def wait_for_vectors(gateway: Target) -> None:
    """Wait until semantic search is loaded, which begins with the first search."""
    await gateway.call("tool_search", query="anything")
    async with asyncio.timeout(120):
        while "Semantic search is ready" not in gateway.log.read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.5)


async def use(gateway: Target) -> None:
    """Two conversations of a client."""
    for query, number in (
        ("has my parcel been delivered", 4711),
        ("find an order by its number", 815),
    ):
        async with gateway.client("legacy") as client:
            await client.call_tool("tool_search", {"query": query})
            arguments = {"name": "shop__find_order", "arguments": {"number": number}}
            await client.call_tool("call_tool", arguments)
            await client.call_tool("call_tool", {"name": "shop__fail_always", "arguments": {}})


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        real = {"TOOLSCOUT_EMBEDDER": "use"}
        async with (
            lab.gateway({"shop": SHOP}, variables=real) as gateway,
            open_browser() as browser,
        ):
            await wait_for_vectors(gateway)
            await use(gateway)
            for name, path, options in PAGES:
                context = await browser.new_context(locale="en-GB", **options)
                page = await context.new_page()
                await page.goto(f"{gateway.base}/console{path}")
                await page.locator("h1").wait_for()
                await page.screenshot(path=FIGURES / name)
                await context.close()
                print(f"written: docs/figures/{name}")


if __name__ == "__main__":
    asyncio.run(main())
