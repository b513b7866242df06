"""Import the servers of other clients: plan it, apply it, and point the clients at the gateway."""

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
from .formats import as_table, entry_summary

Action = Literal["add", "same", "rename", "own"]
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
# The keys under which the gateway reads servers. A new file gets the first.
_TABLES = ("mcpServers", "servers", "mcp_servers")
_SECTION = re.compile(r"^\s*\[+\s*(?P<name>[^\]]+?)\s*\]+\s*(?:#.*)?$")


@dataclass(frozen=True, slots=True)
class ImportStep:
    """One server of a client, and what the import does with it."""

    client: str
    path: Path
    server: str
    action: Action
    name: str
    entry: Mapping[str, Any]

    @property
    def place(self) -> str:
        """Its command or address without secrets."""
        return entry_summary(self.entry)

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that the server needs."""
        return tuple(dict.fromkeys(_VARIABLE.findall(json.dumps(self.entry))))


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do."""

    target: Path
    steps: tuple[ImportStep, ...]
    problems: tuple[str, ...] = ()

    @property
    def additions(self) -> tuple[ImportStep, ...]:
        """The servers that are new to the target."""
        return tuple(s for s in self.steps if s.action in ("add", "rename"))


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """The configuration file that servers are imported into, as it is now."""

    document: Mapping[str, Any]
    key: str
    taken: Mapping[str, tuple[str, object]]
    """By normalised server name: the name in the file, and the entry."""

    @classmethod
    def read(cls, path: Path) -> ImportTarget:
        """Read the file if it exists; one that the gateway could not read is an error."""
        if path.suffix == ".toml":
            raise ConfigError(
                f"{path} is TOML, which is not written here.",
                hint="Import into a JSON file, and copy from there what you want.",
            )
        document = read_config_file(path, "json") if path.exists() else {}
        taken: dict[str, tuple[str, object]] = {}
        # APIs share the names with servers, since both prefix their tools.
        for key in (*_TABLES, "openapi"):
            table: object = document.get(key) or {}
            if not isinstance(table, dict):
                raise ConfigError(
                    f"{path}: {key} must be an object of servers by name.",
                    hint="Fix it, or give another file with --into.",
                )
            for label, entry in cast("dict[str, object]", table).items():
                taken.setdefault(normalise_server_name(label), (label, entry))
        return cls(document, next((k for k in _TABLES if k in document), _TABLES[0]), taken)


def plan_import(
    clients: Iterable[ClientApp], target: Path, *, home: Path, folder: Path
) -> ImportPlan:
    """Read the clients' files and compare their servers with the target; nothing is written."""
    taken = dict(ImportTarget.read(target).taken)
    steps: list[ImportStep] = []
    problems: list[str] = []
    for client in clients:
        for path in config_files(client, home=home, folder=folder):
            try:
                entries = list(read_entries(client, path, home=home, folder=folder))
            except ConfigError as error:
                problems.append(str(error))
                continue
            for server in entries:
                label = f"{client.name}, {server.name}"
                if server.flaw:
                    problems.append(f"{label}: {server.flaw}, so it is left out. See {path}.")
                    continue
                step = _plan_step(client, path, server, taken)
                steps.append(step)
                if step.action in ("add", "rename"):
                    taken[normalise_server_name(step.name)] = (step.name, step.entry)
                    problems += [f"{label}: {caveat}" for caveat in import_caveats(step.entry)]
    return ImportPlan(target, tuple(steps), tuple(problems))


def _plan_step(
    client: ClientApp, path: Path, server: ServerEntry, taken: Mapping[str, tuple[str, object]]
) -> ImportStep:
    def make_step(action: Action, name: str = server.name) -> ImportStep:
        return ImportStep(client.name, path, server.name, action, name, server.entry)

    if is_gateway(server.entry, name=server.name):
        return make_step("own")
    name, number = server.name, 2
    # Normalised names decide: two servers with the same one would give their tools the same prefix.
    while known := taken.get(normalise_server_name(name)):
        label, entry = known
        if entry == server.entry:
            return make_step("same", label)
        name, number = f"{server.name}-{number}", number + 1
    return make_step("add" if name == server.name else "rename", name)


