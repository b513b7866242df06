"""One suite for both places of the total: counts of several gateways add up."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.store.postgres_server import shared_server

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.errors import StoreError
from toolscout.gateway.operations.savings import Savings
from toolscout.gateway.operations.savings_total import SavingsTotal, TotalRecord, open_total
from toolscout.store.contract import Record
from toolscout.store.memory import MemoryStore
from toolscout.tokens import default_counter

CONFIG = Path("servers.json")
Open = Callable[[], SavingsTotal]
ADDER = """
import sys
from pathlib import Path
from toolscout.config import Config
from toolscout.gateway.operations.savings_total import open_total
total = open_total(Config.read(home=sys.argv[1], store=sys.argv[2]), Path(sys.argv[3]))
for _ in range(40):
    total.add(1)
total.close()
"""


@pytest.fixture(params=["file", "postgres"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Config:
    store = shared_server().clean_database() if request.param == "postgres" else "sqlite"
    return Config.read(home=str(tmp_path), store=store)


@pytest.fixture
def open_again(config: Config) -> Iterator[Open]:
    """Opens the same total each time, as another gateway does."""
    opened: list[SavingsTotal] = []

    def build() -> SavingsTotal:
        opened.append(open_total(config, CONFIG))
        return opened[-1]

    yield build
    for total in opened:
        total.close()


def test_a_total_begins_at_zero_and_is_never_below(open_again: Open):
    total = open_again()
    assert total.read() == 0
    assert [total.add(5), total.add(-2), total.add(-9), total.add(4)] == [5, 3, 0, 4]
    assert open_again().read() == 4


def test_gateways_that_add_at_once_lose_nothing(open_again: Open):
    gateways = [open_again() for _ in range(4)]

    def add(number: int) -> int:
        return gateways[number % 4].add(1)

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(add, range(80))) == [*range(1, 81)]
    assert open_again().read() == 80


def test_processes_that_add_at_once_lose_nothing(tmp_path: Path):
    command = [sys.executable, "-c", ADDER, str(tmp_path), "sqlite", str(CONFIG)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert open_total(Config.read(home=str(tmp_path)), CONFIG).read() == 80


async def test_a_gateway_shows_what_others_added(open_again: Open):
    catalog = Catalog([Tool(name=f"tool_{n}", description="Does it. " * 20) for n in range(9)])
    one, other = (Savings(open_again(), default_counter()) for _ in range(2))
    saved = await one.record_listing(catalog, ["short"])
    await asyncio.to_thread(other.refresh)
    assert other.total == saved
    await other.record_listing(catalog, ["short"])
    assert open_again().read() == 2 * saved > 0
    one.record_answer("a word")
    await asyncio.to_thread(one.close)
    assert open_again().read() < 2 * saved


class _Unsure(MemoryStore):
    """A store that writes and then fails, as one whose answer is lost."""

    failures = 0

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        written = super().put(key, text, expected=expected)
        if self.failures:
            self.failures -= 1
            raise StoreError("The answer is lost.")
        return written


def test_a_write_whose_answer_is_lost_counts_once():
    store = _Unsure()
    savings, other = TotalRecord(store), TotalRecord(store)
    store.failures = 2
    for _ in range(2):
        with pytest.raises(StoreError):
            savings.add(5)
    other.add(100)
    assert savings.add(7) == 107, "five of the seven were added by the first attempt"
    assert savings.add(3) == 110
