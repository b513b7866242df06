"""How fast and how large: catalogs of three sizes, everybody on one thread, in one run.

Contestants whose ratio matters most are open at once and take turns, so that a busy moment of the
machine meets all of them. Time is read twice: on the wall, and as the process's own work, which
others on the machine disturb less.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from toolscout.embedders.cache import encode_tools
from toolscout.embedders.universal_encoder import UniversalEncoder
from toolscout.evals.metrics import percentile

from .catalogs import rows, tools
from .peers.child import Child, PeerError
from .peers.contestants import (
    BIGTOOL,
    BM25S,
    DEFAULT,
    FASTMCP,
    HAYSTACK,
    LEXICAL,
    PREPARED,
    PYDANTIC_AI,
    RATEL,
    TOOLREGISTRY,
    Contestant,
)
from .progress import Progress
from .sizes import one_clause_queries, pool_file, real_queries, tools_file
from .work import FOLDER

GROUPS: tuple[tuple[Contestant, ...], ...] = (
    (LEXICAL, DEFAULT, RATEL, FASTMCP),
    (BM25S, PREPARED),
    (PYDANTIC_AI,),
    (TOOLREGISTRY,),
    (BIGTOOL,),
    (HAYSTACK,),
)
KINDS = {"any_length": real_queries, "one_clause": one_clause_queries}
TURNS = 4
SHARE_ALLOWED = 10


@dataclass(frozen=True)
class Effort:
    """How much is measured: sizes of catalogs, queries for each, and the time a contestant has.

    Before that it is asked `others`, as a server that has run for a while; how it did `at_first` is
    told, too. Beyond `everybody_up_to` tools only those take part whose ratio to Toolscout matters
    most.
    """

    sizes: tuple[int, ...] = (1_000, 10_000, 100_000)
    queries: int = 400
    others: int = 400
    at_first: int = 100
    changes: int = 5
    budget_s: float = 24.0
    everybody_up_to: int = 100_000


QUICK = Effort(
    sizes=(1_000, 10_000),
    queries=60,
    others=60,
    at_first=20,
    changes=1,
    budget_s=1.6,
    everybody_up_to=1_000,
)


@dataclass
class Timed:
    """What one contestant showed at one size."""

    contestant: Contestant
    size: int
    figures: dict[str, Any] = field(default_factory=dict[str, Any])
    times: dict[str, Times] = field(default_factory=dict[str, "Times"])
    reason: str = ""

    def row(self) -> dict[str, Any]:
        """The same as JSON; figures of the queries that it is compared by come without prefix."""
        row: dict[str, Any] = {"size": self.size, "label": self.contestant.label}
        if self.reason:
            return row | {"reason": self.reason}
        row |= self.figures
        for kind, times in self.times.items():
            prefix = "" if kind == compared_by(self.contestant) else f"{kind}_"
            row |= {f"{prefix}{k}": v for k, v in times.percentiles().items()}
        return row


@dataclass
class Times:
    """How long single searches took, in milliseconds: on the wall, and of the process's work."""

    wall: list[float] = field(default_factory=list[float])
    work: list[float] = field(default_factory=list[float])

    def percentiles(self) -> dict[str, float]:
        """The middle and the slow end."""
        return {
            "queries": len(self.wall),
            "p50_ms": percentile(self.wall, 0.5),
            "p95_ms": percentile(self.wall, 0.95),
            "p50_cpu_ms": percentile(self.work, 0.5),
            "p95_cpu_ms": percentile(self.work, 0.95),
        }


def compared_by(contestant: Contestant) -> str:
    """The kind of queries that a contestant is compared by: encoders are asked for one thing."""
    return "one_clause" if contestant.has_vectors else "any_length"


def measure(effort: Effort, *, progress: Progress) -> dict[str, Any]:
    """All contestants at all sizes, and what encoding a tool for real costs."""
    rows: list[dict[str, Any]] = []
    for size in effort.sizes:
        progress.say(f"speed · {size:,} tools · making the catalog and its vectors")
        _fill_cache(size)
        for group in GROUPS if size <= effort.everybody_up_to else GROUPS[:2]:
            names = ", ".join(c.label for c in group)
            progress.say(f"speed · {size:,} tools · {names}")
            rows += [timed.row() for timed in _measure(group, size, effort)]
    progress.say("speed · encoding tools for real")
    asked = {"others": effort.others, "at_first": effort.at_first}
    return {"rows": rows, "encoding": _encoding(), "asked": asked}


def _measure(group: Sequence[Contestant], size: int, effort: Effort) -> list[Timed]:
    found = [Timed(contestant, size) for contestant in group]
    with ExitStack() as stack:
        children: list[tuple[Timed, Child]] = []
        for timed in found:
            try:
                child = stack.enter_context(Child(timed.contestant, **_options(timed)))
                timed.figures |= _built(child, size)
                children.append((timed, child))
            except PeerError as failure:
                timed.reason = str(failure)
        kinds = list(KINDS) if len(group) > 2 else [compared_by(group[0])]
        for kind in kinds:
            _take_turns(children, kind, effort)
        for timed, child in children:
            _finish(timed, child, effort)
    return found


def _options(timed: Timed) -> dict[str, Any]:
    if not timed.contestant.has_vectors:
        return {}
    options: dict[str, Any] = {"pool": str(pool_file())}
    if timed.contestant is DEFAULT:
        options |= {"embedder": "none", "cache": _cache(timed.size)}
    return options


