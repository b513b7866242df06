"""`toolscout check`: connect to every server and report what works, what does not, and why."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...catalog.catalog import Catalog
from ...catalog.tool import Tool
from ...disclosure.session_state import SessionState
from ...disclosure.view import view
from ...errors import ConfigError, SourceError, StoreError
from ...events import ignore
from ...sources.mcp.listing_cache import ListingCache
from ...sources.mcp.mcp_source import MCPSource
from ...sources.mcp.oauth_tokens import OAuthTokenStore
from ...sources.openapi.api_source import API, OpenAPISource
from ...sources.server_status import OverallStatus, ServerStatus, overall_status
from ...store.processes import RUNNING_FOLDER
from ...tokens import TokenCounter, default_counter
from ...toolbox.feature_settings import build_features, check_feature_paths
from ...toolbox.features import Features
from ...toolbox.live_overlay import read_overlay
from ..setup import Setup
from ..upstream.held_tools import pins_command
from ..upstream.pin_factory import open_pins
from ..upstream.pin_store import PinStore, ServerIdentity
from ..upstream.pinned_source import build_offers, find_shadows
from .check_outcomes import CheckOutcomes
from .definition_problems import definition_problems, schema_problems
from .reload import GatewayProcesses
from .savings import catalog_tokens
from .savings_total import read_savings

EXIT_CODES: Mapping[OverallStatus, int] = {"ready": 0, "degraded": 10, "failing": 11}


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

    def describe_held_tools(self) -> Iterator[str]:
        """One sentence for each tool that is held, with the command that approves it."""
        for tool, why in (self.held or {}).items():
            approve = pins_command("approve", self.label, tool)
            yield f"{tool} is held for approval ({why.rstrip('.')}). Approve it: {approve}"


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
    def verdict(self) -> OverallStatus:
        """`ready` without problems, `failing` if no tool can be used, else `degraded`."""
        has_problems = any(s.held or s.problems for s in self.servers) or bool(self.warnings)
        return overall_status(
            [server.status for server in self.servers],
            tools=self.tools,
            has_problems=has_problems,
        )

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
    listings = ListingCache.of(config)
    pins = open_pins(config)
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
        outcomes = CheckOutcomes.of(config)
        for check, server in zip(checks, setup.document.servers, strict=True):
            outcomes.save(server, check.status, check.reason)
        # After all servers are listed: a tool may shadow one of any other server.
        compared = [
            _compare_with_pins(check, source, sources, pins, setup)
            for check, source in zip(checks, sources, strict=True)
        ]
    finally:
        await asyncio.gather(*(s.close() for s in sources))
        grants.close()
        listings.close()
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
        return ServerCheck(api.name, "failing", api.redact(str(error)), place), ()
    finally:
        await source.close()
    took_ms = round((time.perf_counter() - started) * 1_000, 1)
    check = ServerCheck(
        api.name,
        "ready",
        place=place,
        protocol="OpenAPI",
        tools=len(tools),
        problems=(*source.problems, *(p for t in tools for p in schema_problems(t.local_name, t))),
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
        status = "needs login" if source.state.status == "needs login" else "failing"
        return ServerCheck(source.name, status, reason, server.location)
    state = source.state
    return ServerCheck(
        source.name,
        "ready",
        place=server.location,
        protocol=state.protocol,
        tools=state.tools,
        prompts=state.prompts,
        resources=state.resources,
        problems=(*state.problems, *_flatten(definition_problems(server, source.definitions))),
        took_ms=round((time.perf_counter() - started) * 1_000, 1),
    )


def _flatten(problems: Mapping[str, Iterable[str]]) -> Iterator[str]:
    return (problem for each in problems.values() for problem in each)


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
        tokens_saved=read_savings(setup.config, setup.path),
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
    # Rules add no tool to a view, and would be watched.
    config = setup.toolbox_config.model_copy(update={"rules": ()})
    profile = replace(setup.profile, rules=())
    features = build_features(config, Features(), profile=profile, sink=ignore)
    extras = [tool for _, tool in features.visible_tools.values()]
    first_view = view(profile, catalog, SessionState("check"), target="mcp", extras=extras)
    return counter.count(first_view.text) + counter.count(first_view.instructions)
