"""Where vectors come from, by name, alone and together; and embedders that misbehave."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.search.parts import Bag, Fragile, filled, tool, unplugged

from toolscout.catalog.catalog import Catalog
from toolscout.embedders import load_embedders
from toolscout.embedders.endpoint import EmbeddingsEndpoint
from toolscout.errors import ConfigError
from toolscout.search.engine import Engine

TOOLS = [
    tool("send_mail", "send mail"),
    tool("weather", "weather forecast"),
    tool("erase", "erase file"),
]
KNOWING = Bag(name="knowing", meanings=["mail brief почта", "weather wetter погода"])


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSCOUT_EMBEDDINGS_KEY", "k")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.mark.parametrize(
    ("spec", "ids"),
    [
        ("none", []),
        ("", []),
        ("use", ["use-m3"]),
        ("none+use", ["use-m3"]),
        ("openai:m", ["m@https://api.openai.com/v1"]),
        ("use + openai:m@http://h:1/v1/", ["use-m3", "m@http://h:1/v1"]),
        ("openai:org/m:latest@http://h/v1?latin", ["org/m:latest@http://h/v1"]),
        ("openai:a@b@http://h/v1?api-version=2", ["a@b@http://h/v1"]),
        ("openai:m@http://h?query=q%3A%20&passage=p", ["m@http://h|q: |p"]),
        ("openai:c++", ["c++@https://api.openai.com/v1"]),
    ],
)
def test_a_setting_names_embedders(spec: str, ids: list[str]) -> None:
    assert [embedder.id for embedder in load_embedders(spec)] == ids


def test_an_option_marks_an_embedder_as_latin_only() -> None:
    marked, plain = load_embedders("openai:m@http://h/v1?latin+openai:m@http://h/v1")

    assert isinstance(marked, EmbeddingsEndpoint)
    assert marked.is_latin_only
    assert not plain.is_latin_only


@pytest.mark.parametrize("spec", ["magic", "use+magic", "onnx:", "openai:", "use:x", "Use", "+"])
def test_an_unknown_embedder_is_an_error_that_lists_the_known_ones(spec: str) -> None:
    with pytest.raises(ConfigError, match="Choose from: none, use, onnx:FOLDER, openai:MODEL@URL"):
        load_embedders(spec)


def test_several_embedders_are_asked_together_and_each_says_why() -> None:
    plain = Bag(name="plain")
    engine = filled(TOOLS, embedders=[plain, KNOWING])

    found = engine.search("wetter")

    assert found.names[0] == "weather"
    assert [reason.arm for reason in found.hits[0].why] == ["meaning", "meaning"]
    assert engine.status.vectors == {"plain": 3, "knowing": 3}


def test_an_embedder_for_latin_script_is_not_asked_about_others() -> None:
    latin = Bag(name="latin", meanings=["erase почта"], is_latin_only=True)
    alone, both = filled(TOOLS, embedders=[latin]), filled(TOOLS, embedders=[latin, KNOWING])
    latin.encoded.clear()

    assert alone.search("почта").names == ()
    assert both.search("почта").names[0] == "send_mail"
    assert latin.encoded == []

    assert both.search("mail").names[0] == "send_mail"
    assert latin.encoded == ["mail"]


@pytest.mark.behaviour("E49")
def test_one_embedder_that_fails_leaves_the_others_at_work() -> None:
    engine = filled(TOOLS, embedders=[Fragile(unplugged()), KNOWING])

    found = engine.search("wetter")

    assert found.names[0] == "weather"
    assert found.notes == ("Searched without some vectors: The encoder is unplugged. Plug it in.",)
    assert engine.status.vectors == {"fragile": 0, "knowing": 3}


class Shapeless(Bag):
    """An embedder that returns whatever it was given."""

    def __init__(self, rows: object) -> None:
        super().__init__(name="shapeless")
        self.rows = rows

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return self.rows  # type: ignore[return-value]


@pytest.mark.parametrize(
    "rows",
    [
        None,
        "vectors",
        np.ones(3),
        np.ones((1, 4)),
        np.ones((0, 4)),
        np.full((99, 4), np.nan),
        np.full((99, 4), np.inf),
        [[1.0], [1.0, 2.0]],
    ],
    ids=lambda rows: str(getattr(rows, "shape", rows)),
)
def test_an_invalid_table_of_numbers_is_a_failure_that_search_survives(rows: object) -> None:
    engine = filled(TOOLS, embedders=[Shapeless(rows)])

    found = engine.search("mail")

    assert found.names == ("send_mail",)
    assert found.notes[0].startswith("Searched with keywords only: The embedder shapeless")
    assert engine.status.vectors == {"shapeless": 0}


@pytest.mark.parametrize("error", [RuntimeError("out of order"), KeyError("x"), MemoryError()])
def test_an_embedder_may_fail_in_any_way_and_search_continues(error: Exception) -> None:
    engine = filled(TOOLS, embedders=[Fragile(error)])

    found = engine.search("mail")

    assert found.names == ("send_mail",)
    assert found.notes == (
        (
            "Searched with keywords only: "
            f"The embedder fragile failed: {type(error).__name__}: {error}."
        ),
    )
    engine.close()


def test_an_embedder_that_fails_on_the_question_alone_is_said_as_well() -> None:
    fragile = Fragile(RuntimeError("too odd"), word="letter")
    engine = filled(TOOLS, embedders=[fragile])

    found = engine.search("mail letter")

    assert found.names == ("send_mail",)
    assert found.notes == (
        "Searched without vectors: The embedder fragile failed: RuntimeError: too odd.",
    )


@pytest.mark.behaviour("E36", "E37", "E38", "E52")
def test_each_arm_is_as_loud_as_it_can_see() -> None:
    """Known words are ranked by words, unknown ones by meaning alone, and between by both."""
    misled = Bag(meanings=["weather mail", "file wetter"])
    engine = filled(TOOLS, embedders=[misled])

    arms = [reason.arm for reason in engine.search("erase file").hits[0].why]
    assert arms == ["words", "meaning"]

    unknown = engine.search("wetter")
    assert unknown.names[0] == "erase"
    assert [reason.arm for reason in unknown.hits[0].why] == ["meaning"]

    misled.encoded.clear()
    for query in ("select:weather", "/weather/", "re:mail", "server:x", "send_mail", "sendMail"):
        engine.search(query)
    assert misled.encoded == []


@pytest.mark.behaviour("E5", "E38")
def test_without_an_embedder_search_is_keyword_only_and_needs_no_note() -> None:
    engine = Engine(Catalog(TOOLS))

    assert engine.search("forecast").names == ("weather",)
    assert engine.search("forecast").notes == ()
    assert engine.search("wetter").names == ()
