"""Tokens per resolved lookup: what a model spends until the right tool is callable.

    python bench/lookup.py [--data ../shared/data/azure_mcp] [--embedder use] [--limit N] [--json]

For every labelled query: the call of the search, its reply, and what loading adds to the next
request. A lookup is resolved when a right tool is callable. Where a reply only *names* a right
tool, the model asks for that name next; where it does not, the model asks once more for more hits;
both are charged. What stays unresolved is charged as well, to the lookups that were resolved.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from toolscout import embedders
from toolscout.catalog.catalog import Catalog
from toolscout.disclosure.discovery import DiscoveryOutcome, discover
from toolscout.disclosure.profile import Profile, Role
from toolscout.disclosure.profiles import CMS, COMPACT, DEFAULT, EVERRUNS, MCPAGENT
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.view import view
from toolscout.evals.dataset import LabelledQuery, read_queries, resolve_queries
from toolscout.search.engine import Engine
from toolscout.sources.files import read_tools
from toolscout.tokens import count_json, default_counter

DATA = Path(__file__).parents[2] / "shared" / "data" / "azure_mcp"
MORE = 15
WORD = re.compile(r"[\w.-]*\w")
COUNTER = default_counter()


@dataclass(frozen=True)
class Shape:
    """A way to answer; where replies hold whole schemas, reading one makes a tool callable."""

    label: str
    profile: Profile
    has_schemas: bool = False


SHAPES = (
    Shape("full schema, dispatch", replace(DEFAULT, surface="dispatch")),
    Shape("full schema, load", replace(DEFAULT, surface="load")),
    Shape("compact, dispatch", replace(COMPACT, surface="dispatch")),
    Shape("compact, load", replace(COMPACT, surface="load")),
    Shape("names, then add (mcpagent)", MCPAGENT),
    Shape("every hit loaded (cms)", CMS),
    Shape("every hit in full (everruns)", EVERRUNS, has_schemas=True),
)


@dataclass(frozen=True)
class Lookup:
    """One query, followed until a right tool is callable or given up."""

    tokens: int
    reply: int
    asked: int
    is_resolved: bool


@dataclass
class Model:
    """Asks as a model would, and keeps count of what that costs."""

    shape: Shape
    engine: Engine
    session: SessionState = field(default_factory=lambda: SessionState("lookup"))
    replies: list[int] = field(default_factory=list)
    said: int = 0
    ready: set[str] = field(default_factory=set)

    def look_up(self, labelled: LabelledQuery) -> Lookup:
        start = self.weight()
        for more in ({}, {"limit": MORE}):
            outcome = self.ask("search", {"query": labelled.query, **more})
            if self.is_settled(outcome, labelled):
                break
        return Lookup(
            tokens=self.said + self.weight() - start,
            reply=self.replies[0],
            asked=len(self.replies),
            is_resolved=not labelled.relevant.isdisjoint(self.ready),
        )

    def weight(self) -> int:
        """What the tool list costs now."""
        seen = view(self.shape.profile, self.engine.catalog, self.session, target="plain")
        self.session = seen.session
        return COUNTER.count(seen.text)

    def ask(self, role: Role, arguments: Mapping[str, Any]) -> DiscoveryOutcome:
        tool = self.shape.profile.tool_for(role)
        assert tool is not None
        outcome = discover(
            self.shape.profile,
            tool.name,
            arguments,
            session=self.session,
            engine=self.engine,
            catalog=self.engine.catalog,
        )
        reply = COUNTER.count(outcome.result.text)
        self.said += (
            count_json({"name": tool.name, "arguments": arguments}, counter=COUNTER) + reply
        )
        self.replies.append(reply)
        self.session = outcome.session
        self.ready |= {*outcome.session.loaded}
        if self.shape.has_schemas:
            self.ready |= {t.name for t in outcome.found}
        return outcome

    def is_settled(self, outcome: DiscoveryOutcome, labelled: LabelledQuery) -> bool:
        """Whether a right tool is callable, once it is asked for by name where it was named."""
        if self.ready.isdisjoint(labelled.relevant):
            words = {*WORD.findall(outcome.result.text)}
            named = next((n for n in sorted(labelled.relevant) if n in words), None)
            if named is None:
                return False
            self.ask(*self.by_name(named))
        return True

    def by_name(self, name: str) -> tuple[Role, dict[str, Any]]:
        """The shortest way to a tool whose name is known."""
        profile = self.shape.profile
        if profile.surface == "dispatch":
            return "describe", {"names": [name]}
        if profile.tool_for("load"):
            return "load", {"tool_names": [name]}
        return "search", {"query": f"select:{name}"}


def measure(shape: Shape, engine: Engine, queries: list[LabelledQuery]) -> dict[str, Any]:
    lookups = [Model(shape, engine).look_up(labelled) for labelled in queries]
    done = [look for look in lookups if look.is_resolved]
    return {
        "shape": shape.label,
        "lookups": len(lookups),
        "resolved": round(len(done) / len(lookups), 4),
        "at_once": round(sum(look.asked == 1 for look in done) / len(lookups), 4),
        "tokens_per_resolved": round(sum(look.tokens for look in lookups) / max(1, len(done)), 1),
        "median_tokens": statistics.median(look.tokens for look in lookups),
        "median_reply": statistics.median(look.reply for look in lookups),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--embedder", default="use")
    parser.add_argument("--limit", type=int, default=None, help="only so many queries")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tools, asked = options.data / "tools.jsonl", options.data / "queries.jsonl"
    if not (tools.exists() and asked.exists()):
        print(f"Skipped: {options.data} has no tools.jsonl and queries.jsonl.", file=sys.stderr)
        return 0
    catalog = Catalog(read_tools(tools).tools)
    queries = [*resolve_queries(read_queries(asked).rows, catalog).rows][: options.limit]
    engine = Engine(catalog, embedders=embedders.load_embedders(options.embedder))
    engine.fill()
    rows = []
    for shape in SHAPES:
        rows.append(measure(shape, engine, queries))
        if not options.json:
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if options.json:
        print(json.dumps({"counter": COUNTER.name, "data": options.data.name, "shapes": rows}))
    engine.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
