"""Figures by hour and by day in the store, to which all gateways and workers add."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from ...config import Config
from ...errors import StoreError
from ...store.contract import Store, StoreLimits
from ...store.factory import open_store
from .statistics_record import StatisticsRecord, Tally, add_tally, parse_record

# Each attempt fails only because another writer was successful.
_MAX_ATTEMPTS = 50
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A length of time: how many are kept, and of how many tools each has own figures."""

    space: str
    seconds: int
    count: int
    max_tools: int

    def start_of(self, time: float) -> int:
        """The start of the period that a time is in."""
        return int(time // self.seconds) * self.seconds

    @property
    def limits(self) -> StoreLimits:
        """What bounds the space in the store."""
        # A period is last written when it ends, or later if the store was away.
        return StoreLimits(cap=2 * self.count, ttl_seconds=(self.count + 1) * self.seconds)


HOURS: Final = Period(space="statistics_hours", seconds=3_600, count=8 * 24, max_tools=300)
DAYS: Final = Period(space="statistics_days", seconds=_DAY_SECONDS, count=35, max_tools=1_000)
PERIODS: Final = (HOURS, DAYS)


@dataclass(frozen=True, slots=True)
class StatisticsBatch:
    """What a process has counted in one hour; its id makes a repeated write count once."""

    id: str
    time: float
    tally: Tally


class StatisticsStore:
    """Adds to the figures and reads them; failures raise StoreError.

    A month by the hour would be too much to read for one page, so days are added up too.
    """

    def __init__(self, stores: Mapping[Period, Store]) -> None:
        self._stores = stores
        # Nearly all periods are over, and stay what they were.
        self._parsed: dict[tuple[Period, str], tuple[int, StatisticsRecord]] = {}

    @classmethod
    def open(cls, config: Config) -> StatisticsStore:
        """The figures in the configured store."""
        with ExitStack() as stack:
            stores: dict[Period, Store] = {}
            for period in PERIODS:
                store = open_store(config, space=period.space, limits=period.limits)
                stack.callback(store.close)
                stores[period] = store
            stack.pop_all()
        return cls(stores)

    def add(self, batch: StatisticsBatch) -> None:
        """Add a batch to its hour and its day; what was added before is not added again."""
        for period, store in self._stores.items():
            _add_batch(store, period, batch)

    def read(self, period: Period, *, since: float) -> Mapping[int, StatisticsRecord]:
        """The records of the periods that began at this time or later, by their start."""
        store, found = self._stores[period], dict[int, StatisticsRecord]()
        for record in store.list(limit=2 * period.count):
            start = int(record.key) if record.key.isdecimal() else -1
            if start < since:
                continue
            known = self._parsed.get((period, record.key))
            if known is None or known[0] != record.version:
                known = record.version, parse_record(record.text)
                self._parsed[period, record.key] = known
            found[start] = known[1]
        self._drop_parsed(period, since=since)
        return found

    def _drop_parsed(self, period: Period, *, since: float) -> None:
        oldest = since - period.count * period.seconds
        old = [key for key in [*self._parsed] if key[0] == period and int(key[1]) < oldest]
        for key in old:
            self._parsed.pop(key, None)

    def expire(self) -> None:
        """Delete what is too old."""
        for store in self._stores.values():
            store.expire()

    def close(self) -> None:
        """Close the store."""
        for store in self._stores.values():
            store.close()


def _add_batch(store: Store, period: Period, batch: StatisticsBatch) -> None:
    key = str(period.start_of(batch.time))
    for _ in range(_MAX_ATTEMPTS):
        record = store.get(key)
        before = record.text if record else ""
        text = add_tally(before, batch.tally, id=batch.id, max_tools=period.max_tools)
        if text is None or store.put(key, text, expected=record.version if record else 0):
            return
    raise StoreError("Too many gateways add statistics at once.", hint="They are added later.")
