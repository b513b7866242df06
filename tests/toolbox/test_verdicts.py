"""The verdict of a search, which a program reads from its results."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.disclosure.doubt import judge_results
from toolscout.examples import CATALOG
from toolscout.search.engine import LANGUAGE_NOTE, Engine
from toolscout.sources.files import FileSource
from toolscout.toolbox.toolbox import Toolbox


@pytest.mark.parametrize(
    ("query", "verdict"),
    [("write an email", "likely"), ("fly me to mars", "unsure"), ("xkqz vbnwt", "nothing fits")],
)
async def test_a_program_gets_the_verdict_of_the_command(
    query: str, verdict: str, tmp_path: Path
) -> None:
    config = Config(home=tmp_path, embedder="use")
    async with Toolbox([FileSource(CATALOG)], store="memory", config=config) as box:
        await box.wait_until_ready()
        session = await box.session("one")
        for results in (box.search(query), session.search(query)):
            assert results.verdict == verdict
            assert bool(results.hits) is (verdict != "nothing fits")


LOG = Tool(name="log", description="Show the history.")
QUESTIONS = [("show the history", "likely"), ("show the history of Rome", "unsure")]


@pytest.mark.parametrize(("query", "verdict"), QUESTIONS)
def test_without_vectors_the_only_tool_is_likely_if_it_has_every_word(
    query: str, verdict: str
) -> None:
    with closing(Engine(Catalog([LOG]), embedders=[])) as engine:
        assert judge_results(engine.search(query), engine).verdict == verdict


def test_without_vectors_one_common_word_stays_doubtful_among_many_tools() -> None:
    names = (f"fetch_{n}" for n in range(30))
    tools = [Tool(name=name, description="Needs your name.") for name in names]
    with closing(Engine(Catalog(tools), embedders=[])) as engine:
        assert judge_results(engine.search("what is your name?"), engine).verdict == "unsure"


@pytest.mark.parametrize("embedder", ["use", "none"])
async def test_requests_about_something_else_are_never_likely(
    embedder: str, tmp_path: Path
) -> None:
    config = Config(home=tmp_path, embedder=embedder)
    async with Toolbox([FileSource(CATALOG)], store="memory", config=config) as box:
        await box.wait_until_ready()
        asked = ("lorem ipsum dolor sit amet", "tell me a joke", "fly me to mars", "asdf qwer zxcv")
        assert "likely" not in [box.search(query).verdict for query in asked]
        assert box.search("send an email").verdict == "likely"


@pytest.mark.parametrize("embedder", ["use", "none"])
async def test_the_only_tool_is_likely_for_its_own_words_and_for_no_others(
    embedder: str, tmp_path: Path
) -> None:
    def history() -> str:
        """Show the history."""
        return ""

    config = Config(home=tmp_path, embedder=embedder)
    async with Toolbox([history], store="memory", config=config) as box:
        await box.wait_until_ready()
        assert box.search("show the history").verdict == "likely"
        assert box.search("bake an apple pie").verdict != "likely"


async def test_a_model_and_a_program_read_that_a_language_is_not_known(tmp_path: Path) -> None:
    config = Config(home=tmp_path, embedder="use")
    async with Toolbox([FileSource(CATALOG)], store="memory", config=config) as box:
        await box.wait_until_ready()
        session = await box.session("one")
        for query, is_noted in (
            ("Jaké bude zítra počasí v Brně?", True),
            ("Jaka będzie jutro pogoda w Łodzi?", False),
        ):
            reply = await session.call("tool_search", {"query": query})
            assert (LANGUAGE_NOTE in reply.text) is is_noted
            assert (LANGUAGE_NOTE in box.search(query).notes) is is_noted
