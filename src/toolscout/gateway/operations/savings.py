"""How many tokens a gateway saved its clients: a total for each configuration, kept on disk."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import monotonic

from ...catalog.catalog import Catalog
from ...errors import StoreError
from ...store.file_lock import hold_file_lock
from ...tokens import TokenCounter

# The total is written when a session begins, on shutdown, and in between at most this often.
_SAVE_SECONDS = 2.0
_LOCK_SECONDS = 0.1


class Savings:
    """Adds up, once per session, the cost of all definitions less the cost of those shown.

    The cost of search results is subtracted. The total is what was saved at the first request of
    each session; every further request to the model saves the same again, which is not counted.
    """

    def __init__(
        self, path: Path | None, counter: TokenCounter, *, old: Path | None = None
    ) -> None:
        self._path = path
        self._counter = counter
        # Version 0.1 had one total for all configurations. The first one served gets it.
        self._old = old if path is not None and not path.exists() else None
        self._written = _read_total(path) + _read_total(self._old)
        self._unwritten = 0
        self._next_save = 0.0
        self._catalog_costs: tuple[str, int] = ("", 0)  # fingerprint and tokens of the last catalog

    @classmethod
    def of(cls, state_folder: Path, config: Path, counter: TokenCounter) -> Savings:
        """The savings of one configuration, by the path of its file."""
        key = hashlib.sha256(str(config.resolve()).encode()).hexdigest()[:16]
        return cls(
            state_folder / "savings" / f"{key}.json", counter, old=state_folder / "savings.json"
        )

    @property
    def total(self) -> int:
        """Tokens saved so far, over all runs with this configuration."""
        return max(0, self._written + self._unwritten)

    async def record_listing(self, catalog: Catalog, texts: Iterable[str]) -> int:
        """Record that a session began with these texts instead of the whole catalog."""
        everything = await self._catalog_cost(catalog)
        cost = sum(map(self._counter.count, texts))
        saved = max(0, everything - cost)
        self._unwritten += saved
        self.save()
        return saved

    def record_answer(self, text: str) -> None:
        """Record the text of a search result or description, which costs tokens."""
        self._unwritten -= self._counter.count(text)
        if monotonic() >= self._next_save:
            self.save()

    def save(self) -> None:
        """Add to the total on disk, to which other gateways with this configuration add too."""
        if self._path is None or not self._unwritten:
            return
        self._next_save = monotonic() + _SAVE_SECONDS
        # A statistic is not worth an error: a total that cannot be written is tried again later.
        lock = self._path.with_suffix(".lock")
        with suppress(OSError, StoreError), hold_file_lock(lock, timeout_seconds=_LOCK_SECONDS):
            before = _read_total(self._path) + _read_total(self._old)
            total = max(0, before + self._unwritten)
            self._path.write_text(json.dumps({"tokens_saved": total}), encoding="utf-8")
            self._written, self._unwritten = total, 0
            if self._old is not None:
                self._old.unlink(missing_ok=True)
                self._old = None

    async def _catalog_cost(self, catalog: Catalog) -> int:
        if self._catalog_costs[0] != catalog.fingerprint:
            # Counting thousands of definitions takes a while, so it runs in a thread.
            total = await asyncio.to_thread(catalog_tokens, catalog, self._counter)
            self._catalog_costs = (catalog.fingerprint, total)
        return self._catalog_costs[1]


def catalog_tokens(catalog: Catalog, counter: TokenCounter) -> int:
    """The tokens of all definitions of a catalog."""
    return sum(counter.count(f"{t.name}\n{t.description}\n{t.parameters.text}") for t in catalog)


def _read_total(path: Path | None) -> int:
    if path is None:
        return 0
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["tokens_saved"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
