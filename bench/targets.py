"""What was promised, beside what was measured in this run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any

from .peers.contestants import DEFAULT, FASTMCP, LEXICAL, RATEL
from .sections.learning import macro_gain

RECALL_FLOORS = {
    "azure_mcp": 0.976,
    "bfcl": 0.863,
    "bfcl_ar": 0.775,
    "seal_tools": 0.921,
    "acebench_zh": 0.985,
    "acebench_zh_many": 0.86,
    "mcp_bench": 0.48,
}
KNOWN_LANGUAGE_FLOORS = {"recall@1": 0.46, "recall@5": 0.69}
"""On the requests of ha_intents_dev in languages that the bundled encoder knows."""

NOISE = 1.05
"""How much two times may differ before one is called slower."""


@dataclass(frozen=True)
class Target:
    """One promise: `measured` is none where this run has no figure for it.

    `beside` is the same by the process's own work, for times taken on a busy machine.
    """

    promise: str
    wanted: float
    measured: float | None
    unit: str = ""
    at_least: bool = False
    beside: float | None = None

    @property
    def verdict(self) -> str:
        """Reached or not, by the figure itself."""
        if self.measured is None:
            return "not measured"
        if self._holds(self.measured):
            return "reached"
        if self.beside is not None and self._holds(self.beside):
            return "not reached (by CPU time: reached)"
        return "not reached"

    def _holds(self, value: float) -> bool:
        return value >= self.wanted if self.at_least else value <= self.wanted

    def row(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "promise": self.promise,
            "wanted": self.wanted,
            "at_least": self.at_least,
            "unit": self.unit,
            "measured": self.measured,
            "cpu": self.beside,
            "verdict": self.verdict,
        }


def judged(report: Mapping[str, Any]) -> list[Target]:
    """Every promise with its figure out of a report."""
    return [
        *_retrieval(report.get("retrieval", [])),
        *_speed(report.get("speed", {}).get("rows", [])),
        *_gateway(report.get("gateway", {})),
        *_learning(report.get("learning", {})),
    ]


def _learning(found: Mapping[str, Any]) -> Iterator[Target]:
    rows = found.get("gains", [])
    gain = macro_gain(rows, "half observed").get("recall@5")
    yield Target("recall@5 gained by learning, in points", 5.0, gain, at_least=True)
    unused = macro_gain(rows, "never used").get("recall@5")
    yield Target("the same for tools that were never used", -1.0, unused, at_least=True)
    added = max((row["added_ms"] for row in found.get("cost", [])), default=None)
    yield Target("CPU time that learning adds to a search", 0.1, added, unit=" ms")


def _retrieval(rows: list[dict[str, Any]]) -> Iterator[Target]:
    ours = {row["set"]: row for row in rows if row["label"] == DEFAULT.label}
    for name, floor in RECALL_FLOORS.items():
        figures = ours.get(name, {}).get("figures")
        found = figures["recall@5"]["mean"] if figures else None
        yield Target(f"recall@5 on {name}", floor, found, at_least=True)
    for name, floor in KNOWN_LANGUAGE_FLOORS.items():
        found = ours.get("ha_intents_dev", {}).get("known_languages", {}).get(name)
        yield Target(f"{name} on ha_intents_dev, known languages", floor, found, at_least=True)
    refused = ours.get("bfcl", {}).get("abstain")
    found = refused["auroc"] if refused else None
    yield Target("AUROC of confidence on the negatives of bfcl", 0.88, found, at_least=True)
    errors = [row["calibration_error"] for row in ours.values() if "calibration_error" in row]
    found = mean(errors) if errors else None
    yield Target("error of confidence, mean over sets", 0.15, found)
    cpu = ours.get("mcp_bench", {}).get("search_cpu_ms")
    yield Target("a search with vectors on mcp_bench, median CPU time", 15.0, cpu, "ms")


class _Times:
    """The rows of speed by label and size."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = {(row["label"], row["size"]): row for row in rows}

    def get(self, label: str, size: int, key: str) -> float | None:
        return self._rows.get((label, size), {}).get(key)

    def ratio(self, size: int, label: str, other: str, key: str) -> float | None:
        """How many times longer the other one takes."""
        mine, theirs = self.get(label, size, key), self.get(other, size, key)
        return theirs / mine if mine and theirs else None

    def under(
        self, promise: str, wanted: float, label: str, size: int, *, key: str, cpu: str = ""
    ) -> Target:
        unit = "ms" if key.endswith("_ms") else "s" if key.endswith("_s") else "MB"
        beside = self.get(label, size, cpu) if cpu else None
        return Target(promise, wanted, self.get(label, size, key), unit, beside=beside)


