"""Where MCP clients keep their servers, and how each of them writes one down."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, cast

from ..catalog.sources.mcp.loading import plain_json
from ..errors import ConfigError

Kind = Literal["json", "toml"]
_INPUT = re.compile(r"\$\{input:([^}]+)\}")
_HOME = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\]):8765/mcp/?$")
_OWN = ("toolscout", "toolscout.cli")
_LEFT = {
    "envFile": "envFile is not taken over: name its variables in env, as ${NAME}, and set them"
    " where the gateway starts.",
    "oauth": "its login is not taken over: log in again with toolscout login.",
}


@dataclass(frozen=True, slots=True)
class Client:
    """One client: its name, where its file may be, and the key its servers are under."""

    name: str
    title: str
    places: tuple[str, ...]
    key: str = "mcpServers"
    kind: Kind = "json"
    keys_by_project: bool = False


_SUPPORT = {
    "darwin": "~/Library/Application Support",
    "win32": "${APPDATA}",
}.get(sys.platform, "~/.config")
_DEVIN = "${APPDATA}" if sys.platform == "win32" else "~/.config"

CLIENTS: tuple[Client, ...] = (
    Client("claude-desktop", "Claude Desktop", (f"{_SUPPORT}/Claude/claude_desktop_config.json",)),
    Client("claude-code", "Claude Code", ("~/.claude.json", ".mcp.json"), keys_by_project=True),
    Client("cursor", "Cursor", ("~/.cursor/mcp.json", ".cursor/mcp.json")),
    Client(
        "vscode", "VS Code", (f"{_SUPPORT}/Code/User/mcp.json", ".vscode/mcp.json"), key="servers"
    ),
    Client(
        "windsurf",
        "Windsurf",
        (
            "~/.codeium/windsurf/mcp_config.json",
            f"{_DEVIN}/devin/mcp_config.json",
            ".devin/mcp_config.json",
        ),
    ),
    Client(
        "codex",
        "Codex",
        ("~/.codex/config.toml", ".codex/config.toml"),
        key="mcp_servers",
        kind="toml",
    ),
)


def client(name: str) -> Client:
    """The client of this name."""
    for known in CLIENTS:
        if known.name == name:
            return known
    raise ConfigError(
        f"There is no client {name!r}.", hint=f"Known: {', '.join(c.name for c in CLIENTS)}."
    )


def places(client: Client, *, home: Path, folder: Path) -> Iterator[Path]:
    """The client's files that exist, the user's before the project's."""
    seen: set[Path] = set()
    for place in client.places:
        text = os.path.expandvars(place.replace("~/", f"{home}/", 1))
        path = Path(text) if Path(text).is_absolute() else folder / text
        if path.is_file() and path.resolve() not in seen:
            seen.add(path.resolve())
            yield path


def document(path: Path, kind: Kind) -> dict[str, Any]:
    """A client's file as plain data; comments and trailing commas are allowed in JSON."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        found: object = tomllib.loads(text) if kind == "toml" else json.loads(plain_json(text))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}.", hint="Mend it, or leave this client out."
        ) from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} does not hold an object.")
    return cast("dict[str, Any]", found)


def entries(client: Client, found: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The servers in a client's file, in the form that the gateway reads; names may repeat."""
    tables = [found.get(client.key)]
    if client.keys_by_project:
        projects = _table(found.get("projects"))
        tables += [_table(p).get(client.key) for p in projects.values()]
    for table in tables:
        for name, entry in _table(table).items():
            if isinstance(entry, dict):
                yield name, _WRITERS.get(client.name, _same)(cast("dict[str, Any]", entry))


def is_gateway(entry: Mapping[str, Any], *, name: str = "") -> bool:
    """Whether an entry is the gateway itself: its command, its address, or a bridge to that."""
    args = [str(arg) for arg in entry.get("args") or ()]
    words = [Path(str(entry.get("command", ""))).stem, *args]
    # Started by itself, or through uvx, pipx, python -m and the like.
    if any(a in _OWN and b == "serve" for a, b in pairwise(words)):
        return True
    urls = [str(entry[key]) for key in ("url", "serverUrl", "httpUrl") if entry.get(key)]
    return any(_leads_home(url) for url in (*urls, *args)) or (name == "toolscout" and bool(urls))


def _leads_home(text: str) -> bool:
    return bool(_HOME.match(text))


def left_behind(entry: Mapping[str, Any]) -> Iterator[str]:
    """What an entry relies on that only its client has, and what to do about it."""
    yield from (remedy for key, remedy in _LEFT.items() if entry.get(key))


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _same(entry: dict[str, Any]) -> dict[str, Any]:
    return dict(entry)


def _from_vscode(entry: dict[str, Any]) -> dict[str, Any]:
    """What VS Code would ask for becomes a variable of the environment."""
    return cast("dict[str, Any]", _without_inputs(entry))


def _without_inputs(value: Any) -> Any:
    if isinstance(value, str):
        return _INPUT.sub(lambda m: f"${{{re.sub(r'[^A-Za-z0-9]+', '_', m[1]).upper()}}}", value)
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {k: _without_inputs(v) for k, v in table.items()}
    if isinstance(value, list):
        return [_without_inputs(v) for v in cast("list[Any]", value)]
    return value


def _from_codex(entry: dict[str, Any]) -> dict[str, Any]:
    """Codex names variables in place of values, and seconds by other names."""
    entry = dict(entry)
    headers = {**_table(entry.pop("http_headers", None))}
    headers |= {h: f"${{{v}}}" for h, v in _table(entry.pop("env_http_headers", None)).items()}
    if variable := entry.pop("bearer_token_env_var", None):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    env = {**_table(entry.pop("env", None))}
    for variable in entry.pop("env_vars", ()):
        # Newer versions say where it comes from, too: {name = "KEY", source = "local"}.
        name = str(_table(variable).get("name") or variable)
        env[name] = f"${{{name}}}"
    if isinstance(limit := entry.pop("startup_timeout_ms", None), int | float):
        entry.setdefault("startup_timeout_sec", limit / 1_000)
    for theirs, ours in (
        ("startup_timeout_sec", "connect_timeout_seconds"),
        ("tool_timeout_sec", "call_timeout_seconds"),
    ):
        if theirs in entry:
            entry[ours] = entry.pop(theirs)
    return entry | ({"headers": headers} if headers else {}) | ({"env": env} if env else {})


_WRITERS: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "vscode": _from_vscode,
    "codex": _from_codex,
}
