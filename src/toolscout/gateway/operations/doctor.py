"""`toolscout check`: connect to every server and report what works, what does not, and why."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, specification_with

from ...catalog.catalog import Catalog
from ...catalog.tool import Tool, qualify_name
from ...disclosure.session_state import SessionState
from ...disclosure.view import view
from ...errors import ConfigError, SourceError, StoreError
from ...sources.mcp.listing_cache import ListingCache
from ...sources.mcp.mcp_source import MCPSource
from ...sources.mcp.oauth_tokens import OAuthTokenStore
from ...sources.mcp.servers import Server
from ...sources.mcp.wire import MCPToolDefinition
from ...sources.openapi.api_source import API, OpenAPISource
from ...store.processes import RUNNING_FOLDER
from ...tokens import TokenCounter, default_counter
from ...toolbox.feature_settings import check_feature_paths
from ...toolbox.live_overlay import read_overlay
from ..setup import Setup
from ..upstream.pin_store import PinStore, ServerIdentity
from ..upstream.pinned_source import build_offers, find_shadows
from .reload import GatewayProcesses
from .savings import Savings, catalog_tokens

# Keywords whose schemas apply to the same value as the schema around them. A reference cycle that
# passes only through these never ends; one through `properties` or `items` ends with the data.
_SAME_VALUE_KEYWORDS = ("not", "if", "then", "else")
_SAME_VALUE_LISTS = ("allOf", "anyOf", "oneOf")
# The values of these are data, where "$ref" is an ordinary key.
_DATA_KEYWORDS = frozenset({"const", "default", "enum", "example", "examples"})


def find_schema_flaws(schema: dict[str, Any]) -> Iterator[str]:
    """The reasons why arguments cannot be validated against a schema."""
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
    """Follows the references of one schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        specification = specification_with(str(schema.get("$schema", "")), default=DRAFT202012)
        resource = cast("Resource[Any]", Resource(schema, specification))
        # Without a retriever, the registry never fetches a remote reference.
        registry: Registry[Any] = Registry()
        self._resolver = registry.with_resource("", resource).resolver("")
        self._acyclic: set[int] = set()  # ids of the nodes that were checked already

    def find_broken(self) -> Iterator[str]:
        """The references that cannot be resolved or form a cycle, each once."""
        seen: set[str] = set()
        for node in _iter_schemas(self._schema):
            flaw = self._reference_flaw(node)
            if flaw and flaw not in seen:
                seen.add(flaw)
                yield flaw

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
        if not isinstance(node, dict) or id(cast("object", node)) in self._acyclic:
            return False
        if id(cast("object", node)) in above:
            return True
        schema = cast("dict[str, Any]", node)
        above |= {id(schema)}
        if any(self._is_circular(inner, above) for inner in self._same_value_schemas(schema)):
            return True
        self._acyclic.add(id(schema))
        return False

    def _same_value_schemas(self, node: Mapping[str, Any]) -> Iterator[Any]:
        if isinstance(node.get("$ref"), str):
            yield self._resolve(node)
        yield from (node[key] for key in _SAME_VALUE_KEYWORDS if key in node)
        for key in _SAME_VALUE_LISTS:
            yield from node.get(key) or ()


