"""Finding lines."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.offload import grep as searching

from .bench import Bench, ask, store_result

_LOG = "".join(f"{'ERROR' if n % 100 == 0 else 'info'} entry {n}\n" for n in range(1, 1_001))


@pytest.mark.behaviour("B37", "B39")
async def test_a_match_comes_with_its_line_number_and_two_lines_on_each_side(bench: Bench):
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, _LOG)
    answer = await ask(store, filename=name, operation="search", pattern="entry 500$")
    assert answer.text.splitlines() == [
        "1 match",
        "--",
        "498- info entry 498",
        "499- info entry 499",
        "500: ERROR entry 500",
        "501- info entry 501",
        "502- info entry 502",
    ]


@pytest.mark.behaviour("B39")
async def test_case_matters_only_when_asked(bench: Bench):
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, _LOG)
    loose = await ask(store, filename=name, operation="search", pattern="error")
    strict = await ask(
        store, filename=name, operation="search", pattern="error", case_sensitive=True
    )
    assert loose.text.startswith("10 matches")
    assert "No line" in strict.text
    assert not strict.is_error


@pytest.mark.behaviour("B37", "B39")
async def test_no_more_matches_than_asked_for_and_fifty_unasked(bench: Bench):
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, _LOG)
    few = await ask(store, filename=name, operation="search", pattern="entry", max_results=3)
    many = await ask(store, filename=name, operation="search", pattern="entry")
    assert len(re.findall(r"^\d+:", few.text, re.M)) == 3
    assert len(re.findall(r"^\d+:", many.text, re.M)) == 50
    assert "first 50" in many.text
    none = await ask(store, filename=name, operation="search", pattern="entry", max_results=0)
    assert none.is_error


@pytest.mark.behaviour("B39")
@pytest.mark.parametrize(
    ("pattern", "word"),
    [("a\0b", "NUL"), ("(", "missing )"), ("", "empty"), ("x" * 201, "200"), ("(?=a)", "RE2")],
)
async def test_an_invalid_pattern_is_reported(bench: Bench, pattern: str, word: str):
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, _LOG)
    answer = await ask(store, filename=name, operation="search", pattern=pattern)
    assert answer.is_error
    assert word in answer.text


async def test_in_one_endless_line_each_match_says_where_to_read(bench: Bench):
    store = bench.store(threshold_tokens=10)
    rows = [{"id": n, "name": f"Straße {n}"} for n in range(30_000)]
    body = json.dumps(rows, ensure_ascii=False)
    name = await store_result(store, rows)
    answer = await ask(store, filename=name, operation="search", pattern='"straße 2999\\d"')
    assert answer.text.startswith("10 matches") or "Straße 29999" in answer.text
    places = [int(p.replace(",", "")) for p in re.findall(r"from character ([\d,]+)", answer.text)]
    shown = re.findall(r"…(.*)…", answer.text)
    assert places
    for place, part in zip(places, shown, strict=True):
        assert body[place - 1 : place - 1 + len(part)] == part
    assert len(answer.text) < 5_000


async def test_a_costly_pattern_is_stopped_in_time_and_says_so(bench: Bench):
    store = bench.store(threshold_tokens=10, search_seconds=0.0)
    name = await store_result(store, "ab " * 1_000_000)
    answer = await ask(store, filename=name, operation="search", pattern="(?:.{0,60}a.{0,60}b){8}q")
    assert "stopped after 0 seconds" in answer.text
    assert not answer.is_error


@given(
    lines=st.lists(st.text(st.sampled_from("abé漢😀 \r"), max_size=12), max_size=40),
    wanted=st.text(st.sampled_from("abé漢"), min_size=1, max_size=3),
    newline_at_end=st.booleans(),
)
def test_every_line_with_the_words_is_found_under_its_number(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], wanted: str, newline_at_end: bool
):
    path = tmp_path_factory.mktemp("grep") / "file"
    path.write_bytes(("\n".join(lines) + "\n" * newline_at_end).encode())
    pattern = searching.compile_pattern(re.escape(wanted), case_sensitive=True)
    with path.open("rb") as stream:
        found = searching.grep(stream, pattern, max_results=1_000, seconds=60)
    expected = [n for n, line in enumerate(lines, 1) if wanted in line]
    assert [line.number for line in found.lines if line.is_match] == expected
    assert found.matches == len(expected)
    for line in found.lines:
        assert line.text == lines[line.number - 1].removesuffix("\r")
        assert any(abs(line.number - n) <= searching.CONTEXT_LINES for n in expected)
