"""`toolscout bench`: measures search quality and latency on labelled queries."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..catalog.problem import Problem
from ..errors import ConfigError, SourceError
from ..evals.bench import (
    FIGURES,
    BenchReport,
    QueryScore,
    measure_abstention,
    measure_without_relevant,
    rss_mb,
    score_queries,
)
from ..evals.bootstrap import confidence_interval, gain_interval
from ..evals.dataset import (
    LabelledQuery,
    NegativeQuery,
    read_negatives,
    read_queries,
    resolve_negatives,
    resolve_queries,
)
from ..program import command_line
from ..search.engine import Engine
from .catalog_options import PATH, embedder_options, load_and_warn, open_engine, warn_about
from .numbers import WholeNumber
from .output import count_noun, json_option, print_json, print_line, print_table, warn
from .progress import progress

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)
_MAX_LISTED_LINES = 100


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """The options of a run."""

    tools: Path
    queries: Path
    negatives: Path | None
    without_relevant: bool
    reliability: bool
    limit: int | None
    rows: Path | None
    against: Path | None
    embedder: str
    no_cache: bool
    is_json: bool


@click.command(name="bench")
@click.option("--tools", type=PATH, required=True, metavar="FILE", help="The catalog to search.")
@click.option("--queries", type=FILE, required=True, metavar="FILE", help="Labelled queries.")
@click.option(
    "--negatives", type=FILE, metavar="FILE", help="Queries that no tool in the catalog can answer."
)
@click.option("--without-relevant", is_flag=True, help="Also measure with the right tools removed.")
@click.option("--reliability", is_flag=True, help="Also measure how often confidence is right.")
@click.option(
    "--limit", type=WholeNumber(1), metavar="N", help="Only the first N queries and negatives."
)
@click.option("--rows", type=NEW_FILE, metavar="FILE", help="Write the figures of every query.")
@click.option("--against", type=FILE, metavar="FILE", help="Compare with the rows of another run.")
@embedder_options
@json_option
def command(**options: Any) -> None:
    """Measure search on a catalog and its labelled queries."""
    _run_bench(BenchOptions(**options))


def _run_bench(options: BenchOptions) -> None:
    earlier = _read_rows(options.against) if options.against is not None else None
    started = time.perf_counter()
    catalog = load_and_warn((options.tools,))
    if not catalog:
        raise SourceError(f"{options.tools} has no tool that can be read.", hint="Fix its rows.")
    with open_engine(catalog, embedder=options.embedder, no_cache=options.no_cache) as engine:
        report = _measure(engine, options, build_s=time.perf_counter() - started)
    if options.rows is not None:
        _write_rows(options.rows, report.scored)
    summary = report.summary()
    if options.reliability:
        summary["reliability"] = _reliability_curve(report)
    if earlier is not None:
        summary["against"] = _gains(report.scored, earlier)
    if options.is_json:
        print_json(summary)
    else:
        _print_report(report, summary)


def _measure(engine: Engine, options: BenchOptions, *, build_s: float) -> BenchReport:
    queries = _load_queries(engine, options.queries)[: options.limit]
    negatives = (
        _load_negatives(engine, options.negatives)[: options.limit] if options.negatives else ()
    )
    with progress("Reading queries") as step:
        scored = score_queries(engine, queries, progress=step)
        memory = rss_mb()  # before other measurements fill caches
        abstention = (
            measure_abstention(engine, queries, negatives, progress=step) if negatives else None
        )
        without_relevant = None
        if options.without_relevant:
            without_relevant = measure_without_relevant(engine, queries, scored, progress=step)
    return BenchReport(len(engine.catalog), scored, build_s, memory, abstention, without_relevant)


def _load_queries(engine: Engine, path: Path) -> Sequence[LabelledQuery]:
    read = read_queries(path)
    resolved = resolve_queries(read.rows, engine.catalog)
    _warn_skipped_rows(path, read.problems, resolved.problems)
    if not resolved.rows:
        raise SourceError(f"{path} has no query that can be read.", hint="Fix its rows.")
    return resolved.rows


def _load_negatives(engine: Engine, path: Path) -> Sequence[NegativeQuery]:
    read = read_negatives(path)
    resolved = resolve_negatives(read.rows, engine.catalog)
    _warn_skipped_rows(path, read.problems, resolved.problems)
    if not resolved.rows:
        warn(f"{path} has no negative that can be used: abstain is not measured.")
    return resolved.rows


def _warn_skipped_rows(path: Path, unread: Sequence[Problem], unknown: Sequence[Problem]) -> None:
    """Print the first problems, and then the lines of all rows that were skipped."""
    warn_about((*unread, *unknown))
    if unread:
        lines = [problem.where.removeprefix(f"{path}:") for problem in unread]
        more = ", …" if len(lines) > _MAX_LISTED_LINES else "."
        first = ", ".join(lines[:_MAX_LISTED_LINES])
        skipped = count_noun(len(lines), "row")
        warn(
            f"{path}: {skipped} skipped, on {'line' if len(lines) == 1 else 'lines'} {first}{more}"
        )


def _write_rows(path: Path, scored: Sequence[QueryScore]) -> None:
    try:
        path.write_text("".join(f"{json.dumps(s.row())}\n" for s in scored), encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"Cannot write {path}: {error.strerror}.", hint="Name another file for --rows."
        ) from error


def _read_rows(path: Path) -> dict[str, dict[str, float]]:
    """The figures of an earlier run by query id."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        return {str(row["id"]): {name: float(row[name]) for name in FIGURES} for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} does not contain the rows of a run.",
            hint=f"Create them with: {command_line('bench')} … --rows FILE",
        ) from error


