"""Check every server before anything relies on it: what works, what does not, and why."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, specification_with

from ...catalog.catalog import Catalog
from ...catalog.names import qualify_name
from ...catalog.tool import Tool
from ...disclosure.session_state import SessionState
from ...disclosure.view import view
from ...errors import SourceError, StoreError
from ...sources.mcp.listing_cache import ListingCache
from ...sources.mcp.mcp_source import MCPSource
from ...sources.mcp.oauth_tokens import GrantStore
from ...sources.mcp.servers import Server
from ...sources.mcp.wire import MCPToolDefinition, dump_definition
from ...sources.openapi.api_source import API, OpenAPISource
from ...tokens import TokenCounter, default_counter
from ..setup import Setup
from ..upstream.identity import ServerIdentity
from ..upstream.pinned_source import find_shadows
from ..upstream.pins import PinLedger, PinStore, ToolOffer
from .reload import GatewayProcesses
from .savings import Savings, catalog_tokens

# Where a schema stands that is asked about the very same value, so that a circle never ends.
_SAME_VALUE_KEYWORDS = ("not", "if", "then", "else")
_SAME_VALUE_LISTS = ("allOf", "anyOf", "oneOf")
_DATA_KEYWORDS = frozenset({"const", "default", "enum", "example", "examples"})


def find_schema_flaws(schema: dict[str, Any]) -> Iterator[str]:
    """Each reason why arguments could not be checked against a schema."""
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        yield f"is not JSON Schema: {error.message}."
        return
    except RecursionError:
        yield "nests too deeply."
        return
    try:
        yield from _SchemaReferences(schema).find_broken()
    except RecursionError:
        yield "nests too deeply."


class _SchemaReferences:
    """The references of one schema, each followed to what it names."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        specification = specification_with(str(schema.get("$schema", "")), default=DRAFT202012)
        resource = cast("Resource[Any]", Resource(schema, specification))
        registry: Registry[Any] = Registry()
        self._resolver = registry.with_resource("", resource).resolver("")
        self._ended: set[int] = set()

    def find_broken(self) -> Iterator[str]:
        """Those that lead nowhere, or back to themselves; each told once."""
        told: set[str] = set()
        for node in _iter_schemas(self._schema):
            said = self._reference_flaw(node)
            if said and said not in told:
                told.add(said)
                yield said

    def _reference_flaw(self, node: Mapping[str, Any]) -> str:
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return ""
        if self._resolve(node) is None:
            return f"refers to {reference!r}, which cannot be followed."
        if self._is_circular(node, frozenset()):
            return f"refers to {reference!r}, which leads back to itself."
        return ""

    def _resolve(self, node: Mapping[str, Any]) -> Any:
        try:
            return self._resolver.lookup(node["$ref"]).contents
        except (Unresolvable, ValueError):
            return None

    def _is_circular(self, node: Any, above: frozenset[int]) -> bool:
        if not isinstance(node, dict) or id(cast("object", node)) in self._ended:
            return False
        if id(cast("object", node)) in above:
            return True
        table = cast("dict[str, Any]", node)
        above |= {id(table)}
        if any(self._is_circular(inner, above) for inner in self._same_value_schemas(table)):
            return True
        self._ended.add(id(table))
        return False

    def _same_value_schemas(self, node: Mapping[str, Any]) -> Iterator[Any]:
        if isinstance(node.get("$ref"), str):
            yield self._resolve(node)
        yield from (node[key] for key in _SAME_VALUE_KEYWORDS if key in node)
        for key in _SAME_VALUE_LISTS:
            yield from node.get(key) or ()


