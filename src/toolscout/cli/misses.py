"""`toolscout misses`: searches that found nothing sure, or that nothing was called after."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ..journal.missed_searches import MAX_ROWS, MissCluster, read_misses
from ..program import command_line
from .journal import Moment, open_journal
from .journal_file import journal_config
from .numbers import WholeNumber
from .output import json_option, print_json, print_line, print_note, print_table
from .pins import config_option

_MAX_TEXT_CHARS = 60


@click.command(name="misses")
@click.option("-n", "count", type=WholeNumber(min=1), default=20, show_default=True,
              help="How many groups of searches.")  # fmt: skip
@click.option("--since", type=Moment(), metavar="WHEN", help="From this time on: 2026-01-31, 3d.")
@config_option
@json_option
def command(*, count: int, since: float | None, path: Path | None, is_json: bool) -> None:
    """List searches that missed, similar ones together, the most frequent first.

    A search missed if its confidence was low, or if nothing was called after it. Requests are shown
    only if the journal records them.
    """
    shows_texts = journal_config(path).record == "full"
    with open_journal(path) as log:
        found = read_misses(log, now=time.time(), shows_texts=shows_texts, since=since)
    if is_json:
        print_json([_to_dict(cluster) for cluster in found[:count]])
        return
    if not found:
        print_line(f"No search missed among the newest {MAX_ROWS:,} rows of the journal.")
        return
    columns = ("searches", "sessions", "confidence", "why", "last", "request", "found")
    print_table(columns, [_cells(cluster) for cluster in found[:count]])
    add = command_line("catalog", "phrases", "add")
    print_note(f"Add a phrase to the right tool: {add} TOOL PHRASE --preview")


def _cells(cluster: MissCluster) -> tuple[str, ...]:
    return (
        str(len(cluster.misses)),
        str(cluster.sessions),
        f"{cluster.confidence:.2f}",
        ", ".join(f"{reason}: {number}" for reason, number in cluster.reasons.items()),
        _time(cluster.newest.time),
        _request(cluster),
        ", ".join(cluster.tools[:2]) or "nothing",
    )


def _request(cluster: MissCluster) -> str:
    if cluster.texts:
        return cluster.texts[0][:_MAX_TEXT_CHARS]
    return f"{cluster.misses[0].query_chars} characters"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _to_dict(cluster: MissCluster) -> dict[str, Any]:
    return {
        "searches": len(cluster.misses),
        "sessions": cluster.sessions,
        "confidence": round(cluster.confidence, 4),
        "reasons": cluster.reasons,
        "first": _time(cluster.misses[-1].row.time),
        "last": _time(cluster.newest.time),
        "texts": list(cluster.texts),
        "tools": list(cluster.tools),
        "rows": [miss.row.id for miss in cluster.misses],
    }
