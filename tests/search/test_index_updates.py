"""An index that grew, shrank and changed is the index of what is left, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.search.parts import Bag, filled, tool

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.search.engine import Engine
from toolscout.search.hit import Results

VERBS = ("get", "send", "delete", "list", "search")
NOUNS = ("mail", "page", "image", "weather", "invoice", "user")
SERVERS = ("", "git", "slack", "cms")
PLURAL = {"get": "Fetches one", "send": "Sends a", "delete": "Removes the"}

queries = st.sampled_from(
    ["send mail", "delete the page and then list all images", "weather", "wether", "invoise mail",
     "get_page", "getPage", "select:send_mail,git__get_user", "server:git", "category:cms mail",
     "+mail send", "mail -send", "/get.*/", "cms_", "nothing of the kind", "send the user a mail"]
)  # fmt: skip

STEP = 1.01e-4
"""Both are rounded to four digits, so the last may differ by one (as floats, by a trifle more)."""


@st.composite
def tools(draw: st.DrawFn) -> Tool:
    verb, noun = draw(st.sampled_from(VERBS)), draw(st.sampled_from(NOUNS))
    server = draw(st.sampled_from(SERVERS))
    extra = draw(st.sampled_from(["", " Use with care.", f" Also handles {noun} {noun} drafts."]))
    return tool(
        f"{server}__{verb}_{noun}" if server else f"{verb}_{noun}",
        draw(st.sampled_from(["", f"{PLURAL.get(verb, 'Handles')} {noun}.{extra}"])),
        server=server,
        category=draw(st.sampled_from(["", "cms", "office"])),
        phrases=draw(st.sampled_from([(), (f"{verb} my {noun}",)])),
        related=draw(st.sampled_from([(), ("send_mail",)])),
    )


@dataclass(frozen=True)
class Seen:
    """All of an answer that does not depend on when it was asked."""

    names: tuple[str, ...]
    scores: tuple[float, ...]
    confidence: float
    near: tuple[str, ...]
    notes: tuple[str, ...]
    why: tuple[str, ...]

    @classmethod
    def of(cls, found: Results) -> Seen:
        why = tuple("; ".join(map(str, hit.why)) for hit in found.hits)
        scores = tuple(hit.score for hit in found.hits)
        return cls(found.names, scores, found.confidence, found.near, found.notes, why)


def same(grown: Engine, tools: Iterable[Tool], queries: Iterable[str], **rest: object) -> None:
    fresh = filled(tools, embedders=[Bag()] if grown.embedders else [])
    for query in queries:
        ours = Seen.of(grown.search(query, **rest))  # type: ignore[arg-type]
        theirs = Seen.of(fresh.search(query, **rest))  # type: ignore[arg-type]
        assert ours.names == theirs.names, query
        assert ours.scores == pytest.approx(theirs.scores, abs=STEP), query
        assert ours.confidence == pytest.approx(theirs.confidence, abs=STEP), query
        assert (ours.near, ours.notes, ours.why) == (theirs.near, theirs.notes, theirs.why), query
    fresh.close()


class Growing(RuleBasedStateMachine):
    """Any sequence of additions, changes and removals, looked at after each."""

    @initialize(dense=st.booleans(), first=st.lists(tools(), max_size=6))
    def start(self, dense: bool, first: list[Tool]) -> None:
        self.catalog = Catalog(first)
        self.engine = Engine(self.catalog, embedders=[Bag()] if dense else [])

    @rule(some=st.lists(tools(), min_size=1, max_size=4))
    def add(self, some: list[Tool]) -> None:
        self.move(self.catalog.add(*some))

    @rule(data=st.data(), share=st.sampled_from([1, 2, 9]))
    def remove(self, data: st.DataObject, share: int) -> None:
        names = sorted(self.catalog.tools)
        gone = data.draw(st.lists(st.sampled_from(names or ["x"]), max_size=share))
        self.move(self.catalog.remove(*gone))

    @rule(some=st.lists(tools(), max_size=5))
    def replace(self, some: list[Tool]) -> None:
        self.move(Catalog(some))

    def move(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.engine.update(catalog)
        self.engine.fill()

    @rule(asked=st.lists(queries, min_size=1, max_size=3), limit=st.sampled_from([1, 3, 8]))
    def ask(self, asked: list[str], limit: int) -> None:
        self.engine.fill()
        same(self.engine, self.catalog, asked, limit=limit)

    @rule(asked=queries, data=st.data())
    def ask_for_some(self, asked: str, data: st.DataObject) -> None:
        self.engine.fill()
        names = sorted(self.catalog.tools)
        allow = data.draw(st.lists(st.sampled_from(names or ["x"]), unique=True))
        same(self.engine, self.catalog, [asked], allow=frozenset(allow))

    @invariant()
    def counts_what_is_there(self) -> None:
        assert self.engine.status.tools == len(self.catalog)

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()


Growing.TestCase.settings = settings(max_examples=80, stateful_step_count=10)
TestGrowing = Growing.TestCase


@pytest.mark.parametrize("embedders", [[], [Bag()]], ids=["words", "vectors"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_catalogs_of_hardly_anything_are_searched_like_others(
    count: int, embedders: list[Bag]
) -> None:
    some = [tool("send_mail", "Sends a mail."), tool("weather", "Tells the weather.")][:count]
    engine = filled(some, embedders=embedders)

    found = engine.search("mail")

    assert found.names[:1] == ("send_mail",)[:count]
    assert 0 <= found.confidence <= 1
    assert engine.search("select:weather").names == ("weather",)[: max(0, count - 1)]
    assert engine.search("/mail/").names == ("send_mail",)[:count]
    engine.update(Catalog())
    assert engine.search("mail").names == ()
    assert engine.search("mail").confidence == 0
    engine.close()


def test_an_index_rebuilt_after_much_change_is_the_same() -> None:
    """More dead slots than the index puts up with, several times over."""
    rng = random.Random(4)
    engine = Engine(embedders=[Bag()])
    catalog = Catalog()
    for turn in range(8):
        texts = [" ".join(rng.choices(NOUNS + VERBS, k=4)) for _ in range(150)]
        catalog = catalog.add(*(tool(f"tool_{i}", f"{t} {turn}") for i, t in enumerate(texts)))
        engine.update(catalog)
    engine.fill()

    asked = ["send mail", "delete the page and list images", "wether", "tool_7", "select:tool_9"]
    same(engine, catalog, asked)
    same(engine, catalog, asked, allow=frozenset(f"tool_{i}" for i in range(0, 150, 7)))
    engine.close()


def test_a_name_that_left_is_forgotten_in_every_form() -> None:
    mail = tool("post__sendMail", "Delivers parcels.", server="post", category="parcels")
    engine = Engine(Catalog([tool("weather", "Tells the weather."), mail]))
    assert engine.search("send mail").names == ("post__sendMail",)

    engine.update(engine.catalog.remove("post__sendMail"))

    names = ("post__sendMail", "send_mail", "select:sendMail", "server:post", "post_")
    words = ("parcel", "/parcel/", "+parcels weather", "parcles")
    for query in (*names, *words):
        found = engine.search(query)
        assert found.names == (), query
        assert "parcel" not in " ".join(found.notes), query
    found = engine.search("category:parcels")
    assert found.names == ()
    assert found.notes == ("No category with tools is called 'parcels'.",)


def test_a_word_that_only_a_removed_tool_had_corrects_no_typo() -> None:
    engine = Engine(
        Catalog([tool("weather", "Tells the weather."), tool("mail", "Sends parcels.")])
    )
    assert engine.search("parcles").notes == ("Read 'parcles' as 'parcels'.",)

    engine.update(engine.catalog.remove("mail"))

    assert engine.search("parcles").notes == ()
    assert engine.search("weahter").notes != ()


@given(order=st.permutations(range(12)), asked=queries)
@settings(max_examples=40)
def test_the_order_of_arrival_changes_nothing(order: list[int], asked: str) -> None:
    """Half of the tools say the very same, so that only their names can order them."""
    some = [
        tool(f"{'git__' if i % 3 else ''}send_mail_{i}", "Sends a mail." if i % 2 else f"Is {i}.")
        for i in range(12)
    ]
    engine = filled([some[i] for i in order], embedders=[Bag()])

    same(engine, some, [asked, "sends a mail"])
    engine.close()


NUMBERS = [f"{i:03}" for i in range(900)]


@pytest.mark.parametrize("embedders", [[], [Bag(meanings=[" ".join(NUMBERS)])]], ids=["w", "v"])
def test_among_many_that_are_alike_the_first_by_name_come_first(embedders: list[Bag]) -> None:
    some = [tool(f"send_mail_{i}", "Sends a mail.") for i in NUMBERS]
    for order in (some, some[::-1], random.Random(1).sample(some, 900)):
        engine = filled(order, embedders=embedders)
        for query in ("mail", "sends a mail", "/mail/", "send_"):
            found = engine.search(query)
            assert found.names == tuple(t.name for t in some[:5]), query
        engine.close()


def test_an_update_that_fails_half_way_leaves_everything_as_it_was() -> None:
    """A schema that is no JSON cannot come in from outside; whatever breaks an update, it heals."""
    engine = filled([tool("weather", "Tells the weather.")], embedders=[Bag()])
    broken = Tool(name="broken", parameters=Schema("{"))

    for _ in range(2):
        with pytest.raises(ValueError, match="property name"):
            engine.update(engine.catalog.add(tool("clock", "Tells the time."), broken))
        assert engine.search("tells", limit=9).names == ("weather",)
        assert engine.search("select:clock,broken").names == ()
        assert engine.status.vectors == {"bag": 1}

    catalog = engine.catalog.add(tool("mail", "Sends mail."), tool("post", "Sends parcels."))
    engine.update(catalog)
    engine.fill()
    same(engine, catalog, ["sends", "select:clock,broken", "broken", "clock", "mail"])
    engine.close()
