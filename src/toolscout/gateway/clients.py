"""Where MCP clients keep their servers, and what of them can be taken over."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, cast

from ..catalog.sources.mcp.loading import plain_json
from ..errors import ConfigError
from .dialects import list_of, table_of, written_by

Kind = Literal["json", "toml"]
_HOME = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\]):8765/mcp/?$")
_OWN = ("toolscout", "toolscout.cli")
_LEFT = {
    "envFile": "envFile is not taken over: name its variables in env, as ${NAME}, and set them"
    " where the gateway starts.",
    "oauth": "its login is not taken over: log in again with toolscout login.",
}
_SHAPES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "command": (str, "a text"),
    "url": (str, "a text"),
    "serverUrl": (str, "a text"),
    "httpUrl": (str, "a text"),
    "args": (list, "a list"),
    "env": (dict, "an object"),
    "headers": (dict, "an object"),
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


@dataclass(frozen=True, slots=True)
class Found:
    """One server of a client's file, as the gateway reads it; or what is wrong with it."""

    name: str
    entry: Mapping[str, Any]
    flaw: str = ""


@dataclass(frozen=True, slots=True)
class _Table:
    """Servers by name, the project they are for, and which of them the user has switched off."""

    servers: Any
    project: Path | None = None
    off: frozenset[str] = frozenset()


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
        "vscode",
        "VS Code",
        (
            f"{_SUPPORT}/Code/User/mcp.json",
            f"{_SUPPORT}/Code/User/settings.json",
            ".vscode/mcp.json",
            ".vscode/settings.json",
        ),
        key="servers",
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
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}.", hint="Mend it, or leave this client out."
        ) from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} does not hold an object.")
    return cast("dict[str, Any]", found)


def keys(client: Client, path: Path) -> tuple[str, ...]:
    """Where in a client's file its servers are: in general settings they have a table above."""
    return ("mcp", client.key) if path.name == "settings.json" else (client.key,)


def entries(client: Client, path: Path, *, home: Path, folder: Path) -> Iterator[Found]:
    """The servers in a client's file; names may repeat."""
    for table in _tables(client, path, home=home, folder=folder):
        for name, entry in table_of(table.servers).items():
            if entry is not None:
                yield _found(client, name, entry, table)


def _tables(client: Client, path: Path, *, home: Path, folder: Path) -> Iterator[_Table]:
    found = document(path, client.kind)
    servers: Any = found
    for key in keys(client, path):
        servers = table_of(servers).get(key)
    is_of_project = folder != home and any(path == folder / p for p in client.places)
    yield _Table(
        servers,
        folder if is_of_project else None,
        frozenset(_refused(home, folder)) if path.name == ".mcp.json" else frozenset(),
    )
    if client.keys_by_project:
        for place, project in table_of(found.get("projects")).items():
            off = frozenset(_names(table_of(project).get("disabledMcpServers")))
            yield _Table(table_of(project).get(client.key), Path(place), off)


def _refused(home: Path, folder: Path) -> Iterator[str]:
    """The servers of a project's `.mcp.json` that the user does not want in Claude Code."""
    for path in (
        home / ".claude/settings.json",
        folder / ".claude/settings.json",
        folder / ".claude/settings.local.json",
    ):
        with suppress(ConfigError):
            yield from _names(document(path, "json").get("disabledMcpjsonServers"))
    with suppress(ConfigError):
        projects = table_of(document(home / ".claude.json", "json").get("projects"))
        yield from _names(table_of(projects.get(str(folder))).get("disabledMcpjsonServers"))


def _names(value: object) -> list[str]:
    return [n for n in list_of(value) if isinstance(n, str)]


def _found(client: Client, name: str, entry: object, table: _Table) -> Found:
    if not isinstance(entry, dict):
        return Found(name, {}, "its entry is not an object")
    written = written_by(client.name, cast("dict[str, Any]", entry))
    if flaw := _flaw(written):
        return Found(name, written, flaw)
    if table.project is not None and _is_relative(written, table.project):
        written.setdefault("cwd", str(table.project))
    if name in table.off:
        written["disabled"] = True
    return Found(name, written)


def _flaw(entry: Mapping[str, Any]) -> str:
    """Why no gateway could use an entry, however it is reached."""
    for key, (shape, must) in _SHAPES.items():
        if entry.get(key) is not None and not isinstance(entry[key], shape):
            return f"its {key!r} is not {must}"
    if not any(entry.get(key) for key in ("command", "url", "serverUrl", "httpUrl")):
        return "it has neither a command nor a url"
    return ""


def _is_relative(entry: Mapping[str, Any], folder: Path) -> bool:
    """Whether a command names files from where its client starts it: in the project's folder."""
    command = str(entry.get("command") or "")
    words = [command if "/" in command else "", *map(str, entry.get("args") or ())]
    return any(
        w.startswith(("./", "../")) or (w and not w.startswith("-") and _is_in(folder, w))
        for w in words
    )


def _is_in(folder: Path, word: str) -> bool:
    try:
        return not Path(word).is_absolute() and (folder / word).exists()
    except (OSError, ValueError):  # too long for a name, or with a NUL in it
        return False


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
