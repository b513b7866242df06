"""Open the results where the settings say: in a folder, or in the PostgreSQL store."""

from __future__ import annotations

from ..config import Config
from ..store.postgres_files import PostgresFiles
from ..store.postgres_url import is_postgres_url
from .folder import ResultFolder
from .limits import OffloadLimits
from .result_files import ResultFiles
from .result_rows import ResultRows

OUTPUT_FOLDER = "outputs"
"""The folder of large results, below the state folder."""


def open_results(config: Config, *, limits: OffloadLimits | None = None) -> ResultFiles:
    """The stored results of a configuration; nothing is created before the first write."""
    limits = limits or OffloadLimits()
    if is_postgres_url(config.store):
        return ResultRows(PostgresFiles(config.store), limits)
    return ResultFolder(config.state_folder / OUTPUT_FOLDER, limits)
