"""`toolscout scan`: look for attacks on the model in the definitions of tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from ..catalog.problem import Problem
from ..scanning.catalog_scan import CatalogDefinition, ScannedTool, scan_catalog
from ..scanning.rules import RuleSet, default_rules
from ..sources.files import read_definitions
from .config_options import find_servers_file, note_state_file
from .output import count_noun, json_option, print_json, print_line, warn
from .progress import progress

EXIT_SOFT = 10
EXIT_HARD = 11


@click.command(name="scan")
@click.argument(
    "files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path, exists=True)
)
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    callback=note_state_file,
    help="Scan the tools of these servers, or the files with the rules of this configuration."
    "  [default: your own list]",
)
@json_option
def command(*, files: tuple[Path, ...], path: Path | None, is_json: bool) -> int:
    """Scan definitions of tools for attacks on the model.

    FILE is a file or a folder of tools (JSON Lines, JSON, YAML). Without one, the servers of your
    configuration are started and their tools are scanned. Exit codes: 0 nothing was found, 10 only
    soft findings, or something could not be read, 11 hard findings, for which a gateway holds a
    tool, 2 usage.
    """
    if files:
        with progress("Scanning"):
            scanned, problems = _scan_files(files, _read_rules(path))
    else:
        with progress("Starting the servers"):
            scanned, problems = _scan_servers(path)
    found = [tool for tool in scanned if tool.findings]
    hard = sum(tool.is_hard for tool in found)
    if is_json:
        rows = [tool.to_dict() for tool in found]
        print_json({"scanned": len(scanned), "hard": hard, "tools": rows})
    else:
        _print_tools(found)
        held = f", {hard} of them hard" if hard else ""
        print_line(f"{count_noun(len(scanned), 'tool')} scanned, {len(found)} with findings{held}.")
    for problem in problems:
        warn(str(problem))
    if hard:
        return EXIT_HARD
    return EXIT_SOFT if found or problems else 0


def _read_rules(path: Path | None) -> RuleSet:
    if path is None:
        return default_rules()
    from ..gateway.setup import Setup

    return Setup.read(path).scan_rules


def _scan_files(
    files: Sequence[Path], rules: RuleSet
) -> tuple[Sequence[ScannedTool], Sequence[Problem]]:
    definitions: list[CatalogDefinition] = []
    problems: list[Problem] = []
    for file in files:
        found, unreadable = read_definitions(file)
        problems += unreadable
        definitions += (
            CatalogDefinition(raw.value, raw.name, raw.server, raw.place) for raw in found
        )
    return tuple(scan_catalog(definitions, rules)), problems


def _scan_servers(path: Path | None) -> tuple[Sequence[ScannedTool], Sequence[Problem]]:
    from ..gateway.operations.doctor import check_servers
    from ..gateway.setup import Setup

    report = asyncio.run(check_servers(Setup.read(find_servers_file(path))))
    scanned = tuple(
        ScannedTool(tool, server.server, server.place, tuple(found))
        for server in report.servers
        for tool, found in server.findings.items()
    )
    problems = tuple(
        Problem(server.server, f"It was not scanned: {server.reason or server.status}.")
        for server in report.servers
        if server.status not in ("ready", "disabled")
    )
    return scanned, problems


def _print_tools(tools: Sequence[ScannedTool]) -> None:
    for tool in tools:
        name = f"{tool.server}: {tool.name}" if tool.server else tool.name
        print_line(f"{name}  ({tool.place})", style="bold")
        for finding in tool.findings:
            style = "red" if finding.severity == "hard" else "yellow"
            print_line(f"  {finding.severity}  {finding.rule}  {finding.place}", style=style)
            print_line(f"        {finding.excerpt}")
            print_line(f"        {finding.summary}")
