import json
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.plots import Bar, Line, bars, lines
from bench.report import write
from bench.sections.markdown import number
from bench.sections.summary import summary
from bench.targets import Target, judged
from hypothesis import given
from hypothesis import strategies as st

SPAN = {"mean": 0.91, "low": 0.9, "high": 0.92}
FIGURES = dict.fromkeys(("recall@1", "recall@5", "recall@10", "ndcg@10", "mrr"), SPAN)
KNOWING = {
    "without_relevant": {"auroc": 0.7, "false_at_90": 0.5},
    "abstain": {"auroc": 0.9, "false_at_90": 0.3},
    "calibration_error": 0.05,
}
TIMES = {
    "p50_ms": 0.2,
    "p95_ms": 0.4,
    "p50_cpu_ms": 0.2,
    "p95_cpu_ms": 0.4,
    "load_s": 0.1,
    "index_s": 1.0,
    "index_cpu_s": 1.0,
    "index_mb": 20.0,
    "rss_mb": 80.0,
    "queries": 7,
}
OURS = {
    "add_ms": 1.0,
    "remove_ms": 1.0,
    "add_searched_ms": 2.0,
    "remove_searched_ms": 2.0,
    "first_p50_ms": 0.3,
    "one_clause_p50_ms": 0.1,
    "one_clause_p50_cpu_ms": 0.1,
    "allowed_first_ms": 3.0,
    "allowed_p50_cpu_ms": 0.1,
    "unrestricted_p50_cpu_ms": 0.2,
}
COST = {"start": 10, "after_1": 20, "after_5": 30, "saved": 0.9}
REPORT: dict[str, Any] = {
    "machine": {
        "date": "2026-11-15",
        "cores": 2,
        "memory_gb": 8,
        "processor": "some",
        "system": "Linux",
        "python": "3.11.0",
        "numpy": "2.0",
        "toolscout": "0.1.0",
        "load_before": 0.5,
        "peers": {"ratel-ai": "ratel-ai 1.0"},
    },
    "is_quick": False,
    "took_s": 600.0,
    "retrieval": [
        {"set": "azure_mcp", "label": "Toolscout", "queries": 5, "figures": FIGURES, **KNOWING},
        {"set": "azure_mcp", "label": "ratel-ai", "reason": "ValueError: no | luck"},
    ],
    "speed": {
        "rows": [
            {"size": 10_000, "label": "Toolscout, words only", **TIMES, **OURS},
            {"size": 10_000, "label": "ratel-ai", **TIMES, "p50_ms": 0.1, "p50_cpu_ms": 0.3},
            {"size": 10_000, "label": "Haystack", "reason": "no answer within 9 s"},
        ],
        "encoding": {"ms_per_tool": 4.0},
        "asked": {"others": 40, "at_first": 10},
    },
    "tokens": {
        "counter": "some",
        "catalogs": [
            {"catalog": "real", "tools": 5, "everything": 100, "profiles": {"default": COST}}
        ],
        "curve": [{"tools": 5, "everything": 100, "profiles": {"default": COST}}],
    },
    "gateway": {"gateway_load": {"errors": {}, "memory_mb": [1.0, 2.0]}},
    "manipulation": {
        "tools": [
            {
                "set": "azure_mcp",
                "label": "Toolscout",
                "attack": "shadow",
                "queries": 4,
                "displaced": SPAN,
                "overtaken": SPAN,
            }
        ],
        "calls": {
            "wrong": [
                {"set": "bfcl", "per_tool": 2.0, "kind": "30 % wrong", "gain": {"recall@5": SPAN}}
            ],
            "attacks": [
                {
                    "set": "bfcl",
                    "before": {"top 1": 0.0, "top 5": 0.003},
                    "after": {"top 1": 0.001, "top 5": 0.014},
                    "others": {"recall@5": 2.5},
                }
            ],
        },
    },
}


def written(report: dict[str, Any], folder: Path) -> str:
    return write(report, folder).read_text(encoding="utf-8")


def test_a_report_is_one_page_with_its_plots_and_figures_beside_it(tmp_path: Path):
    text = written(REPORT, tmp_path)
    for name in ("recall", "latency", "tokens"):
        assert f"figures/{name}.svg" in text
        ET.parse(tmp_path / "figures" / f"{name}.svg")
    kept = json.loads((tmp_path / "figures" / "benchmarks.json").read_text(encoding="utf-8"))
    assert kept["retrieval"][0]["figures"]["recall@5"] == SPAN
    assert {row["verdict"] for row in kept["targets"]} > {"not measured"}


