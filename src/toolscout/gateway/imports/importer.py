"""Import the servers of other clients: compare them with the target, and plan what to add."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from ...errors import ConfigError
from ...sources.mcp.server_config import normalise_server_name
from ..config_file.json_edit import set_json_value
from ..config_file.server_file import TABLES
from .clients import (
    ClientApp,
    ServerEntry,
    config_files,
    is_gateway,
    read_config_file,
    read_entries,
)
from .formats import entry_summary

Action = Literal["add", "same", "rename", "own"]
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
# Filled in by clients, so nobody should set them for the gateway.
_CLIENT_VARIABLES = ("workspaceFolder",)


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
    def project(self) -> str:
        """The folder of the project that the server belongs to, if any."""
        return str(self.entry.get("project") or "")

    @property
    def is_disabled(self) -> bool:
        """Whether the user switched the server off in the client."""
        return self.entry.get("disabled") is True or self.entry.get("enabled") is False

    @property
    def unset_variables(self) -> tuple[str, ...]:
        """The variables that the server needs and that are not set here."""
        return tuple(name for name in self.variables if not os.environ.get(name))

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that the server needs."""
        found = dict.fromkeys(_VARIABLE.findall(json.dumps(self.entry)))
        return tuple(name for name in found if name not in _CLIENT_VARIABLES)


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
    """The current configuration file that servers are imported into."""

    document: Mapping[str, Any]
    key: str
    taken: Mapping[str, tuple[str, object]]
    """By normalised server name: the name in the file, and the entry."""

    @classmethod
    def read(cls, path: Path) -> ImportTarget:
        """Read the file if it exists; one that the gateway could not read is an error."""
        if path.suffix == ".toml":
            raise ConfigError(
                f"{path} is TOML, which an import cannot write.",
                hint="Import into a JSON file, and copy the servers that you want from it.",
            )
        document = read_config_file(path, "json") if path.exists() else {}
        taken: dict[str, tuple[str, object]] = {}
        # APIs share the names with servers, since both prefix their tools.
        for key in (*TABLES, "openapi"):
            table: object = document.get(key) or {}
            if not isinstance(table, dict):
                raise ConfigError(
                    f"{path}: {key} must be an object of servers by name.",
                    hint="Fix it, or give another file with --into.",
                )
            for label, entry in cast("dict[str, object]", table).items():
                taken.setdefault(normalise_server_name(label), (label, entry))
        return cls(document, next((k for k in TABLES if k in document), TABLES[0]), taken)


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
                    problems.append(f"{label}: {server.flaw}, so it is skipped. See {path}.")
                    continue
                step = _plan_step(client, path, server, taken)
                steps.append(step)
                if step.action in ("add", "rename"):
                    taken[normalise_server_name(step.name)] = (step.name, step.entry)
                    problems += [f"{label}: {caveat}" for caveat in server.caveats]
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
        # A server for all projects also serves this one.
        if entry in (server.entry, {k: v for k, v in server.entry.items() if k != "project"}):
            return make_step("same", label)
        name, number = f"{server.name}-{number}", number + 1
    return make_step("add" if name == server.name else "rename", name)


def render_target(plan: ImportPlan) -> str:
    """The text of the target with the planned servers; its comments stay."""
    target = ImportTarget.read(plan.target)
    text = plan.target.read_text(encoding="utf-8-sig") if plan.target.exists() else "{}\n"
    for step in plan.additions:
        text = set_json_value(text, (target.key, step.name), dict(step.entry))
    return text
