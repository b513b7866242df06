"""Servers: state, log, tools and pins; approve, start, stop, log in, add and remove."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.responses import Response

from ...errors import ConfigError
from ...gateway.config_file.server_file import ServerFile, restrict_to_owner
from ...gateway.config_file.server_options import build_entry, secret_advice
from ...gateway.operations.server_check import NewServerReport, check_new_server
from ...gateway.upstream.pin_decisions import PinChoice, decide_pins
from ...gateway.upstream.pinned_source import PinnedSource
from ...sources.mcp.login import check_login_target
from ...sources.mcp.servers import Server
from ..html import tag
from ..page import ConsolePage, act, get
from ..server_reader import (
    find_server,
    held_pins,
    read_decisions,
    read_log_lines,
    read_report,
    read_servers,
    read_tools,
)
from ..server_view import (
    PATH,
    render_actions,
    render_add_form,
    render_decisions,
    render_held,
    render_list,
    render_log,
    render_state,
    render_tools,
    server_path,
)
from ..visit import Visit

# The gateway looks for edits of its configuration every second.
_APPLY_SECONDS = 5.0
_POLL_SECONDS = 0.05
CLIENT = "console"
"""What rows of the journal name as the program."""


async def show_servers(visit: Visit) -> Response:
    """All servers, and a form to add one."""
    servers = await asyncio.to_thread(read_servers, visit.gateway)
    add = tag("details", None, tag("summary", None, "Add a server"), render_add_form(visit))
    return visit.show(
        "Servers", render_list(servers), add if visit.may_act else None, visit.login_hint()
    )


async def show_server(visit: Visit) -> Response:
    """One server with everything that is known of it."""
    server = _require_server(visit)
    gateway, name = visit.gateway, server.name
    report = await asyncio.to_thread(read_report, gateway, name)
    decisions = await asyncio.to_thread(read_decisions, gateway, name)
    lines = await asyncio.to_thread(read_log_lines, gateway, name)
    source = gateway.upstreams.sources.get(name)
    return visit.show(
        name,
        render_state(name, server.location, report, is_settled=_is_settled(visit, report, name)),
        render_actions(
            visit,
            name,
            status=str(report.get("status", "")),
            has_pins=source is not None and bool(source.ledger.pins),
        ),
        visit.login_hint(),
        await _show_tools(visit, source) if source is not None else None,
        tag("h2", None, "Decisions"),
        render_decisions(decisions),
        tag("h2", None, "Log"),
        render_log(lines),
    )


async def _show_tools(visit: Visit, source: PinnedSource) -> list[Any]:
    text, number = visit.query.get("find", "").strip(), visit.query.get("page", "")
    page = await asyncio.to_thread(
        read_tools,
        visit.gateway,
        source,
        text=text,
        number=int(number) if number.isdecimal() else 1,
    )
    return [
        tag("h2", None, "Held for approval"),
        render_held(visit, source.name, source.ledger, held_pins(source)),
        tag("h2", None, "Tools"),
        render_tools(visit, source.name, page, text),
    ]


async def show_state(visit: Visit) -> Response:
    """The state alone, for a page that waits until the server has started."""
    server = _require_server(visit)
    report = await asyncio.to_thread(read_report, visit.gateway, server.name)
    is_settled = _is_settled(visit, report, server.name)
    part = render_state(server.name, server.location, report, is_settled=is_settled)
    response = visit.show_part(part)
    if is_settled:
        # The other parts of the page depend on it.
        response.headers["HX-Refresh"] = "true"
    return response


def _is_settled(visit: Visit, report: Mapping[str, Any], name: str) -> bool:
    """Whether a server has started, or failed to, and its tools were compared with their pins."""
    source = visit.gateway.upstreams.sources.get(name)
    if source is None or report.get("status") != "ready":
        return report.get("status") != "starting"
    return source.comparison.definitions is source.inner.definitions


def _require_server(visit: Visit) -> Server:
    name = visit.request.path_params["name"]
    server = find_server(visit.gateway, name)
    if server is None:
        raise ConfigError(f"There is no server {name!r}.", hint="It may have been removed.")
    return server


# Pins


async def approve(visit: Visit) -> Response:
    """Accept what the server offers now: one tool, or all that are new or changed."""
    return await _decide(visit, "approved")


async def revoke(visit: Visit) -> Response:
    """Hold a tool back, also if it changes later."""
    if not visit.form.get("tool"):
        raise ConfigError("Name the tool to revoke.")
    return await _decide(visit, "revoked")


async def _decide(visit: Visit, choice: PinChoice) -> Response:
    server, gateway = _require_server(visit), visit.gateway
    tool, seen = visit.form.get("tool", ""), visit.form.get("seen", "")
    if choice == "approved" and not seen:
        raise ConfigError("The form does not say what was approved.", hint="Load the page again.")
    source = gateway.upstreams.sources.get(server.name)
    if source is None:
        raise ConfigError(f"{server.name} is stopped.", hint="Start it first.")
    done = await asyncio.to_thread(
        decide_pins,
        gateway.upstream.pins,
        source.ledger.label,
        (tool,) if tool else (),
        choice,
        find_unmet=lambda: (gateway.setup, server),
        seen=seen,
    )
    for event in done.events(principal=visit.identity.name, client=CLIENT):
        gateway.emit(event)
    await gateway.recheck_pins()
    what = ", ".join(done.changed[:10]) or "nothing"
    more = f" and {len(done.changed) - 10:,} more" if len(done.changed) > 10 else ""
    return visit.go_to(server_path(server.name), notice=f"{choice.capitalize()}: {what}{more}.")


# The list of servers


async def start(visit: Visit) -> Response:
    """Enable a server that was stopped, and start it now."""
    return await _switch(visit, is_enabled=True)


async def stop(visit: Visit) -> Response:
    """Disable a server: it stays in the list, and is not started."""
    return await _switch(visit, is_enabled=False)


async def _switch(visit: Visit, *, is_enabled: bool) -> Response:
    server, file = _require_server(visit), ServerFile(visit.gateway.setup.path)
    label = file.require(server.name)
    await asyncio.to_thread(file.switch, label, is_enabled=is_enabled)
    sources = visit.gateway.upstreams.sources
    await _wait_until(lambda: (server.name in sources) == is_enabled)
    if is_enabled:
        # One that has listed its tools before would wait for a call.
        await visit.gateway.upstreams.start(server.name)
    verb = "started" if is_enabled else "stopped"
    return visit.go_to(server_path(server.name), notice=f"{server.name} was {verb}.")


async def remove(visit: Visit) -> Response:
    """Remove a server from the list, and the approvals of its tools if that is wanted."""
    server, gateway = _require_server(visit), visit.gateway
    file = ServerFile(gateway.setup.path)
    await asyncio.to_thread(file.remove, file.require(server.name))
    await _wait_until(lambda: find_server(gateway, server.name) is None)
    notice = f"{server.name} is removed."
    if visit.form.get("forget") == "yes":
        await asyncio.to_thread(gateway.upstream.pins.forget, server.name)
        notice += " The approvals of its tools are deleted."
    return visit.go_to(PATH, notice=notice)


async def add(visit: Visit) -> Response:
    """Add a server, after a first start that shows that it works."""
    form, file = visit.form, ServerFile(visit.gateway.setup.path)
    name, replaces = form.get("name", "").strip(), form.get("force") == "yes"
    entry = build_entry(
        name,
        words=_split_command(form.get("command", "")),
        url=form.get("url", "").strip(),
        is_sse=form.get("sse") == "yes",
        headers=_lines(form.get("headers", "")),
        variables=_lines(form.get("variables", "")),
        cwd=form.get("cwd", "").strip(),
    )
    advice = list(secret_advice(name, entry))
    known = await asyncio.to_thread(file.find, name)
    if known is not None and not replaces:
        raise ConfigError(
            f"There is already a server {known!r}.", hint="Replace it, or choose another name."
        )
    is_checked = form.get("no_check") != "yes"
    report = await check_new_server(name, entry, file.path) if is_checked else None
    await asyncio.to_thread(file.put, name, entry, replaces=replaces)
    if advice:
        restrict_to_owner(file.path)
    await _wait_until(lambda: name in visit.gateway.upstreams.sources)
    await visit.gateway.upstreams.start(name)
    notice = " ".join([f"{name} is added.", *_describe_check(report), *advice])
    return visit.go_to(server_path(name), notice=notice)


def _describe_check(report: NewServerReport | None) -> list[str]:
    if report is None:
        return []
    tools = f"{report.check.tools} tool{'' if report.check.tools == 1 else 's'}"
    return [f"It works, with {tools} of {report.own.loaded:,} tokens."]


def _split_command(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(
            f"The command cannot be read: {error}.", hint="Close the quotation marks."
        ) from error


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


async def _wait_until(is_applied: Callable[[], bool]) -> None:
    """Wait until the gateway uses an edit; a configuration with other mistakes may prevent it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_APPLY_SECONDS):
            while not is_applied():  # noqa: ASYNC110 -- no event
                await asyncio.sleep(_POLL_SECONDS)


async def log_in(visit: Visit) -> Response:
    """A link to the page of the gateway that starts the login at the server."""
    server = _require_server(visit)
    check_login_target(server)
    base = (visit.gateway.setup.public_url or str(visit.request.base_url)).rstrip("/")
    link = visit.gateway.upstream.logins.link(base, server.name, "")
    # A link, because a form may lead only to this gateway, and the next page is of the server.
    opened = {"href": link, "target": "_blank", "rel": "noopener"}
    return visit.show(
        f"Log in to {server.name}",
        tag("p", None, tag("a", opened, f"Open the login of {server.name}")),
        tag("p", {"class": "muted"}, "It opens in a new window. The server starts afterwards."),
        tag("p", None, tag("a", {"href": server_path(server.name)}, "Back to the server")),
    )


PAGE = ConsolePage(
    "Servers",
    "/servers",
    (
        get("", show_servers),
        act("", add),
        get("/{name}", show_server),
        get("/{name}/state", show_state),
        act("/{name}/approve", approve),
        act("/{name}/revoke", revoke),
        act("/{name}/start", start),
        act("/{name}/stop", stop),
        act("/{name}/remove", remove),
        act("/{name}/login", log_in),
    ),
)
