"""Read MCP servers from the `mcpServers` JSON that MCP clients use, or from TOML."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ...errors import ConfigError
from ...program import command_line
from .config import load_config_file
from .server_entry import KNOWN_KEYS, build_server
from .servers import Server
from .variables import find_exposed_files

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """A configuration file: its servers, its other sections, and warnings for the user."""

    servers: tuple[Server, ...]
    rest: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    is_native: bool = False
    """Whether it is written for Toolscout alone, so that it has no keys of other programs."""
    folder: Path | None = None
    """Where the file is; files of secrets are relative to it."""


def read_server_config(
    path: str | Path,
    *,
    variables: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> ConfigDocument:
    """Read a `.toml` or `mcpServers` JSON file; a bad entry gets a problem, a bad file raises."""
    document = load_config_file(path)
    names = [key for key in ("mcpServers", "servers", "mcp_servers") if key in document]
    if not names and "openapi" not in document:
        raise ConfigError(
            f"{path} contains no servers.",
            hint='Add an object "mcpServers", as MCP clients have it, or a TOML table [servers].',
        )
    warnings: list[str] = []
    entries = _merge_tables({f"{path}: {name}": document[name] for name in names})
    known = os.environ if variables is None else variables
    own_folder = Path(path).parent
    servers = tuple(_build_servers(entries, known, warnings, (folder, own_folder)))
    warnings += dict.fromkeys(find_exposed_files(document, known, folder=own_folder))
    rest = {key: value for key, value in document.items() if key not in names}
    is_native = Path(path).suffix == ".toml" and names in ([], ["servers"])
    return ConfigDocument(servers, rest, tuple(warnings), is_native, own_folder)


def _merge_tables(tables: Mapping[str, object]) -> dict[str, Any]:
    """Merge the server tables of a file, which may have those of several clients."""
    merged: dict[str, Any] = {}
    for where, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(
                f"{where} must be an object of servers by name.",
                hint='Write {"NAME": {"command": …}}, or add a server with'
                f" {command_line('add')}.",
            )
        entries = cast("dict[str, Any]", table)
        if duplicates := sorted(merged.keys() & entries.keys()):
            raise ConfigError(
                f"{where} has a server {duplicates[0]!r}, and so has another table of the file.",
                hint="Rename one of them.",
            )
        merged |= entries
    return merged


def _build_servers(
    entries: dict[str, Any],
    variables: Mapping[str, str],
    warnings: list[str],
    folders: tuple[Path | None, Path],
) -> Iterator[Server]:
    folder, config_folder = folders
    labels: dict[str, str] = {}
    for label, entry in entries.items():
        name = normalise_server_name(label)
        if name in labels:
            raise ConfigError(
                f"Servers {labels[name]!r} and {label!r} would both be called {name!r}.",
                hint="Rename one of them.",
            )
        labels[name] = label
        if name != label:
            warnings.append(f"Server {label!r} is called {name!r} here.")
        if not isinstance(entry, dict):
            yield Server(name=name, problem="Its entry is not an object.")
            continue
        entry = cast("dict[str, Any]", entry)
        unknown = sorted(set(entry) - KNOWN_KEYS)
        if unknown:
            warnings.append(f"Server {name!r}: unknown keys ignored: {', '.join(unknown)}.")
        server = build_server(name, entry, variables, folder=folder, config_folder=config_folder)
        if server.command and server.url:
            used, other = ("command", "url") if server.transport == "stdio" else ("url", "command")
            warnings.append(
                f"Server {name!r} has a command and a url: {used} is used, not {other}."
            )
        yield server


def normalise_server_name(label: str) -> str:
    """A server's name as a prefix of tool names; `__` is reserved to separate server and tool."""
    return re.sub(r"__+", "_", _UNSAFE.sub("_", label)).strip("_") or "server"
