"""What a search gives back: an order, reasons, relations, neighbours, and how sure it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.search.parts import Bag, filled, tool, use

from toolscout.catalog.catalog import Catalog
from toolscout.search.engine import Engine
from toolscout.search.query import MAX_QUERIES

OFFICE = [
    tool("send_mail", "Send a message by email.", related=("read_mail", "no_such_tool")),
    tool("read_mail", "Read the newest messages.", related=("delete_mail",)),
    tool("delete_mail", "Throw messages away."),
    tool("get_weather", "Forecast for a city.", parameters={"city": "Which town to look at"}),
    tool("book_flight", "Reserve a seat on a plane.", phrases=("fly to Rome",), category="travel"),
    tool("find_hotel", "Look for a bed for the night.", category="travel"),
]


@pytest.fixture
def engine() -> Engine:
    return Engine(Catalog(OFFICE))


@pytest.mark.behaviour("E67", "E46")
def test_related_tools_join_last_while_there_is_room(engine: Engine) -> None:
    found = engine.search("send", limit=5)

    assert found.names == ("send_mail", "read_mail")
    assert [str(r) for r in found.hits[1].why] == ["related (send_mail)"]
    assert found.hits[1].score == 0


@pytest.mark.behaviour("E67")
def test_primaries_that_fill_the_limit_leave_no_room_but_say_what_is_related(
    engine: Engine,
) -> None:
    found = engine.search("send", limit=1)

    assert found.names == ("send_mail",)
    assert found.near == ("read_mail",)


@pytest.mark.behaviour("E67")
def test_relations_of_relations_and_unknown_ones_do_not_join(engine: Engine) -> None:
    found = engine.search("send", limit=10)

    assert "delete_mail" not in found.names
    assert "no_such_tool" not in (*found.names, *found.near)


@pytest.mark.behaviour("E67")
def test_a_hit_found_directly_keeps_its_place(engine: Engine) -> None:
    found = engine.search("messages mail", limit=10)

    assert found.names.count("read_mail") == 1
    assert all(reason.arm != "related" for hit in found.hits for reason in hit.why)


@pytest.mark.behaviour("E46")
def test_relations_of_a_hit_by_meaning_join_as_well() -> None:
    tools = [*OFFICE, *(tool(f"other_{i}", f"Is number {i}.") for i in range(40))]
    engine = filled(tools, embedders=[Bag(meanings=["send dispatch", "mail letter"])])

    found = engine.search("dispatch letter", limit=1)

    assert found.names == ("send_mail",)
    assert found.near[0] == "read_mail"
    assert engine.search("dispatch letter", limit=60).names.count("read_mail") == 1


def test_a_hit_says_which_arm_found_it_where_and_by_which_words(engine: Engine) -> None:
    def why(query: str) -> list[str]:
        return [str(reason) for reason in engine.search(query).hits[0].why]

    assert why("get_weather") == [
        "name in name (get_weather)",
        "words in name (get, weather)",
    ]
    assert why("town forecast") == ["words in description, parameter descriptions (town, forecast)"]
    assert why("travel to Rome") == ["words in phrases, category (travel, rome)"]
    assert why("/fore.*city/") == ["pattern in description (Forecast for a city)"]
    assert why("category:travel") == ["filter"]
    assert why("select:find_hotel") == ["name in name (find_hotel)"]


def test_a_reason_has_words_as_they_were_written_and_no_stems() -> None:
    invoice = tool("create_invoice", "Bill the companies of a customer.")
    engine = Engine(Catalog([invoice, tool("发送邮件", "")]), embedders=[])

    def words(query: str) -> tuple[str, ...]:
        return engine.search(query).hits[0].why[-1].words

    assert words("invoicing our company") == ("invoicing", "company")
    assert words("invocie the companies") == ("invoice", "companies")
    assert words("送邮") == ("送邮",)


def test_reasons_are_worked_out_when_asked_for_and_stay_true(engine: Engine) -> None:
    hit = engine.search("forecast").hits[0]

    engine.update(Catalog([tool("send_mail", "Forecast nothing.")]))

    assert [str(reason) for reason in hit.why] == ["words in description (forecast)"]


def test_an_answer_is_short_to_print(engine: Engine) -> None:
    assert len(repr(engine.search("forecast"))) < 2_000


def test_several_queries_take_turns_and_each_has_its_best_hit(engine: Engine) -> None:
    asked = ["Send a message by email", "newest messages", "reserve a seat", "bed for the night"]

    found = engine.search(asked, limit=4)

    assert set(found.names) == {"send_mail", "read_mail", "book_flight", "find_hotel"}
    assert found.names[0] == "send_mail"
    assert found.query == " · ".join(asked)
    assert engine.search(asked, limit=1).names == found.names


def test_a_tool_that_two_queries_find_stands_where_it_is_best(engine: Engine) -> None:
    found = engine.search(["newest messages", "messages email"], limit=2)

    assert found.names == ("read_mail", "send_mail")
    assert found.near[0] == "delete_mail"


def test_several_queries_are_as_sure_as_the_least_sure_of_them(engine: Engine) -> None:
    sure, unsure = engine.search("get_weather"), engine.search("purple dragons sing")

    both = engine.search(["get_weather", "purple dragons sing"])

    assert both.confidence == min(sure.confidence, unsure.confidence)
    assert engine.search([]).names == ()
    assert engine.search(["", "  "]).confidence == 0


def test_of_very_many_queries_the_first_are_read_and_that_is_said(engine: Engine) -> None:
    few = engine.search([*(f"plane {n}" for n in range(MAX_QUERIES - 2)), "weather"], limit=1)
    assert "get_weather" in few.names
    assert not few.notes

    many = engine.search([*(f"plane {n}" for n in range(10_000)), "weather"], limit=1)
    assert many.names == ("book_flight",)
    assert many.notes == (f"At most {MAX_QUERIES} queries are read at once.",)


def test_near_has_the_next_names_and_none_that_is_shown(engine: Engine) -> None:
    found = engine.search("mail messages", limit=1)

    assert found.near
    assert not set(found.near) & set(found.names)
    everything = engine.search("mail messages", limit=10).names
    assert set(found.near) <= set(everything) | {"read_mail"}


@pytest.mark.behaviour("S15")
def test_a_long_request_gets_a_tool_for_each_of_its_needs() -> None:
    noise = [tool(f"send_mail_{i}", f"Send a mail message, variant {i}.") for i in range(12)]
    engine = filled([*OFFICE, *noise], embedders=[Bag()])

    found = engine.search(
        "Send a mail message to my sister about the trip, then get the weather forecast for the"
        " city, and after that reserve a seat on a plane to Rome.",
        limit=5,
    )

    assert {"get_weather", "book_flight"} <= set(found.names)
    assert any(name.startswith("send_mail") for name in found.names)


@pytest.mark.behaviour("E33", "E50")
@pytest.mark.parametrize("query", ["", "   ", "\n\t", "\u200b"])
def test_nothing_asked_is_nothing_found(engine: Engine, query: str) -> None:
    found = engine.search(query)

    assert (found.names, found.confidence, found.near) == ((), 0, ())


@pytest.mark.behaviour("E33", "E50")
def test_no_hit_means_no_confidence(engine: Engine) -> None:
    found = engine.search("purple dragons")

    assert (found.names, found.confidence) == ((), 0)


@pytest.mark.behaviour("E34", "E50")
def test_confidence_is_a_chance_that_rises_with_what_speaks_for_the_best_hit() -> None:
    engine = filled(OFFICE, embedders=[use()])
    asked = ["get_weather", "weather forecast for a city", "wie wird das Wetter", "bake a cake"]

    sure = [engine.search(query).confidence for query in asked]

    assert sure[0] == 1
    assert sure == sorted(sure, reverse=True)
    assert sure[2] > 0.5 > sure[3] > 0


def test_a_long_name_of_a_server_makes_a_search_no_less_sure() -> None:
    server = "the-office-of-somebody-mcp-server"
    served = [replace(t, name=f"{server}__{t.name}", server=server) for t in OFFICE]
    plain, named = (Engine(Catalog(tools)).search("book a flight") for tools in (OFFICE, served))
    assert named.evidence is not None
    assert named.evidence == plain.evidence
    assert named.confidence == plain.confidence


@pytest.mark.behaviour("S11")
def test_a_minimum_confidence_marks_weak_answers_and_withholds_nothing() -> None:
    plain = filled(OFFICE, embedders=[use()])
    strict = filled(OFFICE, embedders=[use()], min_confidence=0.5)

    for query, fits in (("weather forecast for a city", True), ("bake a cake", False)):
        found = strict.search(query)
        assert found.is_answered is fits
        assert found.names == plain.search(query).names
        assert plain.search(query).is_answered


@pytest.mark.behaviour("E35", "E39")
def test_five_are_shown_unless_said_otherwise_and_their_scores_fall() -> None:
    engine = filled(OFFICE, embedders=[use()])

    shown = engine.search("mail the weather to the hotel")
    scores = [hit.score for hit in shown.hits]

    assert len(shown.hits) == 5
    assert scores == sorted(scores, reverse=True)
    for limit in (1, 3, 6):
        names = engine.search("mail the weather to the hotel", limit=limit).names
        assert names[:5] == shown.names[:limit]
        assert len(names) == limit


@pytest.mark.behaviour("E33")
@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_of_nothing_shows_nothing(engine: Engine, limit: int) -> None:
    found = engine.search("mail", limit=limit)

    assert found.names == ()
    assert "send_mail" in found.near


def test_a_limit_beyond_the_catalog_shows_what_there_is(engine: Engine) -> None:
    assert len(engine.search("mail messages", limit=10_000).names) == 3


PROGRAM = """
import json, sys
from toolscout.sources.files import read_tools
from toolscout.catalog.catalog import Catalog
from toolscout.search.engine import Engine
from toolscout.embedders import load_embedders
engine = Engine(Catalog(read_tools(sys.argv[1]).tools), embedders=load_embedders(sys.argv[2]))
engine.fill()
for query in json.loads(sys.argv[3]):
    found = engine.search(query)
    print(query, found.confidence, found.near, found.notes)
    for hit in found.hits:
        print(hit.name, hit.score, [str(reason) for reason in hit.why])
engine.close()
"""


def test_another_process_gives_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "tools.jsonl"
    path.write_text("\n".join(json.dumps(t.row()) for t in OFFICE), encoding="utf-8")
    queries = ["send mesages by mail and find a hotel", "travel", "wetter", "/mail/", "read_"]
    outputs = set()
    for seed in ("0", "4242"):
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(path), "use", json.dumps(queries)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        outputs.add(ran.stdout)

    assert len(outputs) == 1
    assert b"get_weather" in outputs.pop()
