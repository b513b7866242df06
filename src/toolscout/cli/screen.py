"""Where a conversation is read from and shown: a terminal in colour, or plain lines."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Protocol, TextIO

from rich.console import Console
from rich.text import Text

from ..errors import ToolscoutError


class Screen(Protocol):
    """Shows a conversation and reads what the user types."""

    async def read(self) -> str | None:
        """The next line, or None when there are no more."""
        ...

    def say(self, text: str) -> None:
        """A piece of what the model says."""
        ...

    def note(self, label: str, text: str) -> None:
        """A line about what happens."""
        ...


class LineReader:
    """Lines of a file, read by a thread of their own so that the program goes on meanwhile.

    The thread dies with the program: nobody has to press Enter for it to end. A line that nobody
    waited for to the end is the next one that is asked for.
    """

    def __init__(self, source: TextIO) -> None:
        self._source = source
        self._coming: asyncio.Future[str] | None = None

    async def read_line(self) -> str | None:
        """The next line without its end; None at the end of the file."""
        line = self._coming = self._coming or self._start_reading()
        await asyncio.wait([line])
        self._coming = None
        text = line.result()
        return text.rstrip("\r\n") if text else None

    def _start_reading(self) -> asyncio.Future[str]:
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str] = loop.create_future()

        def read() -> None:
            try:
                settle = partial(line.set_result, self._source.readline())
            except Exception as error:  # noqa: BLE001 - raised where the line is waited for
                settle = partial(line.set_exception, _input_error(error))
            with suppress(RuntimeError):  # the program has ended meanwhile
                loop.call_soon_threadsafe(settle)

        Thread(target=read, daemon=True).start()
        return line


def _input_error(error: Exception) -> ToolscoutError:
    is_code = isinstance(error, UnicodeDecodeError)
    hint = f"Give it as text in {error.encoding.upper()}." if is_code else ""
    return ToolscoutError(f"The input cannot be read: {error}.", hint=hint)


class PlainScreen:
    """One line per thing, each with its label: for pipes, logs and tests."""

    def __init__(self, source: TextIO, target: TextIO) -> None:
        self._lines = LineReader(source)
        self._target = target
        self._said: list[str] = []

    async def read(self) -> str | None:
        """The next line."""
        self._flush()
        return await self._lines.read_line()

    def say(self, text: str) -> None:
        """Gather words until something else is to be shown."""
        self._said.append(text)

    def note(self, label: str, text: str) -> None:
        """A labelled line; further lines of the text are indented."""
        self._flush()
        self._write(label, text)

    def _flush(self) -> None:
        if text := "".join(self._said).strip():
            self._write("assistant", text)
        self._said.clear()

    def _write(self, label: str, text: str) -> None:
        indented = text.replace("\n", "\n  ")
        print(f"{label}: {indented}", file=self._target, flush=True)


_STYLES = {
    "call": "cyan",
    "error": "bold red",
    "found": "green",
    "result": "dim",
    "retry": "yellow",
    "search": "magenta",
}


class ColourScreen:
    """A terminal: words appear as they come, and what happens beside them is in colour."""

    def __init__(self, source: TextIO, console: Console) -> None:
        self._lines = LineReader(source)
        self._console = console
        self._is_open = False

    async def read(self) -> str | None:
        """The next line, after a prompt."""
        self._end_line()
        self._console.print(Text("› ", style="bold blue"), end="")
        return await self._lines.read_line()

    def say(self, text: str) -> None:
        """Show words at once."""
        self._is_open = True
        self._console.out(text, end="", highlight=False)

    def note(self, label: str, text: str) -> None:
        """A line in the colour of its label."""
        self._end_line()
        self._console.print(Text(f"{label} ", style=_STYLES.get(label, "dim")) + Text(text))

    def _end_line(self) -> None:
        if self._is_open:
            self._console.out("")
        self._is_open = False


def open_screen() -> Screen:
    """Colour where a person sits at a terminal, plain lines elsewhere."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        return ColourScreen(sys.stdin, Console())
    return PlainScreen(sys.stdin, sys.stdout)