def _cache(size: int) -> str:
    return str(FOLDER / f"{tools_file(size).stem}.db")


def _fill_cache(size: int) -> None:
    """So that what is measured finds every vector in the cache, as after a restart."""
    with Child(DEFAULT, **_options(Timed(DEFAULT, size))) as child:
        child.ask("load", tools=str(tools_file(size)))
        child.ask("index")


def _built(child: Child, size: int) -> dict[str, Any]:
    loaded = child.ask("load", tools=str(tools_file(size)))
    indexed = child.ask("index")
    return {
        "load_s": loaded["s"],
        "index_s": indexed["s"],
        "index_cpu_s": indexed["cpu_s"],
        "rss_mb": indexed["rss_mb"],
        "tools_mb": loaded["rss_mb"] - loaded["before_mb"],
        "index_mb": indexed["rss_mb"] - loaded["rss_mb"],
    }


def _take_turns(children: Sequence[tuple[Timed, Child]], kind: str, effort: Effort) -> None:
    """Each answers a part of the queries, then the next one, and round again."""
    queries = KINDS[kind](effort.others + effort.queries)
    budget_s = effort.budget_s / TURNS
    for turn in range(TURNS):
        for timed, child in children:
            if timed.reason:
                continue
            try:
                if not turn:
                    before = queries[: effort.others]
                    said = child.ask("search", queries=before, budget_s=budget_s)
                    if not timed.times and kind == compared_by(timed.contestant):
                        timed.figures["first_p50_ms"] = median(said["ms"][: effort.at_first])
                part = queries[effort.others + turn :: TURNS]
                said = child.ask("search", queries=part, budget_s=budget_s)
            except PeerError as failure:
                timed.reason = str(failure)
                continue
            times = timed.times.setdefault(kind, Times())
            times.wall += said["ms"]
            times.work += said["cpu_ms"]


def _finish(timed: Timed, child: Child, effort: Effort) -> None:
    """What comes after plain searching: changes, and what only Toolscout is asked."""
    if timed.reason:
        return
    timed.figures |= _changed(child, effort)
    if timed.contestant in (LEXICAL, DEFAULT):
        timed.figures |= _allowed(timed, child, effort)


def _changed(child: Child, effort: Effort) -> dict[str, Any]:
    """Single tools added and removed: the change alone, and until a search has seen it."""
    found: dict[str, Any] = {}
    rows = [_newcomer(number) for number in range(effort.changes)]
    for operation, key in (("add", "row"), ("remove", "name")):
        asked: list[Any] = rows if key == "row" else [row["name"] for row in rows]
        try:
            said = [child.ask(operation, **{key: value}) for value in asked]
        except PeerError as failure:
            found[f"{operation}_reason"] = str(failure)
            continue
        for key in ("ms", "cpu_ms", "searched_ms", "searched_cpu_ms"):
            found[f"{operation}_{key}"] = median(s[key] for s in said)
    return found


def _newcomer(number: int) -> dict[str, Any]:
    return {
        "name": f"quokka_census_{number}",
        "description": f"Count the quokkas of island number {number} and report the total.",
        "parameters": {"type": "object", "properties": {"island": {"type": "string"}}},
        "server": "wildlife",
    }


def _allowed(timed: Timed, child: Child, effort: Effort) -> dict[str, Any]:
    """Searches that see a tenth of the catalog, beside others like them that see all of it.

    Those who see a tenth ask first what the others have asked by then: what a word is to a caller
    is worked out once.
    """
    names = [row["name"] for row in rows(tools_file(timed.size))[::SHARE_ALLOWED]]
    asked = effort.others + effort.queries
    fresh = _queries(timed.contestant, 2 * effort.queries, skip=asked)
    first = child.ask("search", queries=fresh[:1], allow=names)
    child.ask("search", queries=_queries(timed.contestant, asked, skip=0), allow=names)
    found: tuple[list[float], list[float]] = ([], [])
    for turn in range(TURNS):
        part = fresh[1 + turn :: TURNS]
        # What has been encoded is remembered, so with vectors no query is asked both ways.
        halves = (part[0::2], part[1::2]) if timed.contestant.has_vectors else (part, part)
        for is_tenth in (0, 1) if turn % 2 else (1, 0):
            allow = names if is_tenth else None
            said = child.ask("search", queries=halves[is_tenth], allow=allow)
            found[is_tenth].extend(said["cpu_ms"])
    return {
        "allowed_first_ms": first["ms"][0],
        "allowed_p50_cpu_ms": percentile(found[1], 0.5),
        "unrestricted_p50_cpu_ms": percentile(found[0], 0.5),
    }


def _queries(contestant: Contestant, count: int, *, skip: int) -> list[str]:
    """Queries of the kind that a contestant is compared by, from some place on."""
    return KINDS[compared_by(contestant)](skip + count)[skip:]


def _encoding(count: int = 64) -> dict[str, float]:
    """What a vector costs where no cache has it."""
    encoder = UniversalEncoder()
    some = tools(count)
    encode_tools(some[:4], encoder)
    wall, work = time.perf_counter(), time.process_time()
    encode_tools(some, encoder)
    wall, work = time.perf_counter() - wall, time.process_time() - work
    return {"tools": count, "ms_per_tool": wall / count * 1e3, "cpu_ms": work / count * 1e3}
