"""Audit log: one JSON line per call, with the shape of the arguments but not their values."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, cast

log = logging.getLogger(__name__)
_MAX_DEPTH = 3
_MAX_KEYS = 30
_MAX_KEY_LENGTH = 60


class AuditLog:
    """An append-only file that only its owner can read; without a path nothing is written."""

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock
        self._lock = Lock()
        self.is_failing = False

    def write(self, **facts: Any) -> None:
        """Append one line; a log that cannot be written is reported and stops no call."""
        if self.path is None:
            return
        row = {"time": round(self._clock(), 3), **facts}
        line = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        try:
            with self._lock:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                # O_APPEND keeps the lines of several gateways apart. Opening the file for each line
                # lets log rotation move it away at any time.
                descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                with os.fdopen(descriptor, "a", encoding="utf-8", errors="replace") as file:
                    file.write(line + "\n")
            self.is_failing = False
        except OSError as error:
            # Logged once; `/health` shows it for as long as it lasts.
            if not self.is_failing:
                log.warning("The audit log %s cannot be written: %s", self.path, error)
            self.is_failing = True


def shape(value: object, *, depth: int = 0) -> Any:
    """A value without its content: keys, types and lengths."""
    # Arguments may hold secrets and personal data, which a log must not keep.
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return f"text({len(value)})"
        case list():
            # Lists are mostly uniform: the first item stands for all.
            items = cast("list[object]", value)
            return [shape(items[0], depth=depth + 1), len(items)] if items else []
        case dict():
            return _object_shape(cast("Mapping[str, object]", value), depth)
        case _:
            return type(value).__name__


def _object_shape(value: Mapping[str, object], depth: int) -> Any:
    if depth >= _MAX_DEPTH:
        return f"object({len(value)})"
    first = list(value.items())[:_MAX_KEYS]
    shapes = {str(k)[:_MAX_KEY_LENGTH]: shape(v, depth=depth + 1) for k, v in first}
    if len(value) > _MAX_KEYS:
        shapes["…"] = f"{len(value) - _MAX_KEYS} more"
    return shapes
