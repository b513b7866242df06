"""`toolscout search`: one search, or many in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..catalog.card import first_sentence
from ..search.hit import Hit, Results
from ..search.query import Mode, parse_all
from .catalogs import catalog_option, embedder_options, engine_over, load_and_warn, only
from .interactive import converse
from .output import json_option, note, print_json, print_table, say

NOT_ANSWERED = 1
UNSURE = 0.2


@dataclass(frozen=True, slots=True)
class Asked:
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
    def is_many(self) -> bool:
        """Whether queries are read line by line."""
        return self.interactive or not self.texts

    @property
    def texts(self) -> list[str]:
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
    return _search(Asked(**given))


def _search(asked: Asked) -> int:
    read = parse_all(_one_or_many(asked.texts), mode=asked.mode)  # a mistake is told at once
    catalog = load_and_warn(asked.paths)
    allow = only(catalog, asked.servers, asked.tools)
    with engine_over(
        catalog, embedder=asked.embedder, no_cache=asked.no_cache, cut=asked.cut
    ) as engine:

        def ask(texts: Sequence[str]) -> Results:
            wanted = _one_or_many(texts)
            results = engine.search(wanted, limit=asked.limit, allow=allow, mode=asked.mode)
            _print(results, wanted, asked)
            return results

        has_vectors = engine.embedders and not engine.status.problem
        if has_vectors and (asked.is_many or any(query.words for query in read)):
            engine.search("warm up", limit=1)  # loading the encoder is no part of `took_ms`
        if asked.is_many:
            converse(catalog, ask, first=asked.texts)
            return 0
        return 0 if ask(asked.texts).answered else NOT_ANSWERED


def _one_or_many(texts: Sequence[str]) -> str | Sequence[str]:
    return texts[0] if len(texts) == 1 else texts


def _print(results: Results, wanted: str | Sequence[str], asked: Asked) -> None:
    read = [q.render() for q in parse_all(wanted, mode=asked.mode)] if asked.explain else []
    if asked.is_json:
        found = as_json(results, explain=asked.explain, read=read)
        print_json(found, is_line=asked.is_many)
    else:
        show(results, explain=asked.explain, read=read, cut=asked.cut)


def as_json(results: Results, *, explain: bool, read: Sequence[str]) -> dict[str, Any]:
    """The answer in the form that scripts rely on."""
    found: dict[str, Any] = {
        "query": results.query,
        "confidence": results.confidence,
        "answered": results.answered,
        "took_ms": results.took_ms,
        "hits": [_hit_json(hit, explain=explain) for hit in results.hits],
        "near": list(results.near),
        "notes": list(results.notes),
    }
    return found | {"read_as": list(read)} if explain else found


def show(results: Results, *, explain: bool, read: Sequence[str], cut: float = 0.0) -> None:
    """The answer for a reader."""
    for text in read:
        note(f"read as: {text}")
    if results.hits:
        columns = ("tool", "score", "what it does", "why")
        print_table(columns, [_row(hit) for hit in results.hits])
    for hit in results.hits if explain else ():
        say(f"{hit.name}  {hit.score:.4f}", style="bold")
        for reason in hit.why:
            say(f"    {reason}  {reason.score:+.4f}")
    for line in _verdict(results, cut):
        note(line)


def _verdict(results: Results, cut: float) -> list[str]:
    lines = [f"confidence {results.confidence:.2f} · {results.took_ms:.1f} ms"]
    if not results.hits:
        lines.append("Nothing found. Try other words, or fewer filters.")
    elif not results.answered:
        lines.append(f"Not sure enough: the cut is {cut:.2f}. These are only the nearest tools.")
    elif results.confidence < UNSURE:
        lines.append("Perhaps nothing fits. Say what the tool should do, as in: send an email.")
    if results.near:
        lines.append(f"near: {', '.join(results.near)}")
    return [*lines, *results.notes]


def _row(hit: Hit) -> tuple[str, ...]:
    why = "; ".join(str(reason) for reason in hit.why)
    return hit.name, f"{hit.score:.3f}", first_sentence(hit.tool.description), why


def _hit_json(hit: Hit, *, explain: bool) -> dict[str, Any]:
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
