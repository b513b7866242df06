"""Right server, wrong tool: how often siblings are confused.

Siblings are the tools of one server, or of one category in a catalog of one server. The first hit
of every query is looked at twice: whether it belongs to a right server, and, if only the tools of
the right servers may be found, whether it is a right tool.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from toolscout.catalog.tool import Tool
from toolscout.evals.dataset import LabelledQuery
from toolscout.search.engine import Engine


@dataclass(frozen=True)
class SiblingFigures:
    """The share of queries with a right server first, and with a right tool first inside it."""

    queries: int
    siblings: float
    right_server: float
    right_tool: float

    def row(self) -> str:
        shares = f"{self.right_server:.3f} | {self.right_tool:.3f}"
        return f"{self.queries} | {self.siblings:.0f} | {shares}"


def measure_siblings(
    engine: Engine, tools: Sequence[Tool], queries: Sequence[LabelledQuery]
) -> SiblingFigures:
    """The figures of one set."""
    groups = sibling_groups(tools)
    members: defaultdict[str, set[str]] = defaultdict(set)
    for name, group in groups.items():
        members[group].add(name)
    sizes: list[int] = []
    servers: list[bool] = []
    found: list[bool] = []
    for query in queries:
        right = {groups[name] for name in query.relevant if name in groups}
        visible = frozenset[str]().union(*(members[group] for group in right))
        first = engine.search(query.query, limit=1).names
        inside = engine.search(query.query, limit=1, allow=visible).names
        sizes.append(len(visible))
        servers.append(any(groups[name] in right for name in first))
        found.append(not query.relevant.isdisjoint(inside))
    return SiblingFigures(len(queries), fmean(sizes), fmean(servers), fmean(found))


def sibling_groups(tools: Sequence[Tool]) -> Mapping[str, str]:
    """The server of each tool, or its category if all have the same server."""
    has_servers = len({tool.server for tool in tools}) > 1
    return {tool.name: tool.server if has_servers else tool.category for tool in tools}
