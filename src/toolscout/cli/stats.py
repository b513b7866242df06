"""`toolscout stats`: calls, errors, latency and saved tokens over time."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..config import Config
from ..errors import ConfigError
from ..store.factory import has_store, is_store_kept
from .output import count_noun, json_option, print_json, print_line, print_note, print_table
from .pins import config_option

if TYPE_CHECKING:
    from ..gateway.operations.statistics_report import CallFigures, StatisticsReport, TimeRange

_COLUMNS = ("calls", "errors", "p50 ms", "p95 ms", "p99 ms")


@click.command(name="stats")
@click.option(
    "--range",
    "time_range",
    type=click.Choice(["day", "week", "month"]),
    default="day",
    show_default=True,
    help="How far back: 24 hours, 7 days by the hour, or 30 days.",
)
@click.option(
    "--by",
    type=click.Choice(["tool", "server", "time"]),
    default="tool",
    show_default=True,
    help="What a line of the table stands for.",
)
@click.option("--server", default="", metavar="NAME", help="Only this server.")
@click.option("--tool", default="", metavar="NAME", help="Only this tool.")
@config_option
@json_option
def command(
    *, time_range: TimeRange, by: str, server: str, tool: str, path: Path | None, is_json: bool
) -> None:
    """Show calls, errors, latency and saved tokens over time.

    The figures are those of all gateways that share the store. A running gateway writes them
    every two seconds.
    """
    report = _read_report(path, time_range, server=server, tool=tool)
    if is_json:
        print_json({"range": time_range, **report.to_json()})
        return
    total = report.total
    parts = [count_noun(total.calls, "call"), count_noun(total.errors, "error")]
    if report.searches is not None:
        parts.append(f"{report.searches.calls:,} searches")
        parts.append(f"{report.tokens_saved:,} tokens saved")
    print_line(f"{time_range}: {', '.join(parts)}")
    if by == "time":
        starts = (f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d %H:%M}" for start in report.times)
        _print_figures(
            ("start (UTC)",), zip(([s] for s in starts), report.calls_by_time, strict=True)
        )
    elif by == "server":
        _print_figures(("server",), (([name], row) for name, row in report.servers.items()))
    else:
        named = (
            ([tool or "(other tools)", server], row) for (server, tool), row in report.tools.items()
        )
        _print_figures(("tool", "server"), named)
    if not total.calls:
        print_note("No calls in this time, or record is off.")


def _read_report(
    path: Path | None, time_range: TimeRange, *, server: str, tool: str
) -> StatisticsReport:
    from ..gateway.operations.statistics_report import read_report
    from ..gateway.operations.statistics_store import StatisticsStore

    # Only TOML has a [settings] table, and so a `home`.
    config = Config.read(path if path is not None and path.suffix == ".toml" else None)
    if not is_store_kept(config):
        raise ConfigError(
            "With store = memory, the figures exist only in the process of the gateway.",
            hint="Set store to sqlite or to the path of a file.",
        )
    if not has_store(config):
        return read_report(None, time_range, server=server, tool=tool)
    with closing(StatisticsStore.open(config)) as store:
        return read_report(store, time_range, server=server, tool=tool)


def _print_figures(names: tuple[str, ...], rows: Iterable[tuple[list[str], CallFigures]]) -> None:
    cells = [
        (
            *name,
            str(row.calls),
            str(row.errors),
            *map(_milliseconds, (row.p50_ms, row.p95_ms, row.p99_ms)),
        )
        for name, row in rows
    ]
    if cells:
        print_table((*names, *_COLUMNS), cells)


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
