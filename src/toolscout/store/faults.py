"""What SQLite and the file system complain of, told with the next step."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StoreError

# Key words of the engine's own messages, which are stable, to what happened and what to do.
_FAULTS: tuple[tuple[str, str, str], ...] = (
    (
        "locked",
        "is locked by another process",
        "Try again; if it stays so, end that process or wait longer (busy_timeout_seconds).",
    ),
    (
        "readonly",
        "is read-only",
        "Allow writing to the file and its folder, or name another file.",
    ),
    (
        "full",
        "cannot grow: the disk or its quota is full",
        "Free some space or lower the number of sessions kept; nothing was half written.",
    ),
    (
        "unable to open",
        "cannot be opened",
        "Check that its folder exists, is a folder, and may be written to.",
    ),
    (
        "not a database",
        "is not a store: it is damaged or another kind of file",
        "Move it away (keep a copy) and start anew, or name another file.",
    ),
    (
        "malformed",
        "is damaged",
        "Move it away (keep a copy) and start anew, or restore it from a backup.",
    ),
    (
        "closed",
        "is closed",
        "Open a new store.",
    ),
)


@contextmanager
def told(path: Path) -> Generator[None]:
    """Turn every failure of the file into one StoreError that names it."""
    try:
        yield
    except StoreError as error:
        raise StoreError(f"{path}: {error.message}", hint=error.hint) from error
    except OSError as error:
        raise StoreError(
            f"The store {path} cannot be opened: {error.strerror}.",
            hint="Check that its folder exists, is a folder, and may be written to.",
        ) from error
    except sqlite3.Error as error:
        raise _fault(path, error) from error


def _fault(path: Path, error: Exception) -> StoreError:
    text = str(error).lower()
    for word, what, then in _FAULTS:
        if word in text:
            return StoreError(f"The store {path} {what}.", hint=then)
    return StoreError(f"The store {path} failed: {error}.", hint="Check the disk, then try again.")
