"""`toolscout journal`: follow, show and export what the journal has recorded."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ..errors import ConfigError
from ..program import command_line
from ..store.factory import open_log
from ..store.log_contract import LogFilter, LogRow, LogStore
from ..store.postgres_log import PostgresLog
from ..store.postgres_url import is_postgres_url
from ..store.sqlite_log import SqliteLog
from .journal_file import existing_journal, journal_config
from .journal_output import (
    COLUMNS,
    one_line,
    open_output,
    outcome_now,
    plain_values,
    print_json_row,
    print_row,
    row_cells,
    write_csv,
    write_lines,
)
from .numbers import WholeNumber
from .output import (
    Decorated,
    is_terminal,
    json_option,
    print_json,
    print_line,
    print_note,
    print_table,
)
from .pins import config_option
from .progress import ProgressReporter, progress

KINDS = ("search", "call", "read", "refusal", "approval", "server", "gap")
_DERIVED_OUTCOMES = ("running", "unknown")
_POLL_SECONDS = 0.5
_PAGE_ROWS = 1_000
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Moment(click.ParamType[float]):
    """A date, a date with a time, or how long ago: `2026-01-31`, `2026-01-31T12:00`, `2h`, `3d`."""

    name = "moment"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds since the epoch."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            if text[-1:] in _UNIT_SECONDS and text[:-1].replace(".", "", 1).isdigit():
                return time.time() - float(text[:-1]) * _UNIT_SECONDS[text[-1]]
            return datetime.fromisoformat(text).timestamp()  # local, unless it names a zone
        except (ValueError, OverflowError):
            self.fail(
                f"{text!r} is not a time. Write a date (2026-01-31), a date and a time"
                " (2026-01-31T12:00), or how long ago (90s, 15m, 2h, 3d, 1w).",
                param,
                ctx,
            )


def filter_options(function: Decorated) -> Decorated:
    """The options that choose rows."""
    options = (
        click.option("--kind", type=click.Choice(KINDS), help="Only rows of this kind."),
        click.option("--session", help="Only this session: its id, or the start of it."),
        click.option("--principal", help="Only calls of this principal."),
        click.option("--tool", help="Only this tool."),
        click.option("--server", help="Only this server."),
        click.option(
            "--outcome", help="ok, an error code, running, unknown, approved, ready and so on."
        ),
        click.option(
            "--since",
            type=Moment(),
            metavar="WHEN",
            help="From this time on: 2026-01-31, 2h or 3d.",
        ),
        click.option("--until", type=Moment(), metavar="WHEN", help="Before this time."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.group(name="journal")
def command() -> None:
    """Read the record of searches, calls, refusals, approvals and server changes."""


@command.command(name="tail")
@click.option("-n", "count", type=WholeNumber(min=0), default=20, show_default=True,
              help="How many rows.")  # fmt: skip
@click.option("-f", "--follow", "is_following", is_flag=True, help="Continue with new rows.")
@filter_options
@config_option
@json_option
def tail_rows(
    *, count: int, is_following: bool, path: Path | None, is_json: bool, **filters: Any
) -> None:
    """Print the newest rows, the last one at the end."""
    with open_journal(path) as log:
        where = _read_filters(log, **filters)
        # Later rows are left to `--follow`, so that no row is lost in between.
        last = max((row.sequence for row in log.read(limit=1)), default=0)
        rows = _newest(log, replace(where, before=last + 1), filters["outcome"], count)
        if not is_json and not is_following:
            print_table(COLUMNS, [row_cells(row) for row in rows])
            if not rows:
                print_note("No rows match.")
            return
        write = print_json_row if is_json else print_row
        for row in rows:
            write(row)
        if is_following:
            running = {row.id for row in rows if outcome_now(row) == "running"}
            for row in _new_rows(log, where, filters["outcome"], after=last, running=running):
                write(row)


@command.command(name="show")
@click.argument("row_id", metavar="ID")
@config_option
@json_option
def show_row(*, row_id: str, path: Path | None, is_json: bool) -> None:
    """Show one row with all its fields and parts; the start of its ID is enough."""
    with open_journal(path) as log:
        row = _find_row(log, row_id)
        parts = log.read(LogFilter(parent=row.id), limit=_PAGE_ROWS, is_newest_first=False)
    values = plain_values(row)
    if is_json:
        print_json({**values, "parts": [plain_values(part) for part in parts]})
        return
    for name, value in values.items():
        if value not in ("", None, [], {}):
            print_line(f"{name}: {one_line(value, cap=2_000)}")
    if parts:
        print_table(COLUMNS, [row_cells(part) for part in parts], title="Parts")


@command.command(name="export")
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl",
              show_default=True, help="One JSON object per line, or a table.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write to this file, which only you can read.")  # fmt: skip
@filter_options
@config_option
def export_rows(*, form: str, output: Path | None, path: Path | None, **filters: Any) -> None:
    """Write rows as JSON Lines or CSV, the oldest first."""
    # Rows on the terminal already show progress.
    bar = progress("Writing rows", is_shown=output is not None or not is_terminal())
    with open_journal(path) as log, open_output(output) as file, bar as report:
        where = _read_filters(log, **filters)
        total = log.count(where)
        rows = _report_rows(_all_rows(log, where, filters["outcome"]), total, report)
        written = (write_csv if form == "csv" else write_lines)(rows, file)
    if output is not None:
        print_line(f"{written:,} rows written to {output}.")


@command.command(name="erase")
@click.option("--principal", required=True, help="Whose rows.")
@config_option
def erase_rows(*, principal: str, path: Path | None) -> None:
    """Delete all rows of a principal; a hash chain records how many, and stays intact."""
    config = journal_config(path)
    if not is_postgres_url(config.store):
        existing_journal(path)
    with closing(open_log(config)) as log:
        assert isinstance(log, SqliteLog | PostgresLog)
        erased = log.erase(principal)
    print_line(f"{erased:,} rows erased. The audit file and what was forwarded are not changed.")


# Reading


def _open_file(path: Path | None) -> SqliteLog:
    _, file = existing_journal(path)
    return SqliteLog(file)


@contextmanager
def open_journal(path: Path | None) -> Generator[LogStore]:
    """The rows of the gateway of a configuration file."""
    config = journal_config(path)
    log = open_log(config) if is_postgres_url(config.store) else _open_file(path)
    try:
        yield log
    finally:
        log.close()


def _read_filters(log: LogStore, *, outcome: str | None, **filters: Any) -> LogFilter:
    given = {name: value for name, value in filters.items() if value is not None}
    if outcome in _DERIVED_OUTCOMES:
        # A call that never ended has no outcome. `unknown` may also have been written since.
        where = LogFilter(**given, is_open=True if outcome == "running" else None)
    else:
        where = LogFilter(**given, outcome=outcome or "")
    if where.session and not log.read(LogFilter(session=where.session), limit=1):
        return replace(where, session="", session_prefix=where.session)
    return where


def _newest(log: LogStore, where: LogFilter, outcome: str | None, count: int) -> list[LogRow]:
    rows: list[LogRow] = []
    for row in _matching(_pages(log, where, is_newest_first=True, size=count or 1), outcome):
        if len(rows) >= count:
            break
        rows.append(row)
    return rows[::-1]


def _all_rows(log: LogStore, where: LogFilter, outcome: str | None) -> Iterator[LogRow]:
    return _matching(_pages(log, where, is_newest_first=False, size=_PAGE_ROWS), outcome)


def _pages(
    log: LogStore, where: LogFilter, *, is_newest_first: bool, size: int
) -> Iterator[LogRow]:
    while rows := log.read(where, limit=min(size, _PAGE_ROWS), is_newest_first=is_newest_first):
        yield from rows
        bound = "before" if is_newest_first else "after"
        where = replace(where, **{bound: rows[-1].sequence})


def _matching(rows: Iterable[LogRow], outcome: str | None) -> Iterator[LogRow]:
    """Rows with an outcome that depends on whether their process is running."""
    if outcome not in _DERIVED_OUTCOMES:
        yield from rows
        return
    yield from (row for row in rows if outcome_now(row) == outcome)


def _new_rows(
    log: LogStore, where: LogFilter, outcome: str | None, *, after: int, running: set[str]
) -> Iterator[LogRow]:
    """New rows as they come, and running ones again when they have ended."""
    while True:
        for row_id in sorted(running):
            (row,) = log.find(row_id, limit=1) or (None,)
            if row is None or outcome_now(row) != "running":
                running.discard(row_id)
                if row is not None and outcome != "running":
                    yield row
        for row in _all_rows(log, replace(where, after=after), outcome):
            after = row.sequence
            if outcome_now(row) == "running":
                running.add(row.id)
            yield row
        time.sleep(_POLL_SECONDS)


def _find_row(log: LogStore, row_id: str) -> LogRow:
    found = log.find(row_id, limit=5)
    exact = [row for row in found if row.id == row_id]
    match exact or found:
        case [row]:
            return row
        case []:
            raise ConfigError(
                f"The journal has no row {row_id!r}.",
                hint=f"List rows with their ids: {command_line('journal', 'tail')}. Old rows are"
                " dropped (journal_days, journal_max_mb).",
            )
        case several:
            raise ConfigError(
                f"Several rows begin with {row_id!r}.",
                hint=f"Write more of the id: {', '.join(row.id for row in several)}.",
            )


def _report_rows(rows: Iterable[LogRow], total: int, report: ProgressReporter) -> Iterator[LogRow]:
    for number, row in enumerate(rows, 1):
        yield row
        if number % _PAGE_ROWS == 0:
            report("Writing rows", number, max(total, number))
