"""How many tokens a gateway saved its clients: a total for each configuration, kept on disk."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ...catalog.catalog import Catalog
from ...tokens import TokenCounter

# The total is written after this many changes, and on shutdown.
_SAVE_INTERVAL = 20


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
        self._total = _read_total(path) + _read_total(self._old)
        self._unwritten = 0
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
        return self._total

    async def record_listing(self, catalog: Catalog, definitions: Iterable[str]) -> int:
        """Record that a session began with these definitions instead of the whole catalog."""
        everything = await self._catalog_cost(catalog)
        cost = sum(self._counter.count(text) for text in definitions)
        saved = max(0, everything - cost)
        self._add(saved)
        return saved

    def record_answer(self, text: str) -> None:
        """Record the text of a search result or description, which costs tokens."""
        self._add(-self._counter.count(text))

    def save(self) -> None:
        """Write the total to disk."""
        if self._path is None or not self._unwritten:
            return
        # A statistic is not worth an error: a total that cannot be written is tried again later.
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._path.write_text(json.dumps({"tokens_saved": self._total}), encoding="utf-8")
            self._unwritten = 0
            if self._old is not None:
                self._old.unlink(missing_ok=True)

    def _add(self, tokens: int) -> None:
        self._total = max(0, self._total + tokens)
        self._unwritten += 1
        if self._unwritten >= _SAVE_INTERVAL:
            self.save()

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
