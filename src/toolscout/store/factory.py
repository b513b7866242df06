"""Open the store and the log that the settings name."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from ..config import Config
from ..errors import ConfigError
from .change_feed import ChangeFeed, MemoryFeed
from .contract import Store, StoreLimits
from .log_chain import ChainOptions, read_keys
from .log_contract import LogStore
from .memory import MemoryStore
from .memory_log import MemoryLog
from .postgres import PostgresStore
from .postgres_buckets import PostgresBuckets
from .postgres_events import PostgresEvents
from .postgres_feed import open_postgres_feed
from .postgres_log import PostgresLog
from .postgres_url import is_postgres_url
from .rate_limits import BucketStore, MemoryBuckets
from .shared_buckets import SharedBuckets
from .sqlite import SqliteOptions, SqliteStore
from .sqlite_buckets import SqliteBuckets
from .sqlite_events import SqliteEvents
from .sqlite_feed import open_sqlite_feed
from .sqlite_log import SqliteLog
from .stream_events import StreamEvents

FILE_NAME = "toolscout.db"
LOG_FILE_NAME = "journal.db"
FEED_SUFFIX = ".changes.db"
BUCKETS_SUFFIX = ".limits.db"
EVENTS_SUFFIX = ".events.db"
_ALL = 1_000_000


def open_store(
    config: Config, *, space: str = "sessions", limits: StoreLimits | None = None
) -> Store:
    """Open one space of the configured store; the default limits are those of sessions."""
    limits = limits or StoreLimits(cap=config.max_sessions, ttl_seconds=config.session_ttl_seconds)
    if is_postgres_url(config.store):
        return PostgresStore(config.store, space=space, limits=limits)
    path = store_path(config)
    if path is None:
        return MemoryStore(limits=limits)
    options = SqliteOptions(busy_timeout_seconds=config.busy_timeout_seconds)
    return SqliteStore(path, space=space, limits=limits, options=options)


def is_store_kept(config: Config) -> bool:
    """Whether the store outlives its process: it is a file or a PostgreSQL database."""
    return is_postgres_url(config.store) or store_path(config) is not None


def has_store(config: Config) -> bool:
    """Whether there may be something in the store: its file exists, or it is in PostgreSQL."""
    path = store_path(config)
    return is_postgres_url(config.store) or (path is not None and path.exists())


def has_log(config: Config) -> bool:
    """Whether there may be a journal to read; reading must not create a file."""
    path = log_path(config)
    return is_postgres_url(config.store) or (path is not None and path.is_file())


def open_feed(config: Config) -> ChangeFeed:
    """Open the feed of changes between all processes that use the configured store."""
    if is_postgres_url(config.store):
        return open_postgres_feed(config.store)
    path = store_path(config)
    return MemoryFeed() if path is None else open_sqlite_feed(path.with_suffix(FEED_SUFFIX))


def is_store_shared(config: Config) -> bool:
    """Whether several gateways on several machines may use the store."""
    return is_postgres_url(config.store)


def open_buckets(config: Config, *, is_shared: bool = False) -> BucketStore:
    """Open the token buckets; `is_shared` if other processes of this machine count in them too."""
    if is_postgres_url(config.store):
        return SharedBuckets(PostgresBuckets(config.store))
    path = store_path(config) if is_shared else None
    if path is None:
        return MemoryBuckets()
    return SharedBuckets(SqliteBuckets(path.with_suffix(BUCKETS_SUFFIX)))


def open_stream_events(config: Config) -> StreamEvents | None:
    """Open the events of resumable streams; None if the store is in memory."""
    if is_postgres_url(config.store):
        return PostgresEvents(config.store)
    path = store_path(config)
    return None if path is None else SqliteEvents(path.with_suffix(EVENTS_SUFFIX))


def delete_space(config: Config, space: str) -> None:
    """Delete all records of a space, after a copy into a store that has them elsewhere."""
    with closing(open_store(config, space=space, limits=StoreLimits(cap=None))) as store:
        for record in store.list(limit=_ALL):
            store.delete(record.key)


def store_path(config: Config) -> Path | None:
    """The file of the store; None if it is in memory or in PostgreSQL."""
    match config.store:
        case url if is_postgres_url(url):
            return None
        case "memory" | ":memory:":
            return None
        case "sqlite":
            return config.state_folder / FILE_NAME
        case name:
            return Path(name).expanduser()


def open_log(config: Config) -> LogStore:
    """Open the log of the journal; the first use creates its file or its tables."""
    path = log_path(config)
    chain = ChainOptions(is_on=config.journal_chain, keys=log_keys(config))
    if path is not None:
        return SqliteLog(path, chain=chain)
    if chain.is_on:
        place = "in PostgreSQL" if is_postgres_url(config.store) else "with store = memory"
        raise ConfigError(
            f"A journal {place} has no file, and so no hash chain.",
            hint="Set store to sqlite or to the path of a file, or unset journal_chain.",
        )
    return PostgresLog(config.store) if is_postgres_url(config.store) else MemoryLog()


def log_keys(config: Config) -> tuple[bytes, ...]:
    """The keys of the journal's hash chain; the first one signs."""
    return read_keys(config.journal_key, os.environ)


def log_path(config: Config) -> Path | None:
    """The file of the journal, beside that of the store; None if there is none."""
    store = store_path(config)
    if store is None or config.store == "sqlite":
        return store and store.with_name(LOG_FILE_NAME)
    return store.with_name(f"{store.stem}.{LOG_FILE_NAME}")
