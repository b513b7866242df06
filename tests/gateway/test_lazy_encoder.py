"""The encoder is read while others search already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.embedders.cache import VectorCache
from toolscout.embedders.universal_encoder import UniversalEncoder
from toolscout.errors import EmbedderError
from toolscout.events import DiscoveryResultEvent
from toolscout.gateway.startup import LazyEncoder, build_engine
from toolscout.search.engine import Engine
from toolscout.toolbox.toolbox import Toolbox

TOOLS = [
    Tool(name="send_mail", description="Send a letter to somebody."),
    Tool(name="play_song", description="Play music."),
]


class Slow:
    """An encoder that takes until `read` is set, or cannot be read at all."""

    id = "slow"
    dimensions = 2
    is_latin_only = False

    def __init__(self, *, is_broken: bool = False) -> None:
        self.read = Event()
        self.asked = 0
        self._is_broken = is_broken

    def vocabulary_coverage(self, text: str) -> float:
        return float(bool(text))

    def is_word(self, text: str) -> bool:
        return text == "later"

    def is_wordlike(self, text: str) -> bool:
        return text == "lately"

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked += 1
        assert self.read.wait(60)
        if self._is_broken:
            raise EmbedderError("There are no weights.")
        return np.ones((len(texts), 2), np.float32) / np.float32(np.sqrt(2))


def test_it_answers_all_that_its_encoder_does() -> None:
    asked = {name for name in dir(UniversalEncoder()) if not name.startswith("_")}
    assert asked <= {*dir(LazyEncoder)}


def test_the_vocabulary_check_does_not_wait_for_the_encoder() -> None:
    inner = Slow()
    warming = LazyEncoder(inner)
    assert not warming.is_word("later")
    assert not warming.is_wordlike("lately")

    inner.read.set()
    warming.encode(["letter"])

    assert warming.is_word("later")
    assert not warming.is_word("lator")
    assert warming.is_wordlike("lately")


def test_until_the_encoder_is_loaded_keyword_search_answers_and_says_so() -> None:
    inner = Slow()
    warming = LazyEncoder(inner)
    with pytest.raises(EmbedderError, match="still loading"):
        warming.encode_queries(["send a letter"])
    inner.read.set()
    warming.encode(["the background waits for it"])
    assert warming.encode_queries(["send a letter"]).shape == (1, 2)


def test_a_question_in_another_script_waits_for_the_encoder() -> None:
    inner = Slow()
    inner.read.set()
    assert LazyEncoder(inner).encode_queries(["写信给某人"]).shape == (1, 2)


def test_the_encoder_is_read_once_however_many_ask() -> None:
    inner = Slow()
    warming = LazyEncoder(inner)
    for _ in range(5):
        warming.load_in_background()
        with pytest.raises(EmbedderError):
            warming.encode_queries(["send a letter"])
    inner.read.set()
    warming.encode(["x"])
    assert inner.asked == 2


def test_an_encoder_that_cannot_be_read_says_why_when_it_is_asked() -> None:
    inner = Slow(is_broken=True)
    inner.read.set()
    warming = LazyEncoder(inner)
    with pytest.raises(EmbedderError, match="no weights"):
        warming.encode(["x"])
    warming.load_in_background()
    told = ""
    while "no weights" not in told:
        with pytest.raises(EmbedderError) as caught:
            warming.encode_queries(["send a letter"])
        told = str(caught.value)


def test_after_a_restart_a_search_does_not_wait_for_the_encoder(tmp_path: Path) -> None:
    before, after = Slow(), Slow()
    before.read.set()
    first = Engine(Catalog(TOOLS), embedders=[before], cache=VectorCache(tmp_path / "vectors.db"))
    first.fill()
    first.close()
    warming = LazyEncoder(after)
    engine = Engine(Catalog(TOOLS), embedders=[warming], cache=VectorCache(tmp_path / "vectors.db"))
    engine.fill()
    found = engine.search("send a letter")
    assert found.hits[0].name == "send_mail"
    assert any("still loading" in note for note in found.notes)
    after.read.set()
    warming.encode(["x"])
    assert not engine.search("send a letter").notes
    engine.close()


def test_while_semantic_search_loads_a_search_has_one_note(tmp_path: Path) -> None:
    before, after = Slow(), Slow()
    before.read.set()
    first = Engine(Catalog(TOOLS), embedders=[before], cache=VectorCache(tmp_path / "vectors.db"))
    first.fill()
    first.close()
    cache = VectorCache(tmp_path / "vectors.db")
    engine = Engine(Catalog(TOOLS), embedders=[LazyEncoder(after)], cache=cache)
    engine.fill()
    engine.update(Catalog([*TOOLS, Tool(name="take_photo", description="Take a photo.")]))
    (note,) = engine.search("send a letter").notes
    assert "Semantic search is still loading; results are keyword-only." in note
    after.read.set()
    engine.fill()
    assert not engine.search("send a letter").notes
    engine.close()


def test_a_gateway_uses_semantic_search_too_unless_configured_otherwise(tmp_path: Path) -> None:
    engines = [build_engine(Config(home=tmp_path, embedder=e)) for e in ("use", "none")]
    assert [[e.id for e in engine.embedders] for engine in engines] == [["use-m3"], []]
    for engine in engines:
        engine.close()


def mail() -> str:
    """Send a letter."""
    return ""


def song() -> str:
    """Play music."""
    return ""


async def test_while_semantic_search_loads_a_model_reads_that_it_should_search_again(
    tmp_path: Path,
) -> None:
    slow = Slow()
    engine = Engine(embedders=[LazyEncoder(slow)], cache=VectorCache(tmp_path / "vectors.db"))
    options: Any = {"engine": engine, "store": "memory", "profile": "default"}
    events: list[Any] = []
    async with Toolbox([mail, song], **options, sink=events.append) as box:
        session = await box.session("one")
        reply = await session.call("tool_search", {"query": "Brief verschicken"})
        assert "semantic search is still loading. Search again" in reply.text
        assert "continue without a tool" not in reply.text
        (found,) = [e for e in events if isinstance(e, DiscoveryResultEvent)]
        assert (found.names, found.is_loading) == ((), True)
        slow.read.set()
        engine.fill()
