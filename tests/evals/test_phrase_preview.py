"""The rank that a tool would have with a phrase, before the phrase is saved."""

from __future__ import annotations

import pytest
from tests.search.parts import Bag, filled, tool

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.overlay import Overlay, OverlayEntry
from toolscout.evals.phrase_preview import preview_ranks
from toolscout.evals.tool_rank import rank_tool
from toolscout.search.engine import Engine

TOOLS = (
    tool("mail__send", "Send a letter to somebody.", server="mail"),
    tool("mail__read", "Read the newest letters.", server="mail"),
    tool("files__copy", "Copy a file to another folder.", server="files"),
    tool("files__send", "Send a file to a printer.", server="files"),
)
QUERIES = ("drop my cousin a line", "send a letter", "copy a file")
OVERLAY = Overlay({("mail", "send"): OverlayEntry(phrases=("drop somebody a line",))})


def build(catalog: Catalog, *, has_vectors: bool) -> Engine:
    return filled(catalog, embedders=[Bag()]) if has_vectors else Engine(catalog)


@pytest.mark.parametrize("has_vectors", [False, True])
def test_a_preview_shows_the_ranks_of_engines_without_and_with_the_phrase(
    has_vectors: bool,
) -> None:
    catalog = Catalog(TOOLS)
    engine = build(catalog, has_vectors=has_vectors)
    with_it = build(catalog.with_changed_tools(OVERLAY.apply), has_vectors=has_vectors)
    for change in preview_ranks(engine, "mail__send", OVERLAY, QUERIES):
        assert change.before.rank == rank_tool(engine, change.query, "mail__send")
        assert change.after.rank == rank_tool(with_it, change.query, "mail__send")
    first = preview_ranks(engine, "mail__send", OVERLAY, QUERIES)[0]
    assert first.after.rank.rank == 1
    assert first.before.rank.score < first.after.rank.score
    assert first.before.confidence < first.after.confidence


@pytest.mark.parametrize("has_vectors", [False, True])
def test_a_copy_and_its_original_change_without_each_other(has_vectors: bool) -> None:
    catalog = Catalog(TOOLS)
    engine = build(catalog, has_vectors=has_vectors)
    copy = engine.copy()
    more = catalog.add(tool("shop__order", "Order wooden clogs.", server="shop"))
    other = catalog.remove("files__copy").add(
        tool("garden__rake", "Rake the leaves.", server="garden")
    )
    copy.update(more)
    engine.update(other)
    for changed, now in ((copy, more), (engine, other)):
        changed.fill()
        fresh = build(now, has_vectors=has_vectors)
        for query in (*QUERIES, "wooden clogs", "rake leaves"):
            found, expected = changed.search(query), fresh.search(query)
            assert found.names == expected.names
            assert [hit.score for hit in found.hits] == pytest.approx(
                [hit.score for hit in expected.hits], abs=1e-3
            )
    copy.close()
