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
from typing import Any, Literal, cast

from ...errors import ConfigError
from ...sources.mcp.server_config import normalise_server_name
from .clients import (
    ClientApp,
    ServerEntry,
    config_files,
    import_caveats,
    is_gateway,
    read_config_file,
    read_entries,
    servers_key_path,
)
from .summary import entry_summary

Action = Literal["add", "same", "rename", "own"]
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_TABLES = ("mcpServers", "servers", "mcp_servers")
_SECTION = re.compile(r"^\s*\[+\s*(?P<name>[^\]]+?)\s*\]+\s*(?:#.*)?$")


@dataclass(frozen=True, slots=True)
class ImportStep:
    """One server found with a client, and what is to be done with it."""

    client: str
    path: Path
    server: str
    action: Action
    name: str
    entry: Mapping[str, Any]

    @property
    def place(self) -> str:
        """Its command or address, as it may be shown to anybody."""
        return entry_summary(self.entry)

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that it needs."""
        return tuple(dict.fromkeys(_VARIABLE.findall(json.dumps(self.entry))))


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do; nothing is done by making one."""

    target: Path
    steps: tuple[ImportStep, ...]
    problems: tuple[str, ...] = ()

    @property
    def additions(self) -> tuple[ImportStep, ...]:
        """The servers that are new to the target."""
        return tuple(s for s in self.steps if s.action in ("add", "rename"))


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """The gateway's configuration to write into, as it is."""

    document: Mapping[str, Any]
    key: str
    taken: Mapping[str, tuple[str, object]]
    """Who has each name that tools may carry: the label in the file, and the entry."""

    @classmethod
    def read(cls, path: Path) -> ImportTarget:
        """What is there already; a file that the gateway could not read is an error."""
        if path.suffix == ".toml":
            raise ConfigError(
                f"{path} is TOML, which is not written here.",
                hint="Import into a JSON file, and copy from there what you want.",
            )
        found = read_config_file(path, "json") if path.exists() else {}
        taken: dict[str, tuple[str, object]] = {}
        for key in (*_TABLES, "openapi"):
            table: object = found.get(key) or {}
            if not isinstance(table, dict):
                raise ConfigError(
                    f"{path}: {key} must be an object of servers by name.",
                    hint="Mend it, or give another file with --into.",
                )
            for label, entry in cast("dict[str, object]", table).items():
                taken.setdefault(normalise_server_name(label), (label, entry))
        return cls(found, next((k for k in _TABLES if k in found), _TABLES[0]), taken)


def plan_import(
    clients: Iterable[ClientApp], target: Path, *, home: Path, folder: Path
) -> ImportPlan:
    """Look through clients' files and compare them with the target."""
    there = ImportTarget.read(target)
    taken = dict(there.taken)
    steps: list[ImportStep] = []
    problems: list[str] = []
    for client in clients:
        for path in config_files(client, home=home, folder=folder):
            try:
                found = list(read_entries(client, path, home=home, folder=folder))
            except ConfigError as error:
                problems.append(str(error))
                continue
            for server in found:
                if server.flaw:
                    told = f"{server.flaw}, so it is left out."
                    problems.append(f"{client.name}, {server.name}: {told} See {path}.")
                    continue
                step = _plan_step(client, path, server, taken)
                steps.append(step)
                if step.action in ("add", "rename"):
                    taken[normalise_server_name(step.name)] = (step.name, step.entry)
                    told = [
                        f"{client.name}, {server.name}: {w}" for w in import_caveats(step.entry)
                    ]
                    problems += told
    return ImportPlan(target, tuple(steps), tuple(problems))


def _plan_step(
    client: ClientApp, path: Path, server: ServerEntry, taken: Mapping[str, tuple[str, object]]
) -> ImportStep:
    def make_step(action: Action, as_: str = server.name) -> ImportStep:
        return ImportStep(client.name, path, server.name, action, as_, server.entry)

    if is_gateway(server.entry, name=server.name):
        return make_step("own")
    as_, number = server.name, 2
    # Two names are one where the gateway would give their tools the same.
    while known := taken.get(normalise_server_name(as_)):
        label, entry = known
        if entry == server.entry:
            return make_step("same", label)
        as_, number = f"{server.name}-{number}", number + 1
    return make_step("add" if as_ == server.name else "rename", as_)


def apply_import(plan: ImportPlan, *, now: float | None = None) -> Path | None:
    """Write the target with all that was planned; the backup's path, if there was something."""
    there = ImportTarget.read(plan.target)
    servers: dict[str, Any] = {
        **(there.document.get(there.key) or {}),
        **{s.name: s.entry for s in plan.additions},
    }
    whole = {**there.document, there.key: servers}
    return _write_with_backup(
        plan.target, json.dumps(whole, ensure_ascii=False, indent=2) + "\n", now=now
    )


def gateway_command() -> str:
    """How a client starts the gateway: by its full path, since clients have a PATH of their own."""
    beside = Path(sys.executable).with_name("toolscout")
    found = shutil.which("toolscout") or (str(beside) if beside.is_file() else "toolscout")
    return str(Path(found).absolute()) if Path(found).is_file() else found


def point_client(
    client: ClientApp, path: Path, gateway: Path, *, now: float | None = None
) -> Path | None:
    """Put the gateway in a client's file in place of the servers it had; gives the backup."""
    return _write_with_backup(path, render_client_config(client, path, gateway), now=now)


def render_client_config(client: ClientApp, path: Path, gateway: Path) -> str:
    """A client's file as it would be with the gateway in place of its servers."""
    if path.resolve() == gateway.resolve():
        raise ConfigError(
            f"{path} is the file of {client.title} itself: the gateway would start itself.",
            hint="Give the gateway a file of its own with --into FILE.",
        )
    args = ["serve", "--stdio", "--config", str(gateway.resolve())]
    if client.kind == "toml":
        return _render_toml(path, client.key, args)
    found = read_config_file(path, "json")
    *above, last = servers_key_path(client, path)
    servers = found
    for key in above:
        servers = servers[key]
    servers[last] = {"toolscout": {"command": gateway_command(), "args": args}}
    projects: object = found.get("projects") if client.keys_by_project else None
    for project in cast("dict[str, Any]", projects).values() if isinstance(projects, dict) else ():
        if isinstance(project, dict):
            cast("dict[str, Any]", project).pop(client.key, None)
    return json.dumps(found, ensure_ascii=False, indent=2) + "\n"


def _render_toml(path: Path, key: str, args: list[str]) -> str:
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
    ours = (
        f"[{key}.toolscout]\ncommand = {json.dumps(gateway_command())}\nargs = {json.dumps(args)}\n"
    )
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


def _write_with_backup(path: Path, text: str, *, now: float | None) -> Path | None:
    """Write a file at one stroke, where a link to it leads; what it was is kept beside the link."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    backup = path.with_name(f"{path.name}.{stamp}.bak") if path.exists() else None
    try:
        if backup is not None:
            backup.write_bytes(path.read_bytes())
            backup.chmod(path.stat().st_mode)
        real = path.resolve()
        real.parent.mkdir(parents=True, exist_ok=True)
        temporary = real.with_name(f".{real.name}.new")
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(real.stat().st_mode if real.exists() else 0o600)
        temporary.replace(real)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}.") from error
    return backup
