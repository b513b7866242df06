"""Tools called by their names, in whatever spelling."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.search.parts import Bag, filled, tool

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.sanitization import strip_hidden
from toolscout.search.engine import Engine

TOOLS = [
    tool("github__create_pull_request", "Open a pull request.", server="github"),
    tool("github__list_pull_requests", "List pull requests.", server="github"),
    tool("gitlab__create_merge_request", "Open a merge request.", server="gitlab"),
    tool("getHTTPStatus", "Ask a site how it is."),
    tool("create", "Make something."),
    tool("pull", "Fetch and merge."),
]
ENGINE = filled(TOOLS, embedders=[Bag()])
PULL = "github__create_pull_request"


def is_clean(name: str) -> bool:
    return strip_hidden(name) == name


@pytest.mark.parametrize(
    "query",
    [
        PULL,
        "create_pull_request",
        "createPullRequest",
        "create-pull-request",
        "CreatePullRequest",
        "CREATE_PULL_REQUEST",
        "github.create_pull_request",
        "github/createPullRequest",
        "github:create pull request",
        "create pull request",
        "`create_pull_request`",
        "  create_pull_request?  ",
    ],
)
@pytest.mark.behaviour("E30")
def test_a_name_in_any_case_style_with_its_server_or_without_is_certain(query: str) -> None:
    found = ENGINE.search(query)

    assert found.names[0] == PULL
    assert found.confidence == 1


@pytest.mark.parametrize("query", ["getHTTPStatus", "get_http_status", "get-http-status"])
def test_humps_and_runs_of_capitals_are_taken_apart(query: str) -> None:
    assert ENGINE.search(query).names[0] == "getHTTPStatus"


def test_a_name_mentioned_in_a_sentence_counts_a_lot() -> None:
    found = ENGINE.search("please open the merge request with create_pull_request right now")

    assert found.names[0] == PULL
    assert "name in name (create_pull_request)" in [str(r) for r in found.hits[0].why]


def test_the_beginning_of_a_name_finds_all_that_begin_so_by_name() -> None:
    assert ENGINE.search("github__").names[:2] == (PULL, "github__list_pull_requests")
    assert ENGINE.search("create_p").names[0] == PULL
    assert ENGINE.search("git").names[:3] == (
        PULL,
        "github__list_pull_requests",
        "gitlab__create_merge_request",
    )


def test_a_word_that_is_a_name_comes_before_names_that_have_it() -> None:
    assert ENGINE.search("create").names[0] == "create"
    assert ENGINE.search("pull").names[0] == "pull"


def test_one_local_name_of_two_servers_finds_both() -> None:
    engine = Engine(
        Catalog(
            [
                tool("zip__list_files", "Lists an archive.", server="zip"),
                tool("disk__list_files", "Lists a folder.", server="disk"),
            ]
        )
    )

    assert engine.search("list_files").names == ("disk__list_files", "zip__list_files")
    assert engine.search("select:listFiles").names == ("disk__list_files", "zip__list_files")
    assert engine.search("server:zip select:list_files").names == ("zip__list_files",)


def test_names_that_differ_only_by_case_are_distinguished() -> None:
    engine = Engine(Catalog([tool("Read", "Reads a page."), tool("read", "Reads a file.")]))

    for name in ("Read", "read"):
        assert engine.search(name).names[0] == name
        assert engine.search(f"select:{name}").names == (name,)
    assert set(engine.search("READ").names) == {"Read", "read"}
    assert engine.search("select:READ").names == ("Read", "read")


SCRIPTS = [
    "发送邮件",
    "отправить_письмо",
    "메일_보내기",
    "メールを送る",
    "إرسال_بريد",
    "📧",
    "señal_ñ",
    "Straße",
]


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.behaviour("E32")
def test_names_in_any_script_are_names(name: str) -> None:
    engine = Engine(Catalog([tool(name, "Does it."), tool("other", "Does something else.")]))

    assert engine.search(name).names[0] == name
    assert engine.search(name).confidence == 1
    assert engine.search(f"select:{name}").names == (name,)


def test_a_name_of_five_hundred_characters_is_a_name() -> None:
    name = "get_" + "very_" * 99 + "x"
    engine = Engine(Catalog([tool(name, "Does it."), tool("other", "Does something else.")]))

    assert len(name) == 500
    assert engine.search(name).names == (name,)
    assert engine.search(name).confidence == 1
    assert engine.search(f"select:{name}").names == (name,)
    assert engine.search("get_very_very").names == (name,)


@given(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=40).filter(is_clean))
@settings(max_examples=150)
def test_whatever_letters_and_digits_make_a_name_it_is_found_by_it(name: str) -> None:
    engine = Engine(Catalog([tool(name, "Does it."), tool("other_tool", "Does another.")]))

    assert engine.search(f"select:{name}").names == (name,)
    assert engine.search(name).names[:1] == (name,)
