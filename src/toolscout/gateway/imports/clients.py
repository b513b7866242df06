"""The MCP clients whose servers can be imported: where their files are, and how to read them."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from ...errors import ConfigError
from ...program import command_line
from ...sources.mcp.config import strip_json_comments
from ...sources.mcp.server_entry import KNOWN_KEYS
from .formats import as_list, as_table, convert_entry, fill_workspace, is_built_in, name_inputs

FileFormat = Literal["json", "toml", "yaml"]
# How the gateway itself appears in a client's file.
_OWN_URL = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\]):8765/mcp/?$")
_OWN_COMMANDS = ("toolscout", "toolscout.cli")
_WORKSPACE = "${workspaceFolder}"
# Parts of an entry that work only in its client.
_CAVEATS = {
    "envFile": "envFile is not imported: name its variables in env, as ${NAME}, and set them"
    " where the gateway starts.",
    "oauth": "its login is not imported: log in again with {login}.",
}
# The keys that the gateway reads, each with its type.
_ENTRY_TYPES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "command": (str, "a text"),
    "url": (str, "a text"),
    "serverUrl": (str, "a text"),
    "httpUrl": (str, "a text"),
    "args": (list, "a list"),
    "env": (dict, "an object"),
    "headers": (dict, "an object"),
}


@dataclass(frozen=True, slots=True)
class ClientApp:
    """A client: its name, where its files may be, and the key that holds its servers.

    `keys_by_project`: the file also has a table of projects, each with its own servers.
    """

    name: str
    title: str
    places: tuple[str, ...]
    key: str = "mcpServers"
    kind: FileFormat = "json"
    keys_by_project: bool = False
    settings_parent: str = ""
    """The key above the servers in a file called `settings.json`."""


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One server of a client's file in the gateway's format, or what is wrong with it.

    `caveats` say which parts of it are not imported, and what to do about them.
    """

    name: str
    entry: Mapping[str, Any]
    flaw: str = ""
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _ServerTable:
    """Servers by name, the project they belong to, and the names that the user switched off."""

    servers: Any
    project: Path | None = None
    off: frozenset[str] = frozenset()


# Where desktop applications keep their settings.
_SUPPORT = {
    "darwin": "~/Library/Application Support",
    "win32": "${APPDATA}",
}.get(sys.platform, "~/.config")
# Windsurf's newer files have their own folder, which is ~/.config on macOS too.
_DEVIN = "${APPDATA}" if sys.platform == "win32" else "~/.config"

# Zed and goose use ~/.config on macOS too.
_ZED = "${APPDATA}/Zed" if sys.platform == "win32" else "~/.config/zed"
_GOOSE = "${APPDATA}/Block/goose/config" if sys.platform == "win32" else "~/.config/goose"
_OPENCODE = "~/.config/opencode"
# These look into $XDG_CONFIG_HOME as well.
_XDG_FOLDERS = (_ZED, _GOOSE, _OPENCODE)

CLIENTS: tuple[ClientApp, ...] = (
    ClientApp(
        "claude-desktop", "Claude Desktop", (f"{_SUPPORT}/Claude/claude_desktop_config.json",)
    ),
    ClientApp("claude-code", "Claude Code", ("~/.claude.json", ".mcp.json"), keys_by_project=True),
    ClientApp("cursor", "Cursor", ("~/.cursor/mcp.json", ".cursor/mcp.json")),
    ClientApp(
        "vscode",
        "VS Code",
        (
            f"{_SUPPORT}/Code/User/mcp.json",
            f"{_SUPPORT}/Code/User/settings.json",
            ".vscode/mcp.json",
            ".vscode/settings.json",
        ),
        key="servers",
        settings_parent="mcp",
    ),
    ClientApp(
        "windsurf",
        "Windsurf",
        (
            "~/.codeium/windsurf/mcp_config.json",
            f"{_DEVIN}/devin/mcp_config.json",
            ".devin/mcp_config.json",
        ),
    ),
    ClientApp(
        "codex",
        "Codex",
        ("~/.codex/config.toml", ".codex/config.toml"),
        key="mcp_servers",
        kind="toml",
    ),
    ClientApp("zed", "Zed", (f"{_ZED}/settings.json", ".zed/settings.json"), key="context_servers"),
    ClientApp("gemini-cli", "Gemini CLI", ("~/.gemini/settings.json", ".gemini/settings.json")),
    ClientApp(
        "copilot-cli",
        "Copilot CLI",
        ("~/.copilot/mcp-config.json", ".github/mcp.json", ".mcp.json"),
    ),
    ClientApp("goose", "goose", (f"{_GOOSE}/config.yaml",), key="extensions", kind="yaml"),
    ClientApp(
        "opencode",
        "opencode",
        (
            f"{_OPENCODE}/opencode.json",
            f"{_OPENCODE}/opencode.jsonc",
            "opencode.json",
            "opencode.jsonc",
            ".opencode/opencode.json",
            ".opencode/opencode.jsonc",
        ),
        key="mcp",
    ),
)


