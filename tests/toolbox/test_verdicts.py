"""The verdict of a search, which a program reads from its results."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolscout.config import Config
from toolscout.examples import CATALOG
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
