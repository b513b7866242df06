"""Replace the servers in a client's file by the gateway."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ...errors import ConfigError
from ...program import launcher_words
from ...toml_edit import render_toml_table
from ..config_file.json_edit import remove_json_value, set_json_value
from .clients import ClientApp, read_config_file, servers_key_path
from .formats import as_table, is_built_in

_NAME = "toolscout"
_GOOSE_TIMEOUT_SECONDS = 300


def gateway_command() -> tuple[str, ...]:
    """The command with which a client starts the gateway, and its first arguments."""
    # Full paths, since desktop applications do not have the PATH of a shell.
    if launcher := launcher_words():
        # Not the program's own path, which lasts only as long as a cache.
        return (shutil.which(launcher[0]) or launcher[0], *launcher[1:])
    beside = Path(sys.executable).with_name("toolscout")
    found = shutil.which("toolscout") or (str(beside) if beside.is_file() else "toolscout")
    return (str(Path(found).absolute()) if Path(found).is_file() else found,)


def render_client_config(
    client: ClientApp, path: Path, gateway: Path, *, project: Path | None = None
) -> str:
    """The text of a client's file with the gateway instead of its servers.

    In a file of a project the gateway gets the folder of the project.
    """
    if path.resolve() == gateway.resolve():
        raise ConfigError(
            f"{path} is the file of {client.title} itself: the gateway would start itself.",
            hint="Give the gateway its own file with --into FILE.",
        )
    args = ["serve", "--stdio", "--config", str(gateway.resolve())]
    if project is not None:
        args += ["--project", str(project)]
    document = read_config_file(path, client.kind)
    text = path.read_text(encoding="utf-8-sig")
    entry = _gateway_entry(client.name, args)
    match client.kind:
        case "toml":
            return _render_toml(path, text, client.key, entry)
        case "yaml":
            return _render_yaml(path, text, client, document, entry)
        case "json":
            return _render_json(client, path, text, document, entry)


def _gateway_entry(client: str, args: list[str]) -> dict[str, Any]:
    command, *first = gateway_command()
    args = [*first, *args]
    match client:
        case "opencode":
            return {"type": "local", "command": [command, *args]}
        case "copilot-cli":
            return {"type": "local", "command": command, "args": args, "tools": ["*"]}
        case "zed":
            return {"source": "custom", "command": command, "args": args, "env": {}}
        case "goose":
            return {
                "enabled": True,
                "type": "stdio",
                "name": _NAME,
                "description": "Search over all MCP servers.",
                "cmd": command,
                "args": args,
                "envs": {},
                "env_keys": [],
                "timeout": _GOOSE_TIMEOUT_SECONDS,
            }
        case _:
            return {"command": command, "args": args}


def _kept_entries(client: str, servers: Any) -> dict[str, Any]:
    """The entries that only the client can start, which stay in the client's file."""
    return {name: e for name, e in as_table(servers).items() if e and is_built_in(client, e)}


def _render_json(
    client: ClientApp, path: Path, text: str, document: Mapping[str, Any], entry: dict[str, Any]
) -> str:
    keys = servers_key_path(client, path, document)
    servers: Any = document
    for key in keys:
        servers = as_table(servers).get(key)
    text = set_json_value(text, keys, {**_kept_entries(client.name, servers), _NAME: entry})
    # Servers of single projects would run beside the gateway, and each tool exist twice.
    projects = as_table(document.get("projects")) if client.keys_by_project else {}
    for place, project in projects.items():
        if client.key in as_table(project):
            text = remove_json_value(text, ("projects", place, client.key))
    return text


def _render_toml(path: Path, text: str, key: str, entry: dict[str, Any]) -> str:
    """The text of a TOML file with the gateway's table instead of those of the servers."""
    # The standard library cannot write TOML, and working on lines keeps the user's comments.
    other_lines: list[str] = []
    is_server = False
    for line in text.splitlines():
        if line.lstrip().startswith("["):
            first, _, _ = line.strip().strip("[").partition("]")[0].partition(".")
            is_server = first.strip(" \t\"'") == key
        if not is_server:
            other_lines.append(line)
    ours = render_toml_table((key, _NAME), entry)
    result = "\n".join((*other_lines, "", ours)).lstrip("\n")
    # Lines can mislead: servers may be in an inline table, or a header inside a multi-line string.
    # So the result is parsed and compared with the intended result.
    expected = {**tomllib.loads(text), key: {_NAME: entry}}
    try:
        is_correct = tomllib.loads(result) == expected
    except tomllib.TOMLDecodeError:
        is_correct = False
    if not is_correct:
        raise ConfigError(
            f"{path} has servers that are not in a separate table [{key}.NAME].",
            hint=f"Remove them by hand, and add:\n{ours}",
        )
    return result


def _render_yaml(
    path: Path, text: str, client: ClientApp, document: Mapping[str, Any], entry: dict[str, Any]
) -> str:
    """The text of a YAML file with another block under one key; comments elsewhere stay."""
    servers = {**_kept_entries(client.name, document.get(client.key)), _NAME: entry}
    block = yaml.safe_dump({client.key: servers}, sort_keys=False, allow_unicode=True)
    lines: list[str] = []
    is_inside = False
    for line in text.splitlines():
        if line[:1] not in ("", " ", "\t", "#", "-"):
            is_inside = line.partition(":")[0].strip("\"' ") == client.key
            lines += block.splitlines() if is_inside else ()
        if not is_inside:
            lines.append(line)
    result = "\n".join(lines) + "\n"
    if yaml.safe_load(result) != {**document, client.key: servers}:
        raise ConfigError(
            f"{path} has a layout that cannot be edited automatically.",
            hint=f"Replace {client.key} by hand with:\n{block}",
        )
    return result
