"""Taking over the servers of other clients: first a plan to look at, then one stroke."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import ConfigError
from .clients import Client, document, entries, is_gateway, left_behind, places

Action = Literal["add", "same", "rename", "own"]
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_SECTION = re.compile(r"^\s*\[+\s*(?P<name>[^\]]+?)\s*\]+\s*(?:#.*)?$")


@dataclass(frozen=True, slots=True)
class Step:
    """One server found with a client, and what is to be done with it."""

    client: str
    path: Path
    server: str
    action: Action
    name: str
    entry: Mapping[str, Any]

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that it needs."""
        return tuple(dict.fromkeys(_VARIABLE.findall(json.dumps(self.entry))))


@dataclass(frozen=True, slots=True)
class Plan:
    """What an import would do; nothing is done by making one."""

    target: Path
    steps: tuple[Step, ...]
    problems: tuple[str, ...] = ()
    servers: Mapping[str, Any] | None = None

    @property
    def added(self) -> tuple[Step, ...]:
        """The servers that are new to the target."""
        return tuple(s for s in self.steps if s.action in ("add", "rename"))


def plan(clients: Iterable[Client], target: Path, *, home: Path, folder: Path) -> Plan:
    """Look through clients' files and compare them with the target."""
    servers = _servers(target)
    steps: list[Step] = []
    problems: list[str] = []
    for client in clients:
        for path in places(client, home=home, folder=folder):
            try:
                found = list(entries(client, document(path, client.kind)))
            except ConfigError as error:
                problems.append(str(error))
                continue
            for name, entry in found:
                step = _step(client, path, name, entry, servers)
                steps.append(step)
                if step.action in ("add", "rename"):
                    servers[step.name] = dict(entry)
                    problems += [f"{client.name}, {name}: {why}" for why in left_behind(entry)]
    return Plan(target, tuple(steps), tuple(problems), servers)


def _servers(target: Path) -> dict[str, Any]:
    if not target.exists():
        return {}
    if target.suffix == ".toml":
        raise ConfigError(
            f"{target} is TOML, which is not written here.",
            hint="Import into a JSON file, and copy from there what you want.",
        )
    return dict(document(target, "json").get(_key(target)) or {})


def _key(target: Path) -> str:
    """Where the target has its servers: under the key it already uses."""
    found = document(target, "json") if target.exists() else {}
    return next((k for k in ("mcpServers", "servers", "mcp_servers") if k in found), "mcpServers")


def _step(
    client: Client, path: Path, name: str, entry: dict[str, Any], servers: Mapping[str, Any]
) -> Step:
    def step(action: Action, as_: str = name) -> Step:
        return Step(client.name, path, name, action, as_, entry)

    if is_gateway(entry, name=name):
        return step("own")
    if name not in servers:
        return step("add")
    number = 2
    as_ = name
    while as_ in servers:
        if servers[as_] == entry:
            return step("same", as_)
        as_, number = f"{name}-{number}", number + 1
    return step("rename", as_)


def apply(plan: Plan, *, now: float | None = None) -> Path | None:
    """Write the target with all that was planned; the backup's path, if there was something."""
    kept = document(plan.target, "json") if plan.target.exists() else {}
    whole = {**kept, _key(plan.target): plan.servers or {}}
    return _write(plan.target, json.dumps(whole, ensure_ascii=False, indent=2) + "\n", now=now)


def own_command() -> str:
    """How a client starts the gateway: by its full path, since clients have a PATH of their own."""
    beside = Path(sys.executable).with_name("toolscout")
    found = shutil.which("toolscout") or (str(beside) if beside.is_file() else "toolscout")
    return str(Path(found).absolute()) if Path(found).is_file() else found


def point(client: Client, path: Path, gateway: Path, *, now: float | None = None) -> Path | None:
    """Put the gateway in a client's file in place of the servers it had; gives the backup."""
    return _write(path, pointed(client, path, gateway), now=now)


def pointed(client: Client, path: Path, gateway: Path) -> str:
    """A client's file as it would be with the gateway in place of its servers."""
    if path.resolve() == gateway.resolve():
        raise ConfigError(
            f"{path} is the file of {client.title} itself: the gateway would start itself.",
            hint="Give the gateway a file of its own with --into FILE.",
        )
    args = ["serve", "--stdio", "--config", str(gateway.resolve())]
    if client.kind == "toml":
        return _toml(path, client.key, args)
    found = document(path, "json")
    found[client.key] = {"toolscout": {"command": own_command(), "args": args}}
    if client.keys_by_project:
        projects: Mapping[str, Any] = found.get("projects") or {}
        for project in filter(None, projects.values()):
            project.pop(client.key, None)
    return json.dumps(found, ensure_ascii=False, indent=2) + "\n"


def _toml(path: Path, key: str, args: list[str]) -> str:
    """The text without the tables of servers, and with the gateway's at its end."""
    text = path.read_text(encoding="utf-8-sig")
    kept: list[str] = []
    is_theirs = False
    for line in text.splitlines():
        if section := _SECTION.match(line):
            first, _, _ = section["name"].partition(".")
            is_theirs = first.strip(" \t\"'") == key
        if not is_theirs:
            kept.append(line)
    ours = f"[{key}.toolscout]\ncommand = {json.dumps(own_command())}\nargs = {json.dumps(args)}\n"
    made = "\n".join((*kept, "", ours)).lstrip("\n")
    wanted = {**tomllib.loads(text), key: tomllib.loads(ours)[key]}
    try:
        is_right = tomllib.loads(made) == wanted
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise ConfigError(
            f"{path} has servers that are not in a table [{key}.NAME] of their own.",
            hint=f"Take them out by hand, and add:\n{ours}",
        )
    return made


def _write(path: Path, text: str, *, now: float | None) -> Path | None:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    backup = path.with_name(f"{path.name}.{stamp}.bak") if path.exists() else None
    try:
        if backup is not None:
            backup.write_bytes(path.read_bytes())
            backup.chmod(path.stat().st_mode)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(path.stat().st_mode if path.exists() else 0o600)
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}.") from error
    return backup
