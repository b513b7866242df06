"""Estimate what a profile costs in tokens: at the start, and after lookups of tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..catalog.catalog import Catalog
from ..catalog.tool import Tool
from ..disclosure.discovery import DiscoveryOutcome, discover
from ..disclosure.profile import Profile
from ..disclosure.profiles import EVERYTHING
from ..disclosure.session_state import SessionState
from ..disclosure.view import View, view
from ..search.engine import Engine
from ..tokens import TokenCounter

LOOKUPS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Tokens of one request: at the start, after one lookup, and after five."""

    start: int
    after_1: int
    after_5: int

    def savings(self, everything: int) -> float:
        """The share of tokens that the first request saves, compared with all definitions."""
        return round(1 - self.start / everything, 4) if everything else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A question, the tools found for it, best first, and the tokens of the next request."""

    question: str
    names: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimator:
    """Counts the tokens of requests over a catalog, for one target."""

    engine: Engine
    counter: TokenCounter
    target: str = "plain"

    def full_catalog_tokens(self) -> int:
        """The tokens of all definitions."""
        return self._count_tokens(self._view(EVERYTHING, SessionState("tokens")))

    def cost(self, profile: Profile) -> Cost:
        """The cost of a conversation that looks up tools spread over the catalog."""
        current = self._view(profile, SessionState("tokens"))
        start = self._count_tokens(current)
        if profile.tool_for("search") is None:
            return Cost(start=start, after_1=start, after_5=start)
        message_tokens, totals = 0, [start]
        for number, tool in enumerate(_sample_evenly([*self.engine.catalog], LOOKUPS), start=1):
            session = current.session
            for name, arguments, outcome in _look_up(profile, session, self.engine, tool):
                session = outcome.session
                message_tokens += self._message_tokens(name, arguments, outcome)
            current = self._view(profile, session)
            if number in (1, LOOKUPS):
                totals.append(self._count_tokens(current) + message_tokens)
        return Cost(start=start, after_1=totals[min(1, len(totals) - 1)], after_5=totals[-1])

    def ask(self, profile: Profile, questions: Sequence[str]) -> list[Lookup]:
        """Ask one question after another in one conversation, and count each next request."""
        search = profile.tool_for("search")
        assert search is not None
        current = self._view(profile, SessionState("tokens"))
        message_tokens, lookups = 0, list[Lookup]()
        for question in questions:
            query = {"query": question}
            outcome = _discover(profile, search.name, query, current.session, self.engine)
            message_tokens += self._message_tokens(search.name, query, outcome)
            current = self._view(profile, outcome.session)
            names = tuple(tool.name for tool in outcome.found)
            tokens = self._count_tokens(current) + message_tokens
            lookups.append(Lookup(question=question, names=names, tokens=tokens))
        return lookups

    def prompt_tokens(self, profile: Profile) -> tuple[int, int]:
        """The tokens of the instructions, and of instructions that know every tool as core."""
        core = Catalog(replace(tool, defer="never") for tool in self.engine.catalog)
        described = view(profile, core, SessionState("tokens"), target=self.target)
        current = self._view(profile, SessionState("tokens"))
        count = self.counter.count
        return count(current.instructions), count(described.instructions)

    def _view(self, profile: Profile, session: SessionState) -> View:
        return view(profile, self.engine.catalog, session, target=self.target)

    def _message_tokens(
        self, name: str, arguments: Mapping[str, Any], outcome: DiscoveryOutcome
    ) -> int:
        call = f"{name}{json.dumps(arguments, ensure_ascii=False)}"
        return self.counter.count(call) + self.counter.count(outcome.result.text)

    def _count_tokens(self, current: View) -> int:
        # The prefix, not the text: deferred definitions are not in the model's context.
        slots = (text for _, text in current.slots)
        return sum(map(self.counter.count, (current.prefix, *slots)))


def _discover(
    profile: Profile,
    name: str,
    arguments: Mapping[str, Any],
    session: SessionState,
    engine: Engine,
) -> DiscoveryOutcome:
    return discover(
        profile, name, arguments, session=session, engine=engine, catalog=engine.catalog
    )


def _sample_evenly(tools: Sequence[Tool], count: int) -> list[Tool]:
    """Tools at even distances, the same every time."""
    if not tools:
        return []
    # The middle of each of `count` equal parts, so that neither end of the catalog is preferred.
    return [tools[(2 * n + 1) * len(tools) // (2 * count)] for n in range(count)]


def _look_up(
    profile: Profile, session: SessionState, engine: Engine, tool: Tool
) -> list[tuple[str, Mapping[str, Any], DiscoveryOutcome]]:
    """The calls that find a tool: by its description, else by its name, then a load if needed."""
    search, load = profile.tool_for("search"), profile.tool_for("load")
    if search is None:
        return []
    calls: list[tuple[str, Mapping[str, Any], DiscoveryOutcome]] = []

    def call(name: str, arguments: Mapping[str, Any]) -> DiscoveryOutcome:
        outcome = _discover(profile, name, arguments, session, engine)
        calls.append((name, arguments, outcome))
        return outcome

    # Eight words of the description stand for the query of a model that knows what it needs.
    for query in (" ".join(tool.description.split()[:8]), tool.local_name):
        outcome = call(search.name, {"query": query or tool.local_name})
        session = outcome.session
        if any(t.name == tool.name for t in outcome.found):
            break
    if load is not None and tool.name not in session.loaded:
        call(load.name, {"tool_names": [tool.name]})
    return calls
