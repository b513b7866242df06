"""An engine for a part of a catalog: hidden tools change no score, order, confidence or note."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.search.parts import Bag, filled, tool, use
from tests.search.test_allow import NAMES, TOOLS, asked

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.embedders.embedder import Embedder
from toolscout.errors import EmbedderError
from toolscout.learning.usage import UsageWeights, attach_usage
from toolscout.search.engine import Engine
from toolscout.search.hit import Results
from toolscout.search.restricted import RestrictedEngine

WORDS = filled(TOOLS)
DENSE = filled(TOOLS, embedders=[Bag()])


def part(names: Iterable[str]) -> Callable[[Catalog], Catalog]:
    """Selects the tools of these names."""
    wanted = frozenset(names)
    return lambda catalog: Catalog([t for t in catalog if t.name in wanted])


def answer(results: Results) -> tuple[object, ...]:
    """Everything in an answer but the time that it took."""
    hits = [(h.name, h.score, [(str(r), r.score, r.words) for r in h.why]) for h in results.hits]
    return (hits, results.confidence, results.near, results.notes, results.is_answered)


def evidence(results: Results) -> tuple[float, ...]:
    """The facts behind a confidence, which are not rounded as the rest of an answer is."""
    facts = results.evidence or ()
    return tuple(-1.0 if fact is None else fact for fact in facts)


def assert_same_facts(ours: Results, theirs: Results) -> None:
    # The last digit of a sum in single precision depends on where the numbers lie in memory.
    assert evidence(ours) == pytest.approx(evidence(theirs), rel=1e-5, abs=1e-6)


@given(
    query=asked,
    visible=st.frozensets(st.sampled_from(NAMES)),
    whole=st.sampled_from([WORDS, DENSE]),
)
@settings(max_examples=300, deadline=None)
def test_an_answer_is_the_same_with_and_without_hidden_tools(
    query: str, visible: frozenset[str], whole: Engine
) -> None:
    restricted = RestrictedEngine(whole, part(visible))
    restricted.fill()
    alone = filled([t for t in TOOLS if t.name in visible], embedders=whole.embedders)

    ours = restricted.search(query, limit=50)
    theirs = alone.search(query, limit=50)

    assert answer(ours) == answer(theirs)
    assert_same_facts(ours, theirs)


QUERIES = (
    "rechnung an den kunden schicken",
    "enviar un mensaje al equipo",
    "send the invoise to a custmer",
    "delete old backups and notify the team",
    "billing",
)


def office(count: int, *, seed: int) -> list[Tool]:
    words = (
        *("invoice", "customer", "message", "team", "backup", "archive", "payment", "report"),
        *("deploy", "cluster", "ticket", "branch", "calendar", "meeting", "photo", "recipe"),
        *("weather", "flight", "hotel", "patient", "sample", "telescope", "bridge"),
    )
    random = np.random.default_rng(seed)
    tools: list[Tool] = []
    for number in range(count):
        verb = ("send", "delete", "notify", "list", "create")[number % 5]
        first, second, third = (words[i] for i in random.integers(0, len(words), 3))
        text = f"{verb.title()} the {first} of a {second}, with its {third}s."
        tools.append(tool(f"s{seed}__{verb}_{first}_{number}", text, server=f"s{seed}"))
    return tools


def test_scores_of_the_bundled_encoder_do_not_depend_on_hidden_tools() -> None:
    """Its translations and its statistics of similarity come from the visible tools too."""
    visible, hidden = office(40, seed=1), office(160, seed=2)
    whole = filled([*hidden, *visible], embedders=[use()])
    names = [t.name for t in visible]
    restricted = RestrictedEngine(whole, part(names))
    restricted.fill()
    alone = filled(visible, embedders=[use()])

    masked = [whole.search(query, allow=frozenset(names)) for query in QUERIES]
    ours = [restricted.search(query) for query in QUERIES]
    theirs = [alone.search(query) for query in QUERIES]

    assert [*map(answer, ours)] == [*map(answer, theirs)]
    for our, their in zip(ours, theirs, strict=True):
        assert_same_facts(our, their)
    # A mask alone does not give this: otherwise the engine of a part would not be needed.
    assert [*map(answer, masked)] != [*map(answer, theirs)]


def test_it_follows_changes_of_the_whole_catalog() -> None:
    whole = filled(TOOLS[:4], embedders=[Bag()])
    restricted = RestrictedEngine(whole, part(NAMES[2:6]))
    assert set(restricted.search("mail", limit=50).names) == set(NAMES[2:4])

    whole.update(Catalog(TOOLS[1:]).remove(NAMES[3]))
    whole.fill()
    restricted.fill()

    assert set(restricted.search("mail", limit=50).names) == {NAMES[2], *NAMES[4:6]}
    assert restricted.status.is_complete


def test_vectors_are_copied_and_only_texts_of_its_own_are_encoded() -> None:
    bag = Bag()
    whole = filled(TOOLS, embedders=[bag])
    changed = tool(NAMES[0], "Sends what this caller may see.", server="git")
    bag.encoded.clear()

    restricted = RestrictedEngine(whole, lambda catalog: Catalog([*catalog][1:4]).add(changed))
    restricted.fill()

    assert restricted.status.vectors == {"bag": 4}
    assert any("this caller may see" in text for text in bag.encoded)
    assert not any("ledger" in text for text in bag.encoded)


class Failing(Bag):
    """An embedder that is down."""

    def encode(self, texts: list[str]) -> np.ndarray:  # type: ignore[override]
        raise EmbedderError("The service is down.", is_transient=True)


def test_a_failing_embedder_is_reported_with_counts_of_the_part_alone() -> None:
    embedders: list[Embedder] = [Failing()]
    whole = Engine(Catalog(TOOLS), embedders=embedders)
    whole.fill()
    restricted = RestrictedEngine(whole, part(NAMES[:2]))

    found = restricted.search("mail")

    assert set(found.names) == set(NAMES[:2])
    assert found.notes == ("Searched with keywords only: The service is down.",)


@pytest.mark.parametrize("learned", [8, 200])
def test_lifts_by_past_use_are_those_of_the_visible_tools_alone(learned: int) -> None:
    """With many learned vectors, their main directions choose which of them are compared."""
    visible, hidden = office(200, seed=3), office(200, seed=4)
    bag = Bag()
    random = np.random.default_rng(5)
    rows = {
        t.name: random.standard_normal(bag.dimensions).astype(np.float32)
        for t in [*visible, *hidden]
    }

    def search(tools: list[Tool]) -> list[Results]:
        whole = filled([*hidden, *visible] if hidden[0] in tools else visible, embedders=[bag])
        usage = attach_usage(whole)
        assert usage is not None
        usage.mode = "on"
        taught = [t for t in whole.catalog if t.name in {x.name for x in tools}]
        usage.weights = UsageWeights.of(
            taught, np.stack([rows[t.name] for t in taught]), np.ones(len(taught), np.float32), {}
        )
        restricted = RestrictedEngine(whole, part(t.name for t in visible))
        restricted.fill()
        return [restricted.search(query, limit=50) for query in QUERIES[2:]]

    taught = visible[:learned]
    assert [*map(answer, search([*hidden, *taught]))] == [*map(answer, search(taught))]
