"""`toolscout search`: one search from the arguments, or an interactive session."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..catalog.catalog import Catalog
from ..catalog.deprecation import is_deprecated, replacement_names
from ..catalog.sanitization import first_sentence
from ..config import Config
from ..disclosure.doubt import judge_results
from ..disclosure.nothing_fits import NOTHING_NOTE, UNSURE_NOTE
from ..evals.tool_rank import RANK_PROBLEMS, ToolRank, rank_tool
from ..events import ignore
from ..program import command_line
from ..search.engine import Allow, Engine
from ..search.hit import Hit, Results
from ..search.pipeline import MISSING_NAMES_PREFIX, note_missing_names
from ..search.query import Mode, Query, parse_all
from ..store.factory import has_store
from .catalog_options import (
    add_overlay,
    catalog_option,
    embedder_options,
    load_with_held,
    open_engine,
    tool_filter,
)
from .config_options import overlay_option
from .numbers import WholeNumber
from .output import (
    count_noun,
    json_option,
    print_json,
    print_line,
    print_note,
    print_table,
    warn,
)
from .progress import progress
from .repl import run_repl

if TYPE_CHECKING:
    from ..gateway.upstream.held_tools import HeldTools

EXIT_NOT_ANSWERED = 1
_FILTER_ADVICE = ", or use fewer filters"
_ROUNDING = 5e-5


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options of a search."""

    query: tuple[str, ...]
    paths: tuple[Path, ...]
    config: Path | None
    overlay: Path | None
    limit: int
    also: tuple[str, ...]
    mode: Mode
    servers: tuple[str, ...]
    tools: tuple[str, ...]
    cut: float
    embedder: str
    no_cache: bool
    explain: bool
    why_not: str | None
    interactive: bool
    is_json: bool

    @property
    def reads_lines(self) -> bool:
        """Whether queries are read from the input, line by line."""
        return self.interactive or not self.queries

    @property
    def queries(self) -> list[str]:
        """All words of the command line as one query, and each `--also` as another."""
        return [*([" ".join(self.query)] if self.query else []), *self.also]


