"""The event of a search has what learning needs: hits with scores, near names, the vector."""

from __future__ import annotations

import numpy as np

from toolscout.embedders.universal_encoder import UniversalEncoder
from toolscout.events import DiscoveryResultEvent, Event
from toolscout.search.engine import Engine
from toolscout.sources.functions import tool
from toolscout.toolbox.toolbox import Toolbox


@tool
def send_email(to: str) -> str:
    """Send an email message."""
    return to


@tool
def delete_page(page: int) -> str:
    """Delete a page."""
    return str(page)


@tool
def book_flight(city: str) -> str:
    """Book a flight."""
    return city


async def search(query: str | list[str], *, engine: Engine) -> DiscoveryResultEvent:
    events: list[Event] = []
    async with Toolbox(
        [send_email, delete_page, book_flight],
        store="memory",
        sink=events.append,
        engine=engine,
    ) as box:
        await box.wait_until_ready()
        session = await box.session("s")
        await session.call("tool_search", {"query": query, "limit": 2})
    (event,) = [e for e in events if isinstance(e, DiscoveryResultEvent)]
    return event


async def test_a_search_has_its_hits_with_scores_and_its_vector() -> None:
    encoder = UniversalEncoder()
    event = await search("write an email to Ann", engine=Engine(embedders=[encoder]))
    assert event.names[0] == "send_email"
    assert len(event.scores) == len(event.names)
    assert event.scores[0] == max(event.scores)
    vector = np.frombuffer(event.vector, np.float16).astype(np.float32)
    assert event.embedder == encoder.id
    assert vector.shape == (encoder.dimensions,)
    assert abs(float(np.linalg.norm(vector)) - 1) < 0.01


async def test_several_queries_have_a_vector_each() -> None:
    encoder = UniversalEncoder()
    queries = ["write an email to Ann", "reserve a plane ticket"]
    event = await search(queries, engine=Engine(embedders=[encoder]))
    first, second = np.frombuffer(event.vector, np.float16).reshape(2, -1)
    assert not np.array_equal(first, second)


async def test_a_keyword_search_has_scores_and_no_vector() -> None:
    event = await search("send an email", engine=Engine())
    assert event.scores[0] > 0
    assert (event.vector, event.embedder) == (b"", "")
    assert "vector" not in event.facts