def test_where_a_peer_fails_the_reason_is_in_its_row(tmp_path: Path):
    text = written(REPORT, tmp_path)
    assert "| ratel-ai | failed: ValueError: no / luck |" in text
    assert "| Haystack | failed: no answer within 9 s |" in text


def test_manipulation_has_wrong_calls_and_the_single_attacker(tmp_path: Path):
    text = written(REPORT, tmp_path).partition("## Manipulation")[2]
    assert f"| bfcl | {SPAN['mean']:+.1f} |" in text
    assert "| bfcl | 0.0 / 0.3 % | 0.1 / 1.4 % | +2.5 |" in text


def test_a_table_has_as_many_cells_in_every_row(tmp_path: Path):
    rows: list[str] = []
    for line in [*written(REPORT, tmp_path).split("\n"), ""]:
        if line.startswith("|"):
            rows.append(line)
        else:
            assert len({row.count("|") for row in rows}) <= 1
            rows = []


def test_parts_that_did_not_run_are_said_to_be_missing(tmp_path: Path):
    few = {k: v for k, v in REPORT.items() if k in ("machine", "is_quick", "took_s")}
    text = written(few, tmp_path)
    assert text.count("Not measured in this run.") == 5
    assert "| not reached" not in text


def test_targets_are_judged_by_the_figures_of_the_run():
    verdicts = {target.promise: target.verdict for target in judged(REPORT)}
    assert verdicts["recall@5 on azure_mcp"] == "not reached"
    assert verdicts["recall@5 on bfcl"] == "not measured"
    assert verdicts["a keyword search, 10,000 tools, median"] == "reached"
    assert verdicts["errors under load"] == "reached"
    faster = "as fast as ratel-ai in keyword search, queries of any length, 10,000 tools"
    assert verdicts[faster] == "not reached (by CPU time: reached)"


@given(st.floats(0, 100), st.floats(0, 100), st.booleans())
def test_a_target_is_reached_on_one_side_only(wanted: float, measured: float, at_least: bool):
    target = Target("some", wanted, measured, at_least=at_least)
    other = Target("some", wanted, measured, at_least=not at_least)
    assert (target.verdict == "reached") or (other.verdict == "reached")
    assert (target.verdict == other.verdict) == (wanted == measured)


def test_numbers_keep_the_digits_that_count():
    assert [number(v) for v in (0.12345, 4.5678, 1234.5, 0, None, 0.0000123)] == [
        "0.123",
        "4.57",
        "1,234",
        "0",
        "–",
        "0.00001",
    ]


def test_a_bar_that_failed_says_so():
    drawn = bars("Some", [("set", [Bar("one", 0.5, 0.4, 0.6), Bar("two", None)])])
    assert "failed" in drawn
    assert "0.500" in drawn
    ET.fromstring(drawn)


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(1e-3, 1e5)), max_size=4))
def test_lines_of_any_points_are_a_picture(points: list[tuple[float, float]]):
    drawn = lines("A <b>", [Line("one & two", points)], across="x", up="y")
    ET.fromstring(drawn)


def test_names_at_the_ends_of_lines_do_not_overlap():
    drawn = lines("Some", [Line(n, [(1, 5), (10, 5)]) for n in "abc"], across="x", up="y")
    texts = ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")
    places = sorted(float(t.attrib["y"]) for t in texts if t.text in ("a", "b", "c"))
    assert all(after - before >= 12 for before, after in pairwise(places))


def test_one_table_has_everybody_with_recall_and_times(tmp_path: Path):
    text = written(REPORT, tmp_path)
    section = text.partition("## At a glance\n")[2].partition("\n## ")[0]
    assert "azure_mcp, recall@5" in section
    (row,) = [line for line in section.splitlines() if line.startswith("| **Toolscout** |")]
    assert f"{SPAN['mean']:.3f}" in row


def test_the_page_has_the_table_of_the_figures_beside_it():
    docs = Path(__file__).parents[2] / "docs"
    report = json.loads((docs / "figures" / "benchmarks.json").read_text(encoding="utf-8"))
    assert summary(report) in (docs / "benchmarks.md").read_text(encoding="utf-8")