def _iter_schemas(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in a schema, but for those that are data."""
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        yield table
        for key, inner in table.items():
            if key not in _DATA_KEYWORDS:
                yield from _iter_schemas(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _iter_schemas(inner)


ServerStatus = Literal["ready", "unreachable", "misconfigured", "disabled"]
Verdict = Literal["ready", "degraded", "blocked"]
EXIT_CODES: Mapping[Verdict, int] = {"ready": 0, "degraded": 10, "blocked": 11}


@dataclass(frozen=True, slots=True)
class ServerCheck:
    """One server, looked at."""

    server: str
    status: ServerStatus
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
    def is_healthy(self) -> bool:
        """Whether everything it offers can be used."""
        return self.status in ("ready", "disabled") and not self.held and not self.problems


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All servers, what their tools cost, and what is shown in place of them."""

    servers: tuple[ServerCheck, ...]
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
        is_well = all(s.is_healthy for s in self.servers) and not self.warnings
        return "ready" if is_well else "degraded"

    def row(self) -> dict[str, Any]:
        """The same as plain JSON."""
        return {"status": self.verdict, **asdict(self)}


async def check_servers(setup: Setup) -> CheckReport:
    """Connect to every server at once and judge what it offers; looking approves nothing."""
    config = setup.config
    listings = ListingCache(config.cache_folder / "listings")
    pins = PinStore(config.state_folder / "pins")
    grants = GrantStore.of(config)
    sources = [MCPSource(s, listings=listings, grants=grants) for s in setup.document.servers]
    reading = asyncio.gather(*(_check_api(api) for api in setup.apis))
    try:
        looks = await asyncio.gather(*(_check_server(s) for s in sources))
        judged = [
            _compare_with_pins(look, source, sources, pins, setup)
            for look, source in zip(looks, sources, strict=True)
        ]
    finally:
        await asyncio.gather(*(s.close() for s in sources))
    read = await reading
    tools = [*(d.tool for j in judged for d in j[1]), *(t for _, found in read for t in found)]
    return _build_report([*(j[0] for j in judged), *(look for look, _ in read)], tools, setup)


async def _check_api(api: API) -> tuple[ServerCheck, Sequence[Tool]]:
    """An API is as well as its document; nothing is asked of the API itself."""
    if api.problem:
        return ServerCheck(api.name, "misconfigured", api.problem), ()
    started = time.perf_counter()
    source = OpenAPISource(api)
    place = api.redact(api.document)
    try:
        tools = await source.tools()
    except SourceError as error:
        return ServerCheck(api.name, "unreachable", api.redact(str(error)), place), ()
    finally:
        await source.close()
    took_ms = round((time.perf_counter() - started) * 1_000, 1)
    look = ServerCheck(
        api.name,
        "ready",
        place=place,
        protocol="OpenAPI",
        tools=len(tools),
        problems=(*source.problems, *(p for t in tools for p in _schema_problems(t.local_name, t))),
        took_ms=took_ms,
    )
    return look, tools


async def _check_server(source: MCPSource) -> ServerCheck:
    server = source.server
    if server.is_disabled:
        return ServerCheck(source.name, "disabled", place=server.location)
    if server.problem:
        return ServerCheck(source.name, "misconfigured", server.problem)
    started = time.perf_counter()
    try:
        await source.refresh()
    except SourceError as error:
        reason = source.state.reason or str(error)
        return ServerCheck(source.name, "unreachable", reason, server.location)
    state = source.state
    return ServerCheck(
        source.name,
        "ready",
        place=server.location,
        protocol=state.protocol,
        tools=state.tools,
        prompts=state.prompts,
        resources=state.resources,
        problems=(*state.problems, *_definition_problems(server, source.definitions.values())),
        took_ms=round((time.perf_counter() - started) * 1_000, 1),
    )


def _definition_problems(server: Server, definitions: Iterable[MCPToolDefinition]) -> Iterator[str]:
    for definition in definitions:
        name = definition.tool.name
        if server.is_prefixed and name != qualify_name(server.name, definition.local):
            yield f"{definition.local!r} has a name that not every client takes: it is {name}."
        yield from _schema_problems(definition.local, definition.tool)


def _schema_problems(name: str, tool: Tool) -> Iterator[str]:
    """Why calls of a tool would be refused, whatever their arguments."""
    for flaw in find_schema_flaws(tool.parameters.value):
        yield f"{name!r} cannot be relied on: its schema {flaw}"


def _compare_with_pins(
    look: ServerCheck, source: MCPSource, sources: Sequence[MCPSource], pins: PinStore, setup: Setup
) -> tuple[ServerCheck, list[MCPToolDefinition]]:
    definitions = source.definitions
    if look.status != "ready":
        return look, []
    try:
        ledger = pins.ledger_for(ServerIdentity.of(source.server))
    except StoreError as error:
        return _replace_fields(look, problems=(*look.problems, str(error)), held={}), []
    met = ledger.record_offers(
        _tool_offers(source, sources, setup), trusts_first=_trusts_first(setup, ledger)
    )
    held = {p.tool: p.note or p.standing for p in met.pins_on_hold if p.tool in definitions}
    open_ones = [d for d in definitions.values() if d.local not in held]
    return _replace_fields(look, held=held), open_ones


def _replace_fields(look: ServerCheck, **changes: Any) -> ServerCheck:
    return ServerCheck(**{**{n: getattr(look, n) for n in look.__dataclass_fields__}, **changes})


def _trusts_first(setup: Setup, ledger: PinLedger) -> bool:
    return not setup.options.require_approval and not ledger.is_known


def _tool_offers(
    source: MCPSource, sources: Sequence[MCPSource], setup: Setup
) -> Iterator[ToolOffer]:
    borrowed = find_shadows(source, sources, setup.own_tool_names)
    for definition in source.definitions.values():
        yield ToolOffer(
            definition.local,
            definition.digest,
            dump_definition(definition.raw),
            shadows=borrowed.get(definition.local, ""),
        )


def _build_report(
    servers: Sequence[ServerCheck], tools: Iterable[Tool], setup: Setup
) -> CheckReport:
    counter = default_counter()
    catalog = Catalog(tools)
    folder = setup.config.state_folder
    saved = Savings(folder / "savings.json", counter).total
    return CheckReport(
        servers=tuple(servers),
        warnings=(
            *setup.document.warnings,
            *GatewayProcesses(folder / "running").restart_warnings(setup),
        ),
        tools=len(catalog),
        counter=counter.name,
        tokens_everything=catalog_tokens(catalog, counter),
        tokens_shown=_view_tokens(catalog, setup, counter),
        tokens_saved=saved,
    )


def _view_tokens(catalog: Catalog, setup: Setup, counter: TokenCounter) -> int:
    seen = view(setup.profile, catalog, SessionState("check"), target="mcp")
    return counter.count(seen.text) + counter.count(seen.instructions)
