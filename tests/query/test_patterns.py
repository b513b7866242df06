"""Patterns over the fields of tools: right, in order, and in bounded time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.errors import QueryError
from toolscout.search.pattern import Pattern, looks_like_pattern

TOOLS = [
    ("get_weather", "Weather for a city."),
    ("budget_get_x", "Money, by month."),
    ("run_query", "Sends a database the query you give."),
    ("Slack_post", "Says something."),
    ("list_files", "All files.\nAnd folders."),
]


def found(pattern: str, tools: list[tuple[str, str]] = TOOLS) -> list[int]:
    return Pattern.of(pattern).find_tools(tools)


@pytest.mark.parametrize(
    ("pattern", "indices"),
    [
        ("weather", [0]),
        ("WEATHER", [0]),
        ("(?i)weather", [0]),
        ("(?-i)WEATHER", []),
        ("database.*query", [2]),
        ("get_.*", [0, 1]),
        ("^get_", [0]),
        (r"\Aget_", [0]),
        ("(?-m)^get_", [0]),
        ("x$", [1]),
        (r"x\Z", [1]),
        ("file|money", [1, 4]),
        ("files.*folders", [4]),
        ("files. and", [4]),
        ("get_weather.*city", []),
        (r"weather\s+weather", []),
        ("r[^z]*W", []),
        (r"\Q.\E$", [0, 1, 2, 3, 4]),
        ("^", [0, 1, 2, 3, 4]),
    ],
)
def test_a_pattern_looks_into_each_field_on_its_own(pattern: str, indices: list[int]) -> None:
    assert found(pattern) == indices


def test_no_tools_no_matches() -> None:
    assert found("a", []) == []


def test_a_pattern_tells_what_it_matched_in_a_field() -> None:
    assert Pattern.of("w.a").find("get_Weather") == "Wea"
    assert Pattern.of("zzz").find("get_Weather") is None
    assert Pattern.of("größe.?").find("die Größen") == "Größen"


FIELD = st.text(st.sampled_from("ab_ .\né"), max_size=8)
PATTERNS = st.sampled_from(
    ["a", "^a", "a$", "a.b", "ab|b_", "[^a]", "^$", "é", "(a|b)+_", r"a\sb", "^.{3}$", "b*"]
)


@given(st.lists(st.tuples(FIELD, FIELD), max_size=30), PATTERNS)
def test_one_pass_finds_what_a_look_at_every_field_finds(
    tools: list[tuple[str, str]], pattern: str
) -> None:
    expected = [
        i
        for i, fields in enumerate(tools)
        if any(re.search(pattern, field.replace("\n", " "), re.IGNORECASE) for field in fields)
    ]

    assert found(pattern, tools) == expected


@pytest.mark.behaviour("B20")
@pytest.mark.parametrize("pattern", ["(a+)+$", "(x+x+)+y", "(a|aa)+$", "(.*)*z"])
def test_patterns_that_hang_other_engines_answer_over_a_large_catalog(pattern: str) -> None:
    tools = [(f"tool_{n}", "a" * 60 + "!") for n in range(20_000)]

    assert found(pattern, tools) == []


def test_work_beyond_the_budget_is_an_error_that_says_what_to_do() -> None:
    ticks = iter(range(100))
    tools = [("tool", "b" * 1000)] * 1_000

    with pytest.raises(QueryError, match=r"too long over so many tools.*narrow it with server:"):
        Pattern.of("a").find_tools(tools, budget_seconds=2, clock=lambda: float(next(ticks)))


@pytest.mark.parametrize(
    ("text", "is_pattern"),
    [
        ("get_.*", True),
        ("file|folder", True),
        ("^get_", True),
        ("(?i)send mail", True),
        (r"\w+_file", True),
        ("[a-z]+_file", True),
        ("日历|邮件", True),
        ("weather", False),
        ("send .* mail", False),
        ("C++", False),
        ("*.pdf", False),
        ("file.txt", False),
        ("what?", False),
        ("a||b", False),
        ("(555) 123|456 x", False),
        ("get_.*(", False),
    ],
)
def test_only_what_nobody_types_by_chance_looks_like_a_pattern(text: str, is_pattern: bool) -> None:
    assert looks_like_pattern(text) is is_pattern
