"""Which files make up the state of an installation, and whether a process uses them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..config import Config
from .factory import BUCKETS_SUFFIX, EVENTS_SUFFIX, FEED_SUFFIX, log_path, store_path
from .migrations import APPLICATION_ID, MIGRATIONS
from .processes import RUNNING_FOLDER, list_running
from .sqlite_log import APPLICATION_ID as LOG_APPLICATION_ID
from .sqlite_log import MIGRATIONS as LOG_MIGRATIONS
from .state_key import KEY_NAME

STORE_NAME = "store.db"
JOURNAL_NAME = "journal.db"
STATE_PREFIX = "state"
USER_PREFIX = "config"
KEY_ENTRY = f"{STATE_PREFIX}/{KEY_NAME}"
"""The key of encrypted secrets in an archive, which holds it only on request."""
LOGINS_PREFIX = f"{STATE_PREFIX}/logins/"
USER_FILES = ("mcp.json", "config.toml")
"""The user's own list of servers, and the user's settings."""
# Records of running processes, and the caches of the embedded example: neither is backed up.
_SKIPPED_FOLDERS = (RUNNING_FOLDER, "cache")
# Parts of an open database, locks, and what running processes tell each other.
_SIDE_FILES = ("-wal", "-shm", "-journal", ".lock", FEED_SUFFIX, BUCKETS_SUFFIX, EVENTS_SUFFIX)
_SQLITE_HEADER = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class DatabaseSchema:
    """The application id of a database and the newest schema version that this version knows."""

    application_id: int
    newest: int


SCHEMAS: Mapping[str, DatabaseSchema] = {
    STORE_NAME: DatabaseSchema(APPLICATION_ID, len(MIGRATIONS)),
    JOURNAL_NAME: DatabaseSchema(LOG_APPLICATION_ID, len(LOG_MIGRATIONS)),
}


def database_paths(config: Config) -> dict[str, Path]:
    """Where the databases are, by their name in an archive; none if they are in memory."""
    paths = {STORE_NAME: store_path(config), JOURNAL_NAME: log_path(config)}
    return {name: path for name, path in paths.items() if path is not None}


def list_state_files(config: Config) -> Iterator[tuple[str, Path]]:
    """Every file of the state as its name in an archive and its path, in a fixed order."""
    databases = database_paths(config)
    for name, path in databases.items():
        if path.is_file():
            yield name, path
    folder = config.state_folder
    for path in sorted(folder.rglob("*")):
        # The key stays out, so that a backup alone does not give away the secrets in it.
        if path in databases.values() or path == folder / KEY_NAME or not _is_kept(path, folder):
            continue
        yield str(PurePosixPath(STATE_PREFIX, *path.relative_to(folder).parts)), path


def list_user_files(folder: Path | None) -> Iterator[tuple[str, Path]]:
    """The files in the user's folder for configuration, as `list_state_files` lists the state."""
    for name in USER_FILES if folder is not None else ():
        path = Path(folder or "", name)
        if path.is_file():
            yield f"{USER_PREFIX}/{name}", path


def _is_kept(path: Path, folder: Path) -> bool:
    # Links are left out: they may lead anywhere.
    if path.is_symlink() or not path.is_file() or path.name.endswith(_SIDE_FILES):
        return False
    return not any(part in _SKIPPED_FOLDERS for part in path.relative_to(folder).parts[:-1])


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database, by its first bytes."""
    with path.open("rb") as file:
        return file.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER


def read_schema(path: Path) -> tuple[int, int]:
    """The application id and the schema version of a database."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as sql:
        (application_id,) = sql.execute("PRAGMA application_id").fetchone()
        (version,) = sql.execute("PRAGMA user_version").fetchone()
    return application_id, version


def describe_users(config: Config) -> str:
    """Which processes use the state now, as text; empty if none is known."""
    pids = running_gateways(config)
    if pids:
        plural = "es" if len(pids) > 1 else ""
        return f"a gateway (process{plural} {', '.join(map(str, pids))})"
    if any(_is_open(path) for path in database_paths(config).values() if path.is_file()):
        return "another process"
    return ""


def running_gateways(config: Config) -> tuple[int, ...]:
    """The process ids of the gateways that serve from this state."""
    return tuple(pid for pid, _ in list_running(config.state_folder / RUNNING_FOLDER))


def _is_open(path: Path) -> bool:
    """Whether another connection has a database open."""
    try:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as sql:
            (mode,) = sql.execute("PRAGMA journal_mode").fetchone()
            # SQLite leaves the WAL mode only if no other connection has the file open.
            sql.execute("PRAGMA journal_mode = DELETE")
            sql.execute(f"PRAGMA journal_mode = {mode}")
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    except sqlite3.DatabaseError:  # damaged
        return False
    return False
