"""A real run, heard by every sink at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.agent.office import Agent, Office, calls, open_office, search

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.result import Result
from toolscout.catalog.tool import Tool
from toolscout.disclosure.feature import Feature
from toolscout.events import Event, combine_sinks
from toolscout.models.scripted import ScriptedModel
from toolscout.search.engine import Engine
from toolscout.search.rankers.bm25f import BM25F
from toolscout.search.rankers.cross_lingual import CrossLingual
from toolscout.search.rankers.dense import Dense
from toolscout.search.rankers.exact import Exact
from toolscout.search.rankers.regex import Regex
from toolscout.telemetry.metrics import DiscoveryMetrics, time_rankers
from toolscout.toolbox.toolbox import Toolbox

MAIL = calls(("send_email", {"to": "a", "subject": "b"}))


@pytest.mark.behaviour("E121")
async def test_latency_by_arm_hits_and_tokens_of_a_real_run() -> None:
    tally = DiscoveryMetrics()
    engine = Engine(rankers=time_rankers([Exact(), BM25F()], tally))
    model = ScriptedModel(
        [calls(search("send an email")), MAIL, "Sent."], count=lambda text: len(text.split())
    )
    async with Toolbox(
        Office().tools, profile="cms", store="memory", sink=tally, engine=engine
    ) as box:
        run = await Agent(box, model=model).run("Mail a")
    figures = tally.snapshot()
    assert set(figures.latency_ms) == {"exact", "bm25f", "all"}
    assert figures.latency_ms["all"].total >= figures.latency_ms["bm25f"].total > 0
    assert (figures.searches, figures.hits, figures.hit_rate) == (1, 1, 1.0)
    assert figures.tokens["B"].total == run.usage.total_tokens > 0


def test_timed_rankers_keep_their_names_in_events() -> None:
    """Dashboards group by them; `foreign` is the name that version 0.1 has for cross-lingual."""
    rankers = (Exact, BM25F, Dense, CrossLingual, Regex)
    assert [ranker.event_name for ranker in rankers] == [
        *("exact", "bm25f", "dense", "foreign", "regex")
    ]
    events: list[Event] = []
    timed = time_rankers([Exact(), BM25F()], events.append)
    Engine(Catalog([Tool(name="send")]), rankers=timed).search("send")
    assert {e.facts["arm"] for e in events} == {"exact", "bm25f"}


class Forgetful(Feature):
    """A memory that breaks at every result."""

    def observe(self, section: str | None, tool: Tool, result: Result, *, now: float) -> str:
        message = "no room"
        raise MemoryError(message)

    def render(self, section: str | None, *, discovered: Sequence[str] = ()) -> str:
        return ""


@pytest.mark.behaviour("E111")
async def test_a_memory_that_breaks_costs_no_result_and_is_reported() -> None:
    events: list[Event] = []
    office = Office()
    model = ScriptedModel([calls(search("send an email")), MAIL, MAIL, "Sent."])
    async with Toolbox(
        office.tools,
        profile="cms",
        store="memory",
        sink=events.append,
        memory=Forgetful(),
        engine=Engine(),
    ) as box:
        run = await Agent(box, model=model).run("Mail a")
    assert (run.text, len(office.done)) == ("Sent.", 2)
    assert [e.facts["feature"] for e in events if e.kind == "feature_failed"] == ["memory"] * 2


class House(Feature):
    """Rules of the house, to be told once."""

    def deliver(self, section: str | None, tools: Any) -> tuple[str, str]:
        return ("" if section else "Sign every letter with your full name."), '"told"'


@pytest.mark.behaviour("E120")
async def test_a_search_tells_how_many_tokens_of_rules_came_with_it() -> None:
    events: list[Event] = []
    model = ScriptedModel(
        [calls(search("send an email")), calls(search("exchange rate now")), "Done."]
    )
    async with open_office(Office(), rules=House(), seen=events) as box:
        run = await Agent(box, model=model).run("Mail a")
    facts: list[Mapping[str, Any]] = [e.facts for e in events if e.kind == "tool_discovery_result"]
    assert [f["rules_tokens"] > 0 for f in facts] == [True, False]
    end = next(e.facts for e in events if e.kind == "run_end")
    assert (end["searches"], end["discovered"]) == (2, len(run.tools_loaded))


async def test_several_sinks_hear_the_same() -> None:
    first: list[Event] = []
    second: list[Event] = []
    async with Toolbox(
        Office().tools,
        profile="cms",
        store="memory",
        sink=combine_sinks(first.append, second.append),
        engine=Engine(),
    ) as box:
        await Agent(box, model=ScriptedModel(["Hi."])).run("Hi")
    assert first == second
    assert first[-1].kind == "run_end"
