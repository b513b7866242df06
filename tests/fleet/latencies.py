"""Rows of the table of `make fleet` with times: the store, notifications and passing on."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from queue import Queue

import httpx2
from tests.fleet.rows import Table

from toolscout.store.postgres import PostgresStore
from toolscout.store.postgres_feed import open_postgres_feed

ROUNDS = 200
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {},
               "clientInfo": {"name": "fleet", "version": "1"}},
}  # fmt: skip


@dataclass(frozen=True)
class Latency:
    """A time in milliseconds, and the one that it should not exceed."""

    name: str
    ms: float
    limit_ms: float


def _time(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return 1_000 * (time.perf_counter() - started)


def measure_store(url: str) -> list[Latency]:
    with closing(PostgresStore(url, space="latencies")) as store:
        store.put("a", "x" * 2_000, expected=0)
        gets = [_time(lambda: store.get("a")) for _ in range(ROUNDS)]
        puts = [_time(lambda n=n: store.put("a", "x", expected=n)) for n in range(1, ROUNDS)]
    return [
        Latency("get, p50", statistics.median(gets), 1),
        Latency("put, p50", statistics.median(puts), 5),
    ]


def measure_news(url: str) -> list[Latency]:
    arrived: Queue[float] = Queue()
    with closing(open_postgres_feed(url)) as sender, closing(open_postgres_feed(url)) as receiver:
        receiver.subscribe(lambda _: arrived.put(time.perf_counter()))
        took: list[float] = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            sender.publish("latencies", "")
            took.append(1_000 * (arrived.get(timeout=10) - started))
    p95 = statistics.quantiles(took, n=20)[-1]
    return [
        Latency("NOTIFY, p95", p95, 10),
        Latency("a change at another, slowest", max(took), 1_000),
    ]


def measure_passing_on(table: Table) -> list[Latency]:
    one, other = (replica.url for replica in table.replicas[:2])
    with httpx2.Client(trust_env=False, timeout=30) as http:
        opened = http.post(one, json=INITIALIZE, headers=HEADERS)
        headers = {**HEADERS, "mcp-session-id": opened.headers["mcp-session-id"],
                   "mcp-protocol-version": "2025-11-25"}  # fmt: skip
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        http.post(one, json=ready, headers=headers)
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        took: dict[str, list[float]] = {one: [], other: []}
        for _ in range(ROUNDS):
            for url, times in took.items():
                times.append(_time(lambda url=url: http.post(url, json=ping, headers=headers)))
    direct, passed_on = (statistics.median(times) for times in took.values())
    return [Latency("passing on, beyond the request itself, p50", passed_on - direct, 5)]


def measure(table: Table) -> list[Latency]:
    url = table.fleet.database
    return [*measure_store(url), *measure_news(url), *measure_passing_on(table)]
