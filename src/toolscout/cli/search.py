"""`toolscout search`: one search, or many in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..catalog.tool_text import first_sentence
from ..search.hit import Hit, Results
from ..search.query import Mode, parse_all
from .catalog_options import (
    catalog_option,
    embedder_options,
    load_and_warn,
    open_engine,
    tool_filter,
)
from .output import json_option, print_json, print_line, print_note, print_table
from .repl import run_repl

EXIT_NOT_ANSWERED = 1
LOW_CONFIDENCE = 0.2


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What a search was asked for."""

    query: tuple[str, ...]
    paths: tuple[Path, ...]
    limit: int
    also: tuple[str, ...]
    mode: Mode
    servers: tuple[str, ...]
    tools: tuple[str, ...]
    cut: float
    embedder: str
    no_cache: bool
    explain: bool
    interactive: bool
    is_json: bool

    @property
    def reads_lines(self) -> bool:
        """Whether queries are read line by line."""
        return self.interactive or not self.queries

    @property
    def queries(self) -> list[str]:
        """The queries: all words of the command line are one, and each `--also` is another."""
        return [*([" ".join(self.query)] if self.query else []), *self.also]


@click.command(name="search")
@click.argument("query", nargs=-1)
@catalog_option
@click.option(
    "-k",
    "limit",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    metavar="N",
    help="How many hits at most.",
)
@click.option("--also", multiple=True, metavar="QUERY", help="Search for this too, in one answer.")
@click.option(
    "--mode",
    type=click.Choice(["auto", "words", "regex"]),
    default="auto",
    show_default=True,
    help="auto reads operators, words takes the text as it is, regex is one pattern.",
)
@click.option("--server", "servers", multiple=True, help="Only tools of this server.")
@click.option(
    "--tool", "tools", multiple=True, help="Only this tool, as name, server:name or server:*."
)
@click.option(
    "--cut",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Confidence below which a search counts as not answered (exit code 1).",
)
@embedder_options
@click.option("--explain", is_flag=True, help="Show how the query was read and why tools fit.")
@click.option("--interactive", "-i", is_flag=True, help="Ask again and again; the default.")
@json_option
def command(**given: Any) -> int:
    """Find the tools that fit QUERY.

    Words in any language, or a form of the query language: select:a,b · +required · -excluded ·
    server:name · category:name · /pattern/. Without QUERY, queries are read line by line.
    """
    return _run_search(SearchOptions(**given))


def _run_search(asked: SearchOptions) -> int:
    read = parse_all(_unwrap_single(asked.queries), mode=asked.mode)  # a mistake is told at once
    catalog = load_and_warn(asked.paths)
    allow = tool_filter(catalog, asked.servers, asked.tools)
    with open_engine(
        catalog, embedder=asked.embedder, no_cache=asked.no_cache, cut=asked.cut
    ) as engine:

        def search_and_print(texts: Sequence[str]) -> Results:
            wanted = _unwrap_single(texts)
            results = engine.search(wanted, limit=asked.limit, allow=allow, mode=asked.mode)
            _print_answer(results, wanted, asked)
            return results

        has_vectors = engine.embedders and not engine.status.problem
        if has_vectors and (asked.reads_lines or any(query.words for query in read)):
            engine.search("warm up", limit=1)  # loading the encoder is no part of `took_ms`
        if asked.reads_lines:
            run_repl(catalog, search_and_print, first=asked.queries)
            return 0
        return 0 if search_and_print(asked.queries).answered else EXIT_NOT_ANSWERED


def _unwrap_single(texts: Sequence[str]) -> str | Sequence[str]:
    return texts[0] if len(texts) == 1 else texts


def _print_answer(results: Results, wanted: str | Sequence[str], asked: SearchOptions) -> None:
    read = [q.render() for q in parse_all(wanted, mode=asked.mode)] if asked.explain else []
    if asked.is_json:
        found = results_to_dict(results, explain=asked.explain, read=read)
        print_json(found, is_line=asked.reads_lines)
    else:
        print_results(results, explain=asked.explain, read=read, cut=asked.cut)


def results_to_dict(results: Results, *, explain: bool, read: Sequence[str]) -> dict[str, Any]:
    """The answer in the form that scripts rely on."""
    found: dict[str, Any] = {
        "query": results.query,
        "confidence": results.confidence,
        "answered": results.answered,
        "took_ms": results.took_ms,
        "hits": [_hit_to_dict(hit, explain=explain) for hit in results.hits],
        "near": list(results.near),
        "notes": list(results.notes),
    }
    return found | {"read_as": list(read)} if explain else found


def print_results(
    results: Results, *, explain: bool, read: Sequence[str], cut: float = 0.0
) -> None:
    """The answer for a reader."""
    for text in read:
        print_note(f"read as: {text}")
    if results.hits:
        columns = ("tool", "score", "what it does", "why")
        print_table(columns, [_table_row(hit) for hit in results.hits])
    for hit in results.hits if explain else ():
        print_line(f"{hit.name}  {hit.score:.4f}", style="bold")
        for reason in hit.why:
            print_line(f"    {reason}  {reason.score:+.4f}")
    for line in _verdict(results, cut):
        print_note(line)


def _verdict(results: Results, cut: float) -> list[str]:
    lines = [f"confidence {results.confidence:.2f} · {results.took_ms:.1f} ms"]
    if not results.hits:
        lines.append("Nothing found. Try other words, or fewer filters.")
    elif not results.answered:
        lines.append(f"Not sure enough: the cut is {cut:.2f}. These are only the nearest tools.")
    elif results.confidence < LOW_CONFIDENCE:
        lines.append("Perhaps nothing fits. Say what the tool should do, as in: send an email.")
    if results.near:
        lines.append(f"near: {', '.join(results.near)}")
    return [*lines, *results.notes]


def _table_row(hit: Hit) -> tuple[str, ...]:
    why = "; ".join(str(reason) for reason in hit.why)
    return hit.name, f"{hit.score:.3f}", first_sentence(hit.tool.description), why


def _hit_to_dict(hit: Hit, *, explain: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": hit.name,
        "score": hit.score,
        "why": [str(reason) for reason in hit.why],
        "description": hit.tool.description,
        "server": hit.tool.server,
        "category": hit.tool.category,
    }
    if explain:
        found["reasons"] = [
            {"arm": r.arm, "field": r.field, "words": list(r.words), "score": r.score}
            for r in hit.why
        ]
    return found