@click.command(name="search")
@click.argument("query", nargs=-1)
@catalog_option
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Search the servers of this configuration, as last listed by check or serve.",
)
@overlay_option
@click.option(
    "-k",
    "limit",
    type=WholeNumber(1, 1000),
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
    help="auto reads operators, words takes plain text, regex is one pattern.",
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
@click.option("--why-not", metavar="TOOL", help="Show the rank of this tool for each ranker.")
@click.option("--interactive", "-i", is_flag=True, help="Ask again and again; the default.")
@json_option
def command(**options: Any) -> int:
    """Find the tools that fit QUERY.

    Words in any language, or a form of the query language: select:a,b · +required · -excluded ·
    server:name · category:name · /pattern/. Without QUERY, queries are read line by line.
    """
    chosen = SearchOptions(**options)
    if chosen.config is not None and chosen.paths:
        raise click.UsageError("Give either --config or --catalog, not both.")
    return _run_search(chosen)


def _run_search(options: SearchOptions) -> int:
    # Parsed first, so that a mistake in the query is reported before the catalog is loaded.
    parsed = parse_all(_unwrap_single(options.queries), mode=options.mode)
    catalog, held = load_with_held(options.paths, options.config)
    if held is None and not options.paths and not options.is_json:
        warn(
            f"Using the {count_noun(len(catalog), 'tool')} of the example. To use your own, run"
            f" {command_line('add')}, or name a file with --catalog or --config."
        )
    catalog = add_overlay(catalog, options.overlay, is_own=not options.paths, config=options.config)
    allow = tool_filter(catalog, options.servers, options.tools)
    with (
        open_engine(
            catalog, embedder=options.embedder, no_cache=options.no_cache, cut=options.cut
        ) as engine,
        _learned_state(engine),
    ):

        def search_and_print(texts: Sequence[str]) -> Results:
            queries = _unwrap_single(texts)
            results = engine.search(queries, limit=options.limit, allow=allow, mode=options.mode)
            results = judge_results(results, engine, allow=allow)
            notice = ""
            if held:
                notice = _describe_held(results, texts, held, engine, allow)
                results = _drop_held_names(results, texts, held, allow)
            has_filters = bool(allow is not None or any(map(_has_filter, parse_all(texts))))
            doubt = _describe_doubt(results, engine, has_filters=has_filters)
            found = _rank_tool(engine, texts, options, allow)
            _print_answer(results, queries, options, held=notice, doubt=doubt, why_not=found)
            return results

        has_vectors = engine.embedders and not engine.status.problem
        if has_vectors and (options.reads_lines or any(query.words for query in parsed)):
            with progress("Loading semantic search"):
                engine.search("warm up", limit=1)  # `took_ms` must not include loading it
        if options.reads_lines:
            run_repl(catalog, search_and_print, first=options.queries, held=held)
            return 0
        return 0 if search_and_print(options.queries).is_answered else EXIT_NOT_ANSWERED


def _describe_held(
    results: Results,
    queries: Sequence[str],
    held: HeldTools,
    engine: Engine,
    allow: Allow | None,
) -> str:
    """A line about held tools that the search would have found; empty if there are none."""
    from ..gateway.upstream.held_ranking import HeldRanker

    with closing(HeldRanker(engine)) as ranker:
        found = [hit.tool for hit in results.hits]
        has_others = bool(engine.catalog)
        notice = held.notice(
            queries,
            allow,
            reply="",
            listed=[tool.name for tool in found],
            found=found,
            ranker=ranker,
            has_others=has_others,
        )
        return notice.text


def _drop_held_names(
    results: Results, queries: Sequence[str], held: HeldTools, allow: Allow | None
) -> Results:
    """The results, where selected names of held tools do not count as missing."""
    selected = [name for query in parse_all(queries) for name in query.select]
    if not any(held.find_or_suggest(name, allow) for name in selected):
        return results
    known = Catalog(hit.tool for hit in results.hits)
    absent = [
        name
        for name in selected
        if not known.resolve(name) and not held.find_or_suggest(name, allow)
    ]
    notes = [note for note in results.notes if not note.startswith(MISSING_NAMES_PREFIX)]
    notes += [note_missing_names(absent)] if absent else []
    return replace(results, notes=tuple(notes))


def _rank_tool(
    engine: Engine, queries: Sequence[str], options: SearchOptions, allow: Allow | None
) -> ToolRank | None:
    """Where the tool of `--why-not` stands; of several queries, for the first."""
    if options.why_not is None:
        return None
    return rank_tool(engine, queries[0], options.why_not, allow=allow)


@contextmanager
def _learned_state(engine: Engine) -> Generator[None]:
    """Search with what the gateway has learned about these tools."""
    config = Config.read()
    if config.learning != "on" or not has_store(config):
        yield
        return
    from ..toolbox.learning_settings import open_learner

    learner = open_learner(config, engine, sink=ignore)
    if learner is not None:
        learner.update_tools(engine.catalog)
        learner.flush()
    yield
    if learner is not None:
        learner.close()


def _unwrap_single(texts: Sequence[str]) -> str | Sequence[str]:
    return texts[0] if len(texts) == 1 else texts


def _print_answer(
    results: Results,
    queries: str | Sequence[str],
    options: SearchOptions,
    *,
    held: str,
    doubt: str,
    why_not: ToolRank | None,
) -> None:
    read_as: list[str] = []
    if options.explain:
        read_as = [query.render() for query in parse_all(queries, mode=options.mode)]
    if options.is_json:
        first = held or doubt
        results = replace(results, notes=(first, *results.notes)) if first else results
        row = results_to_dict(results, explain=options.explain, read_as=read_as)
        row |= {"why_not": asdict(why_not)} if why_not is not None else {}
        print_json(row, is_line=options.reads_lines)
        return
    print_results(results, explain=options.explain, read_as=read_as, warning=held or doubt)
    if why_not is not None:
        print_tool_rank(why_not)


def results_to_dict(results: Results, *, explain: bool, read_as: Sequence[str]) -> dict[str, Any]:
    """The results as JSON; scripts rely on these keys."""
    row: dict[str, Any] = {
        "query": results.query,
        "confidence": results.confidence,
        "answered": results.is_answered,
        "verdict": results.verdict,
        "took_ms": results.took_ms,
        "hits": [_hit_to_dict(hit, results, explain=explain) for hit in results.hits],
        "near": list(results.near),
        "notes": list(results.notes),
    }
    return row | {"read_as": list(read_as)} if explain else row


def print_results(
    results: Results, *, explain: bool, read_as: Sequence[str], warning: str = ""
) -> None:
    """Print the results as a table with notes; `warning` says why the hits may be wrong."""
    for text in read_as:
        print_note(f"read as: {text}")
    # First, so that nobody takes the tools below for an answer.
    if warning:
        print_note(warning)
    if results.hits:
        columns = ("tool", "score", "what it does", "why")
        print_table(columns, [_table_row(hit) for hit in results.hits])
    for hit in results.hits if explain else ():
        print_line(f"{hit.name}  {hit.score:.4f}", style="bold")
        for label, score in _score_parts(hit, results):
            print_line(f"    {label}  {score:+.4f}")
    print_note(
        f"confidence {results.confidence:.2f} ({results.verdict}) · {results.took_ms:.1f} ms"
    )
    if results.near:
        print_note(f"near: {', '.join(results.near)}")
    for note in results.notes:
        print_note(note)


def print_tool_rank(found: ToolRank) -> None:
    """Print where one tool stands, and what each ranker makes of it."""
    if found.problem:
        print_note(f"{found.name}: {RANK_PROBLEMS[found.problem]}")
        return
    print_line(f"{found.name}: rank {found.rank} of {found.tools}, score {found.score:.4f}")
    rows = [
        (
            arm.arm,
            "not found" if arm.rank is None else str(arm.rank),
            f"{arm.score:+.4f}",
            f"{arm.best:+.4f}",
            arm.field,
            ", ".join(arm.words),
        )
        for arm in found.arms
    ]
    print_table(("ranker", "rank", "score", "best score", "field", "words"), rows)


def _has_filter(query: Query) -> bool:
    return bool(query.required or query.excluded or query.servers or query.categories)


def _describe_doubt(results: Results, engine: Engine, *, has_filters: bool) -> str:
    """What to say first where the hits are likely wrong, or where there are none."""
    if not results.hits:
        return NOTHING_NOTE if has_filters else NOTHING_NOTE.replace(_FILTER_ADVICE, "")
    if not results.is_answered:
        cut = f"{engine.min_confidence:.2f}"
        return f"Not sure enough: the cut is {cut}. These are only the nearest tools."
    return UNSURE_NOTE if results.verdict == "unsure" else ""


def _score_parts(hit: Hit, results: Results) -> list[tuple[str, float]]:
    """The parts of a score, which add up to it."""
    parts = [(str(reason), reason.score) for reason in hit.why]
    rest = hit.score - sum(score for _, score in parts)
    # What its server's other tools add, what words that it lacks take away, and the difference
    # that it makes when another tool serves the same part of the request.
    label = "server and missing words"
    if is_deprecated(hit.tool):
        label = f"deprecated, {label}"
    if replaced := [other.name for other in results.hits if _is_replaced_by(other, hit)]:
        label = f"in place of the deprecated {', '.join(replaced)}, {label}"
    return parts if abs(rest) < _ROUNDING else [*parts, (label, rest)]


def _is_replaced_by(old: Hit, new: Hit) -> bool:
    names = {new.name, new.tool.local_name}
    return is_deprecated(old.tool) and not names.isdisjoint(replacement_names(old.tool))


def _table_row(hit: Hit) -> tuple[str, ...]:
    why = "; ".join(str(reason) for reason in hit.why)
    return hit.name, f"{hit.score:.3f}", first_sentence(hit.tool.description), why


def _hit_to_dict(hit: Hit, results: Results, *, explain: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": hit.name,
        "score": hit.score,
        "why": [str(reason) for reason in hit.why],
        "description": hit.tool.description,
        "server": hit.tool.server,
        "category": hit.tool.category,
    }
    if explain:
        row["reasons"] = [
            {"arm": r.arm, "field": r.field, "words": list(r.words), "score": r.score}
            for r in hit.why
        ]
        row["parts"] = [
            {"label": label, "score": round(score, 4)}
            for label, score in _score_parts(hit, results)
        ]
    return row
