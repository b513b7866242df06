"""A program of code mode is a tree on the page Live: its calls are below it."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from toolscout.config import Config
from toolscout.console.journal_view import render_conversations
from toolscout.sources.functions import tool
from toolscout.store.log_contract import EVERY_ROW
from toolscout.toolbox.toolbox import Toolbox


@tool
def add(a: int) -> int:
    """Add one."""
    return a + 1


class Outline(HTMLParser):
    """The names of rows, each with how many rows it is below."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0
        self.is_name = False
        self.rows: list[tuple[int, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.depth += tag == "li"
        self.is_name = tag == "a" and "/live/rows/" in (dict(attrs).get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "li"

    def handle_data(self, data: str) -> None:
        if self.is_name:
            self.rows.append((self.depth, data))
            self.is_name = False


async def test_the_calls_of_a_program_are_below_it(tmp_path: Path) -> None:
    config = Config.read(embedder="none", home=tmp_path)
    async with Toolbox([add], profile="code", store=tmp_path / "state.db", config=config) as box:
        session = await box.session("s")
        await session.call("run_code", {"code": "[await tools.add(a=n) for n in range(2)]"})
        await session.call("add", {"a": 5})
        assert box.journal is not None
        rows = box.journal.store.read(EVERY_ROW, limit=50)
    outline = Outline()
    outline.feed(str(render_conversations(rows, shows_texts=False)))
    calls = [(depth, name) for depth, name in outline.rows if name in ("run_code", "add")]
    assert calls == [(1, "run_code"), (2, "add"), (2, "add"), (1, "add")]
