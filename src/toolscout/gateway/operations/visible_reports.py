"""Health and metrics as far as a caller may know them: of its own servers, tools and counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ...catalog.catalog import Catalog
from ...sources.mcp.content_access import (
    visible_prompts,
    visible_resources,
    visible_templates,
)
from ...sources.mcp.mcp_source import MCPSource, ServerState
from ...sources.server_status import overall_status
from ...toolbox.server_content import CONTENT, RuleAccess
from ..access import AccessRule
from ..gateway import Gateway
from ..identity.roles import Identity, is_admin
from ..setup import Setup
from ..upstream.pinned_source import PinnedSource


def report_rule(setup: Setup, caller: Identity) -> AccessRule | None:
    """The rule for the reports that a caller gets; None if it may see everything."""
    rule = setup.rule_for(caller)
    return None if is_admin(caller) or rule is None or rule.is_unlimited else rule


def visible_health(gateway: Gateway, rule: AccessRule) -> dict[str, Any]:
    """The body of `GET /health` for a caller with limits."""
    servers = {
        source.name: _visible_server(source, rule) for source in _visible_sources(gateway, rule)
    }
    sources = list(gateway.upstreams.sources.values())
    tools = usable_tools(gateway.box.visible_catalog(rule), sources)
    status = overall_status(
        [row["status"] for row in servers.values()],
        tools=tools,
        has_problems=any(row["held"] for row in servers.values()),
        # Without a server that it may see, there is nothing for this caller to fail.
        is_waiting=not servers or any(not row["tools"] for row in servers.values()),
    )
    servers |= {
        server.name: {"status": "disabled", "tools": 0, "held": 0}
        for server in gateway.setup.document.servers
        if server.is_disabled and rule.admits_unlisted(server.name)
    }
    return {
        "status": status if gateway.is_ready else "starting",
        "live": True,
        "ready": gateway.is_ready,
        "tools": tools,
        "servers": servers,
    }


def visible_metrics(gateway: Gateway, rule: AccessRule) -> str:
    """The body of `GET /metrics` for a caller with limits."""
    sources = list(_visible_sources(gateway, rule))
    return gateway.operations.metrics.render(
        [(source.name, source.inner.state.status) for source in sources],
        {"tools": len(gateway.box.visible_catalog(rule))},
        # Calls are counted by server. Of a server that is visible in part, some are hidden.
        only_servers={source.name for source in sources if _is_whole(source.inner, rule)},
    )


def usable_tools(catalog: Catalog, sources: Iterable[PinnedSource]) -> int:
    """How many tools of servers and APIs can be called, without those for prompts and the like."""
    # Tools of a server whose pins were damaged meanwhile are still in the catalog.
    damaged = {source.name for source in sources if source.problem}
    usable = (tool for tool in catalog if tool.server not in damaged)
    return sum(catalog.source_of(tool.name) != CONTENT for tool in usable)


def server_report(state: ServerState, held: int, *, problems: Sequence[str] = ()) -> dict[str, Any]:
    """The state of one server, as `GET /health` has it; `problems` are added to its own."""
    state = replace(state, problems=(*state.problems, *problems))
    # Empty fields are left out, except those that a reader expects in every entry.
    row = {k: v for k, v in asdict(state).items() if k != "server" and v not in ("", 0, 0.0, ())}
    row.pop("failing_seconds", None)
    if state.failures:
        since = datetime.now(UTC) - timedelta(seconds=state.failing_seconds)
        row["since"] = since.isoformat(timespec="seconds")
    return {**row, "status": state.status, "tools": state.tools, "held": held}


def _visible_sources(gateway: Gateway, rule: AccessRule) -> Iterator[PinnedSource]:
    access = RuleAccess(rule)
    sources = gateway.upstreams.sources.values()
    return (source for source in sources if access.admits_server(source.inner))


def _visible_server(source: PinnedSource, rule: AccessRule) -> dict[str, Any]:
    inner, access = source.inner, RuleAccess(rule)
    state, is_whole = inner.state, _is_whole(inner, rule)
    state = replace(
        state,
        tools=sum(rule(definition.tool) for definition in inner.definitions.values()),
        prompts=len(visible_prompts(inner, access)),
        resources=len(visible_resources(inner, access)) + len(visible_templates(inner, access)),
        # Problems name tools that were left out, and running calls may be of any tool.
        problems=(),
        in_flight=state.in_flight if is_whole else 0,
    )
    return server_report(state, sum(map(rule, source.uncallable_tools())))


def _is_whole(source: MCPSource, rule: AccessRule) -> bool:
    """Whether a caller may see everything that a server lists."""
    access, listing = RuleAccess(rule), source.listing
    if listing is None or not all(rule(d.tool) for d in source.definitions.values()):
        return False
    counts = (len(listing.prompts), len(listing.resources), len(listing.templates))
    return counts == (
        len(visible_prompts(source, access)),
        len(visible_resources(source, access)),
        len(visible_templates(source, access)),
    )
