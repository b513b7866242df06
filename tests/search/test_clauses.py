"""Taking requests apart: the quick way for plain letters is the long way's equal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolscout.search.preprocessing import split_clauses

PIECES = (
    "and",
    "then",
    "And then",
    "also",
    "y",
    "-",
    "*",
    "1.",
    "2)",
    ".",
    "!",
    "?",
    ";",
    "\n",
    ",",
)
WORDS = ("list all open issues", "send a mail to Ann", "book", "a table", "(for two)", "'x'")
MARK = "\u200b\u00e9"
"""A word of one letter beyond ASCII, so that a request is read the long way."""


@given(st.lists(st.sampled_from((*PIECES, *WORDS)), min_size=1, max_size=12))
def test_plain_letters_are_taken_apart_as_all_others(pieces: list[str]) -> None:
    text = " ".join(("find flights to Rome", *pieces))
    marked = f"{text} {MARK}"
    slow = tuple(part.replace(MARK, "").strip() for part in split_clauses(marked))
    assert split_clauses(f"{text} e") == tuple(
        part for part in (*slow[:-1], f"{slow[-1]} e".strip()) if part
    )


def test_each_sentence_each_line_and_each_step_may_need_a_tool() -> None:
    text = "Find flights to Rome. Book the first one and then send Ann the ticket\n- tell Bob of it"
    assert split_clauses(text) == (
        "Find flights to Rome",
        "Book the first one",
        "send Ann the ticket",
        "tell Bob of it",
    )


def test_a_request_for_one_thing_stays_whole() -> None:
    assert split_clauses("show the weather in Paris") == ("show the weather in Paris",)
