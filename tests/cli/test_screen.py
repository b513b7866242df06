"""What a conversation in the terminal reads, line by line."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Iterator
from typing import TextIO

import pytest

from toolscout.cli.screen import PlainScreen
from toolscout.errors import ToolscoutError

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def pipe() -> Iterator[tuple[TextIO, TextIO]]:
    reading, writing = os.pipe()
    with os.fdopen(reading) as source, os.fdopen(writing, "w", buffering=1) as target:
        yield source, target


async def test_a_line_is_not_lost_if_the_first_reader_was_cancelled(pipe: tuple[TextIO, TextIO]):
    source, keys = pipe
    screen = PlainScreen(source, io.StringIO())
    asked = asyncio.create_task(screen.read())
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    keys.write("my next question\nand another\n")
    assert [await screen.read(), await screen.read()] == ["my next question", "and another"]


async def test_input_that_is_not_text_is_an_error_that_says_what_to_give():
    latin = io.TextIOWrapper(io.BytesIO("Grüße\n".encode("latin-1")), encoding="utf-8")
    with pytest.raises(ToolscoutError, match=r"cannot be read.*Give it as text in UTF-8"):
        await PlainScreen(latin, io.StringIO()).read()


async def test_input_that_was_closed_is_an_error_too():
    closed = io.StringIO()
    closed.close()
    with pytest.raises(ToolscoutError, match="cannot be read: I/O operation on closed file"):
        await PlainScreen(closed, io.StringIO()).read()
