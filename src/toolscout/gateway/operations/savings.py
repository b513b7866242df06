"""How many tokens clients did not have to carry: a running total that outlives the process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ...catalog.catalog import Catalog
from ...tokens import TokenCounter

_EVERY = 20


class Savings:
    """Adds up, once a conversation, what all definitions cost less what was shown instead.

    What searches answer is taken off again, so the total is what was really saved at the first
    request of each conversation; every further request saves the same once more.
    """

    def __init__(self, path: Path | None, counter: TokenCounter) -> None:
        self._path = path
        self._counter = counter
        self._total = _read_total(path)
        self._unwritten = 0
        self._costs: tuple[str, int] = ("", 0)

    @property
    def total(self) -> int:
        """Tokens saved so far, in all runs."""
        return self._total

    async def record_listing(self, catalog: Catalog, shown: Iterable[str]) -> int:
        """A conversation began with these definitions in place of all of them."""
        everything = await self._catalog_cost(catalog)
        cost = sum(self._counter.count(text) for text in shown)
        saved = max(0, everything - cost)
        self._add(saved)
        return saved

    def record_answer(self, text: str) -> None:
        """A search or a description cost this much."""
        self._add(-self._counter.count(text))

    def save(self) -> None:
        """Write the total down."""
        if self._path is None or not self._unwritten:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._path.write_text(json.dumps({"tokens_saved": self._total}), encoding="utf-8")
            self._unwritten = 0

    def _add(self, tokens: int) -> None:
        self._total = max(0, self._total + tokens)
        self._unwritten += 1
        if self._unwritten >= _EVERY:
            self.save()

    async def _catalog_cost(self, catalog: Catalog) -> int:
        if self._costs[0] != catalog.fingerprint:
            total = await asyncio.to_thread(catalog_tokens, catalog, self._counter)
            self._costs = (catalog.fingerprint, total)
        return self._costs[1]


def catalog_tokens(catalog: Catalog, counter: TokenCounter) -> int:
    """What all definitions of a catalog cost in tokens."""
    return sum(counter.count(f"{t.name}\n{t.description}\n{t.parameters.text}") for t in catalog)


def _read_total(path: Path | None) -> int:
    if path is None:
        return 0
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["tokens_saved"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
