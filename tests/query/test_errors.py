"""A bad pattern is an error that says where and what to write, wherever it stands."""

from __future__ import annotations

import pytest

from toolscout.errors import QueryError
from toolscout.search.query import Mode, parse


@pytest.mark.parametrize(
    ("text", "mode", "position"),
    [
        ("/(/", "auto", 1),
        ("/mail(s/", "auto", 5),
        ("re:a)", "auto", 4),
        ("  /[a/", "auto", 3),
        ("\u200b\u200b/x**/", "auto", 4),
        ("server:github re:a(", "auto", 18),
        ("(", "regex", 0),
        ("c++ (x", "regex", 1),
        ("a*|*b", "regex", 3),
        (r"(a)\1", "regex", 3),
        ("ab(?=x)", "regex", 2),
        ("(?<!x)a", "regex", 0),
        ("a{2000}", "regex", 1),
        ("x[z-a]", "regex", 2),
        ("ab\\", "regex", 2),
        ("[(]a(b", "regex", 4),
        ("\n\r\n  a)", "regex", 6),
    ],
)
def test_a_bad_pattern_is_an_error_with_its_position(text: str, mode: Mode, position: int) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text, mode=mode)

    assert caught.value.code == "query"
    assert caught.value.message.startswith("Invalid regex pattern: ")
    assert caught.value.position == position
    assert caught.value.hint
    assert f"(at character {position + 1})" in str(caught.value)


@pytest.mark.parametrize("text", ["re:" + "a" * 300, "/" + "(a|b)" * 60 + "/"])
def test_a_pattern_of_more_than_two_hundred_characters_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="characters; at most 200") as caught:
        parse(text)

    assert caught.value.position == text.index("a") + 200 - (1 if text[0] == "/" else 0)
    assert "Shorten" in caught.value.hint


def test_a_pattern_of_two_hundred_characters_is_read() -> None:
    assert parse("re:" + "a" * 200).pattern == "a" * 200


@pytest.mark.parametrize("pattern", [r"\pL{190}x", ".{999}.{999}", "(a{500}){500}"])
def test_a_short_pattern_that_grows_huge_is_refused(pattern: str) -> None:
    with pytest.raises(QueryError, match="smaller count"):
        parse(pattern, mode="regex")


@pytest.mark.parametrize(
    ("pattern", "advice"),
    [
        ("a(", r"write \("),
        ("a)", r"write \)"),
        ("[a", r"write \["),
        ("c++", "backslash"),
        ("(?=a)", "Look-around"),
        ("(?!a)", "-word"),
        (r"(a)\1", "Back-references"),
    ],
)
def test_the_hint_fits_the_mistake(pattern: str, advice: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(pattern, mode="regex")

    assert advice in caught.value.hint


def test_text_that_only_looks_like_a_broken_pattern_is_words() -> None:
    for text in ("get_.*(", "c++|c", "*.*", "a" * 300 + ".*"):
        assert parse(text).pattern is None
        assert parse(text).words == text