def _speed(rows: list[dict[str, Any]]) -> Iterator[Target]:
    times = _Times(rows)
    for label, what, limits in (
        (LEXICAL.label, "a keyword search", {10_000: 0.3, 100_000: 1.0}),
        (DEFAULT.label, "a search with vectors, one clause", {10_000: 3.5, 100_000: 12.0}),
    ):
        for size, limit in limits.items():
            promise = f"{what}, {size:,} tools, median"
            yield times.under(promise, limit, label, size, key="p50_ms", cpu="p50_cpu_ms")
    promise = "a search with vectors, any length, 10,000 tools, median"
    key = "any_length_p50"
    yield times.under(promise, 6.0, DEFAULT.label, 10_000, key=f"{key}_ms", cpu=f"{key}_cpu_ms")
    for operation in ("add", "remove"):
        promise = f"{operation} one tool, 100,000 tools"
        key = f"{operation}_ms"
        yield times.under(promise, 10.0, DEFAULT.label, 100_000, key=key, cpu=f"{operation}_cpu_ms")
    promise = "10,000 tools indexed, vectors from the cache"
    yield times.under(promise, 1.5, DEFAULT.label, 10_000, key="index_s", cpu="index_cpu_s")
    promise = "index of 100,000 tools beyond the tools"
    yield times.under(promise, 350.0, DEFAULT.label, 100_000, key="index_mb")
    yield from _allowed(times)
    yield from _ratios(times)


def _allowed(times: _Times) -> Iterator[Target]:
    for label in (LEXICAL.label, DEFAULT.label):
        for size in (10_000, 100_000):
            tenth = times.get(label, size, "allowed_p50_cpu_ms")
            whole = times.get(label, size, "unrestricted_p50_cpu_ms")
            ratio = tenth / whole if tenth and whole else None
            promise = f"{label}: a tenth allowed against all, {size:,} tools, CPU time"
            yield Target(promise, NOISE, ratio, "×")


def _ratios(times: _Times) -> Iterator[Target]:
    contests = (
        (RATEL.label, 1.0, "as fast as ratel-ai in keyword search", (10_000, 100_000)),
        (FASTMCP.label, 50.0, "faster than FastMCP's BM25", (10_000,)),
    )
    for label, wanted, promise, sizes in contests:
        for size in sizes:
            for kind, prefix in (("queries of any length", ""), ("one clause", "one_clause_")):
                wall = times.ratio(size, LEXICAL.label, label, f"{prefix}p50_ms")
                work = times.ratio(size, LEXICAL.label, label, f"{prefix}p50_cpu_ms")
                said = f"{promise}, {kind}, {size:,} tools"
                yield Target(said, wanted, wall, "×", at_least=True, beside=work)


def _gateway(found: Mapping[str, Any]) -> Iterator[Target]:
    latency = found.get("gateway_latency", {})
    added = None
    if "gateway" in latency and "forwarder" in latency:
        added = latency["gateway"]["p50_ms"] - latency["forwarder"]["p50_ms"]
    yield Target("call_tool beyond a bare forwarder, median", 2.0, added, "ms")
    errors = found.get("gateway_load", {}).get("errors")
    failed = float(sum(errors.values())) if errors is not None else None
    yield Target("errors under load", 0.0, failed)
    memory = found.get("gateway_load", {}).get("memory", {})
    yield Target(
        "memory under load, growth after the warm-up", 3.0, memory.get("growth_percent"), "%"
    )
    start = found.get("gateway_start", {})
    for since, key in (
        ("the gateway's start", "first_search_s"),
        ("the start of its process", "first_search_with_process_start_s"),
    ):
        promise = f"first search after a restart, since {since}"
        yield Target(promise, 1.0, start.get(key), "s")
    handshake = found.get("gateway_handshake", {})
    for servers in (1, 20):
        first = handshake.get(f"{servers}_servers_new_home", {})
        promise = f"`initialize` over stdio beside mcp-server-time, {servers} servers, new home"
        yield Target(promise, 1.0, first.get("wall_ratio"), "×", beside=first.get("cpu_ratio"))
