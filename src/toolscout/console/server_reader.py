"""What the page of a server shows: its state, its tools with their pins and use, its log."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..catalog.tool import Tool
from ..gateway.gateway import Gateway
from ..gateway.operations.health import health_report
from ..gateway.operations.savings import tool_tokens
from ..gateway.upstream.pinned_source import PinnedSource
from ..gateway.upstream.pins import Pin
from ..sources.mcp.servers import Server
from ..store.log_contract import LogFilter, LogRow
from ..tokens import default_counter
from .call_counts import CallCounts

TOOLS_PER_PAGE = 100
_LOG_LINES = 100
_MAX_DECISIONS = 20


@dataclass(frozen=True, slots=True)
class ServerSummary:
    """A server or an API in the list; `report` is its part of `GET /health`."""

    name: str
    transport: str
    place: str
    report: Mapping[str, Any]
    calls: int

    @property
    def status(self) -> str:
        """The status in one word or two."""
        return str(self.report.get("status", "idle"))


@dataclass(frozen=True, slots=True)
class ServedTool:
    """A tool of a server; `local` is its name there, and `pin` None where it has none."""

    tool: Tool
    local: str
    pin: Pin | None
    tokens: int
    calls: int
    last_call: float | None

    @property
    def standing(self) -> str:
        """Whether it can be used, or why not."""
        if self.pin is None:
            return "not compared yet"
        return "approved" if self.pin.is_open else self.pin.standing


@dataclass(frozen=True, slots=True)
class ToolPage:
    """Some tools of a server, and how many there are."""

    tools: tuple[ServedTool, ...]
    number: int
    matching: int
    total: int

    @property
    def last(self) -> int:
        """The number of the last page."""
        return max(1, -(-self.matching // TOOLS_PER_PAGE))


def read_servers(gateway: Gateway) -> list[ServerSummary]:
    """All servers and APIs of the configuration."""
    report = health_report(gateway)["servers"]
    counts = CallCounts.of(gateway.operations.journal.store)
    servers = [
        ServerSummary(
            server.name,
            server.transport,
            server.location if server.command or server.url else "",
            report.get(server.name, {"status": "starting"}),
            counts.of_server(server.name),
        )
        for server in gateway.setup.document.servers
    ]
    return [*servers, *_read_apis(gateway, counts)]


def _read_apis(gateway: Gateway, counts: CallCounts) -> list[ServerSummary]:
    catalog, problems = gateway.box.catalog, gateway.box.problems
    rows: list[ServerSummary] = []
    for api in gateway.setup.apis:
        reason = api.problem or problems.get(api.name, "")
        status = "failing" if reason else "ready"
        tools = len(catalog.names_of(api.name))
        report = {"status": status, "reason": reason, "tools": tools, "held": 0}
        place = api.redact(api.document)
        rows.append(ServerSummary(api.name, "openapi", place, report, counts.of_server(api.name)))
    return rows


def find_server(gateway: Gateway, name: str) -> Server | None:
    """A configured server by its name."""
    return next((s for s in gateway.setup.document.servers if s.name == name), None)


def read_report(gateway: Gateway, name: str) -> Mapping[str, Any]:
    """The part of `GET /health` about one server."""
    return health_report(gateway)["servers"].get(name, {"status": "starting"})


def read_tools(gateway: Gateway, source: PinnedSource, *, text: str, number: int) -> ToolPage:
    """One page of the tools whose name or description has a text."""
    words = text.casefold().split()
    definitions = tuple(source.inner.definitions.values())
    found = [
        d for d in definitions if not words or _has_words(f"{d.local} {d.tool.description}", words)
    ]
    number = min(max(1, number), max(1, -(-len(found) // TOOLS_PER_PAGE)))
    start = (number - 1) * TOOLS_PER_PAGE
    counter, counts = default_counter(), CallCounts.of(gateway.operations.journal.store)
    pins = source.ledger.pins
    shown = tuple(
        ServedTool(
            d.tool,
            d.local,
            pins.get(d.local),
            tool_tokens(d.tool, counter),
            counts.of_tool(d.tool.name),
            counts.last_call(d.tool.name),
        )
        for d in found[start : start + TOOLS_PER_PAGE]
    )
    return ToolPage(shown, number, len(found), len(definitions))


def _has_words(text: str, words: list[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


def held_pins(source: PinnedSource) -> tuple[Pin, ...]:
    """The pins of tools that the server offers and nobody can call, revoked ones last."""
    comparison = source.comparison
    held = [comparison.ledger.pins[name] for name in comparison.names_on_hold]
    return tuple(sorted(held, key=lambda pin: pin.standing == "revoked"))


def read_decisions(gateway: Gateway, server: str) -> list[LogRow]:
    """The newest approvals and revocations of a server's tools."""
    log = gateway.operations.journal.store
    # Each outcome by itself, which the journal finds by an index.
    rows = [
        row
        for outcome in ("approved", "revoked")
        for row in log.read(
            LogFilter(kind="approval", outcome=outcome, server=server), limit=_MAX_DECISIONS
        )
    ]
    return sorted(rows, key=lambda row: -row.sequence)[:_MAX_DECISIONS]


def read_log_lines(gateway: Gateway, server: str) -> list[str]:
    """The newest lines of the log of a server, the oldest first."""
    logs = gateway.setup.server_logs
    if logs is None:
        return []
    return [str(line) for line in deque(logs.read(server), maxlen=_LOG_LINES)]