def find_client(name: str) -> ClientApp:
    """The client with this name or title, in any case and with any spaces, dashes or dots."""
    spelled = {_fold(text): client for client in CLIENTS for text in (client.name, client.title)}
    known = spelled.get(_fold(name))
    if known is not None:
        return known
    near = get_close_matches(_fold(name), spelled, n=1)
    guess = f"Did you mean {spelled[near[0]].name}? " if near else ""
    raise ConfigError(
        f"There is no client {name!r}.",
        hint=f"{guess}Known: {', '.join(client.name for client in CLIENTS)}.",
    )


def _fold(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def config_files(client: ClientApp, *, home: Path, folder: Path) -> Iterator[Path]:
    """The existing files of a client, the user's before the project's."""
    seen: set[Path] = set()
    for place in _with_xdg_places(client.places):
        text = os.path.expandvars(place.replace("~/", f"{home}/", 1))
        path = Path(text) if Path(text).is_absolute() else folder / text
        # In the home folder the project's file is the user's file.
        if path.is_file() and path.resolve() not in seen:
            seen.add(path.resolve())
            yield path


def _with_xdg_places(places: Iterable[str]) -> Iterator[str]:
    """The places, and before each of ~/.config the same in $XDG_CONFIG_HOME."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    for place in places:
        # The XDG specification: relative paths are invalid and must be ignored.
        if Path(base).is_absolute() and place.startswith(_XDG_FOLDERS):
            yield place.replace("~/.config", base, 1)
        yield place


def read_config_file(path: Path, kind: FileFormat) -> dict[str, Any]:
    """A client's file as plain data; JSON may have comments and trailing commas."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
        data = _PARSERS[kind](text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}.", hint="Fix it, or name other clients to import."
        ) from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path} does not contain a JSON object.")
    return cast("dict[str, Any]", data)


_PARSERS: Mapping[FileFormat, Callable[[str], Any]] = {
    "json": lambda text: json.loads(strip_json_comments(text)),
    "toml": tomllib.loads,
    "yaml": lambda text: yaml.safe_load(text) or {},
}


