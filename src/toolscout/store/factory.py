"""Open the store and the log that the settings name."""

from __future__ import annotations

from pathlib import Path

from ..config import Config
from .contract import Store, StoreLimits
from .log_contract import LogStore
from .memory import MemoryStore
from .memory_log import MemoryLog
from .sqlite import SqliteOptions, SqliteStore
from .sqlite_log import SqliteLog

FILE_NAME = "toolscout.db"
LOG_FILE_NAME = "journal.db"


def open_store(
    config: Config, *, space: str = "sessions", limits: StoreLimits | None = None
) -> Store:
    """Open one space of the configured store; the default limits are those of sessions."""
    limits = limits or StoreLimits(cap=config.max_sessions, ttl_seconds=config.session_ttl_seconds)
    path = store_path(config)
    if path is None:
        return MemoryStore(limits=limits)
    options = SqliteOptions(busy_timeout_seconds=config.busy_timeout_seconds)
    return SqliteStore(path, space=space, limits=limits, options=options)


def store_path(config: Config) -> Path | None:
    """The file of the store; None if it is in memory."""
    match config.store:
        case "memory" | ":memory:":
            return None
        case "sqlite":
            return config.state_folder / FILE_NAME
        case name:
            return Path(name).expanduser()


def open_log(config: Config) -> LogStore:
    """Open the log of the journal; the first use creates its file."""
    path = log_path(config)
    return MemoryLog() if path is None else SqliteLog(path)


def log_path(config: Config) -> Path | None:
    """The file of the journal, beside that of the store; None if it is in memory."""
    store = store_path(config)
    if store is None or config.store == "sqlite":
        return store and store.with_name(LOG_FILE_NAME)
    return store.with_name(f"{store.stem}.{LOG_FILE_NAME}")
