"""Cache of server listings on disk, so that tools are known before a server has started."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from pydantic import ValidationError

from .listing import Listing


class ListingCache:
    """A folder of listings, one file per server and configuration."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def load(self, name: str, digest: str) -> Listing | None:
        """The cached listing of a server with this configuration; None if missing or damaged."""
        try:
            return Listing.from_json(self._path(name, digest).read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError, ValidationError):
            return None

    def save(self, name: str, digest: str, listing: Listing) -> None:
        """Cache a listing; failing to write it only makes the next start slower."""
        text, path = listing.to_json(), self._path(name, digest)
        with contextlib.suppress(OSError):
            # The time of a file tells whether a server's tools have changed.
            if path.is_file() and path.read_text(encoding="utf-8") == text:
                return
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Written to another file and renamed, so that another process never reads half a file.
            handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=f".{name}-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).replace(path)

    def _path(self, name: str, digest: str) -> Path:
        return self._folder / f"{name}-{digest}.json"
