"""Requests are split into clauses that may each need a tool."""

from __future__ import annotations

from toolscout.search.clauses import split_clauses


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


def test_chinese_sentences_are_clauses_and_what_commas_separate_is_not() -> None:
    text = "我想了解上海的天气，需要每天的最高温度。请帮我预订一张去北京的火车票！"
    assert split_clauses(text) == (
        "我想了解上海的天气，需要每天的最高温度",
        "请帮我预订一张去北京的火车票",
    )


def test_list_marks_and_joining_words_end_a_clause() -> None:
    text = "1. list all open issues\n2. close the oldest of them; also tell the whole team"
    assert split_clauses(text) == (
        "list all open issues",
        "close the oldest of them",
        "tell the whole team",
    )
