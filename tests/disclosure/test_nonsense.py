"""Nonsense fits nothing, and real requests without a word of the catalog keep their hits."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.disclosure.doubt import judge_results
from toolscout.embedders.universal_encoder import default_encoder
from toolscout.examples import CATALOG
from toolscout.search.engine import Engine
from toolscout.sources.files import read_tools

VOWELS, CONSONANTS = "aeiou", "bcdfghjklmnprstvwz"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = Engine(Catalog(read_tools(CATALOG).tools), embedders=[default_encoder()])
    engine.fill()
    yield engine
    engine.close()


def verdict(engine: Engine, query: str) -> str:
    return judge_results(engine.search(query), engine).verdict


def pseudo_word(random: Random) -> str:
    syllables = range(random.randint(2, 3))
    return "".join(random.choice(CONSONANTS) + random.choice(VOWELS) for _ in syllables)


def mashed_keys(random: Random) -> str:
    return "".join(random.choices("asdfghjklqwertyuiopzxcvbnm", k=random.randint(3, 8)))


@pytest.mark.parametrize("make", [pseudo_word, mashed_keys])
def test_nine_in_ten_random_texts_fit_nothing(engine: Engine, make: object) -> None:
    assert callable(make)
    random = Random(23)
    queries = [" ".join(make(random) for _ in range(random.randint(2, 4))) for _ in range(100)]
    answered = [query for query in queries if verdict(engine, query) != "nothing fits"]
    # Some random syllables are words or names of some language.
    assert len(answered) <= 10, answered


@pytest.mark.parametrize(
    "query",
    ["asdf qwer zxcv", "fnord quux baz", "florble the wuggins", "lorem ipsum dolor sit amet"],
)
def test_a_stop_word_or_a_piece_of_a_word_does_not_make_nonsense_a_request(
    engine: Engine, query: str
) -> None:
    assert verdict(engine, query) == "nothing fits"


@pytest.mark.parametrize(
    "query",
    [
        "wat is het weer in Amsterdam",
        "hoe warm is het",
        "che tempo fa domani",
        "come posso pagare il mio amico",
        "wie wird das Wetter morgen",
        "envoie un message à Paul",
        "envia un correo a mi jefe",
    ],
)
def test_a_request_in_another_language_keeps_its_hits(engine: Engine, query: str) -> None:
    assert verdict(engine, query) != "nothing fits"


@pytest.mark.parametrize("number", ["12345", "358782170", "4 8 15 16 23 42"])
def test_a_number_that_no_tool_has_fits_nothing(engine: Engine, number: str) -> None:
    assert verdict(engine, number) == "nothing fits"
