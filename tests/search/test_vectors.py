"""The life of vectors: made in the background, kept on disk, made again where a tool changed."""

from __future__ import annotations

import sqlite3
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event, Timer

import numpy as np
import pytest
from tests.search.parts import Bag, Floats, Fragile, filled, tool, unplugged, use

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.embedders.cache import VectorCache, embed_tools, vector_key
from toolscout.embedders.tool_texts import RECIPE_VERSION, embedding_input, embedding_texts
from toolscout.embedders.worker import FillReport
from toolscout.errors import EmbedderError
from toolscout.search.engine import Engine

MAIL = tool("send_mail", "send mail", category="post", phrases=("write to somebody",))
WEATHER = tool("weather", "weather forecast")
ERASE = tool("erase", "erase file")
TOOLS = [MAIL, WEATHER, ERASE]
LIFE = 20  # how long to wait for a background thread before calling it dead


class Gated(Bag):
    """A bag that waits at a gate, and tells when somebody stands before it."""

    def __init__(self) -> None:
        super().__init__(meanings=["weather wetter"])
        self.reached, self.gate = Event(), Event()

    def encode(self, texts: Sequence[str]) -> Floats:
        self.reached.set()
        assert self.gate.wait(LIFE)
        return super().encode(texts)


class Awaited(Bag):
    """A bag that tells when it has encoded a text with a certain word."""

    def __init__(self) -> None:
        super().__init__()
        self.word = ""
        self.came = Event()

    def encode(self, texts: Sequence[str]) -> Floats:
        rows = super().encode(texts)
        if self.word and any(self.word in t for t in texts):
            self.came.set()
        return rows

    def expect(self, word: str) -> None:
        self.came.clear()
        self.word = word


@pytest.mark.behaviour("E48")
def test_a_cold_catalog_answers_with_keyword_search_at_once_and_says_so() -> None:
    embedder = Gated()
    engine = Engine(Catalog(TOOLS), embedders=[embedder])
    assert embedder.reached.wait(LIFE)

    found = engine.search("forecast")

    assert found.names == ("weather",)
    assert found.notes == ("Vectors are still being computed for 3 of 3 tools.",)
    assert engine.status.is_filling
    assert engine.status.vectors == {"bag": 0}

    embedder.gate.set()
    status = engine.fill()
    assert status.vectors == {"bag": 3}
    assert not status.is_filling
    assert engine.search("wetter").names[0] == "weather"
    assert engine.search("wetter").notes == ()
    engine.close()


def test_the_note_about_missing_vectors_counts_only_the_callers_tools() -> None:
    embedder = Gated()
    engine = Engine(Catalog(TOOLS), embedders=[embedder])

    assert engine.search("mail", allow=["send_mail", "weather"]).notes == (
        "Vectors are still being computed for 2 of 2 tools.",
    )
    assert engine.search("mail", allow=[]).notes == ()

    embedder.gate.set()
    engine.close()


def test_progress_is_reported_batch_by_batch() -> None:
    told: list[tuple[int, int]] = []
    embedder = Fragile(unplugged())
    engine = filled([tool(f"tool_{i}", "does things") for i in range(70)], embedders=[embedder])
    embedder.failure = None

    engine.fill(lambda done, total: told.append((done, total)))

    assert told == [(32, 70), (64, 70), (70, 70)]
    engine.close()


def test_progress_of_work_that_began_in_the_constructor_is_reported() -> None:
    seen: list[tuple[int, int]] = []
    embedder = Gated()
    tools = [tool(f"tool_{i}", "does things") for i in range(100)]
    engine = Engine(Catalog(tools), embedders=[embedder])
    assert embedder.reached.wait(LIFE)  # the background is at work, and holds the lock
    Timer(0.3, embedder.gate.set).start()

    engine.fill(lambda done, total: seen.append((done, total)))

    assert seen == sorted(set(seen))
    assert seen[-1] == (100, 100)
    engine.close()


def test_progress_of_work_that_is_done_already_is_the_total() -> None:
    seen: list[tuple[int, int]] = []
    engine = filled([tool(f"tool_{i}", "does things") for i in range(70)], embedders=[Bag()])

    engine.fill(lambda done, total: seen.append((done, total)))

    assert seen == [(70, 70)]
    engine.close()


