"""Rows of the journal as cells, JSON lines or CSV."""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from ..catalog.sanitization import compact_json, escape_hidden, escape_json, reveal_hidden
from ..errors import ConfigError
from ..journal.reading import current_outcome, row_data, row_values
from ..store.log_contract import LogRow
from .output import print_cells, print_json

COLUMNS = ("time", "kind", "what", "outcome", "ms", "principal", "session", "id")
_SESSION_CHARS = 12
_MAX_CELL_CHARS = 120


def outcome_now(row: LogRow) -> str:
    """The outcome of a row as of now."""
    return current_outcome(row, now=time.time())


def plain_values(row: LogRow) -> dict[str, Any]:
    """A row as plain values for JSON."""
    return row_values(row, now=time.time())


def print_json_row(row: LogRow) -> None:
    """Print a row as one line of JSON, at once."""
    print_json(plain_values(row), is_line=True)
    sys.stdout.flush()


def print_row(row: LogRow) -> None:
    """Print a row as one line with tabs, at once."""
    print_cells(row_cells(row))
    sys.stdout.flush()


def row_cells(row: LogRow) -> tuple[str, ...]:
    """A row as the cells of a table."""
    session = row.session
    if len(session) > _SESSION_CHARS:
        session = session[:_SESSION_CHARS]
    moment = datetime.fromtimestamp(row.time).astimezone()
    took = "" if row.took_ms is None else f"{row.took_ms:.1f}"
    cells = (
        moment.isoformat(sep=" ", timespec="seconds")[:19],
        row.kind,
        _describe(row),
        outcome_now(row),
        took,
        row.principal,
        session,
        row.id,
    )
    return tuple(one_line(cell, cap=_MAX_CELL_CHARS) for cell in cells)


def _describe(row: LogRow) -> str:
    """A short summary of a row."""
    data = row_data(row)
    match row.kind:
        case "search":
            hits: list[Any] = data.get("hits", [])
            best = f", best {hits[0][0]}" if hits else ""
            return f"{row.tool}: {len(hits)} found{best}"
        case "server":
            words = (row.server, row.tool, str(data.get("reason", "")))
            return ": ".join(word for word in words if word)
        case "gap":
            return f"{data.get('missing', 0)} rows missing: {data.get('reason', '')}"
        case _:
            return row.tool


def one_line(value: object, *, cap: int) -> str:
    """A value as one line: names come from models and servers."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return escape_hidden(text, cap=cap)


@contextmanager
def open_output(output: Path | None) -> Generator[TextIO]:
    """The file to write to, readable by its owner alone; stdout without one."""
    if output is None:
        yield sys.stdout
        return
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise ConfigError(
            f"{output} cannot be written: {error.strerror}.",
            hint="Name another file with -o, or free some space.",
        ) from error


def write_lines(rows: Iterable[LogRow], file: TextIO) -> int:
    """Write rows as JSON Lines; how many there were."""
    count = 0
    for row in rows:
        file.write(escape_json(compact_json(plain_values(row))) + "\n")
        count += 1
    return count


def write_csv(rows: Iterable[LogRow], file: TextIO) -> int:
    """Write rows as CSV; how many there were."""
    names = ("id", "time", "kind", "outcome", "took_ms", "tool", "server", "session", "principal",
             "client", "parent", "process", "data", "vector")  # fmt: skip
    table = csv.writer(file)
    table.writerow(names)
    count = 0
    for row in rows:
        values = {**plain_values(row), "data": escape_json(row.data)}
        table.writerow([_safe_cell(values[name]) for name in names])
        count += 1
    return count


def _safe_cell(value: Any) -> Any:
    """A cell that no spreadsheet or terminal obeys: names come from models and servers."""
    if not isinstance(value, str):
        return value
    is_formula = value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return ("'" if is_formula else "") + reveal_hidden(value)
