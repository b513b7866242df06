"""Callers under one rule share a catalog and an index, and few indexes are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.events import ignore
from toolscout.search.engine import Engine
from toolscout.toolbox.live_catalog import LiveCatalog
from toolscout.toolbox.visible_catalog import VisibleCatalogs

TOOLS = [Tool(name=f"tool_{n}", description=f"Handles case {n}.") for n in range(10)]


@dataclass(frozen=True)
class Below:
    """Admits the tools with numbers below a limit."""

    limit: int
    denied_patterns: Sequence[str] = ()

    def __call__(self, tool: Tool) -> bool:
        return int(tool.name.removeprefix("tool_")) < self.limit

    def admits_content(self, server: str, names: Sequence[str]) -> bool:
        return True

    def admits_unlisted(self, server: str) -> bool:
        return True


async def test_equal_rules_share_a_catalog_and_an_index() -> None:
    catalogs = VisibleCatalogs(LiveCatalog(Engine(Catalog(TOOLS)), sink=ignore))
    first, second = catalogs.get(Below(4)), catalogs.get(Below(4))
    assert [t.name for t in first.catalog] == [f"tool_{n}" for n in range(4)]
    assert first.engine is second.engine
    assert len(first.engine.search("handles case", limit=10).hits) == 4


async def test_indexes_beyond_the_limit_are_dropped_and_made_again() -> None:
    live = LiveCatalog(Engine(Catalog(TOOLS)), sink=ignore)
    catalogs = VisibleCatalogs(live, max_tools=9)
    small, other, large = (catalogs.get(Below(n)) for n in (4, 5, 10))
    engines = small.engine, other.engine
    assert (small.engine, other.engine) == engines
    assert large.engine is large.engine
    assert small.engine is not engines[0]
    assert other.engine is not engines[1]
    assert len(small.engine.search("handles case", limit=10).hits) == 4


async def test_a_visible_catalog_follows_the_whole_one_and_knows_what_it_hides() -> None:
    live = LiveCatalog(Engine(Catalog(TOOLS[:2])), sink=ignore)
    visible = VisibleCatalogs(live).get(Below(4))
    assert len(visible.catalog) == 2
    live.engine.update(Catalog(TOOLS))
    assert len(visible.catalog) == 4
    assert visible.has_hidden_tool("tool_7")
    assert not visible.has_hidden_tool("tool_1")
    assert not visible.has_hidden_tool("tool_99")
