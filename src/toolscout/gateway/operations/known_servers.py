"""What is known about servers without starting them: tools, pins, and their last state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from ...catalog.catalog import Catalog
from ...catalog.tool import Tool
from ...errors import StoreError
from ...journal.reading import row_data
from ...sources.mcp.listing import ServerTools
from ...sources.mcp.listing_cache import ListingCache
from ...sources.mcp.servers import Server
from ...sources.mcp.wire import MCPToolDefinition
from ...sources.server_status import ServerStatus, status_after
from ...store.factory import has_log, open_log
from ...store.log_contract import LogFilter
from ...tokens import default_counter
from ..setup import Setup
from ..upstream.held_tools import HeldTools, approved_tool
from ..upstream.pin_factory import open_pins
from ..upstream.pin_store import ServerIdentity
from ..upstream.pinned_source import build_offers
from ..upstream.pins import Pin, PinLedger
from .check_outcomes import CheckOutcomes
from .doctor import view_tokens
from .savings import catalog_tokens

_MAX_ROWS = 20
StatusOrigin = Literal["", "serve", "check"]
"""Which command saw the last status; empty if the configuration alone decides it."""


@dataclass(frozen=True, slots=True)
class KnownServer:
    """One configured server; `tools` is None if it was never listed."""

    name: str
    transport: str
    is_enabled: bool
    place: str
    file: str
    project: str = ""
    tools: int | None = None
    held: int = 0
    problem: str = ""
    status: ServerStatus = "idle"
    status_reason: str = ""
    status_time: str = ""
    status_by: StatusOrigin = ""
    available: tuple[Tool, ...] = field(default=(), repr=False)
    """The tools that are not held for approval."""
    held_tools: tuple[Tool, ...] = field(default=(), repr=False)
    """The tools that are held for approval, by their approved definitions."""
    label: str = ""
    """The server as `toolscout pins` calls it."""

    def row(self) -> dict[str, Any]:
        """The server as JSON data, without its tools."""
        hidden = ("available", "held_tools", "label")
        return {key: value for key, value in asdict(self).items() if key not in hidden}


@dataclass(frozen=True, slots=True)
class TokenCosts:
    """The cost of tools loaded in full, and of what a client sees through the gateway."""

    tools: int
    loaded: int
    shown: int


def read_known_servers(setup: Setup) -> tuple[KnownServer, ...]:
    """Every server and API of a configuration."""
    with closing(_Reader(setup)) as reader:
        servers = [reader.read(server) for server in setup.document.servers]
    apis = [
        KnownServer(
            name=api.name,
            transport="openapi",
            is_enabled=True,
            place=api.redact(api.document),
            file=str(setup.path),
            problem=api.problem,
            status="misconfigured" if api.problem else "idle",
        )
        for api in setup.apis
    ]
    return (*servers, *apis)


def collect_held_tools(servers: Iterable[KnownServer]) -> HeldTools:
    """The held tools of all servers, for a search to report."""
    holding = [server for server in servers if server.held_tools]
    return HeldTools(
        {server.name: server.held_tools for server in holding},
        {server.name: server.label for server in holding},
    )


def count_costs(tools: Iterable[Tool], setup: Setup) -> TokenCosts:
    """Count what a set of tools costs under the profile of a configuration."""
    catalog, counter = Catalog(tools), default_counter()
    return TokenCosts(
        len(catalog), catalog_tokens(catalog, counter), view_tokens(catalog, setup, counter)
    )


class _LastStatus(NamedTuple):
    """The status of a server, with its reason and its time; never started means idle."""

    status: ServerStatus = "idle"
    reason: str = ""
    seconds: float = 0.0
    origin: StatusOrigin = ""

    @property
    def time(self) -> str:
        """The time as text; empty if there is none."""
        if not self.seconds:
            return ""
        return datetime.fromtimestamp(self.seconds, UTC).isoformat(timespec="seconds")


class _Reader:
    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._listings = ListingCache.of(setup.config)
        self._outcomes = CheckOutcomes.of(setup.config)
        self._pins = open_pins(setup.config)

    def close(self) -> None:
        """Release the store."""
        self._listings.close()
        self._pins.close()

    def read(self, server: Server) -> KnownServer:
        listing = self._listings.load(server.name, server.listing_key(forwards_requests=True))
        tools = ServerTools.of(server, listing).definitions
        problem = server.problem
        pins: Mapping[str, Pin] = {}
        label, held = server.name, 0
        try:
            ledger = self._compare(self._pins.ledger_for(ServerIdentity.of(server)), tools)
            on_hold = ledger.pins_on_hold
            pins = {pin.tool: pin for pin in on_hold if pin.tool in tools}
            # Without a list of tools, as after a restore, all that is known are the pins.
            held = len(pins) if listing is not None else len(on_hold)
            label = self._pins.shortest_label(ledger)
        except StoreError as error:
            problem = problem or str(error)
        last = self._find_status(server, problem)
        return KnownServer(
            name=server.name,
            transport=server.transport,
            is_enabled=not server.is_disabled,
            place=server.location if server.command or server.url else "",
            file=str(self._setup.path),
            project=server.project,
            tools=None if listing is None else len(tools),
            held=held,
            problem=problem,
            status=last.status,
            status_reason=last.reason,
            status_time=last.time,
            status_by=last.origin,
            available=tuple(d.tool for d in tools.values() if d.local not in pins),
            held_tools=tuple(
                approved_tool(server, pin, tools[name].tool) for name, pin in pins.items()
            ),
            label=label,
        )

    def _compare(self, ledger: PinLedger, tools: Mapping[str, MCPToolDefinition]) -> PinLedger:
        """The pins as a gateway would have them after the last listing."""
        trusts_first = not self._setup.options.require_approval
        return ledger.record_offers(build_offers(tools, {}), trusts_first=trusts_first)

    def _find_status(self, server: Server, problem: str) -> _LastStatus:
        if server.is_disabled:
            return _LastStatus("disabled")
        if problem:
            return _LastStatus("misconfigured")
        served, checked = self._read_status(server.name), self._outcomes.load(server)
        if checked is None or checked.time < served.seconds:
            return served
        return _LastStatus(checked.status, checked.reason, checked.time, "check")

    def _read_status(self, name: str) -> _LastStatus:
        """The last status in the journal of the last gateway."""
        if not has_log(self._setup.config):
            return _LastStatus()
        try:
            with closing(open_log(self._setup.config)) as log:
                rows = log.read(LogFilter(kind="server", server=name), limit=_MAX_ROWS)
        except StoreError:
            return _LastStatus()
        for row in rows:
            data = row_data(row)
            status = status_after(row.outcome or "", needs_login=bool(data.get("needs_login")))
            if status is not None:
                return _LastStatus(status, str(data.get("reason", "")), row.time, "serve")
        return _LastStatus()
