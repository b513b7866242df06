"""Calls, searches and saved tokens by the hour: gateways add up, and nothing counts twice."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Shell
from tests.cli.conftest import home as home
from tests.cli.conftest import shell as shell
from tests.store.postgres_server import shared_server

from toolscout.config import Config
from toolscout.errors import StoreError
from toolscout.events import DiscoveryResultEvent, ToolCallEvent
from toolscout.gateway.operations.latency import BOUNDS_MS, RANGES, find_range, percentiles
from toolscout.gateway.operations.statistics import SAVE_SECONDS, CallStatistics
from toolscout.gateway.operations.statistics_record import Tally, add_tally, parse_record
from toolscout.gateway.operations.statistics_report import read_report
from toolscout.gateway.operations.statistics_store import (
    DAYS,
    HOURS,
    StatisticsBatch,
    StatisticsStore,
)
from toolscout.store.contract import Record, StoreLimits
from toolscout.store.factory import open_store
from toolscout.store.memory import MemoryStore

NOON = 1_767_268_800.0  # 2026-01-01T12:00Z
HOUR = 3_600.0
CALL = ToolCallEvent(tool="a__one", server="a", took_ms=12)
FAILURE = ToolCallEvent(tool="b__two", server="b", took_ms=80, is_error=True, code="call")
CALLER = """
import sys
from toolscout.config import Config
from toolscout.events import ToolCallEvent
from toolscout.gateway.operations.statistics import CallStatistics
from toolscout.gateway.operations.statistics_store import StatisticsStore
config = Config.read(home=sys.argv[1])
statistics = CallStatistics(lambda: StatisticsStore.open(config))
for number in range(40):
    statistics(ToolCallEvent(tool="a__one", server="a", took_ms=number))
    statistics.save()
