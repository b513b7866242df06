"""The query language through the engine: what each form finds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.errors import QueryError
from toolscout.search.engine import Engine

TOOLS = [
    Tool(name="slack__send_message", server="slack", description="Send a message to a channel."),
    Tool(name="mail__send", server="mail", description="Send a message by email."),
    Tool(name="files__read_file", server="files", description="Reads the content of a file."),
    Tool(name="files__read_folder", server="files", description="Lists what is in a folder."),
    Tool(name="get_weather", category="Web Content", description="Weather for a city."),
    Tool(name="budget_get_x", description="Tells how much money is left."),
    Tool(name="run_query", server="google-sheets", description="Asks the database a query."),
    Tool(name="run", description="Starts a program."),
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(Catalog(TOOLS))


@pytest.mark.behaviour("C21")
def test_a_selection_finds_every_name_in_order_whatever_the_limit(engine: Engine) -> None:
    found = engine.search("select: run_query , get_weather,run,nope", limit=1)

    assert found.names == ("run_query", "get_weather", "run")
    assert any("nope" in note for note in found.notes)
    assert engine.search("select:").names == ()
    assert engine.search("select: , ").names == ()


@pytest.mark.behaviour("C22", "E50")
@pytest.mark.parametrize("query", ["", "   ", "\n", "\u200b", [], ["", " "]])
def test_an_empty_query_finds_nothing_and_is_not_sure_of_it(
    engine: Engine, query: str | list[str]
) -> None:
    found = engine.search(query)

    assert found.names == ()
    assert found.confidence == 0.0


@pytest.mark.behaviour("C23", "D27")
@pytest.mark.parametrize(
    "query", ["run_query", "runQuery", "run-query", "RUN_QUERY", "`run_query`", '"run_query".']
)
def test_a_name_in_any_spelling_comes_first_and_is_sure(engine: Engine, query: str) -> None:
    found = engine.search(query)

    assert found.names[0] == "run_query"
    assert found.confidence == 1.0


@pytest.mark.behaviour("C23")
def test_an_exact_name_wins_over_names_that_begin_with_it(engine: Engine) -> None:
    assert engine.search("run").names[0] == "run"


@pytest.mark.behaviour("C44")
@pytest.mark.parametrize("query", ["slack__send_message", "send_message", "slack.sendMessage"])
def test_a_name_is_found_with_its_server_or_without(engine: Engine, query: str) -> None:
    assert engine.search(query).names[0] == "slack__send_message"


@pytest.mark.behaviour("C24")
def test_the_beginning_of_names_finds_those_first_by_name(engine: Engine) -> None:
    assert engine.search("files__read").names[:2] == ("files__read_file", "files__read_folder")
    assert engine.search("files__read", limit=1).names == ("files__read_file",)
    assert engine.search("files_").names[:2] == ("files__read_file", "files__read_folder")
    assert engine.search("files_").confidence > 0.5


@pytest.mark.behaviour("C25", "C26")
def test_required_terms_must_occur_in_name_or_description(engine: Engine) -> None:
    assert engine.search("+slack message").names == ("slack__send_message",)
    assert engine.search("+SLACK").names == ("slack__send_message",)
    assert set(engine.search("+message send +send").names) == {"slack__send_message", "mail__send"}
    assert engine.search('+"message by email"').names == ("mail__send",)
    assert engine.search("+nowhere message").names == ()
    assert set(engine.search("message + send").names[:2]) == {"slack__send_message", "mail__send"}


def test_excluded_terms_must_not_occur(engine: Engine) -> None:
    assert "slack__send_message" in engine.search("send a message").names
    assert "slack__send_message" not in engine.search("send a message -slack").names
    assert engine.search('message -"by email"').names == ("slack__send_message",)


def test_filters_narrow_every_form(engine: Engine) -> None:
    assert engine.search("server:mail message").names == ("mail__send",)
    assert engine.search("server:google_sheets query").names == ("run_query",)
    assert engine.search('category:"web content" city').names == ("get_weather",)
    assert engine.search("server:files /read/").names == ("files__read_file", "files__read_folder")
    assert set(engine.search("server:mail,slack message").names) == {
        "mail__send",
        "slack__send_message",
    }
    assert engine.search("server:nowhere message").names == ()


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ("github", "GitHub"),
        ("GitHub", "github"),
        ("YouTube", "youtube"),
        ("youtube", "YouTube"),
        ("PostgreSQL", "postgresql"),
        ("postgresql", "POSTGRESQL"),
        ("google-sheets", "Google_Sheets"),
        ("google-sheets", "googleSheets"),
        ("Straße", "STRASSE"),
    ],
)
def test_neither_case_nor_joints_count_in_a_filter(known: str, asked: str) -> None:
    ours = Tool(name="a", server=known, category=known, description="Finds it.")
    engine = Engine(Catalog([ours, Tool(name="b", server="other", description="Finds it.")]))

    assert engine.search(f"server:{asked}").names == ("a",)
    assert engine.search(f"category:{asked} finds").names == ("a",)
    assert engine.search(f"server:{asked}x finds").names == ()


def test_signs_alone_name_no_server() -> None:
    engine = Engine(Catalog([Tool(name="a", description="Finds it.")]))

    assert engine.search('server:"_" finds').names == ()


def test_terms_are_looked_for_in_any_case_and_across_lines() -> None:
    tools = [Tool(name="a", description="Die große\nStraße."), Tool(name="b", description="Weg.")]
    engine = Engine(Catalog(tools))

    assert engine.search('+"GROSSE straße"').names == ("a",)
    assert engine.search("weg straße -STRASSE").names == ("b",)
    assert engine.search('+"a die"').names == ()


def test_filters_alone_list_what_they_leave(engine: Engine) -> None:
    assert engine.search("server:files").names == ("files__read_file", "files__read_folder")
    assert engine.search("server:files -folder").names == ("files__read_file",)


@pytest.mark.behaviour("B7")
def test_a_pattern_is_not_anchored_unless_it_says_so(engine: Engine) -> None:
    assert set(engine.search("get_.*").names) == {"get_weather", "budget_get_x"}
    assert engine.search("^get_").names == ("get_weather",)
    assert engine.search("/how much/").names == ("budget_get_x",)


@pytest.mark.behaviour("B8")
def test_case_never_counts_in_a_pattern(engine: Engine) -> None:
    spellings = ["/WEATHER/", "(?i)weather", "re:Weather", "/weather/i"]

    assert {engine.search(spelling).names for spelling in spellings} == {("get_weather",)}
    assert engine.search("WeAtHeR", mode="regex").names == ("get_weather",)


@pytest.mark.behaviour("B10")
@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("weather", {"get_weather"}),
        ("database.*query", {"run_query"}),
        ("(?i)slack", {"slack__send_message"}),
        ("get_.*", {"get_weather", "budget_get_x"}),
        ("file|folder", {"files__read_file", "files__read_folder"}),
    ],
)
def test_patterns_as_models_write_them_work_unchanged(
    engine: Engine, query: str, names: set[str]
) -> None:
    assert set(engine.search(query).names) == names
    assert set(engine.search(query, mode="regex").names) == names


def test_a_pattern_is_sure_of_what_it_matches(engine: Engine) -> None:
    assert engine.search("/weather/").confidence == 1.0
    assert engine.search("get_.*").confidence == 1.0
    assert engine.search("/zzz/").confidence == 0.0


def test_a_match_in_the_name_comes_before_one_in_the_description(engine: Engine) -> None:
    found = engine.search("/mail/").names + engine.search("/query|channel/").names

    assert found == ("mail__send", "run_query", "slack__send_message")


def test_text_like_a_pattern_without_a_match_is_searched_as_words(
    engine: Engine,
) -> None:
    assert engine.search("weather|").names[:1] == ("get_weather",)
    assert "get_weather" in engine.search("weather.*nowhere").names


@pytest.mark.behaviour("B19", "B20")
@pytest.mark.parametrize("query", ["/(/", "re:[a", "/" + "a" * 300 + "/"])
def test_a_bad_pattern_is_an_error_and_never_an_empty_answer(engine: Engine, query: str) -> None:
    with pytest.raises(QueryError) as caught:
        engine.search(query)

    assert caught.value.hint
    with pytest.raises(QueryError, match="In query 2"):
        engine.search(["weather", query])


@pytest.mark.behaviour("D26")
def test_tools_a_caller_may_not_see_appear_nowhere(engine: Engine) -> None:
    allow = {t.name for t in TOOLS if t.server != "files"}

    for query in (
        "files__read_file",
        "files__read",
        "select:files__read_file",
        "/read/",
        "server:files",
        "+folder",
        "read the content of a file",
        "raed flie",
        "",
    ):
        found = engine.search(query, limit=50, allow=allow)
        told = " ".join((*found.names, *found.near))
        assert "files__" not in told
        assert "folder" not in " ".join(found.notes).replace(query, "")


@pytest.mark.behaviour("E5", "E32")
def test_words_are_lower_cased_split_stemmed_and_short_ones_do_not_count(engine: Engine) -> None:
    for query in ("READING FILES", "read file", "readFile content", "reads a the of files"):
        assert engine.search(query).names[0] == "files__read_file"
    assert engine.search("a of x").names == engine.search("x").names


@pytest.mark.behaviour("E50")
def test_a_very_long_query_is_answered_from_its_beginning(engine: Engine) -> None:
    found = engine.search("weather in the city " + "lorem ipsum " * 100_000)

    assert found.names[0] == "get_weather"
    assert any("cut" in note for note in found.notes)


@pytest.mark.behaviour("E50")
def test_words_of_another_language_alone_are_not_trusted(engine: Engine) -> None:
    known = engine.search("weather for a city").confidence

    assert engine.search("какая погода в городе").confidence < known / 2


@pytest.mark.behaviour("D30")
@pytest.mark.parametrize("query", ["!!!", "... ??? ---", "«»", "+ - * /"])
def test_punctuation_alone_asks_for_nothing(engine: Engine, query: str) -> None:
    assert engine.search(query).names == ()


@given(st.text(st.characters(exclude_categories=()), max_size=80))
def test_no_text_breaks_a_search(text: str) -> None:
    engine = Engine(Catalog(TOOLS))
    try:
        found = engine.search(text)
    except QueryError:
        return

    assert 0.0 <= found.confidence <= 1.0
    assert len(found.names) == len(set(found.names))


@pytest.mark.parametrize(
    "query",
    [
        "+a" + "." * 300 + "b",
        '+"a' + "." * 300 + '"',
        "-" + "x" * 5_000 + " mail",
        "server:" + "x" * 9_000,
    ],
)
def test_terms_of_any_length_are_read(engine: Engine, query: str) -> None:
    assert len(engine.search(query).names) <= 5
