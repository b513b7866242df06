"""`toolscout audit`: verify that nobody changed the journal."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError

from ..errors import ConfigError, StoreError
from .journal_file import existing_journal, journal_config
from .output import json_option, print_json, print_line
from .pins import config_option

if TYPE_CHECKING:
    from ..store.chain_verification import ChainHead, ChainReport

EXIT_BROKEN = 10


@click.group(name="audit")
def command() -> None:
    """Verify the hash chain of the journal."""


@command.command(name="verify")
@click.option(
    "--since-head",
    "head_file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also compare with a head that `toolscout audit head` printed before.",
)
@config_option
@json_option
def verify(*, head_file: Path | None, path: Path | None, is_json: bool) -> int:
    """Check that no row was changed, removed, inserted or moved.

    Exit code 0: intact. 10: broken or missing; the first broken row comes first.
    2: not verified.
    """
    from ..store.chain_verification import ChainMissingError, verify_chain
    from ..store.factory import log_keys

    since = None if head_file is None else _read_head_file(head_file)
    try:
        _require_journal(path, is_expected=since is not None)
        config, file = existing_journal(path)
        report = verify_chain(file, keys=log_keys(config), since=since)
    except ChainMissingError as error:
        _print_missing(str(error), is_json=is_json)
        return EXIT_BROKEN
    if is_json:
        print_json(_as_json(report))
    else:
        _print_report(report)
    return 0 if report.is_intact else EXIT_BROKEN


@command.command(name="head")
@config_option
def show_head(*, path: Path | None) -> None:
    """Print the newest link, to be stored on another machine: later it shows a cut-off end."""
    from ..store.chain_verification import read_head

    _, file = existing_journal(path)
    head = read_head(file)
    if head is None:
        raise StoreError(
            "The journal has no hash chain.", hint="Switch it on: journal_chain = true."
        )
    print_json(head.model_dump())


def _require_journal(path: Path | None, *, is_expected: bool) -> None:
    """Raise if the journal is gone although a stored head or its marker says that there was one."""
    from ..store.chain_marker import has_marker
    from ..store.chain_verification import ChainMissingError
    from ..store.factory import log_path

    file = log_path(journal_config(path))
    if file is not None and not file.exists() and (is_expected or has_marker(file)):
        raise ChainMissingError(f"removed: the whole journal. There is no file {file}.")


def _print_missing(text: str, *, is_json: bool) -> None:
    if is_json:
        problem = {"what": "removed", "where": "the whole chain", "meaning": text}
        print_json({"intact": False, "problems": [problem], "problem_count": 1})
        return
    print_line(text, style="red")
    print_line("The journal is not intact: it, or its hash chain, was deleted.", style="red")


def _read_head_file(file: Path) -> ChainHead:
    from ..store.chain_verification import ChainHead

    try:
        return ChainHead.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a head"
        raise ConfigError(
            f"The head in {file} cannot be read: {reason}.",
            hint="Write one with: toolscout audit head > FILE",
        ) from error


def _as_json(report: ChainReport) -> dict[str, object]:
    problems = [{**asdict(problem), "meaning": problem.meaning} for problem in report.problems]
    return {
        **asdict(report),
        "intact": report.is_intact,
        "head": report.head.model_dump(),
        "problems": problems,
    }


def _print_report(report: ChainReport) -> None:
    for problem in report.problems:
        print_line(f"{problem.what}: {problem.where}. {problem.meaning}", style="red")
    if report.problem_count > len(report.problems):
        print_line(f"… and {report.problem_count - len(report.problems):,} more.")
    verdict = "intact" if report.is_intact else f"broken in {report.problem_count:,} places"
    print_line(
        f"The journal is {verdict}: {report.rows:,} rows, {report.links:,} links.",
        style="green" if report.is_intact else "red",
    )
    if report.removed_rows:
        print_line(f"{report.removed_rows:,} rows were deleted by retention or erasure.")
    if report.uncovered_rows:
        print_line(f"{report.uncovered_rows:,} rows were written while the chain was off.")
    if report.unsigned_links:
        print_line(
            f"{report.unsigned_links:,} links have no key: somebody who can write the file can"
            " compute them again. Set journal_key.",
            style="yellow",
        )
    print_line(f"Head: {report.head.position} {report.head.hash}")
