"""Input and output of a chat: a terminal in colour, or plain lines."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Protocol, TextIO

from rich.console import Console
from rich.text import Text

from ..catalog.sanitization import reveal_hidden
from ..errors import ToolscoutError
from .output import indent_lines


class Screen(Protocol):
    """Shows a conversation and reads what the user types."""

    async def read(self) -> str | None:
        """The next line, or None when there are no more."""
        ...

    def say(self, text: str) -> None:
        """Show more text of the model."""
        ...

    def note(self, label: str, text: str) -> None:
        """Show a labelled line."""
        ...


class LineReader:
    """Reads lines of a file in a thread, without blocking the event loop."""

    # A daemon thread rather than `to_thread`: the program must be able to end while it waits for
    # input. If the caller is cancelled, the pending line is the result of the next call.
    def __init__(self, source: TextIO) -> None:
        self._source = source
        self._pending: asyncio.Future[str] | None = None

    async def read_line(self) -> str | None:
        """The next line without its line break; None at the end of the file."""
        line = self._pending = self._pending or self._start_reading()
        await asyncio.wait([line])
        self._pending = None
        text = line.result()
        return text.rstrip("\r\n") if text else None

    def _start_reading(self) -> asyncio.Future[str]:
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str] = loop.create_future()

        def read() -> None:
            try:
                resolve = partial(line.set_result, self._source.readline())
            except Exception as error:  # noqa: BLE001 - raised in read_line
                resolve = partial(line.set_exception, _input_error(error))
            with suppress(RuntimeError):  # the event loop has been closed
                loop.call_soon_threadsafe(resolve)

        Thread(target=read, daemon=True).start()
        return line


def _input_error(error: Exception) -> ToolscoutError:
    is_encoding = isinstance(error, UnicodeDecodeError)
    hint = f"Give it as text in {error.encoding.upper()}." if is_encoding else ""
    return ToolscoutError(f"The input cannot be read: {error}.", hint=hint)


class PlainScreen:
    """One labelled line per event: for pipes, logs and tests."""

    def __init__(self, source: TextIO, target: TextIO) -> None:
        self._lines = LineReader(source)
        self._target = target
        self._pending_text: list[str] = []

    async def read(self) -> str | None:
        """The next line."""
        self._flush()
        return await self._lines.read_line()

    def say(self, text: str) -> None:
        """Collect text until something else is shown."""
        self._pending_text.append(text)

    def note(self, label: str, text: str) -> None:
        """Print a labelled line; further lines of the text are indented."""
        self._flush()
        self._write(label, text)

    def _flush(self) -> None:
        # Text streams in small pieces; without a terminal each would become a line of its own.
        if text := "".join(self._pending_text).strip():
            self._write("assistant", text)
        self._pending_text.clear()

    def _write(self, label: str, text: str) -> None:
        indented = indent_lines(reveal_hidden(text), 2)
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
    """A terminal: text appears as it streams, and events are in colour."""

    def __init__(self, source: TextIO, console: Console) -> None:
        self._lines = LineReader(source)
        self._console = console
        self._is_open = False
        self._last = ""

    async def read(self) -> str | None:
        """The next line, read after a prompt."""
        self._end_line()
        self._console.print(Text("› ", style="bold blue"), end="")
        return await self._lines.read_line()

    def say(self, text: str) -> None:
        """Print text at once."""
        self._is_open = True
        # What a selector or joiner does depends on the character before it, in the last piece.
        shown = reveal_hidden(self._last + text)[len(self._last) :]
        self._last = text[-1:] if text[-1:] == reveal_hidden(text[-1:]) else ""
        self._console.out(shown, end="", highlight=False)

    def note(self, label: str, text: str) -> None:
        """Print a line in the colour of its label."""
        self._end_line()
        shown = indent_lines(reveal_hidden(text), 2)
        self._console.print(Text(f"{label} ", style=_STYLES.get(label, "dim")) + Text(shown))

    def _end_line(self) -> None:
        if self._is_open:
            self._console.out("")
        self._is_open = False


def open_screen() -> Screen:
    """Colour on a terminal, plain lines elsewhere."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        return ColourScreen(sys.stdin, Console())
    return PlainScreen(sys.stdin, sys.stdout)
