"""What `toolscout serve` prints to stderr: lines for a person, or JSON for a program."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection
from typing import Literal, TextIO

from ..catalog.sanitization import escape_hidden, reveal_hidden
from ..events import Sink
from ..telemetry.lines import LOGGER as LINES
from ..telemetry.lines import EventLines
from ..telemetry.log_limits import RepeatFilter
from ..telemetry.logs import JsonLines, Logs

LogFormat = Literal["text", "json"]
_EVENTS = "toolscout.events"
_MAX_RECORD_CHARS = 2_000
_DIM, _YELLOW, _RED, _RESET = "\x1b[2m", "\x1b[33m", "\x1b[31m", "\x1b[0m"
# These install handlers of their own, which would print in a third format.
_FOREIGN_LOGGERS = ("fastmcp", "uvicorn", "uvicorn.error", "uvicorn.access")


class TerminalFormatter(logging.Formatter):
    """One line for each record: the time, and the text with hidden characters escaped."""

    def __init__(self, *, is_coloured: bool) -> None:
        super().__init__(datefmt="%H:%M:%S")
        self._is_coloured = is_coloured

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line; a traceback follows on separate lines."""
        text = escape_hidden(record.getMessage(), cap=_MAX_RECORD_CHARS)
        # Lines of events need no level: their text names the event.
        if record.name != LINES and record.levelno >= logging.WARNING:
            text = f"{record.levelname.lower()}: {text}"
        if record.exc_info:
            trace = self.formatException(record.exc_info).split("\n")
            text = "\n".join([text, *(escape_hidden(line) for line in trace)])
        time = self.formatTime(record, self.datefmt)
        if not self._is_coloured:
            return f"{time} {text}"
        return f"{_DIM}{time}{_RESET} {_paint(text, record.levelno)}"


def _paint(text: str, level: int) -> str:
    if level < logging.WARNING:
        return text
    return f"{_RED if level >= logging.ERROR else _YELLOW}{text}{_RESET}"


def is_coloured(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colours, and the user wants them."""
    wants_none = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not wants_none


def configure_logs(log_format: LogFormat, *, is_quiet: bool, is_verbose: bool) -> None:
    """Send all records to stderr in one format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(RepeatFilter())
    handler.setFormatter(
        JsonLines()
        if log_format == "json"
        else TerminalFormatter(is_coloured=is_coloured(sys.stderr))
    )
    logging.basicConfig(
        level=logging.INFO if is_verbose else logging.WARNING, handlers=[handler], force=True
    )
    for name in (LINES, _EVENTS, __name__):
        logging.getLogger(name).setLevel(logging.WARNING if is_quiet else logging.INFO)
    logging.captureWarnings(capture=True)


def adopt_foreign_logs() -> None:
    """Print the records of other libraries in our format; call it after they are imported."""
    for name in _FOREIGN_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.WARNING)


def build_sink(log_format: LogFormat, *, shows_queries: bool, known: Collection[str]) -> Sink:
    """The sink that prints events; `known` are problems that were printed before."""
    if log_format == "json":
        return Logs(with_queries=shows_queries)
    return EventLines(shows_queries=shows_queries, known=known)


def print_welcome(text: str, *, log_format: LogFormat, facts: dict[str, object]) -> None:
    """Report that the gateway is ready: as text, or as a record with the facts."""
    if log_format == "json":
        event = {"kind": "serving", **facts}
        logging.getLogger(__name__).info("serving", extra={"event": event})
    elif logging.getLogger(__name__).isEnabledFor(logging.INFO):
        sys.stderr.write(reveal_hidden(text))
        sys.stderr.flush()
