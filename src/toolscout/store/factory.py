"""Open the store that the settings name."""

from __future__ import annotations

from pathlib import Path

from ..config import Config
from .contract import Store, StoreLimits
from .memory import MemoryStore
from .sqlite import SqliteOptions, SqliteStore

FILE_NAME = "toolscout.db"


def open_store(
    config: Config, *, space: str = "sessions", limits: StoreLimits | None = None
) -> Store:
    """Open one space of the configured store; the default limits are those of sessions."""
    limits = limits or StoreLimits(cap=config.max_sessions, ttl_seconds=config.session_ttl_seconds)
    match config.store:
        case "memory" | ":memory:":
            return MemoryStore(limits=limits)
        case "sqlite":
            path = config.state_folder / FILE_NAME
        case name:
            path = Path(name).expanduser()
    options = SqliteOptions(busy_timeout_seconds=config.busy_timeout_seconds)
    return SqliteStore(path, space=space, limits=limits, options=options)
