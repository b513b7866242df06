"""Whatever a tool gives back is a result that can be read, encoded and sent."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.result import Content, Result
from toolscout.sources.function_runner import MAX_YIELDED_ITEMS
from toolscout.sources.functions import FunctionSource

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


async def call(function: Callable[..., Any]) -> Result:
    source = FunctionSource([function])
    (tool,) = await source.tools()
    return await source.call(tool, {})


# Contents


def test_words_beside_an_image_are_contents_of_one_result():
    image = Content("image", data="aGk=", mime="image/png")
    result = Result.of(["Here it is:", image, {"size": 2}])
    assert [c.type for c in result.content] == ["text", "image", "text"]
    assert result.text == 'Here it is:\n{"size": 2}'
    assert result.content[1] == image


@pytest.mark.parametrize(
    ("data", "kind", "mime"),
    [
        (PNG, "image", "image/png"),
        (b"\xff\xd8\xff\xe0 jpeg", "image", "image/jpeg"),
        (b"GIF89a", "image", "image/gif"),
        (b"RIFF\n\n\n\nWEBP", "image", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", "audio", "audio/wav"),
        (b"ID3\x04", "audio", "audio/mpeg"),
        (b"%PDF-1.7", "resource", "application/pdf"),
        (b"\xfe\x00\xff", "resource", "application/octet-stream"),
    ],
)
def test_bytes_are_what_they_begin_like(data: bytes, kind: str, mime: str):
    (piece,) = Result.of(data).content
    assert (piece.type, piece.mime) == (kind, mime)
    assert base64.b64decode(piece.data) == data
    if kind != "image":
        assert piece.text == f"[{mime}, {len(data)} bytes]"


def test_bytes_that_are_text_are_that_text():
    assert Result.of("Grüße".encode()) == Result.of("Grüße")


# JSON


def test_numbers_and_keys_that_json_does_not_have_become_text():
    result = Result.of({(1, 2): float("nan"), "rows": [float("-inf"), date(2020, 1, 1)]})
    assert result.value == {"1,2": "NaN", "rows": ["-Infinity", "2020-01-01"]}
    assert json.loads(result.text) == result.value


def test_a_value_that_contains_itself_is_written_as_python_writes_it():
    endless: list[Any] = []
    endless.append(endless)
    result = Result.of(endless)
    assert (result.text, result.structured) == ("[[...]]", None)


ODD = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(st.characters()) | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.integers() | st.text() | st.tuples(st.integers()), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(ODD)
def test_every_result_can_be_encoded_and_its_structure_is_json(value: object):
    result = Result.of(value)
    result.text.encode()
    if result.structured is not None:
        json.loads(result.structured, parse_constant=pytest.fail)


# Characters


def test_half_a_surrogate_pair_does_not_come_in_anywhere():
    half = "caf\udce9.txt"
    for given_ in (half, {half: [half]}, [Content(text=half, uri=half)], {half}):
        result = Result.of(given_)
        assert "caf\ufffd.txt" in result.text
        repr(result).encode()
    assert Result.error(half).text == "caf\ufffd.txt"
    made = Result((Content("resource", uri=half, name=half),), structured='{"a": "\\udce9"}')
    assert Result.of(made).content == (
        Content("resource", uri="caf\ufffd.txt", name="caf\ufffd.txt"),
    )
    assert Result.of(made).value == {"a": "\ufffd"}
    assert Result.of('{"a": "\\udce9"}').value == {"a": "\ufffd"}


def test_two_halves_are_the_character_they_are_of():
    assert Result.of("\ud83d\ude00").text == "😀"


# Generators


async def test_values_of_a_generator_become_a_list():
    def rows() -> Iterator[dict[str, int]]:
        """Give rows."""
        yield {"id": 1}
        yield {"id": 2}

    async def later() -> AsyncIterator[int]:
        """Give numbers."""
        for number in range(3):
            await asyncio.sleep(0)
            yield number

    async def mapped() -> Iterator[str]:
        """Give texts."""
        return map(str, (1, 2))

    assert (await call(rows)).value == [{"id": 1}, {"id": 2}]
    assert (await call(later)).value == [0, 1, 2]
    assert (await call(mapped)).value == ["1", "2"]


async def test_a_generator_without_end_is_cut_and_says_so():
    def numbers() -> Iterator[int]:
        """Give numbers."""
        yield from count()

    async def more() -> AsyncIterator[int]:
        """Give numbers."""
        for number in count():
            yield number

    for function in (numbers, more):
        result = await call(function)
        assert result.value == [*range(MAX_YIELDED_ITEMS)]
        assert result.text.endswith("The result is cut: it has only the first 10,000 items.")


async def test_a_generator_that_fails_on_its_way_is_a_failed_call():
    def rows() -> Iterator[int]:
        """Give rows."""
        yield 1
        raise OSError("the disk is gone")

    result = await call(rows)
    assert (result.is_error, result.code) == (True, "call")
    assert "the disk is gone" in result.text
