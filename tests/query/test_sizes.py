"""However long a query is: read at once, answered in few words, and what was left out is said."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tests.search.parts import tool

from toolscout.catalog.catalog import Catalog
from toolscout.errors import QueryError
from toolscout.search.engine import Engine
from toolscout.search.query import MAX_NAMES, MAX_TERMS, parse, parse_all

ENGINE = Engine(Catalog([tool("send_mail", "Send a message."), tool("get_time", "Tell the time.")]))

# A pattern that goes back over a text again and again would take minutes over a run like this and
# an end that does not fit; every one here is read in a fraction of a second.
LENGTH = 100_000
BEGINNINGS = ("", "select:a", 'select:"', "server:", 'server:"', "+", "-a", "/", "re:", '"', "a ")
RUNS = (
    " ", "\n", "\t", "\u2003", '"', "'", "`", "-", "+", "_", ".", ",", ":", "!", "/", "\\", "(",
    ")", "[", "^", "*", "|", "@", "0", "a", "aB", "é", "\u0301\u0327", "\u200d", "👨\u200d", "天",
    "\x00", "\r", "“", "。", "…", "1.", "a-", "a@", "a,", "-abc ", "+abc ", "\n-", "\n ", '"a" ',
    "server:a ", "\\/", ".\"", " and ", "http://",
)  # fmt: skip
ENDS = (" x", "(", '"')


@pytest.mark.timeout(60)
@pytest.mark.behaviour("E50")
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_run_of_any_sign_is_read_without_looking_back_over_it(beginning: str) -> None:
    for run, end in product(RUNS, ENDS):
        text = beginning + run * (LENGTH // len(run)) + end
        try:
            told = parse(text).text
        except QueryError as error:
            told = error.hint
        assert told


def test_of_many_unknown_names_a_few_are_named_and_the_rest_counted() -> None:
    found = ENGINE.search("select:" + ",".join(f"nope_{i}" for i in range(500)) + ",send_mail")

    assert found.names == ("send_mail",)
    (note,) = found.notes
    assert note.startswith("No tool is named nope_0, nope_1, ")
    assert note.endswith(", nope_9 and 490 more.")


def test_a_name_too_long_to_be_one_is_not_quoted_in_full() -> None:
    (note,) = ENGINE.search("select:" + "x" * 500_000).notes

    assert note == f"No tool is named {'x' * 80}…."


def test_of_a_selection_beyond_reason_the_first_names_are_read_and_that_is_said() -> None:
    names = [f"nope_{i}" for i in range(MAX_NAMES)]

    whole = ENGINE.search("select:" + ",".join(["send_mail", *names[1:]]))
    cut = ENGINE.search("select:" + ",".join(["send_mail", *names, "get_time"]))

    assert whole.names == cut.names == ("send_mail",)
    assert len(whole.notes) == 1
    assert "Only the first 10,000 names were read." in cut.notes
    assert all(len(note) < 2_000 for note in cut.notes)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_selection_among_several_queries_is_whole_whatever_the_limit(limit: int) -> None:
    tools = [
        tool(f"read_{thing}", f"Read a {thing}.") for thing in ("cell", "row", "sheet", "book")
    ]
    engine = Engine(Catalog([*tools, tool("tell_time", "Tell what the clock says.")]))

    found = engine.search(["select:read_row,read_sheet,read_book", "clock"], limit=limit)

    assert found.names == ("read_row", "read_sheet", "read_book", "tell_time")
    assert len(engine.search(["read a row", "clock"], limit=limit).names) <= max(limit, 2)


@pytest.mark.parametrize(
    ("queries", "number"),
    [(["a", "a", "/x(/"], 3), (["", "a", "", "/x(/"], 4), (["/x(/", "a"], 1)],
)
def test_an_error_names_the_query_by_its_place_in_the_list_as_given(
    queries: list[str], number: int
) -> None:
    with pytest.raises(QueryError, match=f"In query {number}: "):
        parse_all(queries)


def test_terms_beyond_reason_are_left_out_and_that_is_said() -> None:
    many = [f"term{i}" for i in range(MAX_TERMS + 10)]

    for sign in ("-", "+", "server:", "category:"):
        query = parse("mail " + " ".join(f"{sign}{term}" for term in many))
        read = query.excluded + query.required + query.servers + query.categories
        assert read == tuple(many[:MAX_TERMS])
        assert query.is_cut
    assert not parse("mail " + " ".join(f"-{term}" for term in many[:MAX_TERMS])).is_cut
    assert not parse("mail " + "-term +word server:x " * 200).is_cut


def test_a_search_with_terms_beyond_reason_says_that_it_was_cut() -> None:
    found = ENGINE.search("message " + " ".join(f"-term{i}" for i in range(MAX_TERMS + 1)))

    assert found.names == ("send_mail",)
    assert (
        "The query was too long and was cut: describe the tool you need in one sentence."
        in found.notes
    )


class Watched(str):
    """A text that counts how often it is read as a whole."""

    __slots__ = ()
    reads = 0

    def __format__(self, spec: str) -> str:
        Watched.reads += 1
        return super().__format__(spec)

    def replace(self, *given: Any, **named: Any) -> str:
        Watched.reads += 1
        return super().replace(*given, **named)


def test_each_tool_is_read_once_however_many_terms_there_are() -> None:
    engine = Engine(Catalog(tool(f"send_{i}", Watched(f"Send {i}.")) for i in range(100)))
    Watched.reads = 0

    found = engine.search("+send +7 +nd -xyz -send_17 " + " ".join(f"-term{i}" for i in range(50)))

    assert found.names[0] == "send_7"
    assert Watched.reads <= 100


@pytest.mark.timeout(60)
def test_marks_without_end_on_a_letter_are_looked_up_as_no_name() -> None:
    """To bring a run of marks into one order takes time with the square of its length."""
    marks = "e" + "\u0301\u0327" * 200_000

    for query in (f"select:{marks}", f'server:"{marks}"', f"category:{marks}", f"+{marks}", marks):
        assert ENGINE.search(query).names == ()
