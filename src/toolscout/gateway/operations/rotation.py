"""Start a new file when a log has reached its size, and keep a limited number of old ones."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...errors import StoreError
from ...store.file_lock import hold_file_lock

_LOCK_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationLimits:
    """The size of one file (0: no limit), and how many there are with the current one."""

    max_bytes: int = 0
    max_files: int = 1


def rotate_file(path: Path, limits: RotationLimits) -> None:
    """Rename a file that is full to `.1`, the older ones to `.2` and so on; drop the oldest."""
    if not limits.max_bytes or not _is_full(path, limits):
        return
    # Another process may be about to do the same. If it takes long, the next line tries again.
    with (
        suppress(StoreError, OSError),
        hold_file_lock(path.with_name(f".{path.name}.lock"), timeout_seconds=_LOCK_SECONDS),
    ):
        if not _is_full(path, limits):
            return
        kept = limits.max_files - 1
        if not kept:
            path.unlink()
            return
        names = [path, *(path.with_name(f"{path.name}.{number + 1}") for number in range(kept))]
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            with suppress(FileNotFoundError):
                newer.replace(older)


def _is_full(path: Path, limits: RotationLimits) -> bool:
    try:
        return os.stat(path).st_size >= limits.max_bytes  # noqa: PTH116 - for every line, and twice as fast
    except FileNotFoundError:
        return False
