"""How many tokens a gateway saved its clients, added to a total that outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from threading import Lock
from time import monotonic

from ...catalog.catalog import Catalog
from ...catalog.tool import Tool
from ...errors import StoreError
from ...tokens import TokenCounter
from .savings_total import SavingsTotal

# The total is written when a session begins, on shutdown, and in between at most this often.
_SAVE_SECONDS = 2.0


class Savings:
    """Adds up, once per session, the cost of all definitions less the cost of those shown.

    The cost of search results is subtracted. The total is what was saved at the first request of
    each session; every further request to the model saves the same again, which is not counted.
    """

    def __init__(
        self,
        total: SavingsTotal,
        counter: TokenCounter,
        *,
        on_change: Callable[[int], None] | None = None,
    ) -> None:
        self._store = total
        self._counter = counter
        self._on_change = on_change
        self._guard = Lock()  # of the numbers
        self._turn = Lock()  # one thread at a time reads and writes the total
        self._written = 0
        self._unwritten = 0
        self._next_save = 0.0
        self._next_read = 0.0
        self._catalog_costs: tuple[str, int] = ("", 0)  # fingerprint and tokens of the last catalog

    @property
    def total(self) -> int:
        """Tokens saved so far, over all runs; while a gateway serves, a moment ago."""
        if monotonic() >= self._next_read:
            self._next_read = monotonic() + _SAVE_SECONDS
            _run_aside(self.refresh)
        with self._guard:
            return max(0, self._written + self._unwritten)

    async def record_listing(self, catalog: Catalog, texts: Iterable[str]) -> int:
        """Record that a session began with these texts instead of the whole catalog."""
        everything = await self._catalog_cost(catalog)
        cost = sum(map(self._counter.count, texts))
        saved = max(0, everything - cost)
        with self._guard:
            self._unwritten += saved
        self._report(saved)
        await asyncio.to_thread(self.save)
        return saved

    def record_answer(self, text: str) -> None:
        """Record the text of a search result or description, which costs tokens."""
        cost = self._counter.count(text)
        with self._guard:
            self._unwritten -= cost
        self._report(-cost)
        if monotonic() >= self._next_save:
            self._next_save = monotonic() + _SAVE_SECONDS
            _run_aside(self.save)

    def _report(self, tokens: int) -> None:
        if self._on_change is not None:
            self._on_change(tokens)

    def save(self) -> None:
        """Add to the total, to which other gateways add too; it blocks."""
        with self._turn:
            with self._guard:
                tokens = self._unwritten
            if not tokens:
                return
            self._next_save = monotonic() + _SAVE_SECONDS
            try:
                total = self._store.add(tokens)
            except (OSError, StoreError):
                # A statistic is not worth an error: what cannot be written is tried again later.
                return
            with self._guard:
                self._written = total
                self._unwritten -= tokens

    def close(self) -> None:
        """Write what is not in the total yet."""
        self.save()
        self._store.close()

    def refresh(self) -> None:
        """Read the total, to which other gateways have added; it blocks."""
        with self._turn:
            try:
                total = self._store.read()
            except (OSError, StoreError):
                return
            with self._guard:
                self._written = total

    async def _catalog_cost(self, catalog: Catalog) -> int:
        if self._catalog_costs[0] != catalog.fingerprint:
            # Counting thousands of definitions takes a while, so it runs in a thread.
            total = await asyncio.to_thread(catalog_tokens, catalog, self._counter)
            self._catalog_costs = (catalog.fingerprint, total)
        return self._catalog_costs[1]


def catalog_tokens(catalog: Catalog, counter: TokenCounter) -> int:
    """The tokens of all definitions of a catalog."""
    return sum(tool_tokens(tool, counter) for tool in catalog)


def tool_tokens(tool: Tool, counter: TokenCounter) -> int:
    """The tokens of the definition of a tool."""
    return counter.count(f"{tool.name}\n{tool.description}\n{tool.parameters.text}")


def _run_aside(work: Callable[[], None]) -> None:
    """Run in a thread if an event loop runs here, which must not wait for a disk or a database."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        work()
    else:
        loop.run_in_executor(None, work)
