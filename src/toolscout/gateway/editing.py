"""Edits of the configuration that a running gateway cannot follow, and who waits for a restart."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

from .setup import Setup

_FIXED: Mapping[str, Callable[[Setup], object]] = {
    "gateway.profile (to or from everything)": lambda s: s.shows_everything,
    "gateway.large_outputs": lambda s: s.options.large_outputs,
    "gateway.allowed_hosts": lambda s: s.options.allowed_hosts,
    "gateway.allowed_origins": lambda s: s.options.allowed_origins,
    "auth.tokens (the first, or none left)": lambda s: bool(s.settings.auth.tokens),
    "auth.jwt": lambda s: s.settings.auth.jwt,
    "auth.provider": lambda s: (s.settings.auth.provider, dict(s.settings.auth.options)),
    "the settings of search and store": lambda s: s.config,
}


def fixed(setup: Setup) -> Mapping[str, str]:
    """What a gateway keeps from its start to its end, each as a hash."""
    return {
        name: hashlib.sha256(repr(value(setup)).encode()).hexdigest()
        for name, value in _FIXED.items()
    }


def waiting(before: Mapping[str, str], setup: Setup) -> tuple[str, ...]:
    """Which settings are not what they were at the start, and so wait for the next one."""
    return tuple(name for name, now in fixed(setup).items() if before.get(name, now) != now)


class Runs:
    """Which gateways run over a state folder, and what each was started with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, setup: Setup) -> None:
        """Note that this process serves a configuration; a folder that is full costs a hint."""
        record = {"config": str(setup.path.resolve()), "fixed": fixed(setup)}
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._path.write_text(json.dumps(record), encoding="utf-8")

    def end(self) -> None:
        """This process serves no more."""
        with suppress(OSError):
            self._path.unlink()

    def waiting(self, setup: Setup) -> Iterator[str]:
        """For every process that serves this configuration: which edits it has not followed."""
        for path in sorted(self._folder.glob("*.json")):
            record = _record(path)
            if record.get("config") != str(setup.path.resolve()) or not _is_alive(path.stem):
                continue
            started = cast("Mapping[str, str]", record.get("fixed", {}))
            if names := waiting(started, setup):
                yield (
                    f"The gateway that runs as process {path.stem} uses these only after"
                    f" a restart: {', '.join(names)}."
                )

    @property
    def _path(self) -> Path:
        return self._folder / f"{os.getpid()}.json"


def _record(path: Path) -> Mapping[str, object]:
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else {}


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True
