"""What a profile costs in tokens: at the start, and as a conversation looks for tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..catalog.tool import Tool
from ..disclosure.discovery import Outcome, discover
from ..disclosure.profile import Profile
from ..disclosure.profiles import EVERYTHING
from ..disclosure.session_state import SessionState
from ..disclosure.view import View, view
from ..search.engine import Engine
from ..tokens import TokenCounter

LOOKUPS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Tokens of one request: at the start, then with one search behind it, then with five."""

    start: int
    after_1: int
    after_5: int

    def savings(self, everything: int) -> float:
        """The share of everything-loaded that the first request does without."""
        return round(1 - self.start / everything, 4) if everything else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimator:
    """Weighs requests: an engine over a catalog, a counter, and whom the requests are for."""

    engine: Engine
    counter: TokenCounter
    target: str = "plain"

    def full_catalog_tokens(self) -> int:
        """The tokens of every definition at once."""
        return self._count_tokens(self._view(EVERYTHING, SessionState("tokens")))

    def cost(self, profile: Profile) -> Cost:
        """What a conversation costs under a profile that looks up tools spread over the catalog."""
        shown = self._view(profile, SessionState("tokens"))
        start = self._count_tokens(shown)
        if profile.tool_for("search") is None:
            return Cost(start=start, after_1=start, after_5=start)
        said, weights = 0, [start]
        for number, tool in enumerate(_sample_evenly([*self.engine.catalog], LOOKUPS), start=1):
            session = shown.session
            for name, arguments, outcome in _look_up(profile, session, self.engine, tool):
                session = outcome.session
                said += self.counter.count(f"{name}{json.dumps(arguments, ensure_ascii=False)}")
                said += self.counter.count(outcome.result.text)
            shown = self._view(profile, session)
            if number in (1, LOOKUPS):
                weights.append(self._count_tokens(shown) + said)
        return Cost(start=start, after_1=weights[min(1, len(weights) - 1)], after_5=weights[-1])

    def _view(self, profile: Profile, session: SessionState) -> View:
        return view(profile, self.engine.catalog, session, target=self.target)

    def _count_tokens(self, shown: View) -> int:
        slots = (text for _, text in shown.slots)
        return sum(map(self.counter.count, (shown.prefix, *slots)))


def _sample_evenly(tools: Sequence[Tool], count: int) -> list[Tool]:
    """Tools at even distances, the same every time."""
    if not tools:
        return []
    return [tools[(2 * n + 1) * len(tools) // (2 * count)] for n in range(count)]


def _look_up(
    profile: Profile, session: SessionState, engine: Engine, tool: Tool
) -> list[tuple[str, Mapping[str, Any], Outcome]]:
    """How a model gets at a tool: by what it does, else by its name; then loading where needed."""
    search, load = profile.tool_for("search"), profile.tool_for("load")
    if search is None:
        return []
    done: list[tuple[str, Mapping[str, Any], Outcome]] = []

    def ask(name: str, arguments: Mapping[str, Any]) -> Outcome:
        outcome = discover(
            profile, name, arguments, session=session, engine=engine, catalog=engine.catalog
        )
        done.append((name, arguments, outcome))
        return outcome

    for query in (" ".join(tool.description.split()[:8]), tool.local_name):
        outcome = ask(search.name, {"query": query or tool.local_name})
        session = outcome.session
        if any(t.name == tool.name for t in outcome.found):
            break
    if load is not None and tool.name not in session.loaded:
        ask(load.name, {"tool_names": [tool.name]})
    return done
