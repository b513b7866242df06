"""An SQLite file beside the store, with short-lived rows that all processes of a machine share."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .migrations import Migrations, migrate_with_retry


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFile:
    """The kind of a file: its tables, its id in the header, and how it is opened.

    With `synchronous` OFF, rows of the last moments may be lost in a power cut.
    """

    application_id: int
    migrations: Migrations
    busy_timeout_seconds: float
    synchronous: Literal["NORMAL", "OFF"]

    def connect(self, path: Path) -> sqlite3.Connection:
        """Open a file of this kind in autocommit mode; the first use creates it."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            path.touch(mode=0o600)
        connection = sqlite3.connect(
            path, timeout=self.busy_timeout_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            migrate_with_retry(
                connection,
                self.migrations,
                timeout_seconds=self.busy_timeout_seconds,
                application_id=self.application_id,
            )
            connection.execute(f"PRAGMA synchronous = {self.synchronous}")
        except BaseException:
            connection.close()
            raise
        return connection
