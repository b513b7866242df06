"""A greeting asks for no tool, in any language; a request that contains one does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.disclosure.doubt import judge_results
from toolscout.embedders.universal_encoder import default_encoder
from toolscout.examples import CATALOG
from toolscout.search.engine import Engine
from toolscout.sources.files import read_tools

TOOLS = read_tools(CATALOG).tools


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = Engine(Catalog(TOOLS), embedders=[default_encoder()])
    engine.fill()
    yield engine
    engine.close()


def verdict(engine: Engine, query: str) -> str | None:
    return judge_results(engine.search(query), engine).verdict


@pytest.mark.parametrize(
    "greeting",
    [
        *(
            "good morning",
            "good night",
            "thanks a lot",
            "おはようございます",
            "早上好",
            "안녕하세요",
        ),
        *("guten Morgen", "bonjour", "buenos días", "buongiorno", "bom dia", "доброе утро"),
        *("صباح الخير", "günaydın", "dzień dobry", "goedemorgen", "สวัสดี"),
    ],
)
def test_a_greeting_finds_nothing_that_is_likely(engine: Engine, greeting: str) -> None:
    found = judge_results(engine.search(greeting), engine)

    assert found.verdict in ("unsure", "nothing fits")
    assert found.confidence < 0.35


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ("good morning, what is the weather in Paris?", "current_weather"),
        ("Hello! Please write an email to Anna. Thank you", "send_email"),
        ("translate good morning", "translate_text"),
        ("translate good morning into Japanese", "translate_text"),
        ("guten Morgen, wie wird das Wetter morgen?", "weather_forecast"),
    ],
)
def test_a_request_that_greets_keeps_its_tool(engine: Engine, request_: str, name: str) -> None:
    found = judge_results(engine.search(request_), engine)

    assert (found.verdict, name in found.names) == ("likely", True)


def test_a_tool_that_greets_is_likely_for_a_greeting() -> None:
    greeter = Tool(name="wish", description="Wishes somebody a good morning.")
    engine = Engine(Catalog([*TOOLS, greeter]), embedders=[default_encoder()])
    engine.fill()

    assert engine.search("good morning").names[0] == "wish"
    assert verdict(engine, "good morning") == "likely"
    engine.close()
