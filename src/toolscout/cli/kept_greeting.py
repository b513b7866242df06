"""The first answer of an earlier start, used again while all that it depends on is unchanged.

Only the standard library is imported here, because it is read before anything else is loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from ..folders import PREFIX, user_folder
from .greeting import Greeting, Table, as_table

_FOLDER = "greetings"
_METHODS = {"initialize": "initialize", "server/discover": "discover"}


class KeptGreeting:
    """The kept greeting of one configuration, with its options and environment."""

    def __init__(self, path: Path, overrides: Table, *, project: Path) -> None:
        self._file = greetings_folder() / f"{_key(path, overrides, project)}.json"
        self._inputs: tuple[Path, ...] = ()
        self._stamp = ""

    def load(self) -> Greeting | None:
        """The greeting, if it is still what the gateway would answer."""
        record = self._read()
        paths = record.get("paths")
        if not isinstance(paths, list) or _stamp(map(Path, map(str, paths))) != record.get("stamp"):  # pyright: ignore[reportUnknownArgumentType] -- from JSON
            return None
        return Greeting(as_table(record.get("initialize")), as_table(record.get("discover")))

    def begin(self, inputs: Iterable[Path]) -> None:
        """Keep the gateway's answers, which depend on these files and folders."""
        self._inputs = tuple(inputs)
        self._stamp = _stamp(self._inputs)

    def save(self, method: str, result: Table) -> None:
        """Keep an answer of the gateway; failing to write it only makes the next start slower."""
        name = _METHODS.get(method)
        # A change since the start may be in the answer or not, so the next start could differ.
        if name is None or not self._inputs or _stamp(self._inputs) != self._stamp:
            return
        before = self._read()
        others: Table = before if before.get("stamp") == self._stamp else {}
        answer = {key: value for key, value in result.items() if key != "protocolVersion"}
        record = {"paths": [*map(str, self._inputs)], "stamp": self._stamp, name: answer}
        with suppress(OSError):
            self._write(json.dumps({**others, **record}, ensure_ascii=False))

    def _read(self) -> Table:
        try:
            return as_table(json.loads(self._file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    def _write(self, text: str) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Written to another file and renamed, so that another process never reads half a file.
        handle, temporary = tempfile.mkstemp(dir=self._file.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(self._file)


def greetings_folder() -> Path:
    """The folder of kept greetings, as far as the environment decides it."""
    home = os.environ.get(f"{PREFIX}HOME")
    cache = Path(home).expanduser() / "cache" if home else user_folder("XDG_CACHE_HOME", ".cache")
    return cache / _FOLDER


def _key(path: Path, overrides: Table, project: Path) -> str:
    """A hash of everything but files: version, options, and the environment that is used."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        text = ""
    used = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name == "HOME" or name.startswith(("TOOLSCOUT_", "XDG_")) or name in text
    )
    options = sorted((name, str(value)) for name, value in overrides.items() if value is not None)
    files = [str(path.absolute()), str(project.absolute())]
    parts = [metadata.version("toolscout"), files, options, used]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]


def _stamp(paths: Iterable[Path]) -> str:
    """A hash of the sizes and times of files, and of all files in folders."""
    rows = [row for path in paths for row in _describe(path)]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:40]


def _describe(path: Path) -> Iterator[tuple[str, int, int]]:
    try:
        status = path.stat()
    except OSError:
        yield str(path), 0, -1
        return
    if path.is_dir():
        for inner in sorted(path.iterdir()):
            yield from _describe(inner)
    else:
        yield str(path), status.st_mtime_ns, status.st_size
