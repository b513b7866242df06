"""An engine is a list of rankers and a fusion, and a user's own fit in beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from tests.search.parts import Bag, filled, tool

from toolscout.catalog.catalog import Catalog
from toolscout.embedders.arrays import Floats, Ints
from toolscout.search.clauses import split_clauses
from toolscout.search.engine import Engine
from toolscout.search.hit import Reason
from toolscout.search.rankers.bm25f import BM25F
from toolscout.search.rankers.dense import Dense
from toolscout.search.rankers.exact import Exact
from toolscout.search.ranking import FusedRanking, Fusion, Ranking, RankingRequest
from toolscout.search.recipe import fuse

TOOLS = [
    tool("send_mail", "send mail"),
    tool("weather", "weather forecast"),
    tool("erase", "erase file"),
    tool("mail_file", "send file by mail"),
]


@dataclass(frozen=True)
class Liked:
    """How often each tool has been used, as a ranking."""

    counts: dict[int, float]
    trust: float = 1.0
    arm: str = "use"

    @property
    def candidates(self) -> Ints:
        return np.array(list(self.counts), np.int32)

    def scores_at(self, slots: Ints) -> Floats:
        return np.array([self.counts.get(slot, 0.0) for slot in slots.tolist()], np.float32)

    def explain(self, slot: int) -> Reason | None:
        return Reason(self.arm, score=self.counts[slot]) if slot in self.counts else None


class Popular:
    """A ranker that likes some tools whatever is asked."""

    def __init__(self, **counts: float) -> None:
        self.counts = counts

    def rank(self, request: RankingRequest) -> Ranking | None:
        found = ((request.index.slot(name), count) for name, count in self.counts.items())
        return Liked({slot: count for slot, count in found if slot is not None})


def test_a_ranker_of_ones_own_joins_the_others_and_says_why() -> None:
    engine = Engine(Catalog(TOOLS), rankers=[Exact(), BM25F(), Popular(erase=9.0)])

    found = engine.search("forecast")

    assert set(found.names) == {"erase", "weather"}
    assert found.names[0] == "erase"
    assert [str(reason) for reason in found.hits[0].why] == ["use"]
    assert 0 <= found.confidence <= 1


def test_a_ranker_that_has_nothing_to_say_is_passed_over() -> None:
    class Silent:
        def rank(self, request: RankingRequest) -> Ranking | None:
            return None

    assert Engine(Catalog(TOOLS), rankers=[Silent()]).search("mail").names == ()
    assert Engine(Catalog(TOOLS), rankers=[Silent(), BM25F()]).search("erase").names == ("erase",)


def test_a_ranker_that_ignores_who_may_see_what_shows_nothing_hidden() -> None:
    engine = Engine(Catalog(TOOLS), rankers=[BM25F(), Popular(erase=9.0, weather=1.0)])

    found = engine.search("forecast", allow=["weather"])

    assert found.names == ("weather",)
    assert found.near == ()


def summed(request: RankingRequest, rankings: Sequence[Ranking]) -> tuple[Ints, list[Floats]]:
    slots = np.unique(np.concatenate([r.candidates for r in rankings])).astype(np.int32)
    return slots, [r.scores_at(slots) for r in rankings]


def ordered(request: RankingRequest, slots: Ints, scores: Floats) -> FusedRanking:
    def place(row: int) -> tuple[float, str]:
        return -float(scores[row]), request.index.tool(int(slots[row])).name

    rows = sorted(range(len(slots)), key=place)
    return FusedRanking(slots[rows], scores[rows])


def by_maximum(request: RankingRequest, rankings: Sequence[Ranking]) -> FusedRanking:
    slots, columns = summed(request, rankings)
    return ordered(request, slots, np.max(columns, axis=0))


def by_weight(request: RankingRequest, rankings: Sequence[Ranking]) -> FusedRanking:
    slots, columns = summed(request, rankings)
    return ordered(request, slots, np.mean(columns, axis=0))


def by_position(request: RankingRequest, rankings: Sequence[Ranking]) -> FusedRanking:
    slots, columns = summed(request, rankings)
    scores = sum(1 / (61 + np.argsort(np.argsort(-column))) for column in columns)
    return ordered(request, slots, scores.astype(np.float32))


@pytest.mark.behaviour("E40")
@pytest.mark.parametrize("fusion", [by_maximum, by_weight, by_position])
def test_a_fusion_of_ones_own_orders_the_same_tools(fusion: Fusion) -> None:
    bag = Bag(meanings=["mail letter"])
    ours = filled(TOOLS, embedders=[bag])
    theirs = filled(TOOLS, embedders=[bag], fusion=fusion)

    for query in ("send a letter", "mail file"):
        found = theirs.search(query)
        assert set(found.names) == set(ours.search(query).names)
        assert len(set(found.names)) == len(found.names)
        assert [h.score for h in found.hits] == sorted((h.score for h in found.hits), reverse=True)
        assert found.names == theirs.search(query).names
        assert theirs.search(query, limit=1).names == found.names[:1]
    assert "mail" in theirs.search("send a letter").names[0]


def test_a_fusion_that_finds_nothing_is_an_empty_answer() -> None:
    def nothing(request: RankingRequest, rankings: Sequence[Ranking]) -> FusedRanking:
        return FusedRanking(np.zeros(0, np.int32), np.zeros(0, np.float32))

    found = Engine(Catalog(TOOLS), fusion=nothing).search("mail")

    assert (found.names, found.confidence) == ((), 0)


@pytest.mark.behaviour("E31")
def test_arms_are_weighed_as_one_likes() -> None:
    """The embedder takes erasing for sending; how loud it is decides."""
    bag = Bag(meanings=["mail erase"])

    def best(weight: float) -> str:
        engine = filled(TOOLS[:3], embedders=[bag], rankers=[BM25F(), Dense(bag, weight=weight)])
        return engine.search("mail").names[0]

    assert best(0.01) == "send_mail"
    assert best(100) == "erase"


def test_words_that_no_tool_has_cost_the_words_their_trust() -> None:
    trusts: list[float] = []

    def watched(request: RankingRequest, rankings: Sequence[Ranking]) -> FusedRanking:
        trusts.extend(ranking.trust for ranking in rankings)
        return fuse(request, rankings)

    engine = Engine(Catalog(TOOLS), rankers=[BM25F()], fusion=watched)
    engine.search("send mail")
    engine.search("send zebra umbrella lost")
    known, other = trusts

    assert other < known == BM25F().weight


def test_vectors_alone_give_each_of_several_needs_its_turn() -> None:
    bag = Bag()
    engine = filled(TOOLS, embedders=[bag], rankers=[Dense(bag)])
    request = "erase the old file now; send a mail to her; what is the weather forecast"
    assert len(split_clauses(request)) == 3
    assert set(engine.search(request, limit=3).names) == {"erase", "send_mail", "weather"}


def test_a_ranker_that_returns_a_missing_slot_gets_an_error() -> None:
    class Lost:
        def rank(self, request: RankingRequest) -> Ranking | None:
            return Liked({0: 1.0, 99: 2.0})

    engine = Engine(Catalog(TOOLS), rankers=[Lost()])
    with pytest.raises(IndexError, match="slot 99, but there are only 0 to 3"):
        engine.search("erase")
