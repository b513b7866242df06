"""The confidence of a search stays within the range of its verdict, whoever reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.disclosure.doubt import MIN_LIKELY, judge_results
from toolscout.disclosure.matcher import BandedMatcher, HybridMatcher, SearchDomain
from toolscout.disclosure.scope import Policy, Scope
from toolscout.disclosure.session_state import SessionState
from toolscout.embedders.universal_encoder import default_encoder
from toolscout.examples import CATALOG, QUESTIONS
from toolscout.search.engine import Engine
from toolscout.search.hit import Results
from toolscout.sources.files import read_tools

TOOLS = read_tools(CATALOG).tools
OTHERS = (
    "lorem ipsum",
    "tell me a joke",
    "xkqz vbnwt",
    "send_email",
    "select:send_email,nothing",
    "server:mail",
    "re:^send",
    "wat is het weer morgen?",
    "天気予報",
)


def random_queries(count: int) -> Iterator[str]:
    """Words of tools, everyday words and letters, mixed."""
    random = Random(11)
    words = [word for tool in TOOLS for word in tool.description.split()]
    words += [
        "please",
        "my",
        "the",
        "dragon",
        "purple",
        "never",
        "mountain",
        "of",
        "why",
        "seven",
        "lorem",
        "dolor",
    ]
    for _ in range(count):
        chosen = random.choices(words, k=random.randint(1, 6))
        if random.random() < 0.4:
            chosen += ["".join(random.choices("aeioubdfgklmnprstvz", k=random.randint(3, 8)))]
        yield " ".join(chosen)


QUERIES = (*(question for question, _ in QUESTIONS), *OTHERS, *random_queries(150))


@pytest.fixture(scope="module", params=["use", "none"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    embedders = [default_encoder()] if request.param == "use" else []
    engine = Engine(Catalog(TOOLS), embedders=embedders, min_confidence=0.2)
    engine.fill()
    yield engine
    engine.close()


def check_range(results: Results) -> None:
    match results.verdict:
        case "likely":
            assert results.confidence >= MIN_LIKELY
        case "unsure":
            # As it is printed, too.
            assert round(results.confidence, 2) < MIN_LIKELY
        case _:
            assert results.verdict == "nothing fits"
            assert (results.confidence, results.hits) == (0, ())
    assert results.is_answered is (results.confidence >= 0.2)


def test_the_confidence_stays_within_the_range_of_the_verdict(engine: Engine) -> None:
    judged = [judge_results(engine.search(query), engine) for query in QUERIES]
    for results in judged:
        check_range(results)
    assert {"likely", "unsure"} <= {results.verdict for results in judged}


@pytest.mark.parametrize("matcher", [HybridMatcher(), BandedMatcher(), BandedMatcher(0.4, 0.3, 0)])
def test_a_matcher_doubts_what_the_verdict_doubts(engine: Engine, matcher: HybridMatcher) -> None:
    scope = Scope.of(Policy(), engine.catalog, SessionState("one"), None)
    domain = SearchDomain(scope, engine)
    for query in QUERIES:
        results = matcher.search(query, domain, limit=5)
        check_range(results)
        matches = matcher.match(query, domain, limit=5)
        assert matches.is_unsure is (results.verdict != "likely")
        assert matches.confidence == results.confidence
        if type(matcher) is HybridMatcher:
            assert results.verdict == judge_results(engine.search(query), engine).verdict


def test_words_of_the_name_of_a_hit_are_not_unsure() -> None:
    embedders = [default_encoder()]
    with closing(Engine(Catalog(TOOLS), embedders=embedders, min_confidence=0.2)) as engine:
        engine.fill()
        for word in {w for tool in TOOLS for w in tool.local_name.split("_")}:
            judged = judge_results(engine.search(word), engine)
            assert judged.verdict != "unsure", word
            check_range(judged)
        # With a stop word it is no name.
        assert judge_results(engine.search("get my"), engine).verdict != "likely"
