"""How to reach each MCP server, read from the `mcpServers` JSON that clients already use."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from ....errors import ConfigError

Transport = Literal["stdio", "http", "sse"]
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Server:
    """One server of the configuration. Its secrets stay out of every text made from it."""

    name: str
    transport: Transport
    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = field(default="", repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


def read(path: str | Path) -> tuple[Server, ...]:
    """The servers of an `mcpServers` file, in its order."""
    try:
        document: object = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"Cannot read {path}: {error.strerror}.", hint="Check the path given with --config."
        ) from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}.") from error
    entries = _object(_object(document).get("mcpServers"))
    if not entries:
        raise ConfigError(f"{path} names no servers.", hint='Add an object "mcpServers".')
    return tuple(_server(name, _object(entry)) for name, entry in entries.items())


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _server(name: str, entry: dict[str, Any]) -> Server:
    def full(text: str) -> str:
        return expand(text, os.environ, server=name)

    url = full(str(entry.get("url", "")))
    kind = str(entry.get("type", ""))
    transport: Transport = "stdio" if not url else ("sse" if kind == "sse" else "http")
    return Server(
        name=name,
        transport=transport,
        command=full(str(entry.get("command", ""))),
        args=tuple(full(str(a)) for a in entry.get("args", ())),
        env={k: full(str(v)) for k, v in _object(entry.get("env")).items()},
        cwd=full(str(entry.get("cwd", ""))),
        url=url,
        headers={k: full(str(v)) for k, v in _object(entry.get("headers")).items()},
    )


def expand(text: str, variables: Mapping[str, str], *, server: str) -> str:
    """Replace `${NAME}` and `${NAME:-default}`; an unset variable is an error, never empty."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        default: str | None = match.group(2)
        found = variables.get(name, default)
        if found is None:
            raise ConfigError(
                f"Server {server!r} needs the environment variable {name}, which is not set.",
                hint=f"Set {name}, or write ${{{name}:-default}}.",
            )
        return found

    return _VARIABLE.sub(value, text)
