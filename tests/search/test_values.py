"""Values and their kinds: whoever asks what `report.pdf` says wants a tool for files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.search.parts import filled, seen, tool, use

from toolscout.catalog.catalog import Catalog
from toolscout.search.engine import Engine
from toolscout.search.preprocessing import add_value_kinds, drop_long_quotations

TOOLS = (
    tool("read_file", "Read a file."),
    tool("fetch_url", "Fetch a URL and give back what it says."),
    tool("send_email", "Send an email to somebody."),
    tool("get_price", "The price of a share."),
    tool("list_inside", "List what is inside a box."),
)
SEEN = frozenset(("file", "url", "email"))


def said(text: str) -> str:
    return add_value_kinds(text, SEEN.__contains__)


@pytest.mark.parametrize(
    ("request_", "meant"),
    [
        ("what is in report.pdf?", "what is in file report.pdf?"),
        ("what is in 'Old Report.docx'?", "what is in file 'Old Report.docx'?"),
        ("compare a.csv with b.csv.", "compare file a.csv with b.csv."),
        ("look at /srv/logs/app.log", "look at file /srv/logs/app.log"),
        ("what does https://example.com/a say?", "what does url https://example.com/a say?"),
        ("tell bob@example.com of it", "tell email bob@example.com of it"),
        ("اقرأ تقرير.pdf الآن", "اقرأ file تقرير.pdf الآن"),
    ],
)
def test_the_kind_of_a_value_is_said_before_it(request_: str, meant: str) -> None:
    assert said(request_) == meant


@pytest.mark.parametrize(
    "request_",
    [
        "open the file report.pdf",  # it says so itself
        "which documents are like report.pdf?",  # in another word for it
        "is Next.js faster than Node.js",
        "version 1.2.3 of a.b.c",
        "call player.db.run twice",
        "the end. Then stop.",
        "who is @bob",
    ],
)
def test_nothing_is_said_of_what_is_no_such_value_or_has_been_named(request_: str) -> None:
    assert said(request_) == request_


def test_a_kind_that_no_tool_is_for_is_not_said() -> None:
    assert add_value_kinds("what is in report.pdf?", lambda _: False) == "what is in report.pdf?"
    assert add_value_kinds("what is in report.pdf?", {"document"}.__contains__).startswith(
        "what is in document"
    )


@given(st.text(alphabet="ab ./\\'\"@:~-_pdf\n", max_size=300))
def test_any_text_keeps_all_that_it_says(text: str) -> None:
    told = said(text)
    for kind in ("url ", "email ", "file "):
        told = told if kind in text else told.replace(kind, "", 1)
    assert told == text


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("have a look at what's inside 'Annual_Report_2023.docx'", "read_file"),
        ("what does https://example.com/pricing say?", "fetch_url"),
        ("tell bob@example.com about the price of a share", "send_email"),
    ],
)
@pytest.mark.parametrize("is_encoded", [False, True])
def test_a_value_finds_the_tools_for_its_kind(query: str, name: str, *, is_encoded: bool) -> None:
    engine = filled(TOOLS, embedders=[use()] if is_encoded else [])
    assert name in engine.search(query, limit=2).names


@pytest.mark.parametrize(
    ("request_", "left"),
    [
        (
            "mail Ann a note saying 'The price of a share has fallen.' today",
            "mail Ann a note saying   today",
        ),
        ('send Bob a price: "list what is inside a box!"', "send Bob a price:  "),
        ("send it to Bob's team, who can't read 'a price list'", None),  # apostrophes; few words
        ('the id "X1". Then send a price, read a file and list "Y2"', None),  # between quotes
        ("say 'good morning to all of you'", None),  # hardly anything else is said
        ("'send an email with the price of a share'", None),
        ("send Bob a price of 'five or six or seven", None),  # it never ends
    ],
)
def test_a_long_quotation_is_not_part_of_the_request(request_: str, left: str | None) -> None:
    known = {"send", "mail", "price", "note", "file", "read", "list"}
    assert drop_long_quotations(request_, known.__contains__) == (
        request_ if left is None else left
    )


def test_the_text_of_a_message_does_not_outweigh_that_it_is_to_be_sent() -> None:
    query = "send Ann an email that says 'read the file and list the price of what is inside a box'"
    assert Engine(Catalog(TOOLS)).search(query, limit=1).names == ("send_email",)
    as_it_is = Engine(Catalog(TOOLS), prepare=lambda text, _: text)
    assert as_it_is.search(query, limit=1).names != ("send_email",)


def test_a_request_may_be_prepared_in_ones_own_way() -> None:
    query = "what does https://example.com/pricing say?"
    assert Engine(Catalog(TOOLS)).search(query).names[0] == "fetch_url"
    as_it_is = Engine(Catalog(TOOLS), prepare=lambda text, _: text)
    assert "file" not in seen(as_it_is.search("what is in a.pdf now"))
    louder = Engine(Catalog(TOOLS), prepare=lambda text, _: f"{text} price")
    assert louder.search("how much is it").names[0] == "get_price"


def test_a_lone_word_may_be_a_name_and_is_left_as_it_is() -> None:
    engine = Engine(Catalog((*TOOLS, tool("player.db", "Who plays."))))
    assert engine.search("player.db").names[0] == "player.db"


def test_the_word_for_a_kind_is_one_that_the_caller_may_see() -> None:
    engine = Engine(Catalog((*TOOLS, tool("archive", "Keep a document."))))
    found = engine.search("what is in report.pdf now?", allow={"archive", "get_price"})
    assert found.names[0] == "archive"
    assert "file" not in seen(found)