def servers_key_path(client: ClientApp, path: Path, document: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys that lead to the servers in a client's file."""
    if client.settings_parent and path.name == "settings.json":
        return (client.settings_parent, client.key)
    if client.name == "opencode":
        # From version 2 on they are in `mcp.servers`. A server called `servers` has a type.
        inner = as_table(as_table(document.get(client.key)).get("servers"))
        return (client.key, "servers") if inner and "type" not in inner else (client.key,)
    return (client.key,)


def read_entries(
    client: ClientApp, path: Path, *, home: Path, folder: Path
) -> Iterator[ServerEntry]:
    """The servers in a client's file; names may repeat."""
    for table in _server_tables(client, path, home=home, folder=folder):
        servers = {n: e for n, e in as_table(table.servers).items() if e is not None}
        inputs = name_inputs(servers)
        for name, entry in servers.items():
            if not is_built_in(client.name, entry):
                yield _read_entry(client, name, entry, table, inputs)


def is_project_file(client: ClientApp, path: Path, *, home: Path, folder: Path) -> bool:
    """Whether a client's file belongs to the project in a folder, rather than to the user."""
    return folder != home and any(path == folder / place for place in client.places)


def _server_tables(
    client: ClientApp, path: Path, *, home: Path, folder: Path
) -> Iterator[_ServerTable]:
    data = read_config_file(path, client.kind)
    servers: Any = data
    for key in servers_key_path(client, path, data):
        servers = as_table(servers).get(key)
    yield _ServerTable(
        servers,
        folder if is_project_file(client, path, home=home, folder=folder) else None,
        frozenset(_switched_off(client, path, data, home=home, folder=folder)),
    )
    if client.keys_by_project:
        for place, project in as_table(data.get("projects")).items():
            off = frozenset(_string_items(as_table(project).get("disabledMcpServers")))
            yield _ServerTable(as_table(project).get(client.key), Path(place), off)


def _switched_off(
    client: ClientApp, path: Path, data: Mapping[str, Any], *, home: Path, folder: Path
) -> Iterator[str]:
    """The servers of a file that the user switched off outside their entries."""
    if client.name == "claude-code" and path.name == ".mcp.json":
        yield from _project_opt_outs(home, folder)
    if client.name == "gemini-cli":
        rules = as_table(data.get("mcp"))
        yield from _string_items(rules.get("excluded"))
        if allowed := _string_items(rules.get("allowed")):
            yield from (n for n in as_table(data.get(client.key)) if n not in allowed)


def _project_opt_outs(home: Path, folder: Path) -> Iterator[str]:
    """The servers of a project's `.mcp.json` that the user switched off in Claude Code."""
    for path in (
        home / ".claude/settings.json",
        folder / ".claude/settings.json",
        folder / ".claude/settings.local.json",
    ):
        with suppress(ConfigError):
            yield from _string_items(read_config_file(path, "json").get("disabledMcpjsonServers"))
    with suppress(ConfigError):
        projects = as_table(read_config_file(home / ".claude.json", "json").get("projects"))
        yield from _string_items(as_table(projects.get(str(folder))).get("disabledMcpjsonServers"))


def _string_items(value: object) -> list[str]:
    return [n for n in as_list(value) if isinstance(n, str)]


def _read_entry(
    client: ClientApp,
    name: str,
    entry: object,
    table: _ServerTable,
    inputs: Mapping[str, str],
) -> ServerEntry:
    if not isinstance(entry, dict):
        return ServerEntry(name, {}, "its entry is not an object")
    converted = convert_entry(client.name, cast("dict[str, Any]", entry), inputs)
    if flaw := _entry_flaw(converted):
        return ServerEntry(name, converted, flaw)
    caveats = tuple(
        text.replace("{login}", command_line("login"))
        for key, text in _CAVEATS.items()
        if converted.get(key)
    )
    # It may restrict something, as a list of tools does.
    if unknown := ", ".join(repr(key) for key in converted.keys() - KNOWN_KEYS):
        caveats += (f"the gateway does not know {unknown}, so it has no effect.",)
    converted.pop("envFile", None)
    if table.project is not None:
        converted = fill_workspace(converted, str(table.project))
    elif _WORKSPACE in json.dumps(converted):
        caveats += (f"only the client knows {_WORKSPACE}: write the path instead.",)
    # A client starts a project's servers in the project's folder. The gateway runs elsewhere.
    if table.project is not None and _has_relative_paths(converted, table.project):
        converted.setdefault("cwd", str(table.project))
    if table.project is not None:
        converted["project"] = str(table.project)
    if name in table.off:
        converted["disabled"] = True
    return ServerEntry(name, converted, caveats=caveats)


def _entry_flaw(entry: Mapping[str, Any]) -> str:
    """Why the gateway could not use an entry; empty if it could."""
    for key, (expected, description) in _ENTRY_TYPES.items():
        if entry.get(key) is not None and not isinstance(entry[key], expected):
            return f"its {key!r} is not {description}"
    if not any(entry.get(key) for key in ("command", "url", "serverUrl", "httpUrl")):
        return "it has neither a command nor a url"
    return ""


def _has_relative_paths(entry: Mapping[str, Any], folder: Path) -> bool:
    """Whether a command or its arguments are paths relative to the project's folder."""
    command = str(entry.get("command") or "")
    # A command without a slash is looked up in PATH.
    words = [command if "/" in command else "", *map(str, entry.get("args") or ())]
    return any(
        w.startswith(("./", "../")) or (w and not w.startswith("-") and _exists_in(folder, w))
        for w in words
    )


def _exists_in(folder: Path, word: str) -> bool:
    try:
        return not Path(word).is_absolute() and (folder / word).exists()
    except (OSError, ValueError):  # too long for a name, or with a NUL in it
        return False


def is_gateway(entry: Mapping[str, Any], *, name: str = "") -> bool:
    """Whether an entry is the gateway itself: its command, its address, or a bridge to it."""
    args = [str(arg) for arg in entry.get("args") or ()]
    words = [Path(str(entry.get("command", ""))).stem, *args]
    # Started directly, or through uvx, pipx, python -m and the like.
    if any(a in _OWN_COMMANDS and b == "serve" for a, b in pairwise(words)):
        return True
    urls = [str(entry[key]) for key in ("url", "serverUrl", "httpUrl") if entry.get(key)]
    return any(_is_own_url(url) for url in (*urls, *args)) or (name == "toolscout" and bool(urls))


def _is_own_url(text: str) -> bool:
    return bool(_OWN_URL.match(text))
