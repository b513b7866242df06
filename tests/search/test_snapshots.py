"""Many threads search while the catalog changes under them: each sees one whole state."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest
from tests.search.parts import Bag, Floats, Fragile, tool, unplugged

from toolscout.catalog.catalog import Catalog
from toolscout.search.engine import Engine

# In every state the tools of exactly one generation are there, and each says which.
GENERATIONS = 40
WIDTH = 12
SERVERS = ("git", "slack", "cms", "drive")


def generation(number: int) -> Catalog:
    return Catalog(
        tool(
            f"{SERVERS[i % 4]}__tool_{i}_g{number}",
            f"Sends letter {i} of generation {number}.",
            server=SERVERS[i % 4],
            category=f"kind {i % 3}",
            related=(f"{SERVERS[(i + 1) % 4]}__tool_{(i + 1) % WIDTH}_g{number}",),
        )
        for i in range(WIDTH)
    )


QUERIES = (
    "send a letter",
    "leter generation",
    "server:git",
    "/letter/",
    'category:"kind 1"',
    "+letter sends",
    "git__",
    "tool 3",
    "letter -generation",
    "send the letter and then post it",
)


def numbers(names: Sequence[str]) -> set[str]:
    return {name.rpartition("_g")[2] for name in names}


def look(engine: Engine, seed: int, stop: Event, ready: Barrier) -> int:
    rng = random.Random(seed)
    ready.wait()
    count = 0
    while not stop.is_set():
        count += 1
        query = rng.choice(QUERIES)
        allow: Callable[[object], bool] | frozenset[str] | None = None
        if count % 3 == 0:
            allow = lambda each: "__tool_" in each.name  # noqa: E731 - a new rule each time
        found = engine.search(query, limit=rng.choice([1, 5, 20]), allow=allow)
        seen = numbers((*found.names, *found.near))
        assert len(seen) <= 1, (query, seen)
        for hit in found.hits:
            assert hit.tool.name == hit.name
            assert all(str(reason) for reason in hit.why)
        assert engine.status.tools == WIDTH
    return count


@pytest.mark.parametrize(
    "embedders", [[], [Bag()], [Fragile(unplugged())]], ids=["words", "vectors", "failing"]
)
def test_searches_during_updates_never_fail_and_see_one_state_only(embedders: list[Bag]) -> None:
    engine = Engine(generation(0), embedders=embedders, retry_seconds=0)
    stop, ready = Event(), Barrier(5)
    with ThreadPoolExecutor(4) as pool:
        looking = [pool.submit(look, engine, seed, stop, ready) for seed in range(4)]
        ready.wait()
        try:
            for number in range(1, GENERATIONS):
                engine.update(generation(number))
                if number % 10 == 0:
                    engine.fill()
        finally:
            stop.set()
        counts = [each.result() for each in looking]

    assert all(counts)
    last = engine.search("letter", limit=50)
    assert numbers(last.names) == {str(GENERATIONS - 1)}
    engine.close()


def test_many_threads_may_change_the_catalog_at_once() -> None:
    """Who comes last wins, and the index is that of a catalog that somebody gave."""
    engine = Engine(embedders=[Bag()])
    ready = Barrier(4)

    def change(start: int) -> None:
        ready.wait()
        for number in range(start, start + 40, 4):
            engine.update(generation(number))

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(change, start) for start in range(4)]:
            done.result()
    engine.fill()

    (left,) = numbers(list(engine.catalog.tools))
    assert numbers(engine.search("letter", limit=50).names) == {left}
    assert engine.status.vectors == {"bag": WIDTH}
    engine.close()


def test_a_search_that_has_begun_ends_on_the_catalog_it_began_with() -> None:
    """The embedder holds the search up while everything it was looking at is replaced."""
    inside, go_on = Event(), Event()

    class Slow(Bag):
        def encode(self, texts: Sequence[str]) -> Floats:
            if any("wait" in t for t in texts):
                inside.set()
                assert go_on.wait(20)
            return super().encode(texts)

    engine = Engine(generation(1), embedders=[Slow()])
    engine.fill()
    with ThreadPoolExecutor(1) as pool:
        searching = pool.submit(engine.search, "wait for the letter", limit=50)
        assert inside.wait(20)
        for number in range(2, 60):
            engine.update(generation(number))
        engine.fill()
        gc.collect()
        go_on.set()
        found = searching.result()

    assert numbers(found.names) == {"1"}
    assert len(found.names) == WIDTH
    assert all(hit.why for hit in found.hits)
    assert numbers(engine.search("letter", limit=50).names) == {"59"}
    engine.close()


def test_searching_from_many_threads_gives_what_one_thread_gets() -> None:
    engine = Engine(generation(7), embedders=[Bag()])
    engine.fill()

    def answers(seed: int) -> dict[str, tuple[object, ...]]:
        order = random.Random(seed).sample(QUERIES, len(QUERIES))
        return {q: (f.names, f.confidence) for q in order * 3 if (f := engine.search(q))}

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(answers, range(12)))

    assert all(each == answers(0) for each in found)
    engine.close()


def test_the_first_tool_without_a_server_does_not_disturb_searches_under_way() -> None:
    tools = [tool(f"t{i}", "alpha beta", server=f"s{i % 7}") for i in range(50)]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(60):
            engine, is_over = Engine(Catalog(tools)), Event()

            def search(engine: Engine = engine, is_over: Event = is_over) -> int:
                counted = len(engine.search("alpha").hits)
                while not is_over.is_set():
                    counted += len(engine.search("alpha").hits)
                return counted

            with ThreadPoolExecutor(3) as pool:
                under_way = [pool.submit(search) for _ in range(3)]
                engine.update(engine.catalog.add(tool("plain", "It has no server.")))
                is_over.set()
            assert all(searched.result() for searched in under_way)
    finally:
        sys.setswitchinterval(usual)