def test_progress_counts_cached_vectors_as_done(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    tools = [tool(f"tool_{i}", "does things") for i in range(80)]
    cache = tmp_path / "vectors.db"
    filled(tools[:50], embedders=[Bag()], cache=VectorCache(cache)).close()

    embedder = Gated()
    engine = Engine(Catalog(tools), embedders=[embedder], cache=VectorCache(cache))
    assert embedder.reached.wait(LIFE)
    Timer(0.5, embedder.gate.set).start()
    engine.fill(lambda done, total: seen.append((done, total)))

    assert seen[0] == (50, 80)
    assert seen[-1] == (80, 80)
    engine.close()


def test_a_listener_is_notified_of_computed_vectors_and_not_of_cached_ones(
    tmp_path: Path,
) -> None:
    reports: list[FillReport] = []

    def fill() -> None:
        cache = VectorCache(tmp_path / "vectors.db")
        engine = Engine(Catalog(TOOLS), embedders=[Bag()], cache=cache, on_fill=reports.append)
        engine.fill()
        engine.close()

    fill()
    assert [(r.is_over, r.done, r.total) for r in reports] == [(True, 3, 3)]
    fill()
    assert len(reports) == 1


def test_a_fill_that_takes_long_is_reported_while_its_first_batch_is_computed() -> None:
    reports: list[FillReport] = []
    is_reported = Event()

    class Late(Bag):
        def encode(self, texts: Sequence[str]) -> Floats:
            assert is_reported.wait(30)
            return super().encode(texts)

    def note(report: FillReport) -> None:
        reports.append(report)
        is_reported.set()

    engine = Engine(Catalog(TOOLS), embedders=[Late()], on_fill=note)
    engine.fill()
    engine.close()
    assert [(r.is_over, r.done) for r in reports] == [(False, 0), (True, 3)]


@pytest.mark.behaviour("E42", "E49")
def test_an_embedder_that_fails_is_said_and_recovers_when_filled_again() -> None:
    embedder = Fragile(unplugged())
    engine = filled(TOOLS, embedders=[embedder])

    found = engine.search("mail")
    assert found.names == ("send_mail",)
    assert found.notes == ("Searched with keywords only: The encoder is unplugged. Plug it in.",)
    assert engine.status.problem == "The encoder is unplugged. Plug it in."
    assert engine.status.vectors == {"fragile": 0}

    embedder.failure = None
    status = engine.fill()
    assert status.problem == ""
    assert status.vectors == {"fragile": 3}
    assert engine.search("mail").notes == ()
    engine.close()


def test_an_embedder_that_failed_is_tried_again_by_a_later_search() -> None:
    class Mended(Fragile):
        came = Event()

        def encode(self, texts: Sequence[str]) -> Floats:
            rows = super().encode(texts)
            self.came.set()
            return rows

    embedder = Mended(unplugged())
    engine = filled(TOOLS, embedders=[embedder], retry_seconds=0)
    embedder.failure = None

    engine.search("mail")

    assert embedder.came.wait(LIFE)
    engine.close()


def test_it_is_not_tried_again_at_every_search() -> None:
    embedder = Fragile(unplugged())
    engine = filled(TOOLS, embedders=[embedder], retry_seconds=3_600)
    embedder.failure = None

    engine.search("mail")

    assert not engine.status.is_filling
    assert engine.status.vectors == {"fragile": 0}
    engine.close()


@pytest.mark.behaviour("E42")
def test_a_failure_half_way_keeps_what_was_made_and_nothing_wrong(tmp_path: Path) -> None:
    class Tiring(Fragile):
        def encode(self, texts: Sequence[str]) -> Floats:
            if self.failure is not None and len(self.encoded) > 64 * 4:
                raise self.failure
            return Bag.encode(self, texts)

    tools = [tool(f"tool_{i:03}", f"thing number {i}") for i in range(200)]
    embedder = Tiring(EmbedderError("Tired.", is_transient=True))
    first = filled(tools, embedders=[embedder], cache=VectorCache(tmp_path / "v.db"))
    made = first.status.vectors["fragile"]
    assert 64 <= made < 200
    assert first.search("thing").notes[-1] == "Searched without some vectors: Tired."
    first.close()

    embedder.failure = None
    embedder.encoded.clear()
    second = filled(tools, embedders=[embedder], cache=VectorCache(tmp_path / "v.db"))
    fresh = filled(tools, embedders=[Bag(name="fragile")])

    assert {t[:8] for t in embedder.encoded} == {f"tool {i:03}" for i in range(made, 200)}
    for query in ("thing number 70", "number 3"):
        assert answer(second, query) == answer(fresh, query)
    second.close()
    fresh.close()


def answer(engine: Engine, query: str) -> tuple[object, ...]:
    found = engine.search(query)
    return [(h.name, h.score) for h in found.hits], found.confidence, found.notes


@pytest.mark.behaviour("E29", "E42")
def test_vectors_survive_a_restart_and_nothing_is_encoded_again(tmp_path: Path) -> None:
    first = filled(TOOLS, embedders=[Bag()], cache=VectorCache(tmp_path / "v.db"))
    before = answer(first, "send a letter")
    first.close()

    embedder = Bag()
    second = filled(TOOLS, embedders=[embedder], cache=VectorCache(tmp_path / "v.db"))
    assert embedder.encoded == []
    assert answer(second, "send a letter") == before
    second.update(Catalog(TOOLS))
    second.fill()
    assert embedder.encoded == ["send a letter"]
    second.close()


@pytest.mark.behaviour("E43", "S13")
@pytest.mark.parametrize(
    "change",
    [
        {"description": "send a letter"},
        {"phrases": ("write to somebody", "post a note")},
        {"name": "send_letter"},
        {"description": "send mail" + " and more" * 100 + " to Ann"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_tool_that_changed_is_encoded_again_and_no_other(
    tmp_path: Path, change: dict[str, object]
) -> None:
    embedder = Bag()
    engine = filled(TOOLS, embedders=[embedder], cache=VectorCache(tmp_path / "v.db"))
    embedder.encoded.clear()
    changed = replace(MAIL, **change)  # type: ignore[arg-type]

    engine.update(engine.catalog.remove("send_mail").add(changed))
    engine.fill()

    assert embedder.encoded
    assert not any("weather" in t or "erase" in t for t in embedder.encoded)
    assert answer(engine, "letter") == answer(
        filled([changed, WEATHER, ERASE], embedders=[Bag()]), "letter"
    )
    engine.close()


@pytest.mark.behaviour("S13")
def test_texts_that_differ_only_far_behind_have_vectors_of_their_own(tmp_path: Path) -> None:
    start = "reads and checks the ledger " * 40
    tools = [tool("a", start + "then writes mail"), tool("b", start + "then shows weather")]
    assert len(start) > 500
    for _ in range(2):
        engine = filled(tools, embedders=[Bag()], cache=VectorCache(tmp_path / "v.db"))
        assert engine.search("weather").names[0] == "b"
        assert engine.search("mail").names[0] == "a"
        engine.close()


@pytest.mark.behaviour("E43")
def test_a_category_that_changed_counts_at_once() -> None:
    embedder = Bag()
    engine = filled(TOOLS, embedders=[embedder])
    embedder.encoded.clear()

    engine.update(engine.catalog.add(replace(MAIL, category="letters")))
    engine.fill()

    assert engine.search("category:letters").names == ("send_mail",)
    assert engine.search("category:post").names == ()
    assert engine.search("letters").names[0] == "send_mail"
    assert {t.split(":")[0] for t in embedder.encoded[:2]} == {"send mail"}
    assert engine.status.vectors == {"bag": 3}
    engine.close()


@pytest.mark.behaviour("E43")
def test_another_model_has_vectors_of_its_own(tmp_path: Path) -> None:
    filled(TOOLS, embedders=[Bag()], cache=VectorCache(tmp_path / "v.db")).close()
    other = Bag(name="other")

    engine = filled(TOOLS, embedders=[other], cache=VectorCache(tmp_path / "v.db"))

    assert len(other.encoded) > 0
    assert engine.status.vectors == {"other": 3}
    engine.close()


def test_cached_vectors_are_never_in_memory_all_at_once(tmp_path: Path) -> None:
    count, width = 12_000, 512
    tools = [tool(f"tool_{i}", "does things") for i in range(count)]
    embedder = Bag(dimensions=width)
    keys = [vector_key(embedder.id, ((embedding_input(t), 1.0),)) for t in tools]
    cache = VectorCache(tmp_path / "v.db")
    cache.put((key, np.full(width, 1, np.float32)) for key in keys)

    tracemalloc.start()
    seen = sum(len(batch.tools) for batch in embed_tools(tools, embedder, cache))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert seen == count
    assert peak < count * width * 4
    cache.close()


def test_two_engines_share_one_cache_object_and_one_file(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "deep" / "er" / "v.db")
    embedder = Bag()
    one = filled(TOOLS, embedders=[embedder], cache=cache)
    count = len(embedder.encoded)
    one.close()

    two = filled(TOOLS, embedders=[embedder], cache=cache)
    three = filled(TOOLS, embedders=[embedder], cache=VectorCache(cache.path))

    assert len(embedder.encoded) == count
    assert cache.problem == ""
    two.close()
    three.close()


def a_folder(path: Path) -> None:
    path.mkdir()


def in_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("not a folder", encoding="utf-8")


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 64)


def of_another_program(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE vectors (id INTEGER, colour TEXT)")
    connection.close()


def cut_short(path: Path) -> None:
    filled(TOOLS, embedders=[Bag()], cache=VectorCache(path)).close()
    for each in path.parent.iterdir():
        each.write_bytes(each.read_bytes()[:5_000])
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 5_000)


UNUSABLE = [a_folder, in_a_file, garbage, of_another_program, cut_short]


@pytest.mark.parametrize("ruin", UNUSABLE)
def test_a_cache_that_cannot_be_used_is_not_used(
    tmp_path: Path, ruin: Callable[[Path], None]
) -> None:
    path = tmp_path / "cache" / "v.db"
    path.parent.mkdir()
    ruin(path)
    cache, embedder = VectorCache(path), Bag()

    engine = filled(TOOLS, embedders=[embedder], cache=cache)

    assert engine.status.vectors == {"bag": 3}
    assert engine.status.problem == ""
    assert engine.search("forecast").notes == ()
    assert cache.problem.startswith("The vector cache v.db cannot be used")
    engine.close()


def test_a_folder_that_cannot_be_written_does_not_stop_the_program() -> None:
    cache = VectorCache("/proc/no/such/v.db")

    engine = filled(TOOLS, embedders=[Bag()], cache=cache)

    assert engine.status.vectors == {"bag": 3}
    assert cache.problem
    engine.close()


def test_a_cache_that_somebody_else_has_locked_is_let_be(tmp_path: Path) -> None:
    path = tmp_path / "v.db"
    tools = [tool(f"tool_{i}", f"thing {i}") for i in range(400)]
    filled(tools[:1], embedders=[Bag()], cache=VectorCache(path)).close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode=EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    cache = VectorCache(path, wait_seconds=0.01)

    engine = filled(tools, embedders=[Bag()], cache=cache)

    assert engine.status.vectors == {"bag": 400}
    assert "locked" in cache.problem
    holder.execute("COMMIT")
    holder.close()
    engine.close()


def test_single_vectors_that_rotted_are_made_again(tmp_path: Path) -> None:
    path = tmp_path / "v.db"
    filled(TOOLS, embedders=[Bag()], cache=VectorCache(path)).close()
    rotten = [b"", b"odd", np.full(48, np.nan, np.float16).tobytes(), b"\0" * 20, None]
    with sqlite3.connect(path) as connection:
        keys = [k for (k,) in connection.execute("SELECT key FROM vectors")]
    connection.close()
    for value in rotten[:4]:
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE vectors SET vector = ? WHERE key = ?", (value, keys[0]))
        connection.close()
        embedder = Bag()

        engine = filled(TOOLS, embedders=[embedder], cache=VectorCache(path))

        assert len({t.split(":")[0].split()[0] for t in embedder.encoded}) <= 2
        assert embedder.encoded
        assert answer(engine, "forecast") == answer(filled(TOOLS, embedders=[Bag()]), "forecast")
        engine.close()


def test_the_background_never_misses_that_there_is_more_to_do() -> None:
    """Each update comes just when the last one is done, which is when a worker goes to sleep."""
    embedder = Awaited()
    engine = Engine(embedders=[embedder])
    catalog = Catalog()
    for number in range(300):
        embedder.expect(f"number{number} ")
        catalog = catalog.add(tool(f"t{number}", f"number{number} thing"))
        engine.update(catalog)
        assert embedder.came.wait(LIFE), f"tool {number} never got its vector"
    engine.close()


def test_a_closed_engine_still_searches_and_starts_nothing() -> None:
    embedder = Bag()
    engine = filled(TOOLS, embedders=[embedder])
    engine.close()
    count = len(embedder.encoded)

    engine.update(engine.catalog.add(tool("clock", "tells the time")))
    engine.close()

    assert engine.search("time").names[0] == "clock"
    assert "Vectors are still being computed for 1 of 4 tools." in engine.search("time").notes
    assert len(embedder.encoded) == count + 1  # the question


@pytest.mark.behaviour("E45")
def test_a_perfect_match_has_a_similarity_of_one() -> None:
    engine = filled([tool("weather"), tool("erase", "erase file")], embedders=[Bag()])

    evidence = engine.search("weather").evidence

    assert evidence is not None
    assert evidence.similarity == pytest.approx(1, abs=1e-2)


@pytest.mark.behaviour("E41", "E44")
def test_a_hit_by_meaning_has_everything_that_is_known_of_its_tool() -> None:
    engine = filled(TOOLS, embedders=[Bag(meanings=["mail brief"])])

    hit = engine.search("brief").hits[0]

    assert (hit.name, hit.tool.category, hit.tool.description) == ("send_mail", "post", "send mail")
    assert hit.tool is engine.catalog["send_mail"]
    assert hit.score > 0


def test_a_model_that_says_another_width_later_is_refused_and_said() -> None:
    class Growing(Bag):
        def encode(self, texts: Sequence[str]) -> Floats:
            rows = super().encode(texts)
            return np.pad(rows, ((0, 0), (0, 8))) if any("clock" in t for t in texts) else rows

    engine = filled(TOOLS, embedders=[Growing()])
    engine.update(engine.catalog.add(tool("clock", "tells the time")))
    engine.fill()

    assert "vectors of 56 numbers where it sent 48" in engine.status.problem
    assert engine.search("clock").names[0] == "clock"
    assert engine.search("mail").names[0] == "send_mail"
    engine.close()


def test_one_tool_that_cannot_be_encoded_does_not_cost_the_others_their_vectors() -> None:
    tools = [tool(f"tool_{i:03}", f"thing number {i}") for i in range(100)]
    embedder = Fragile(EmbedderError("Too long."), word="tool 041")
    engine = filled(tools, embedders=[embedder])

    assert engine.status.vectors == {"fragile": 99}
    assert engine.status.problem == "Too long."
    assert engine.search("thing").notes == ("Searched without some vectors: Too long.",)
    assert engine.search("thing", allow=["tool_001", "tool_002"]).notes == ()
    engine.close()


def test_an_embedder_that_is_down_is_not_asked_for_the_rest() -> None:
    class Down(Bag):
        asked = 0

        def encode(self, texts: Sequence[str]) -> Floats:
            self.asked += 1
            raise EmbedderError("No answer.", is_transient=self.is_latin_only)

    tools = [tool(f"tool_{i:03}", f"thing number {i}") for i in range(2_000)]
    down, broken = Down(is_latin_only=True), Down()
    for embedder in (down, broken):
        engine = Engine(embedders=[embedder])
        engine.close()  # nothing is done in the background
        engine.update(Catalog(tools))
        engine.fill()
        assert engine.status.vectors == {"bag": 0}

    assert down.asked == 1
    assert broken.asked == 7


def test_text_that_no_encoding_knows_is_encoded_without_it() -> None:
    engine = filled([tool("odd", "half a \ud83d pair"), MAIL], embedders=[use()])

    assert engine.status.problem == ""
    assert engine.search("half a pair").names[0] == "odd"
    engine.close()


def test_texts_that_are_made_another_way_are_kept_under_another_name() -> None:
    message = Tool(
        name="mail__sendMessageIDs",
        description="Send a message. It leaves at once.",
        parameters=Schema.of(
            {
                "type": "object",
                "properties": {
                    "to": {"type": "string", "description": "Who gets it"},
                    "copy_to": {"type": "array"},
                },
                "required": ["to"],
            }
        ),
        phrases=("write to somebody",),
    )
    made = {
        "texts 3": (
            ("mail send Message IDs: Send a message. It leaves at once.", 0.3),
            ("mail send Message IDs", 0.3),
            ("mail send Message IDs: Send a message. to: Who gets it", 0.4),
            ("write to somebody", 0.5),
        )
    }
    assert embedding_texts(message) == made[RECIPE_VERSION]
