"""A file beside a log which says that its hash chain began, even when all links are gone."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_TEXT = "The journal beside this file has a hash chain. toolscout audit verify needs this file.\n"


def marker_path(log: Path) -> Path:
    """Where the marker of a log is."""
    return log.with_name(f"{log.name}.chain")


def has_marker(log: Path) -> bool:
    """Whether the log had a hash chain at some time."""
    return marker_path(log).exists()


def write_marker(log: Path) -> None:
    """Note that the log has a hash chain; a folder that cannot be written fails no call."""
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(marker_path(log), flags, 0o600), "w", encoding="utf-8") as file:
            file.write(_TEXT)
