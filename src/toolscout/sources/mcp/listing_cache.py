"""Cache of server listings, so that tools are known before a server has started."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from pydantic import ValidationError

from ...config import Config
from ...store.contract import Store, StoreLimits
from ...store.factory import is_store_shared, open_store
from ...store.optional_use import OptionalUse
from .listing import Listing

SPACE = "listings"
"""The space of the store."""

_MAX_RECORDS = 4_096


class ListingCache:
    """A folder of listings, one file per server and configuration.

    With `records`, gateways share the last listings of all of them, and the folder is for the time
    when these cannot be read.
    """

    def __init__(self, folder: str | Path, *, records: Store | None = None) -> None:
        self._folder = Path(folder)
        self._records = records
        self._use = OptionalUse("Listings of servers are those of this machine for now")

    @classmethod
    def of(cls, config: Config) -> ListingCache:
        """The cache of a configuration; in PostgreSQL, of all gateways."""
        folder = config.cache_folder / SPACE
        if not is_store_shared(config):
            return cls(folder)
        limits = StoreLimits(cap=_MAX_RECORDS)
        return cls(folder, records=open_store(config, space=SPACE, limits=limits))

    def load(self, name: str, digest: str) -> Listing | None:
        """The cached listing of a server with this configuration; None if missing or damaged."""
        key = f"{name}-{digest}"
        shared = self._read_record(key)
        if (listing := _parse(shared)) is not None:
            self._write_file(key, shared)
            return listing
        text = self._read_file(key)
        listing = _parse(text)
        # What cannot be read may be of a newer version.
        if listing is not None and not shared:
            self._write_record(key, text)
        return listing

    def save(self, name: str, digest: str, listing: Listing) -> None:
        """Cache a listing; failing to write it only makes the next start slower."""
        key, text = f"{name}-{digest}", listing.to_json()
        self._write_file(key, text)
        self._write_record(key, text)

    def close(self) -> None:
        """Release the store."""
        if self._records is not None:
            self._records.close()

    def _read_file(self, key: str) -> str:
        try:
            return self._path(key).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

    def _write_file(self, key: str, text: str) -> None:
        path = self._path(key)
        with contextlib.suppress(OSError):
            # The time of a file tells whether a server's tools have changed.
            if self._read_file(key) == text:
                return
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Written to another file and renamed, so that another process never reads half a file.
            handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=".listing-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).replace(path)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _read_record(self, key: str) -> str:
        records = self._records
        record = self._use.run(lambda: records.get(key), None) if records else None
        return record.text if record else ""

    def _write_record(self, key: str, text: str) -> None:
        records = self._records
        if records is None:
            return

        def write() -> None:
            known = records.get(key)
            if known is None or known.text != text:
                # If another gateway writes at the same time, its listing is as new as this one.
                records.put(key, text, expected=known.version if known else 0)

        self._use.run(write, None)


def _parse(text: str) -> Listing | None:
    try:
        return Listing.from_json(text)
    except (ValueError, KeyError, TypeError, ValidationError):
        return None
