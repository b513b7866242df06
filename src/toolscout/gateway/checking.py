"""A look at every server before anything relies on it: what works, what does not, and why."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..catalog.catalog import Catalog
from ..catalog.names import qualified
from ..catalog.sources.mcp.grants import Grants
from ..catalog.sources.mcp.listing import Listings
from ..catalog.sources.mcp.servers import Server
from ..catalog.sources.mcp.source import MCPSource
from ..catalog.sources.mcp.wire import Definition, plain
from ..catalog.sources.openapi.source import API, OpenAPISource
from ..catalog.tool import Tool
from ..disclosure.session import Session
from ..disclosure.view import view
from ..errors import SourceError, StoreError
from ..tokens import Counter, default_counter
from .editing import Runs
from .flaws import flaws
from .identity import Identity
from .pins import Ledger, Offer, Pins
from .savings import Savings, cost_of
from .setup import Setup
from .trust import shadows

Status = Literal["ready", "unreachable", "misconfigured", "disabled"]
Verdict = Literal["ready", "degraded", "blocked"]
EXIT_CODES: Mapping[Verdict, int] = {"ready": 0, "degraded": 10, "blocked": 11}


@dataclass(frozen=True, slots=True)
class Looked:
    """One server, looked at."""

    server: str
    status: Status
    reason: str = ""
    place: str = ""
    protocol: str = ""
    tools: int = 0
    prompts: int = 0
    resources: int = 0
    held: Mapping[str, str] | None = None
    problems: tuple[str, ...] = ()
    took_ms: float = 0.0

    @property
    def is_well(self) -> bool:
        """Whether everything it offers can be used."""
        return self.status in ("ready", "disabled") and not self.held and not self.problems


@dataclass(frozen=True, slots=True)
class Check:
    """All servers, what their tools cost, and what is shown in place of them."""

    servers: tuple[Looked, ...]
    warnings: tuple[str, ...]
    tools: int
    counter: str
    tokens_everything: int
    tokens_shown: int
    tokens_saved: int

    @property
    def verdict(self) -> Verdict:
        """Ready if all is well, blocked if no tool can be used at all."""
        if not self.tools:
            return "blocked"
        is_well = all(s.is_well for s in self.servers) and not self.warnings
        return "ready" if is_well else "degraded"

    def row(self) -> dict[str, Any]:
        """The same as plain JSON."""
        return {"status": self.verdict, **asdict(self)}


async def check(setup: Setup) -> Check:
    """Connect to every server at once and judge what it offers; looking approves nothing."""
    config = setup.config
    listings = Listings(config.cache_folder / "listings")
    pins = Pins(config.state_folder / "pins")
    grants = Grants.of(config)
    sources = [MCPSource(s, listings=listings, grants=grants) for s in setup.document.servers]
    reading = asyncio.gather(*(_read(api) for api in setup.apis))
    try:
        looks = await asyncio.gather(*(_reach(s) for s in sources))
        judged = [
            _judge(look, source, sources, pins, setup)
            for look, source in zip(looks, sources, strict=True)
        ]
    finally:
        await asyncio.gather(*(s.close() for s in sources))
    read = await reading
    tools = [*(d.tool for j in judged for d in j[1]), *(t for _, found in read for t in found)]
    return _summed([*(j[0] for j in judged), *(look for look, _ in read)], tools, setup)


async def _read(api: API) -> tuple[Looked, Sequence[Tool]]:
    """An API is as well as its document; nothing is asked of the API itself."""
    if api.problem:
        return Looked(api.name, "misconfigured", api.problem), ()
    started = time.perf_counter()
    source = OpenAPISource(api)
    place = api.hide(api.document)
    try:
        tools = await source.tools()
    except SourceError as error:
        return Looked(api.name, "unreachable", api.hide(str(error)), place), ()
    finally:
        await source.close()
    took_ms = round((time.perf_counter() - started) * 1_000, 1)
    look = Looked(
        api.name,
        "ready",
        place=place,
        protocol="OpenAPI",
        tools=len(tools),
        problems=(*source.problems, *(p for t in tools for p in _schema_problems(t.local_name, t))),
        took_ms=took_ms,
    )
    return look, tools


async def _reach(source: MCPSource) -> Looked:
    server = source.server
    if server.is_disabled:
        return Looked(source.name, "disabled", place=server.place)
    if server.problem:
        return Looked(source.name, "misconfigured", server.problem)
    started = time.perf_counter()
    try:
        await source.refresh()
    except SourceError as error:
        reason = source.state.reason or str(error)
        return Looked(source.name, "unreachable", reason, server.place)
    state = source.state
    return Looked(
        source.name,
        "ready",
        place=server.place,
        protocol=state.protocol,
        tools=state.tools,
        prompts=state.prompts,
        resources=state.resources,
        problems=(*state.problems, *_problems(server, source.definitions.values())),
        took_ms=round((time.perf_counter() - started) * 1_000, 1),
    )


def _problems(server: Server, definitions: Iterable[Definition]) -> Iterator[str]:
    for definition in definitions:
        name = definition.tool.name
        if server.is_prefixed and name != qualified(server.name, definition.local):
            yield f"{definition.local!r} has a name that not every client takes: it is {name}."
        yield from _schema_problems(definition.local, definition.tool)


def _schema_problems(name: str, tool: Tool) -> Iterator[str]:
    """Why calls of a tool would be refused, whatever their arguments."""
    for flaw in flaws(tool.parameters.value):
        yield f"{name!r} cannot be relied on: its schema {flaw}"


def _judge(
    look: Looked, source: MCPSource, sources: Sequence[MCPSource], pins: Pins, setup: Setup
) -> tuple[Looked, list[Definition]]:
    definitions = source.definitions
    if look.status != "ready":
        return look, []
    try:
        ledger = pins.of(Identity.of(source.server))
    except StoreError as error:
        return _with(look, problems=(*look.problems, str(error)), held={}), []
    met = ledger.met(_offers(source, sources, setup), trusts_first=_trusts(setup, ledger))
    held = {p.tool: p.note or p.standing for p in met.held if p.tool in definitions}
    open_ones = [d for d in definitions.values() if d.local not in held]
    return _with(look, held=held), open_ones


def _with(look: Looked, **changes: Any) -> Looked:
    return Looked(**{**{n: getattr(look, n) for n in look.__dataclass_fields__}, **changes})


def _trusts(setup: Setup, ledger: Ledger) -> bool:
    return not setup.options.require_approval and not ledger.is_known


def _offers(source: MCPSource, sources: Sequence[MCPSource], setup: Setup) -> Iterator[Offer]:
    borrowed = shadows(source, sources, setup.reserved)
    for definition in source.definitions.values():
        yield Offer(
            definition.local,
            definition.digest,
            plain(definition.raw),
            shadows=borrowed.get(definition.local, ""),
        )


def _summed(servers: Sequence[Looked], tools: Iterable[Tool], setup: Setup) -> Check:
    counter = default_counter()
    catalog = Catalog(tools)
    folder = setup.config.state_folder
    saved = Savings(folder / "savings.json", counter).total
    return Check(
        servers=tuple(servers),
        warnings=(*setup.document.warnings, *Runs(folder / "running").waiting(setup)),
        tools=len(catalog),
        counter=counter.name,
        tokens_everything=cost_of(catalog, counter),
        tokens_shown=_shown(catalog, setup, counter),
        tokens_saved=saved,
    )


def _shown(catalog: Catalog, setup: Setup, counter: Counter) -> int:
    seen = view(setup.profile, catalog, Session("check"), target="mcp")
    return counter.count(seen.text) + counter.count(seen.instructions)
