"""Deprecated tools rank below the tools that replace them."""

from __future__ import annotations

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.search.engine import Engine

OTHERS = [
    Tool(name="get_weather", description="Tell the weather in a city."),
    Tool(name="read_file", description="Read a text file."),
    Tool(name="create_issue", description="Open an issue to report a bug."),
]


def ranked(query: str, *tools: Tool) -> tuple[str, ...]:
    return Engine(Catalog([*OTHERS, *tools])).search(query).names


@pytest.mark.parametrize(
    "text",
    [
        "DEPRECATED: use post_mail. Send an email message to people.",
        "Deprecated, please use postMail instead. Send an email message.",
        "[DEPRECATED] Send an email message. Use `post_mail`.",
        "Send an email message (deprecated, use post_mail instead) to people.",
        "Send an email message. This tool is deprecated in favor of post_mail.",
        "Send an email message. DEPRECATED: use the post_mail tool instead.",
        "Send an email message. Deprecated: use post_mail.",
        "Send an email message. Deprecated since 2.0, please use the new `post_mail`.",
        "Send an email message. Deprecated. Replaced by post_mail.",
        "Send an email message. Deprecated: its successor is called postMail.",
    ],
)
def test_a_deprecated_tool_comes_after_the_successor_that_it_names(text: str) -> None:
    old = Tool(name="send_email", description=text)
    new = Tool(name="post_mail", description="Deliver a letter.")

    names = ranked("send an email message", old, new)

    assert names[:2] == ("post_mail", "send_email")


@pytest.mark.parametrize("query", ["get weather old", "Get Weather Old", "get weather old please"])
def test_the_old_name_in_words_finds_the_successor_first(query: str) -> None:
    old = Tool(name="get_weather_old", description="DEPRECATED: use get_weather. Tell the weather.")

    assert ranked(query, old)[:2] == ("get_weather", "get_weather_old")


def test_a_successor_that_fits_the_words_less_takes_the_place_of_the_old_tool() -> None:
    old = Tool(name="send_email", description="DEPRECATED: use post_letter. Send an email.")
    new = Tool(name="post_letter", description="Deliver a message.")
    between = Tool(name="send_email_later", description="Send an email tomorrow.")

    names = ranked("send email", old, new, between)

    assert names[:3] == ("post_letter", "send_email", "send_email_later")


def test_without_a_known_successor_it_falls_below_hits_that_are_about_as_good() -> None:
    old = Tool(name="send_email_deprecated", description="Send an email message to people.")
    good = Tool(name="mail_people", description="Send an email message to many people.")

    assert ranked("send an email message to people", old, good)[:2] == (
        "mail_people",
        "send_email_deprecated",
    )


def test_it_stays_above_hits_that_fit_less() -> None:
    old = Tool(name="send_email", description="DEPRECATED: use gone_tool. Send an email message.")

    assert ranked("send an email message", old)[0] == "send_email"


@pytest.mark.parametrize(
    "query", ["send_email", "sendEmail", "deprecated email tools", "select:send_email"]
)
def test_a_request_for_it_finds_it_first(query: str) -> None:
    old = Tool(name="send_email", description="DEPRECATED: use post_mail. Send an email message.")
    new = Tool(name="post_mail", description="Send an email message.")

    assert ranked(query, old, new)[0] == "send_email"


@pytest.mark.parametrize(
    "text",
    [
        "List deprecated packages of a project.",
        "List packages of a project, without deprecated fields (see the manual).",
        "List packages of a project.\n\nname: of the project (deprecated, use id instead)",
        "List packages of a project.\n\nname: of the project. Deprecated: use id.",
    ],
)
def test_a_tool_about_deprecated_things_is_not_deprecated(text: str) -> None:
    about = Tool(name="check_packages", description=text)
    other = Tool(name="list_packages", description="List packages of a project.")

    assert ranked("check the packages of a project", about, other)[0] == "check_packages"