def _gains(scored: Sequence[QueryScore], earlier: dict[str, dict[str, float]]) -> dict[str, Any]:
    """The gains on the queries that both runs have, with 95 % intervals."""
    shared = [s for s in scored if s.id in earlier]
    gains: dict[str, Any] = {"queries": len(shared)}
    for name in FIGURES:
        gain = gain_interval(
            [s.figures[name] for s in shared], [earlier[s.id][name] for s in shared]
        )
        gains[name] = {
            "gain": round(gain.mean, 4),
            "low": round(gain.low, 4),
            "high": round(gain.high, 4),
            "is_clear": gain.is_significant,
        }
    return gains


def _reliability_curve(report: BenchReport) -> dict[str, Any]:
    curve = report.reliability
    bins = [
        {
            "from": b.low,
            "to": b.high,
            "count": b.count,
            "confidence": round(b.confidence, 4),
            "right": round(b.right, 4),
        }
        for b in curve.bins
    ]
    return {"ece": round(curve.error, 4), "bins": bins}


def _print_report(report: BenchReport, summary: dict[str, Any]) -> None:
    rows: list[tuple[str, ...]] = []
    # Quality figures get an interval; times and memory are single measurements.
    for name in FIGURES:
        interval = confidence_interval([s.figures[name] for s in report.scored])
        rows.append((name, f"{interval.mean:.4f}", f"{interval.low:.4f} to {interval.high:.4f}"))
    rows += [(key, f"{summary[key]:g}", "") for key in ("build_s", "p50_ms", "p95_ms", "rss_mb")]
    for name in ("abstain", "without_relevant"):
        rows += [
            (f"{name} {key}", f"{value:.4f}", "") for key, value in summary.get(name, {}).items()
        ]
    print_line(f"{summary['tools']} tools, {summary['queries']} queries")
    print_table(("figure", "value", "95 % interval"), rows)
    if "reliability" in summary:
        print_line(f"confidence is off by {summary['reliability']['ece']:.4f} on average")
        print_table(
            ("confidence", "searches", "mean", "right"),
            [
                (
                    f"{b['from']:g} to {b['to']:g}",
                    str(b["count"]),
                    f"{b['confidence']:.3f}",
                    f"{b['right']:.3f}",
                )
                for b in summary["reliability"]["bins"]
            ],
        )
    if "against" in summary:
        gains: dict[str, Any] = summary["against"]
        print_line(f"against the other run, on {gains['queries']} queries")
        print_table(
            ("figure", "gain", "95 % interval", ""),
            [
                (
                    name,
                    f"{gains[name]['gain']:+.4f}",
                    f"{gains[name]['low']:+.4f} to {gains[name]['high']:+.4f}",
                    "clear" if gains[name]["is_clear"] else "may be chance",
                )
                for name in FIGURES
            ],
        )
