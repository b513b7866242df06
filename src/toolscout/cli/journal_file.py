"""The file of the journal that a command reads."""

from __future__ import annotations

from pathlib import Path

from ..config import Config
from ..errors import ConfigError
from ..store.factory import log_path
from ..store.postgres_url import is_postgres_url


def journal_config(path: Path | None) -> Config:
    """The settings of a configuration file, which name the journal."""
    # Only TOML has a [settings] table, and so a `home`.
    return Config.read(path if path is not None and path.suffix == ".toml" else None)


def existing_journal(path: Path | None) -> tuple[Config, Path]:
    """The settings of a configuration file, and the journal that they name, which must exist."""
    config = journal_config(path)
    if is_postgres_url(config.store):
        raise ConfigError(
            "The journal is in PostgreSQL, where it has no file and no hash chain.",
            hint="Name the settings of a gateway with a journal in a file: --config FILE.",
        )
    file = log_path(config)
    if file is None:
        raise ConfigError(
            "With store = memory the journal exists only in its process and cannot be read here.",
            hint="Set store to sqlite or to the path of a file.",
        )
    # Reading must not create a file: an empty journal would hide a wrong path.
    if not file.exists():
        raise ConfigError(
            f"There is no journal at {file}.",
            hint="The first search or call creates it, unless record is off. If the gateway's"
            " configuration sets home or store, give it with --config FILE.",
        )
    return config, file
