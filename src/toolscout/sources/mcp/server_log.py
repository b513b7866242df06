"""The log of each server on disk: its error output and what happened to its connection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from ...catalog.sanitization import escape_hidden, strip_colours
from ...events import (
    Event,
    UpstreamFailedEvent,
    UpstreamIdleEvent,
    UpstreamLostEvent,
    UpstreamReadyEvent,
)
from .servers import Server

MAX_LOG_BYTES = 1_000_000
"""The size at which a log is renamed to `.1`; the earlier `.1` is deleted."""

_MAX_LINE_CHARS = 4_000
_MAX_INDENT = 40


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line: when, who wrote it (`stderr`, or `toolscout` for the connection), and the text."""

    time: str
    origin: str
    text: str

    @classmethod
    def parse(cls, line: str) -> LogLine:
        """Read a line of a log file."""
        line = line.rstrip("\n")
        time, _, rest = line.partition(" ")
        origin, _, text = rest.partition(" ")
        return cls(time, origin, text)

    def __str__(self) -> str:
        return f"{self.time} {self.origin} {self.text}"


def _escape_line(text: str) -> str:
    """The text in one line, with its indentation: a traceback is hard to read without."""
    escaped = escape_hidden(text, cap=_MAX_LINE_CHARS)
    spaces = text.expandtabs(4)
    indent = min(len(spaces) - len(spaces.lstrip(" ")), _MAX_INDENT)
    return " " * indent + escaped if escaped else ""


class ServerLogs:
    """The logs of all servers, in one folder that only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, server: Server) -> ServerLog:
        """The log of one server."""
        return ServerLog(self.path(server.name), redact=server.redact)

    def path(self, server: str) -> Path:
        """The file of a server's log."""
        return self._folder / f"{server}.log"

    def servers(self) -> tuple[str, ...]:
        """The servers that have a log."""
        files = self._folder.glob("*.log*")
        return tuple(sorted({file.name.partition(".log")[0] for file in files}))

    def read(self, server: str, *, follow: Callable[[], bool] = bool) -> Iterator[LogLine]:
        """The lines of a server's log, oldest first; new ones too, while `follow` returns True."""
        path = self.path(server)
        with suppress(FileNotFoundError), _open(_older(path)) as older:
            yield from map(LogLine.parse, older)
        file: TextIO | None = None
        try:
            while True:
                file = file or _open_if_exists(path)
                yield from map(LogLine.parse, file or ())
                # A full file is renamed; the next one is read from its start.
                if file is not None and not _is_same(file, path):
                    yield from map(LogLine.parse, file)
                    file.close()
                    file = None
                elif not follow():
                    return
        finally:
            if file is not None:
                file.close()


class ServerLog:
    """Appends to the log of one server; a sink for the events of its connection."""

    # Several gateways may write to one file. Each batch of lines is one append: lines stay whole.

    def __init__(self, path: Path, *, redact: Callable[[str], str]) -> None:
        self._path = path
        self._redact = redact

    def write_output(self, lines: Sequence[str]) -> None:
        """Add lines of the server's error output, without its secrets."""
        self._append("stderr", lines)

    def __call__(self, event: Event) -> None:
        """Add what happened to the connection."""
        match event:
            case UpstreamReadyEvent():
                self._append("toolscout", ["ready"])
            case UpstreamFailedEvent():
                status = "needs login" if event.needs_login else "failing"
                count = f" ({event.failures} failures in a row)" if event.failures > 1 else ""
                self._append("toolscout", [f"{status}{count}: {event.reason}"])
            case UpstreamLostEvent():
                self._append("toolscout", ["starting again, connection lost"])
            case UpstreamIdleEvent():
                self._append("toolscout", ["idle, stopped until it is needed"])
            case _:
                pass

    def _append(self, origin: str, lines: Sequence[str]) -> None:
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        # Secrets may span lines, so they are redacted before the lines are taken apart.
        texts = self._redact(strip_colours("\n".join(lines))).split("\n")
        rows = (LogLine(time, origin, _escape_line(t)) for t in texts)
        data = "".join(f"{row}\n" for row in rows if row.text).encode("utf-8", "replace")
        # A log that cannot be written must not stop the server.
        with suppress(OSError):
            self._write(data)

    def _write(self, data: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Opened for each batch: another process may have renamed the file.
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, data)
            is_full = os.fstat(file).st_size >= MAX_LOG_BYTES
        finally:
            os.close(file)
        if is_full:
            self._path.replace(_older(self._path))


def _open(path: Path) -> TextIO:
    return path.open(encoding="utf-8", errors="replace")


def _open_if_exists(path: Path) -> TextIO | None:
    try:
        return _open(path)
    except FileNotFoundError:
        return None


def _is_same(file: TextIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:  # renamed, and nothing was written since
        return True


def _older(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")