def apply_import(plan: ImportPlan, *, now: float | None = None) -> Path | None:
    """Write the planned servers into the target; returns the backup of the old file, if any."""
    target = ImportTarget.read(plan.target)
    servers: dict[str, Any] = {
        **(target.document.get(target.key) or {}),
        **{s.name: s.entry for s in plan.additions},
    }
    document = {**target.document, target.key: servers}
    return _write_with_backup(
        plan.target, json.dumps(document, ensure_ascii=False, indent=2) + "\n", now=now
    )


def gateway_command() -> str:
    """The command with which a client starts the gateway."""
    # A full path, since desktop applications do not have the PATH of a shell.
    beside = Path(sys.executable).with_name("toolscout")
    found = shutil.which("toolscout") or (str(beside) if beside.is_file() else "toolscout")
    return str(Path(found).absolute()) if Path(found).is_file() else found


def point_client(
    client: ClientApp, path: Path, gateway: Path, *, now: float | None = None
) -> Path | None:
    """Replace the servers in a client's file by the gateway; returns the backup."""
    return _write_with_backup(path, render_client_config(client, path, gateway), now=now)


def render_client_config(client: ClientApp, path: Path, gateway: Path) -> str:
    """The text of a client's file with the gateway instead of its servers."""
    if path.resolve() == gateway.resolve():
        raise ConfigError(
            f"{path} is the file of {client.title} itself: the gateway would start itself.",
            hint="Give the gateway a file of its own with --into FILE.",
        )
    args = ["serve", "--stdio", "--config", str(gateway.resolve())]
    if client.kind == "toml":
        return _render_toml(path, client.key, args)
    document = read_config_file(path, "json")
    *parents, last = servers_key_path(client, path)
    table = document
    for key in parents:
        table = table[key]
    table[last] = {"toolscout": {"command": gateway_command(), "args": args}}
    # Servers of single projects would run beside the gateway, and each tool exist twice.
    projects = as_table(document.get("projects")) if client.keys_by_project else {}
    for project in projects.values():
        as_table(project).pop(client.key, None)
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _render_toml(path: Path, key: str, args: list[str]) -> str:
    """The text of a TOML file with the gateway's table instead of those of the servers."""
    # The standard library cannot write TOML, and working on lines keeps the user's comments.
    text = path.read_text(encoding="utf-8-sig")
    other_lines: list[str] = []
    is_server = False
    for line in text.splitlines():
        if section := _SECTION.match(line):
            first, _, _ = section["name"].partition(".")
            is_server = first.strip(" \t\"'") == key
        if not is_server:
            other_lines.append(line)
    ours = (
        f"[{key}.toolscout]\ncommand = {json.dumps(gateway_command())}\nargs = {json.dumps(args)}\n"
    )
    result = "\n".join((*other_lines, "", ours)).lstrip("\n")
    # Lines can deceive: servers may be in an inline table, or a header inside a multi-line string.
    # So the result is parsed and compared with what it should say.
    expected = {**tomllib.loads(text), key: tomllib.loads(ours)[key]}
    try:
        is_correct = tomllib.loads(result) == expected
    except tomllib.TOMLDecodeError:
        is_correct = False
    if not is_correct:
        raise ConfigError(
            f"{path} has servers that are not in a table [{key}.NAME] of their own.",
            hint=f"Take them out by hand, and add:\n{ours}",
        )
    return result


def _write_with_backup(path: Path, text: str, *, now: float | None) -> Path | None:
    """Write a file atomically and keep its old content in a backup beside it."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    backup = path.with_name(f"{path.name}.{stamp}.bak") if path.exists() else None
    try:
        if backup is not None:
            backup.write_bytes(path.read_bytes())
            backup.chmod(path.stat().st_mode)
        # Dotfiles are often links. The file behind the link is replaced, so that the link stays.
        real = path.resolve()
        real.parent.mkdir(parents=True, exist_ok=True)
        temporary = real.with_name(f".{real.name}.new")
        temporary.write_text(text, encoding="utf-8")
        # Entries may hold secrets, so a new file is for its owner only.
        temporary.chmod(real.stat().st_mode if real.exists() else 0o600)
        temporary.replace(real)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}.") from error
    return backup
