"""Open the pins where the settings say: in files, or in the PostgreSQL store of all gateways."""

from __future__ import annotations

import logging
from pathlib import Path

from ...config import Config
from ...errors import StoreError
from ...program import remote_command_line
from ...store.change_feed import ChangeFeed
from ...store.contract import StoreLimits
from ...store.postgres import PostgresStore
from ...store.postgres_locks import PostgresLocks
from ...store.postgres_url import describe_url, is_postgres_url
from .pin_files import LedgerFiles
from .pin_records import SPACE, TOPIC, LedgerRecords
from .pin_store import PinStore

log = logging.getLogger(__name__)
_LEFT_BEHIND = (
    "The pins of this machine are not in the store, which has none: tools are trusted as on first"
    " contact. To copy the pins, stop all gateways and run: %s"
)


def open_pins(config: Config, *, feed: ChangeFeed | None = None) -> PinStore:
    """The pins of a configuration; a process that lives long gives the feed of the store."""
    if not is_postgres_url(config.store):
        return PinStore.in_folder(pins_folder(config))
    return PinStore(
        LedgerRecords(
            # Never dropped: a forgotten pin would be trusted again.
            PostgresStore(config.store, space=SPACE, limits=StoreLimits(cap=None), topic=TOPIC),
            locks=PostgresLocks(config.store),
            place=describe_url(config.store),
            feed=feed,
        )
    )


def pins_folder(config: Config) -> Path:
    """The folder of the files."""
    return config.state_folder / "pins"


def warn_of_local_pins(config: Config, pins: PinStore) -> None:
    """Log a warning if files of this machine were not copied to an empty store."""
    try:
        is_left = LedgerFiles(pins_folder(config)).labels() and not pins.texts.labels()
    except StoreError:
        return
    if is_postgres_url(config.store) and is_left:
        log.warning(_LEFT_BEHIND, remote_command_line("store", "copy", "sqlite", "--force"))
