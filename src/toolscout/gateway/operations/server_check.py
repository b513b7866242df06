"""Check a server before it is added: start it once, and count what its tools cost."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from ...config import Config
from ...errors import ConfigError
from ...program import command_line
from ...sources.mcp.server_config import ConfigDocument
from ...sources.mcp.server_entry import build_server
from ...sources.mcp.servers import Server
from ..settings import GatewaySettings
from ..setup import Setup
from .doctor import ServerCheck, check_servers
from .known_servers import TokenCosts, count_costs, read_known_servers


@dataclass(frozen=True, slots=True)
class NewServerReport:
    """A new server that works: its check, and the tokens of its tools and of all known tools."""

    check: ServerCheck
    own: TokenCosts
    total: TokenCosts


async def check_new_server(name: str, entry: dict[str, Any], path: Path) -> NewServerReport:
    """Start a server once; raise an error with a hint if it does not work.

    The entry of one that starts slowly gets the time that it needs.
    """
    setup = await asyncio.to_thread(_read_setup, path)
    server = build_server(name, entry, os.environ, config_folder=path.parent)
    alone = _setup_of(setup, server.with_download_time())
    (check,) = (await check_servers(alone)).servers
    if check.status != "ready":
        hint = "Fix that and try again, or add it without a check: --no-check."
        if check.status == "needs login":
            hint = f"Add it with --no-check, then run {command_line('login', name)}."
        raise ConfigError(f"{name} does not work, so it is not added: {check.reason}", hint=hint)
    if check.took_ms > 1_000 * server.limits.connect_timeout_seconds:
        # Twice as long, in full tens: the next start may be slower.
        entry["connect_timeout_seconds"] = 10 * ceil(2 * check.took_ms / 10_000)
    own, total = await asyncio.to_thread(_count, server, alone, setup)
    return NewServerReport(check, own, total)


def _count(server: Server, alone: Setup, setup: Setup) -> tuple[TokenCosts, TokenCosts]:
    own = [tool for known in read_known_servers(alone) for tool in known.available]
    others = [
        tool
        for known in read_known_servers(setup)
        if known.name != server.name and known.is_enabled
        for tool in known.available
    ]
    return count_costs(own, setup), count_costs([*others, *own], setup)


def _read_setup(path: Path) -> Setup:
    if path.is_file():
        return Setup.read(path)
    # Only TOML has settings, and without a file there are none.
    return Setup(path, ConfigDocument((), {}), GatewaySettings(), Config.read(None))


def _setup_of(setup: Setup, server: Server) -> Setup:
    """The configuration with only this server in it."""
    settings = setup.settings.model_copy(update={"openapi": {}})
    document = replace(setup.document, servers=(server,), warnings=())
    return replace(setup, document=document, settings=settings)