statistics.close()
"""


class Hands:
    """A clock that a test moves by hand."""

    now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture(params=["sqlite", "postgres"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Config:
    store = shared_server().clean_database() if request.param == "postgres" else "sqlite"
    return Config.read(home=str(tmp_path), store=store)


Open = Callable[[], CallStatistics]


@pytest.fixture
def start(config: Config, clock: Hands) -> Iterator[Open]:
    """Opens the same figures each time, as another gateway does."""
    opened: list[CallStatistics] = []

    def build() -> CallStatistics:
        opened.append(CallStatistics(lambda: StatisticsStore.open(config), clock=clock))
        return opened[-1]

    yield build
    for statistics in opened:
        statistics.close()


def test_gateways_add_up_and_figures_outlive_them(start: Open) -> None:
    one, other = start(), start()
    for statistics in (one, other):
        statistics(CALL)
        statistics(FAILURE)
        statistics(DiscoveryResultEvent(tool="tool_search", took_ms=3))
        statistics.add_tokens_saved(500)
    one.close()
    other.close()
    report = start().report("day")
    assert (report.total.calls, report.total.errors) == (4, 2)
    assert (report.searches.calls if report.searches else 0, report.tokens_saved) == (2, 1_000)
    assert [(name, row.calls, row.errors) for name, row in report.tools.items()] == [
        (("a", "a__one"), 2, 0),
        (("b", "b__two"), 2, 2),
    ]
    assert {name: row.calls for name, row in report.servers.items()} == {"a": 2, "b": 2}


def test_gateways_that_write_at_once_lose_nothing(start: Open) -> None:
    gateways = [start() for _ in range(4)]

    def count(number: int) -> None:
        gateways[number % 4](CALL)
        gateways[number % 4].save()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(60)))
    assert start().report("day").total.calls == 60


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", CALLER, str(tmp_path)]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    with closing(StatisticsStore.open(Config.read(home=str(tmp_path)))) as store:
        assert read_report(store, "day").total.calls == 80


def test_counts_are_written_in_the_background(start: Open, config: Config) -> None:
    start()(CALL)
    deadline = time.monotonic() + 10 * SAVE_SECONDS
    with closing(StatisticsStore.open(config)) as store:
        while not read_report(store, "day", now=NOON).total.calls:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_each_range_has_its_own_periods(start: Open, clock: Hands) -> None:
    statistics = start()
    for _ in range(3):
        clock.now += 30 * HOUR
        statistics(CALL)
    for name, periods, calls in (("day", 24, 1), ("week", 168, 3), ("month", 30, 3)):
        report = statistics.report(name)
        assert (len(report.times), report.total.calls) == (periods, calls)
        assert report.calls_by_time[-1].calls == 1
    assert report.times[-1] == DAYS.start_of(clock.now)


def test_a_server_and_a_tool_are_filtered_and_searches_are_left_out(start: Open) -> None:
    statistics = start()
    statistics(CALL)
    statistics(FAILURE)
    assert [*statistics.report("day", server="b").tools] == [("b", "b__two")]
    report = statistics.report("day", tool="a__one")
    assert (report.total.calls, report.searches, report.tokens_saved) == (1, None, None)
    assert statistics.report("day", server="a", tool="b__two").total.calls == 0


def test_a_call_that_was_cancelled_is_not_an_error(start: Open) -> None:
    statistics = start()
    statistics(ToolCallEvent(tool="a__one", server="a", is_error=True, code="cancelled"))
    report = statistics.report("day")
    assert (report.total.calls, report.total.errors) == (1, 0)


class _Unsure(MemoryStore):
    """A store that writes and then fails, as one whose answer is lost."""

    failures = 0

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        written = super().put(key, text, expected=expected)
        if self.failures:
            self.failures -= 1
            raise StoreError("The answer is lost.")
        return written

    def close(self) -> None:
        """Stay open, as a database does."""


def test_a_write_whose_answer_is_lost_counts_once(clock: Hands) -> None:
    hours, days = _Unsure(), _Unsure()
    statistics = CallStatistics(lambda: StatisticsStore({HOURS: hours, DAYS: days}), clock=clock)
    hours.failures = 1
    statistics(CALL)
    statistics.save()  # fails
    statistics(CALL)
    statistics.close()
    store = StatisticsStore({HOURS: hours, DAYS: days})
    for name in ("day", "month"):
        assert read_report(store, name, now=NOON).total.calls == 2


def test_old_figures_are_deleted(clock: Hands) -> None:
    stores = {each: MemoryStore(limits=each.limits, clock=clock) for each in (HOURS, DAYS)}
    store = StatisticsStore(stores)
    store.add(StatisticsBatch("1", NOON, Tally()))
    clock.now += 9 * 24 * HOUR
    store.expire()
    assert [len(stores[each].list()) for each in (HOURS, DAYS)] == [0, 1]
    clock.now += 30 * 24 * HOUR
    store.expire()
    assert not stores[DAYS].list()


def test_the_number_of_periods_is_bounded(config: Config) -> None:
    with closing(StatisticsStore.open(config)) as store:
        for number in range(2 * HOURS.count + 20):
            tally = Tally()
            tally.add_call(("a", "a__one"), 1, is_error=False)
            store.add(StatisticsBatch(str(number), NOON + number * HOUR, tally))
    with closing(open_store(config, space=HOURS.space, limits=StoreLimits(cap=None))) as stored:
        assert len(stored.list(limit=10_000)) == 2 * HOURS.count


def test_tools_beyond_the_limit_count_for_their_server() -> None:
    text = ""
    for number in range(8):
        tally = Tally()
        for tool in range(2):
            tally.add_call(("a", f"tool_{number}_{tool}"), 1, is_error=False)
        text = add_tally(text, tally, id=str(number), max_tools=5) or ""
    record = parse_record(text)
    assert [tool for _, tool in record.tools][-1] == ""
    assert len(record.tools) == 6
    assert record.calls.sum() == 16


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 2}', '{"format": 1, "calls": {"a": {"b": "c"}}}',
             '{"format": 1, "tokens_saved": 0, "searches": [], "calls": {}, "writes": []}']
)  # fmt: skip
def test_a_damaged_record_begins_again(text: str) -> None:
    assert parse_record(text).calls.sum() == 0
    tally = Tally()
    tally.add_call(("a", "one"), 1, is_error=False)
    assert parse_record(add_tally(text, tally, id="x", max_tools=5) or "").calls.sum() == 1


def test_a_percentile_is_within_the_range_of_the_true_one() -> None:
    durations = [3.0] * 50 + [70.0] * 45 + [900.0] * 5
    counts = [0] * RANGES
    for duration in durations:
        counts[find_range(duration)] += 1
    table = np.array([counts, [0] * RANGES, [*[0] * (RANGES - 1), 1]], np.int64)
    ((half, *ends), (most, *_), (nearly_all, *_)) = (
        percentiles(table, share) for share in (0.5, 0.95, 0.99)
    )
    assert (half, most) == (5.0, 100.0)
    assert nearly_all is not None
    assert 500 < nearly_all <= 1_000
    assert ends == [None, BOUNDS_MS[-1]]
    assert [find_range(0), find_range(1), find_range(1.1), find_range(10**9)] == [0, 0, 1, 16]


def test_the_command_prints_the_same_figures(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSCOUT_HOME", str(tmp_path))
    empty = shell("stats")
    assert "0 calls" in empty.out
    assert not (tmp_path / "state").exists()
    config = Config.read()
    statistics = CallStatistics(lambda: StatisticsStore.open(config))
    for event in (CALL, CALL, FAILURE):
        statistics(event)
    statistics.close()
    table = shell("stats")
    assert "day: 3 calls, 1 error, 0 searches, 0 tokens saved" in table.out
    assert "a__one\ta\t2\t0\t" in table.out
    assert "b\t1\t1\t" in shell("stats", "--by", "server").out
    assert len(shell("stats", "--by", "time", "--range", "month").out.splitlines()) == 31
    known = json.loads(shell("stats", "--json", "--tool", "a__one", "--range", "week").out)
    assert (known["range"], known["total"]["calls"], len(known["times"])) == ("week", 2, 168)
    assert "searches" not in known


def test_the_command_cannot_read_a_store_in_memory(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSCOUT_STORE", "memory")
    done = shell("stats")
    assert done.code == 2
    assert "only in the process of the gateway" in done.err
