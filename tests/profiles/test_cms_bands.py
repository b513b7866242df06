"""The bands of confidence: words alone, words and vectors, vectors alone, nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.disclosure.discovery import discover
from toolscout.disclosure.matcher import BandedMatcher, SearchDomain
from toolscout.disclosure.profiles import CMS, get_profile
from toolscout.disclosure.scope import Policy, Scope
from toolscout.disclosure.session_state import SessionState
from toolscout.embedders.arrays import Floats
from toolscout.errors import ConfigError, EmbedderError
from toolscout.search.engine import Engine
from toolscout.search.ranking import Arms

TOOLS = [
    Tool(name="cms_findImage", description="Find one image by its description."),
    Tool(name="cms_listPages", description="List every page of the site."),
    Tool(name="cms_addNavigationItem", description="Add an item to the navigation menu."),
    Tool(name="cms_publishPost", description="Publish a post."),
    *(Tool(name=f"other{i}", description=f"Unlike anything, number {i}.") for i in range(20)),
]


class CountingEmbedder:
    """Texts about images in any of three languages are alike; it counts the queries."""

    id = "counting"
    dimensions = 1_001
    is_latin_only = False

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.is_down = False

    def encode(self, texts: Sequence[str]) -> Floats:
        return np.stack([self._vector(text) for text in texts])

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        if self.is_down:
            raise EmbedderError("The service is down.")
        self.queries += texts
        return self.encode(texts)

    def _vector(self, text: str) -> Floats:
        vector = np.zeros(self.dimensions, np.float32)
        if any(word in text.lower() for word in ("image", "zdjęcie", "bild")):
            vector[0] = 1.0
            return vector
        vector[1 + sum(map(ord, text)) % (self.dimensions - 1)] = 1.0
        return vector


def confidence_of(query: str, arms: Arms) -> float:
    return Engine(Catalog(TOOLS)).search(query, arms=arms).confidence


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def domain(embedder: CountingEmbedder) -> SearchDomain:
    catalog = Catalog(TOOLS)
    engine = Engine(catalog, embedders=[embedder])
    engine.fill()
    return SearchDomain(Scope.of(Policy(), catalog, SessionState("talk"), None), engine)


@pytest.mark.behaviour("E36", "E52")
def test_sure_words_decide_alone_and_no_query_is_embedded(domain, embedder) -> None:
    query = "add item to the navigation menu"
    assert confidence_of(query, "words") > 0.8
    found = CMS.matcher.match(query, domain, limit=5)
    assert found.names[0] == "cms_addNavigationItem"
    assert found.names == domain.engine.search(query, arms="words").names
    assert embedder.queries == []


@pytest.mark.behaviour("E37", "E52")
def test_half_sure_words_and_vectors_count_together(domain, embedder) -> None:
    query = "publish the bild"
    assert 0.3 < confidence_of(query, "words") <= 0.8
    found = CMS.matcher.match(query, domain, limit=5)
    assert found.names == domain.engine.search(query).names
    assert {"cms_publishPost", "cms_findImage"} <= {*found.names}
    assert embedder.queries


@pytest.mark.behaviour("E38", "E50", "E52")
def test_vectors_decide_where_words_fail(domain) -> None:
    query = "znajdź zdjęcie"
    assert confidence_of(query, "words") <= 0.3
    found = BandedMatcher(min_confidence=0).match(query, domain, limit=1)
    assert found.names == ("cms_findImage",)
    # A word that matches by chance does not count beside them.
    found = BandedMatcher(words_only=1, vectors_only=1).match("publish bild", domain, limit=5)
    assert found.names == domain.engine.search("publish bild", limit=5, arms="vectors").names
    assert found.names[0] == "cms_findImage"
    assert domain.engine.search("publish bild", arms="words").names == ("cms_publishPost",)


@pytest.mark.behaviour("E38", "E129")
def test_words_decide_while_the_embedder_is_down(domain, embedder) -> None:
    embedder.is_down = True
    found = BandedMatcher(vectors_only=1, words_only=1).match("publish post", domain, limit=1)
    assert found.names == ("cms_publishPost",)


@pytest.mark.behaviour("E37", "E129")
def test_without_an_embedder_words_decide_in_every_band() -> None:
    catalog = Catalog(TOOLS)
    domain = SearchDomain(Scope.of(Policy(), catalog, SessionState("t"), None), Engine(catalog))
    query = "publish the bild"
    assert 0.3 < confidence_of(query, "words") <= 0.8
    assert CMS.matcher.match(query, domain, limit=5).names == ("cms_publishPost",)


@pytest.mark.behaviour("E68")
def test_below_the_lowest_confidence_nothing_is_found_but_names_are_near(domain) -> None:
    found = CMS.matcher.match("qwertyuiop zxcv", domain, limit=5)
    assert found.tools == ()
    assert found.near
    assert BandedMatcher(min_confidence=0).match("qwertyuiop zxcv", domain, limit=5).tools


@pytest.mark.behaviour("E81")
def test_the_options_reach_the_profile() -> None:
    options = {"words_only": 0.9, "vectors_only": 0.1, "min_confidence": 0.05, "memory": False}
    profile = get_profile("cms", {**options, "force_search": True, "rules": "a"})
    assert profile.matcher == BandedMatcher(0.9, 0.1, 0.05)
    assert (profile.forces_search, profile.remembers) == (True, False)
    assert [path.name for path in profile.rules] == ["a"]
    with pytest.raises(ConfigError, match="words_only"):
        get_profile("cms", {"words_only": 2})


@pytest.mark.behaviour("E68")
def test_a_search_that_found_nothing_without_vectors_says_so() -> None:
    embedder = CountingEmbedder()
    engine = Engine(Catalog(TOOLS), embedders=[embedder])
    engine.fill()
    embedder.is_down = True
    outcome = discover(
        CMS,
        "tool_search",
        {"query": "dodaj zdjęcie"},
        session=SessionState("s"),
        engine=engine,
        catalog=engine.catalog,
    )
    assert outcome.found == ()
    assert "Searched without vectors: The service is down." in outcome.result.text
