"""Requests are split into clauses that may each need a tool."""

from __future__ import annotations

from time import process_time

import pytest
from tests.search.parts import filled, tool, use

from toolscout.search.clauses import drop_contents, split_clauses


def test_each_sentence_each_line_and_each_step_may_need_a_tool() -> None:
    text = "Find flights to Rome. Book the first one and then send Ann the ticket\n- tell Bob of it"
    assert split_clauses(text) == (
        "Find flights to Rome",
        "Book the first one",
        "send Ann the ticket",
        "tell Bob of it",
    )


def test_a_short_command_at_the_beginning_is_a_clause() -> None:
    text = "Close issue 12, then tell the team in chat, and put a meeting in my calendar"
    commands = ("Close issue 12", "tell the team in chat", "put a meeting in my calendar")
    assert split_clauses(text) == commands
    assert split_clauses("Stop it. Tell the team in chat") == ("Stop it Tell the team in chat",)


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


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        (
            "查一下杭州天气。订一家酒店。买一张火车票。",
            ("查一下杭州天气", "订一家酒店", "买一张火车票"),
        ),
        ("先查一下天气，然后订酒店，再买火车票", ("先查一下天气", "订酒店", "买火车票")),
        ("给李四发邮件，并且播放音乐", ("给李四发邮件", "播放音乐")),
        ("母にメールを送って、予定に追加して", ("母にメールを送って", "予定に追加して")),
    ],
)
def test_short_sentences_of_scripts_without_spaces_are_clauses(
    text: str, clauses: tuple[str, ...]
) -> None:
    assert split_clauses(text) == clauses


@pytest.mark.parametrize(
    "text",
    [
        'tell Bob "close the issue. then delete the file" today',
        "给Bob发邮件说“请删除文件，然后取消航班。关闭问题。”",
        "「ファイルを削除して。フライトをキャンセルして。」とボブにメールして",
        "Dile a Ana «borra el archivo. cancela el vuelo.» por correo",
        "Schreib Anna „Lösche die Datei. Storniere den Flug.“ per Mail",
        "tell Bob 'close the issue. then delete the file' today",
    ],
)
def test_a_quotation_is_not_split(text: str) -> None:
    assert split_clauses(text) == (text,)


def test_needs_in_quotation_marks_are_split() -> None:
    text = "看看北京的天气。另外，“我需要订一家酒店。还需要一张火车票。”"
    assert len(split_clauses(text)) == 3
    assert drop_contents(text) == text


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (
            'send Bob an email saying "delete the file and the old issue"',
            "send Bob an email saying",
        ),
        ("给Bob发邮件说“请删除文件，取消航班。关闭问题。”", "给Bob发邮件说"),
        ("Envía un correo diciendo «borra ese archivo y el vuelo»", "Envía un correo diciendo"),
    ],
)
def test_the_text_of_a_message_asks_for_nothing(text: str, rest: str) -> None:
    assert drop_contents(text).strip() == rest


@pytest.mark.parametrize(
    "text",
    [
        'open the file "notes of May.txt" please',  # a name
        "translate “the meeting of tomorrow is cancelled”",  # little else
        "don't delete Bob's file, delete Ann's and mine",
    ],
)
def test_names_and_what_is_most_of_a_request_stay(text: str) -> None:
    assert drop_contents(text) == text


def test_marks_without_end_take_no_time() -> None:
    started = process_time()
    for mark in "\"“„«「'‘":
        drop_contents(4_000 * f"{mark}a ")
        split_clauses(4_000 * f"{mark}a ")
    assert process_time() - started < 2


@pytest.mark.parametrize(
    "query",
    [
        'send an email saying "please delete the file, cancel the flight. Close the issue." to Bob',
        "给Bob发邮件说“请删除文件，取消航班。关闭问题。”",
        "「ファイルを削除して。フライトをキャンセルして。」とボブにメールして",
        "Envía un correo a Ana diciendo «borra el archivo. cancela el vuelo.»",
    ],
)
def test_a_message_is_sent_and_what_it_says_is_not_done(query: str) -> None:
    tools = [
        tool("send_email", "Send an email."),
        tool("delete_file", "Delete a file."),
        tool("cancel_flight", "Cancel a flight."),
        tool("close_issue", "Close an issue."),
        tool("get_weather", "Weather forecast of a city."),
    ]
    assert filled(tools, embedders=[use()]).search(query).names[0] == "send_email"
