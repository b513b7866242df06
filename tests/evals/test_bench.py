"""A run over a small catalog, with the real engine."""

from __future__ import annotations

from itertools import count

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.evals.bench import (
    BenchReport,
    measure_abstention,
    measure_without_relevant,
    rss_mb,
    score_queries,
)
from toolscout.evals.dataset import LabelledQuery, NegativeQuery
from toolscout.search.engine import Engine

TOOLS = [
    Tool(name="send_email", description="Send an email message to someone."),
    Tool(name="get_weather", description="Weather forecast for a city."),
    Tool(name="read_file", description="Read the content of a file from disk."),
    Tool(name="create_invoice", description="Create an invoice for a customer."),
]
QUERIES = [
    LabelledQuery("1", "weather forecast in Paris", (frozenset({"get_weather"}),)),
    LabelledQuery("2", "read a file", (frozenset({"read_file"}),)),
    LabelledQuery("3", "/(/", (frozenset({"send_email"}),)),
]
NEGATIVES = [
    NegativeQuery("n1", "weather forecast in Paris", ("read_file",)),
    NegativeQuery("n2", "read a file", ("get_weather", "create_invoice")),
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(Catalog(TOOLS))


def test_a_run_gives_the_figures_scripts_rely_on(engine: Engine) -> None:
    ticks = count()
    told: list[tuple[str, int, int]] = []

    scored = score_queries(
        engine,
        QUERIES[:2],
        progress=lambda *step: told.append(step),
        clock=lambda: next(ticks) / 1e3,
    )
    report = BenchReport(len(TOOLS), scored, build_s=0.5, rss_mb=10)

    assert report.summary() == {
        "tools": 4,
        "queries": 2,
        "recall@1": 1.0,
        "recall@5": 1.0,
        "recall@10": 1.0,
        "ndcg@10": 1.0,
        "mrr": 1.0,
        "build_s": 0.5,
        "p50_ms": 1.0,
        "p95_ms": 1.0,
        "rss_mb": 10,
    }
    assert told == [("queries", 1, 2), ("queries", 2, 2)]
    assert [s.row()["id"] for s in scored] == ["1", "2"]


def test_a_query_that_cannot_be_read_counts_as_a_miss(engine: Engine) -> None:
    scored = score_queries(engine, QUERIES)

    assert scored[2].figures["recall@10"] == 0.0
    assert scored[2].confidence == 0.0
    assert not scored[2].is_right


def test_negatives_are_searched_among_what_was_offered_with_them(engine: Engine) -> None:
    found = measure_abstention(engine, QUERIES[:2], NEGATIVES)

    assert found.auroc == 1.0
    assert found.false_at_90 == 0.0


def test_taking_the_right_tool_out_lowers_confidence(engine: Engine) -> None:
    scored = score_queries(engine, QUERIES[:2])

    found = measure_without_relevant(engine, QUERIES[:2], scored)

    assert found.auroc == 1.0


def test_both_kinds_of_abstention_are_in_the_summary_when_measured(engine: Engine) -> None:
    scored = score_queries(engine, QUERIES[:2])
    report = BenchReport(
        len(TOOLS),
        scored,
        build_s=0,
        rss_mb=0,
        abstain=measure_abstention(engine, QUERIES[:2], NEGATIVES),
        without_relevant=measure_without_relevant(engine, QUERIES[:2], scored),
    )

    assert report.summary()["abstain"] == {"auroc": 1.0, "false_at_90": 0.0}
    assert set(report.summary()["without_relevant"]) == {"auroc", "false_at_90"}
    assert 0.0 <= report.reliability.error <= 1.0


def test_memory_is_measured_in_megabytes() -> None:
    assert 5 < rss_mb() < 100_000
