"""Reading ranges of characters."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.offload import passages
from toolscout.offload.passages import OutOfRangeError, read_passage

from .bench import Bench, ask, store_result, text

_BODY = "aé漢😀\r\nб" * 3_000


@pytest.mark.behaviour("B37", "B38")
@pytest.mark.parametrize(("start", "end"), [(1, 1), (2, 5), (1, 21_000), (20_990, 21_000)])
async def test_a_range_counts_characters_and_includes_both_ends(bench: Bench, start: int, end: int):
    store = bench.store(threshold_tokens=10, answer_tokens=100_000)
    name = await store_result(store, _BODY)
    answer = await ask(store, filename=name, operation="read", start=start, end=end)
    assert answer.text == _BODY[start - 1 : end]


@pytest.mark.behaviour("B38")
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"start": 0, "end": 5}, "counted from 1"),
        ({"start": 9, "end": 5}, "before start"),
        ({"start": 21_001, "end": 21_002}, "beyond"),
        ({"start": 1}, "end"),
        ({"end": 1}, "start"),
    ],
)
async def test_an_invalid_range_is_reported(bench: Bench, arguments: dict[str, int], word: str):
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, _BODY)
    answer = await ask(store, filename=name, operation="read", **arguments)
    assert answer.is_error
    assert word in answer.text


@pytest.mark.behaviour("B38")
async def test_an_end_beyond_the_text_is_its_end(bench: Bench):
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, _BODY)
    answer = await ask(store, filename=name, operation="read", start=20_999, end=99_999)
    assert not answer.is_error
    assert answer.content[0].text == _BODY[-2:]
    assert "21,000" in answer.content[1].text


async def test_a_range_that_is_too_long_is_cut_and_says_where_to_continue(bench: Bench):
    store = bench.store(threshold_tokens=10, answer_tokens=100)
    body = text(5_000)
    name = await store_result(store, body)
    whole, start = "", 1
    while start <= len(body):
        answer = await ask(store, filename=name, operation="read", start=start, end=len(body))
        piece = answer.content[0].text
        assert len(piece.split()) <= 100
        whole += piece
        start += len(piece)
        if start <= len(body):
            assert f"start {start}" in answer.content[1].text
    assert whole == body


@given(
    body=st.text(st.characters(codec=None), min_size=1, max_size=400),
    chunk=st.integers(1, 40),
    data=st.data(),
)
def test_any_range_of_any_text_is_the_slice(body: str, chunk: int, data: st.DataObject):
    start = data.draw(st.integers(1, len(body)))
    end = data.draw(st.integers(start, len(body) + 5))
    stream = io.BytesIO(body.encode("utf-8", passages.ERRORS))
    found = read_passage(stream, start=start, end=end, chunk=chunk)
    assert found.text == body[start - 1 : end]
    assert (found.end, found.total) == (min(end, len(body)), len(body))


@given(body=st.text(max_size=50), start=st.integers(-5, 60), end=st.integers(-5, 60))
def test_a_range_outside_of_the_text_is_always_refused(body: str, start: int, end: int):
    stream = io.BytesIO(body.encode("utf-8", passages.ERRORS))
    if 1 <= start <= end and start <= len(body):
        assert read_passage(stream, start=start, end=end).text == body[start - 1 : end]
    else:
        with pytest.raises(OutOfRangeError):
            read_passage(stream, start=start, end=end)