def _iter_schemas(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in a schema, except those that are data."""
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
CheckVerdict = Literal["ready", "degraded", "blocked"]
EXIT_CODES: Mapping[CheckVerdict, int] = {"ready": 0, "degraded": 10, "blocked": 11}


@dataclass(frozen=True, slots=True)
class ServerCheck:
    """The result for one server or API."""

    server: str
    status: ServerStatus
    reason: str = ""
    place: str = ""
    protocol: str = ""
    tools: int = 0
    prompts: int = 0
    resources: int = 0
    held: Mapping[str, str] | None = None
    label: str = ""
    problems: tuple[str, ...] = ()
    took_ms: float = 0.0

    @property
    def is_healthy(self) -> bool:
        """Whether everything that it offers can be used."""
        return self.status in ("ready", "disabled") and not self.held and not self.problems


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result for all servers, and the token costs of their tools and of what clients see."""

    servers: tuple[ServerCheck, ...]
    warnings: tuple[str, ...]
    tools: int
    counter: str
    tokens_everything: int
    tokens_shown: int
    tokens_saved: int

    @property
    def verdict(self) -> CheckVerdict:
        """`ready` without problems, `blocked` if no tool can be used, else `degraded`."""
        if not self.tools:
            return "blocked"
        is_well = all(s.is_healthy for s in self.servers) and not self.warnings
        return "ready" if is_well else "degraded"

    def row(self) -> dict[str, Any]:
        """The report as JSON data."""
        return {"status": self.verdict, **asdict(self)}


CheckProgress = Callable[[Sequence[str], int], None]
"""Called with the servers that have not answered yet, and the number of all."""


def _ignore_progress(_waiting: Sequence[str], _total: int) -> None:
    pass


async def check_servers(setup: Setup, *, progress: CheckProgress = _ignore_progress) -> CheckReport:
    """Check all servers and APIs in parallel; nothing is approved."""
    config = setup.config
    check_feature_paths(setup.toolbox_config, setup.profile)
    listings = ListingCache(config.cache_folder / "listings")
    pins = PinStore(config.state_folder / "pins")
    grants = OAuthTokenStore.of(config)
    logs = setup.server_logs
    sources = [
        MCPSource(
            server,
            listings=listings,
            grants=grants,
            server_log=logs.open(server) if logs else None,
            # As a gateway declares them: some servers list other tools without.
            forwards_requests=True,
        )
        for server in setup.document.servers
    ]
    api_task = asyncio.gather(*(_check_api(api) for api in setup.apis))
    try:
        checks = await _check_all(sources, progress)
        # After all servers are listed: a tool may shadow one of any other server.
        compared = [
            _compare_with_pins(check, source, sources, pins, setup)
            for check, source in zip(checks, sources, strict=True)
        ]
    finally:
        await asyncio.gather(*(s.close() for s in sources))
    api_checks = await api_task
    tools = [tool for _, offered in (*compared, *api_checks) for tool in offered]
    return _build_report([check for check, _ in (*compared, *api_checks)], tools, setup)


async def _check_all(
    sources: Sequence[MCPSource], progress: CheckProgress
) -> Sequence[ServerCheck]:
    waiting = [source.name for source in sources]

    async def check_and_report(source: MCPSource) -> ServerCheck:
        check = await _check_server(source)
        waiting.remove(source.name)
        progress(waiting, len(sources))
        return check

    progress(waiting, len(sources))
    return await asyncio.gather(*(check_and_report(source) for source in sources))


async def _check_api(api: API) -> tuple[ServerCheck, Sequence[Tool]]:
    """Check the document of an API; no request is sent to the API itself."""
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
    check = ServerCheck(
        api.name,
        "ready",
        place=place,
        protocol="OpenAPI",
        tools=len(tools),
        problems=(*source.problems, *(p for t in tools for p in _schema_problems(t.local_name, t))),
        took_ms=took_ms,
    )
    return check, tools


async def _check_server(source: MCPSource) -> ServerCheck:
    server = source.server
    if server.is_disabled:
        reason = f"It belongs to the project {server.project}." if server.project else ""
        return ServerCheck(source.name, "disabled", reason, place=server.location)
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
            yield f"{definition.local!r} has a name that some clients refuse; it becomes {name}."
        yield from _schema_problems(definition.local, definition.tool)


def _schema_problems(name: str, tool: Tool) -> Iterator[str]:
    """Why calls of a tool would be refused with any arguments."""
    for flaw in find_schema_flaws(tool.parameters.value):
        yield f"{name!r} is unreliable: its schema {flaw}"


def _compare_with_pins(
    check: ServerCheck,
    source: MCPSource,
    sources: Sequence[MCPSource],
    pins: PinStore,
    setup: Setup,
) -> tuple[ServerCheck, Sequence[Tool]]:
    """Add the tools that a gateway would hold, and return those that it would not."""
    definitions = source.definitions
    if check.status != "ready":
        return check, ()
    identity, trusts_first = ServerIdentity.of(source.server), not setup.options.require_approval
    offers = tuple(build_offers(definitions, find_shadows(source, sources, setup.own_tool_names)))
    try:
        ledger = pins.ledger_for(identity)
        compared = ledger.record_offers(offers, trusts_first=trusts_first)
        # Saved, so that `toolscout pins approve` knows the tools that are reported as held. But
        # saving must not approve anything, as it would on first contact with a trusted server.
        if compared != ledger and (ledger.is_known or not trusts_first):
            _, compared = pins.record_offers(identity, offers, trusts_first=trusts_first)
    except StoreError as error:
        return replace(check, problems=(*check.problems, str(error)), held={}), ()
    held = {p.tool: p.note or p.standing for p in compared.pins_on_hold if p.tool in definitions}
    available = [d.tool for d in definitions.values() if d.local not in held]
    return replace(check, held=held, label=pins.shortest_label(ledger)), available


def _build_report(
    servers: Sequence[ServerCheck], tools: Iterable[Tool], setup: Setup
) -> CheckReport:
    counter = default_counter()
    catalog = Catalog(tools)
    folder = setup.config.state_folder
    tokens_saved = Savings.of(folder, setup.path, counter).total
    return CheckReport(
        servers=tuple(servers),
        warnings=(
            *setup.document.warnings,
            *_profile_warnings(servers, catalog, setup),
            *_overlay_warnings(servers, catalog, setup),
            *GatewayProcesses(folder / RUNNING_FOLDER).restart_warnings(setup),
        ),
        tools=len(catalog),
        counter=counter.name,
        tokens_everything=catalog_tokens(catalog, counter),
        tokens_shown=view_tokens(catalog, setup, counter),
        tokens_saved=tokens_saved,
    )


def _profile_warnings(
    servers: Iterable[ServerCheck], catalog: Catalog, setup: Setup
) -> Iterator[str]:
    """Names in the options of the profile that select nothing, once every server is known."""
    if all(server.status in ("ready", "disabled") for server in servers) and (
        unmatched := setup.profile.describe_unmatched_names(catalog)
    ):
        yield f"[profile]: {unmatched}"


def _overlay_warnings(
    servers: Iterable[ServerCheck], catalog: Catalog, setup: Setup
) -> Iterator[str]:
    """Why the overlay cannot be used, and entries of it that fit no tool."""
    path = setup.toolbox_config.overlay
    if path is None:
        return
    try:
        overlay = read_overlay(path)
    except ConfigError as error:
        yield f"overlay: {error}"
        return
    # The tools of these are not known, or a gateway would not offer them.
    unlisted = {s.server for s in servers if s.status != "ready" or s.held}
    for problem in overlay.find_problems(catalog, unlisted=unlisted):
        yield f"overlay: {problem}"


def view_tokens(catalog: Catalog, setup: Setup, counter: TokenCounter) -> int:
    """What a client's first view of a catalog costs, with its instructions."""
    first_view = view(setup.profile, catalog, SessionState("check"), target="mcp")
    return counter.count(first_view.text) + counter.count(first_view.instructions)
