"""Which schema a store has and what it holds, read without changing it; and its migration."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..config import Config
from ..errors import ConfigError, StoreError
from .factory import is_store_kept, log_path, store_path
from .postgres import MIGRATION_TIMEOUT_SECONDS
from .postgres_connection import SqlConnection
from .postgres_migrations import MIGRATIONS as POSTGRES_MIGRATIONS
from .postgres_migrations import migrate_postgres, read_version, require_utf8
from .postgres_pool import PostgresPool
from .postgres_tables import PostgresTables
from .postgres_url import is_postgres_url
from .sqlite import translate_errors
from .sqlite_tables import SqliteTables
from .state_files import SCHEMAS, STORE_NAME, read_schema
from .transfer import FILES, LOG, RECORDS, StoreTables

_COUNTS = f"""
    SELECT '{RECORDS}/' || space, count(*) FROM toolscout_records GROUP BY space
    UNION ALL SELECT '{LOG}', count(*) FROM toolscout_log ORDER BY 1"""  # noqa: S608 - constants
_COUNT_FILES = "SELECT count(*) FROM toolscout_files"
# The schema that has this table; a check does not migrate an older one.
_FILES_SCHEMA = 2
_COUNT_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreInfo:
    """A store: its name without a password, its schema, its rows, and the time of one answer."""

    name: str
    kind: Literal["postgresql", "sqlite"]
    software: str
    schema: int
    newest_schema: int
    rows: Mapping[str, int]
    answer_ms: float

    @property
    def status(self) -> Literal["ok", "new", "older", "newer"]:
        """Whether this version can use the store; `older` and `new` need a migration first."""
        if self.schema == self.newest_schema:
            return "ok"
        if not self.schema:
            return "new"
        return "older" if self.schema < self.newest_schema else "newer"


def inspect_store(config: Config) -> StoreInfo:
    """Look at the configured store; nothing is created or changed."""
    if is_postgres_url(config.store):
        return _inspect_postgres(config.store)
    return _inspect_sqlite(require_file(config))


def migrate_store(config: Config) -> tuple[int, int]:
    """Bring the configured store up to date; its schema version before and after."""
    if is_postgres_url(config.store):
        with (
            closing(PostgresPool(config.store)) as pool,
            pool.use(timeout_seconds=MIGRATION_TIMEOUT_SECONDS) as sql,
        ):
            return migrate_postgres(sql)
    path = require_file(config)
    before = read_schema(path)[1] if path.exists() else 0
    open_tables(config, is_source=False).close()
    return before, read_schema(path)[1]


def open_tables(config: Config, *, is_source: bool) -> StoreTables:
    """The rows of the configured store; a target is created if need be."""
    if is_postgres_url(config.store):
        return PostgresTables(config.store)
    path, journal = require_file(config), log_path(config)
    assert journal is not None
    return SqliteTables(path, journal, is_source=is_source)


def require_kept(config: Config) -> None:
    """Raise ConfigError if the store is in memory."""
    if not is_store_kept(config):
        raise ConfigError(
            "With store = memory, the state exists only in its process.",
            hint="Set store to sqlite, to the path of a file, or to postgresql://…",
        )


def require_file(config: Config) -> Path:
    """The file of the store; ConfigError if it is in memory."""
    require_kept(config)
    path = store_path(config)
    assert path is not None
    return path


def _inspect_postgres(url: str) -> StoreInfo:
    with closing(PostgresPool(url)) as pool:
        with pool.use() as sql:
            require_utf8(sql)
            version, software = read_version(sql), sql.info.parameter_status("server_version")
            answer_ms = _time_answer(sql)
        rows: dict[str, int] = {}
        # Tables of a newer schema may be different.
        if 0 < version <= len(POSTGRES_MIGRATIONS):
            with pool.use(timeout_seconds=_COUNT_TIMEOUT_SECONDS) as sql:
                found = sql.execute(_COUNTS).fetchall()
                if version >= _FILES_SCHEMA:
                    found += [(FILES, *row) for row in sql.execute(_COUNT_FILES).fetchall()]
            rows = {name: int(count) for name, count in found if count}
    return StoreInfo(
        name=pool.name,
        kind="postgresql",
        software=f"PostgreSQL {software}",
        schema=version,
        newest_schema=len(POSTGRES_MIGRATIONS),
        rows=rows,
        answer_ms=answer_ms,
    )


def _time_answer(sql: SqlConnection) -> float:
    started = time.perf_counter()
    sql.execute("SELECT 1")
    return (time.perf_counter() - started) * 1_000


def _inspect_sqlite(path: Path) -> StoreInfo:
    version, rows, answer_ms = 0, dict[str, int](), 0.0
    newest = SCHEMAS[STORE_NAME].newest
    if path.exists():
        with translate_errors(path):
            started = time.perf_counter()
            application_id, version = read_schema(path)
            answer_ms = (time.perf_counter() - started) * 1_000
            if version and application_id != SCHEMAS[STORE_NAME].application_id:
                raise StoreError(
                    "The file is an SQLite database of another program.",
                    hint="Name another file for the store; this one was not changed.",
                )
            if 0 < version <= newest:
                rows = _count_sqlite(path)
    return StoreInfo(
        name=str(path),
        kind="sqlite",
        software=f"SQLite {sqlite3.sqlite_version}",
        schema=version,
        newest_schema=newest,
        rows=rows,
        answer_ms=answer_ms,
    )


def _count_sqlite(path: Path) -> dict[str, int]:
    query = "SELECT space, count(*) FROM records GROUP BY space ORDER BY space"
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as sql:
        return {f"{RECORDS}/{space}": count for space, count in sql.execute(query)}
