"""Bad input: always a prompt, clear answer, and the engine stays well."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.search.parts import Bag, filled, tool

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.errors import QueryError
from toolscout.search.engine import Engine
from toolscout.search.hit import Results

MAIL = tool("send_mail", "Send a message by email.")
ENGINE = filled([MAIL, tool("get_weather", "Forecast for a city.")], embedders=[Bag()])

# Before anything is asked of a query it may be as long and as odd as this; a pattern that goes
# back over a text again and again would not come to an end within the life of a test.
LONG = {
    "one word": "x" * 1_000_000,
    "words": "mail " * 200_000,
    "spaces": "mail" + " " * 1_000_000 + "weather",
    "tabs and lines": "mail" + "\t\n" * 500_000 + "weather",
    "dots": "." * 1_000_000 + "x",
    "ats": "@" * 1_000_000,
    "addresses": "a@" * 500_000,
    "dashes": "a-" * 500_000,
    "underlines": "_" * 1_000_000,
    "quotes": '"' * 1_000_000,
    "apostrophes": "'a " * 300_000,
    "brackets": "(" * 1_000_000,
    "commas": "，" * 1_000_000,
    "joints": " and " * 200_000,
    "humps": "aB" * 500_000,
    "digits": "1" * 1_000_000,
    "stops and quotes": "." * 400_000 + '"' * 400_000 + "x",
    "wide": "天气" * 500_000,
    "marks": "e" + "\u0301" * 1_000_000,
    "emoji": "👨‍👩‍👧" * 100_000,
    "operators": "+mail -weather server:x " * 40_000,
    "identifier": "a" * 300 + "-" * 300,
    "selection": "select:" + "a," * 500_000,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", LONG)
@pytest.mark.behaviour("E50")
def test_a_query_of_a_megabyte_is_answered(kind: str) -> None:
    found = ENGINE.search(LONG[kind])

    assert 0 <= found.confidence <= 1
    assert set(found.names) <= {"send_mail", "get_weather"}
    assert all(len(note) < 2_000_000 for note in found.notes)


def test_a_query_that_was_cut_says_so_and_is_read_as_far_as_it_goes() -> None:
    found = ENGINE.search("forecast for a city " * 50_000)

    assert found.names[0] == "get_weather"
    assert (
        "The query was too long and was cut: describe the tool you need in one sentence."
        in found.notes
    )


@pytest.mark.parametrize("query", ["!?.,;:", "\x00\x01\x1b[31m", "\u202e\u200b\ufeff", "«»", "---"])
def test_signs_and_controls_alone_find_nothing_in_keyword_search(query: str) -> None:
    found = Engine(Catalog([MAIL])).search(query)

    assert (found.names, found.confidence) == ((), 0)


def test_control_characters_inside_a_query_do_not_matter() -> None:
    assert ENGINE.search("send\x00 a\u200b mes\u00adsage\x07").names[0] == "send_mail"


@pytest.mark.parametrize("query", ["the of and to", "what is it", "please"])
def test_words_that_say_nothing_find_nothing(query: str) -> None:
    found = Engine(Catalog([MAIL])).search(query)

    assert (found.names, found.confidence) == ((), 0)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*b", "(x+x+)+y", "([a-z]+)*[0-9]", ".*.*.*=.*"]
)
def test_a_pattern_made_to_hang_is_answered(pattern: str) -> None:
    long = tool("long", "a" * 6_000 + "!")
    engine = Engine(Catalog([MAIL, long]))

    assert set(engine.search(f"/{pattern}/").names) <= {"send_mail", "long"}
    assert set(engine.search(pattern, mode="regex").names) <= {"send_mail", "long"}


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("re:" + "a" * 300, "300 characters; at most 200"),
        ("/(unclosed/", "missing )"),
        ("re:*x", "repetition"),
        ("/[/", "missing ]"),
        (r"re:(?=x)", "invalid perl operator"),
        (r"re:(a)\1", "invalid escape"),
    ],
)
def test_a_bad_pattern_is_an_error_with_its_position_and_advice(query: str, says: str) -> None:
    with pytest.raises(QueryError) as caught:
        ENGINE.search(query)

    assert says in str(caught.value)
    assert caught.value.hint
    assert 0 <= caught.value.position < len(query)
    assert ENGINE.search("message").names[0] == "send_mail"


ODD: list[Tool] = [
    tool("nothing"),
    tool("null_schema", "Counts sheep.", parameters=None),
    tool("x", "A", phrases=("", "  ")),
    tool("huge_text", "sheep " * 20_000),
    tool("one_long_word", "s" * 20_000),
    tool("control", "Counts\x00 \u202esheep\ufeff."),
    tool("self", "Counts sheep.", related=("self", "self", "nowhere")),
    tool("many_phrases", "Counts.", phrases=tuple(f"sheep {i}" for i in range(500))),
    tool("📧📧", "📧"),
    tool("number", "1 2 3 44 5.6"),
    tool("signs", "!!! ??? ---"),
]


@pytest.mark.parametrize("embedders", [[], [Bag()]], ids=["words", "vectors"])
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.name)
def test_an_odd_tool_disturbs_no_other_and_is_found_by_its_name(
    odd: Tool, embedders: list[Bag]
) -> None:
    engine = filled([MAIL, odd], embedders=embedders)

    assert engine.search("message by email").names[0] == "send_mail"
    assert engine.search(f"select:{odd.name}").names == (odd.name,)
    assert engine.search(odd.name).names[0] == odd.name
    engine.update(Catalog([odd]))
    engine.update(Catalog([MAIL]))
    assert engine.search("message").names == ("send_mail",)
    engine.close()


def test_a_tool_with_a_schema_of_five_megabytes_is_indexed_and_found() -> None:
    properties = {
        f"field_{i}": {"type": "string", "description": f"Sheep number {i}. " + "baa " * 100}
        for i in range(12_000)
    }
    schema = Schema.of({"type": "object", "properties": properties})
    assert len(schema.text) > 5_000_000
    herd = Tool(name="herd", description="Counts a herd.", parameters=schema)

    engine = filled([MAIL, herd], embedders=[Bag()])

    assert engine.search("count the herd").names[0] == "herd"
    assert engine.search("sheep").names[0] == "herd"
    assert engine.search("message by email").names[0] == "send_mail"
    engine.close()


def test_an_empty_catalog_answers_every_form() -> None:
    engine = Engine(Catalog(), embedders=[Bag()])

    for query in ("mail", "select:mail", "/mail/", "server:x", "mail_", "+mail", ["a", "b"]):
        found = engine.search(query)
        assert (found.names, found.near, found.confidence) == ((), (), 0)
    assert Engine().search("mail").names == ()
    assert engine.fill().vectors == {"bag": 0}
    engine.close()


@given(
    st.text(st.characters(exclude_categories=()), max_size=200)
    | st.text("a@.-_\"' +:/\n", max_size=200)
)
@settings(max_examples=300)
@example("\ud800")
@example("select:\ud800")
@example("+\ud800\ud800")
@example("+a." + "." * 300)
@example("+" + "a-" * 150 + "b")
@example('-"' + "x" * 500 + '" mail')
def test_any_text_is_answered_or_refused_with_advice(text: str) -> None:
    try:
        found = ENGINE.search(text)
    except QueryError as error:
        told = error.hint
    else:
        told = "an answer"
        sane(found)
    assert told


def sane(found: Results) -> None:
    assert 0 <= found.confidence <= 1
    for hit in found.hits:
        assert all(str(reason) for reason in hit.why)


@given(
    st.lists(
        st.builds(
            tool,
            st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30),
            st.text(st.characters(exclude_categories=("Cs",)), max_size=60),
        ),
        max_size=8,
    ),
    st.text(max_size=30),
)
@settings(max_examples=100)
def test_any_tools_can_be_indexed_and_searched(tools: list[Tool], query: str) -> None:
    engine = Engine(Catalog(tools))
    try:
        found = engine.search(query)
    except QueryError:
        return
    assert set(found.names) <= set(engine.catalog.tools)
    engine.update(Catalog())
    assert engine.search(query).names == ()
