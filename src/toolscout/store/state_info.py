"""What the state of an installation holds, read without changing it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from ..config import Config
from .sqlite import translate_errors
from .state_files import (
    JOURNAL_NAME,
    SCHEMAS,
    STORE_NAME,
    database_paths,
    list_state_files,
    read_schema,
    running_gateways,
)

_COUNTS = {
    JOURNAL_NAME: "SELECT 'rows', count(*) FROM log",
    STORE_NAME: "SELECT space, count(*) FROM records GROUP BY space ORDER BY space",
}


@dataclass(frozen=True, slots=True)
class DatabaseInfo:
    """One database: where it is, its schema version, and how many rows of each kind it has."""

    path: Path
    bytes: int
    schema: int
    newest_schema: int
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A file, or all files of a folder, in the state folder."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StateInfo:
    """Where the state is, how large it is, and what it holds."""

    folder: Path
    cache_folder: Path
    cache_bytes: int
    gateways: tuple[int, ...]
    databases: Mapping[str, DatabaseInfo] = field(default_factory=dict[str, DatabaseInfo])
    parts: Mapping[str, PartInfo] = field(default_factory=dict[str, PartInfo])

    @property
    def bytes(self) -> int:
        """The size of everything that a backup would hold."""
        parts = (*self.databases.values(), *self.parts.values())
        return sum(part.bytes for part in parts)


def read_state_info(config: Config) -> StateInfo:
    """Look at the state; nothing is created if there is none."""
    paths = database_paths(config)
    cache = config.cache_folder
    return StateInfo(
        folder=config.state_folder,
        cache_folder=cache,
        cache_bytes=sum(p.stat().st_size for p in cache.rglob("*") if p.is_file()),
        gateways=running_gateways(config),
        databases={n: _read_database(n, p) for n, p in paths.items() if p.is_file()},
        parts=_read_parts(config),
    )


def _read_parts(config: Config) -> dict[str, PartInfo]:
    parts: dict[str, PartInfo] = {}
    for name, path in list_state_files(config):
        if name in SCHEMAS:
            continue
        part = name.split("/")[1]
        old = parts.get(part, PartInfo(0, 0))
        parts[part] = PartInfo(old.files + 1, old.bytes + path.stat().st_size)
    return parts


def _read_database(name: str, path: Path) -> DatabaseInfo:
    with translate_errors(path):
        _, version = read_schema(path)
        rows: dict[str, int] = {}
        # Tables of a newer schema may be different.
        if 0 < version <= SCHEMAS[name].newest:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as sql:
                rows = dict(sql.execute(_COUNTS[name]).fetchall())
    return DatabaseInfo(path, path.stat().st_size, version, SCHEMAS[name].newest, rows)
