"""What is written in several ways is found by each of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.search.parts import filled, tool, use

from toolscout.catalog.catalog import Catalog
from toolscout.search.analyzer import terms
from toolscout.search.engine import Engine
from toolscout.search.variants import canonical_word


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("list repos", "listing repositories"),
        ("db config", "database configuration"),
        ("k8s stats", "kubernetes statistics"),
        ("review PRs", "review pull requests"),
        ("getVMInfo", "get virtual machine information"),
        ("organise colours", "organize colors"),
        ("visualisations of behaviour", "visualizations of behavior"),
        ("summarised catalogues", "summarized catalogs"),
        ("analysing theatres", "analyzing theaters"),
        ("programmes and licences", "programs and licenses"),
        ("centred, 5 metres", "centered, 5 meters"),
        ("cataloguing what was catalogued", "cataloging what was cataloged"),
        ("organisers and analysers", "organizers and analyzers"),
        ("organisational favourable labourers", "organizational favorable laborers"),
    ],
)
def test_two_ways_to_write_a_word_are_one_term(one: str, other: str) -> None:
    assert terms(one) == terms(other)


@pytest.mark.parametrize(
    "words",
    [
        "revise revision",
        "advertise advertisement",
        "supervise supervision",
        "precise precisely",
        "exercise exercises",
        "promise promising",
        "centre centres centred",
        "catalogue catalogues cataloguing",
        "admin admins administrators",
        "info infos",
        "func funcs",
        "cheque cheques",
        "defence defences",
        "Programm Programme",
    ],
)
def test_relatives_of_a_word_stay_one_term(words: str) -> None:
    assert len(set(terms(words))) == 1


@pytest.mark.parametrize(
    "word",
    [
        *("four", "hour", "tours", "source", "journal", "raise", "disable", "missing", "dir"),
        *("scouring", "flour", "detours", "pwd", "ghs"),
    ],
)
def test_words_that_only_look_british_or_short_stay(word: str) -> None:
    assert canonical_word(word) == word


@given(st.text("abcdeilnorstuyz8", min_size=1, max_size=14))
def test_the_canonical_form_of_a_word_is_stable(word: str) -> None:
    assert " ".join(map(canonical_word, canonical_word(word).split())) == canonical_word(word)


def test_a_tool_named_in_short_is_found_in_full_and_the_other_way_round() -> None:
    tools = [
        tool("list_repos", "Show what there is."),
        tool("get_repository_stars", "Who likes it."),
        tool("merge_pull_request", "Bring a branch in."),
        tool("summarize_text", "Say it in short."),
    ]
    engine = Engine(Catalog(tools))
    assert engine.search("listing of repositories").names[0] == "list_repos"
    assert engine.search("stars of a repo").names[0] == "get_repository_stars"
    assert engine.search("merge a PR").names[0] == "merge_pull_request"
    assert engine.search("summarise a text").names[0] == "summarize_text"
    assert engine.search("summarise a text").notes == ()


def test_an_encoder_is_given_words_for_letters() -> None:
    tools = [tool("merge_pull_request", "Bring a branch in."), tool("get_price", "Of a share.")]
    engine = filled(tools, embedders=[use()])
    said = engine.search("the PR, please").hits[0]
    assert said.name == "merge_pull_request"
    assert {reason.arm for reason in said.why} == {"words", "meaning"}


def test_the_words_of_a_server_do_not_dilute_the_names_of_its_tools() -> None:
    long = "acme-cloud-mcp-server"
    tools = [
        tool(f"{long}__delete_page", "Acts on it.", server=long),
        tool(f"{long}__get_page", "Acts on it.", server=long),
        tool("notes__delete_everything_at_once_now", "Acts on it.", server="notes"),
    ]
    engine = Engine(Catalog(tools))
    hits = engine.search("delete").hits
    assert hits[0].name == f"{long}__delete_page"
    assert engine.search("acme page").hits[0].tool.server == long
    assert "server" in engine.search("acme").hits[0].why[0].field
    assert engine.search("mcp server").hits == ()
