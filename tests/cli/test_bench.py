"""`toolscout bench`, on a set small enough to check by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PLAIN = ("--embedder", "none", "--json")


def lines(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture
def sets(tmp_path: Path) -> dict[str, str]:
    tools = [
        {"name": "send_email", "description": "Send an email message to someone."},
        {"name": "get_weather", "description": "Weather forecast for a city."},
        {"name": "read_file", "description": "Read the content of a file from disk."},
    ]
    queries = [
        {"id": "1", "query": "weather forecast", "relevant": ["get_weather"], "lang": "en"},
        {"id": "2", "query": "read a file", "relevant": ["read_file"], "lang": "en"},
        {
            "id": "3",
            "query": "send an email",
            "relevant": ["send_email", "get_weather"],
            "relevant_groups": [["send_email"], ["get_weather"]],
            "lang": "en",
        },
    ]
    negatives = [
        {"id": "n1", "query": "weather forecast", "offered": ["read_file"]},
        {"id": "n2", "query": "read a file", "offered": ["send_email"]},
    ]
    return {
        "tools": lines(tmp_path / "tools.jsonl", tools),
        "queries": lines(tmp_path / "queries.jsonl", queries),
        "negatives": lines(tmp_path / "negatives.jsonl", negatives),
        "rows": str(tmp_path / "rows.jsonl"),
    }


def base(sets: dict[str, str]) -> tuple[str, ...]:
    return ("bench", "--tools", sets["tools"], "--queries", sets["queries"], *PLAIN)


def test_json_has_exactly_the_figures_scripts_rely_on(shell, sets: dict[str, str]) -> None:
    done = shell(*base(sets))

    found = json.loads(done.out)
    assert done.code == 0
    assert done.err == ""
    assert set(found) == {
        "tools",
        "queries",
        "recall@1",
        "recall@5",
        "recall@10",
        "ndcg@10",
        "mrr",
        "build_s",
        "p50_ms",
        "p95_ms",
        "rss_mb",
    }
    assert (found["tools"], found["queries"]) == (3, 3)
    assert found["recall@1"] == pytest.approx((1 + 1 + 0.5) / 3, abs=1e-4)
    assert found["mrr"] == 1.0


def test_negatives_add_abstention(shell, sets: dict[str, str]) -> None:
    done = shell(*base(sets), "--negatives", sets["negatives"], "--without-relevant")

    found = json.loads(done.out)
    assert found["abstain"] == {"auroc": 1.0, "false_at_90": 0.0}
    assert set(found["without_relevant"]) == {"auroc", "false_at_90"}


def test_a_limit_takes_the_first_queries(shell, sets: dict[str, str]) -> None:
    found = json.loads(shell(*base(sets), "--limit", "2").out)

    assert found["queries"] == 2
    assert found["recall@1"] == 1.0


def test_reliability_is_reported_on_request(shell, sets: dict[str, str]) -> None:
    found = json.loads(shell(*base(sets), "--reliability").out)["reliability"]

    assert 0 <= found["ece"] <= 1
    assert sum(b["count"] for b in found["bins"]) == 3


def test_two_runs_are_compared_query_by_query(shell, sets: dict[str, str]) -> None:
    first = shell(*base(sets), "--rows", sets["rows"])
    again = shell(*base(sets), "--against", sets["rows"])

    assert first.code == 0
    assert len(Path(sets["rows"]).read_text().splitlines()) == 3
    gains = json.loads(again.out)["against"]
    assert gains["queries"] == 3
    assert gains["recall@5"] == {"gain": 0.0, "low": 0.0, "high": 0.0, "is_clear": False}


def test_a_reader_gets_figures_with_intervals(shell, sets: dict[str, str]) -> None:
    shell(*base(sets), "--rows", sets["rows"])
    wanted = [part for part in base(sets) if part != "--json"]
    done = shell(*wanted, "--reliability", "--against", sets["rows"])

    assert "3 tools, 3 queries" in done.out
    assert "recall@5\t" in done.out
    assert " to " in done.out
    assert "may be chance" in done.out


def test_bad_rows_and_unknown_names_are_reported_and_left_out(shell, sets: dict[str, str]) -> None:
    with Path(sets["queries"]).open("a") as file:
        file.write("{half\n")
        file.write('{"id": "9", "query": "x", "relevant": ["nobody"], "lang": "en"}\n')

    done = shell(*base(sets))

    assert done.code == 0
    assert json.loads(done.out)["queries"] == 4
    assert f"{sets['queries']}:4" in done.err
    assert "'nobody'" in done.err


def test_rows_that_are_left_out_are_counted_and_named(shell, sets: dict[str, str]) -> None:
    before = json.loads(shell(*base(sets)).out)
    with Path(sets["queries"]).open("a") as file:
        for query in ["", "   ", "/(a/", *[""] * 10]:
            file.write(json.dumps({"query": query, "relevant": ["read_file"]}) + "\n")

    done = shell(*base(sets))

    after = json.loads(done.out)
    assert done.code == 0
    assert after["queries"] == 3
    assert after["recall@1"] == before["recall@1"]
    lines = ", ".join(str(line) for line in range(4, 17))
    last = json.loads(done.err.splitlines()[-1])["warning"]["message"]
    assert last == f"{sets['queries']}: 13 rows skipped, on lines {lines}."


def test_one_tool_in_three_spellings_counts_once(shell, sets: dict[str, str]) -> None:
    row = {"query": "read a file", "relevant": ["read_file", "READ-FILE", "readFile"]}
    lines(Path(sets["queries"]), [row])

    found = json.loads(shell(*base(sets)).out)

    assert (found["recall@1"], found["ndcg@10"]) == (1.0, 1.0)


@pytest.mark.parametrize("rows", [[], [{"query": "", "offered": ["read_file"]}], [{"id": "n"}]])
def test_negatives_without_a_usable_one_are_reported(
    shell, sets: dict[str, str], rows: list[dict[str, object]]
) -> None:
    lines(Path(sets["negatives"]), rows)

    done = shell(*base(sets), "--negatives", sets["negatives"])

    assert done.code == 0
    assert "abstain" not in json.loads(done.out)
    last = json.loads(done.err.splitlines()[-1])["warning"]["message"]
    assert last == f"{sets['negatives']} has no negative that can be used: abstain is not measured."


@pytest.mark.parametrize("content", ["", "[]", '{"description": "no name"}\n'])
def test_without_any_tool_there_is_nothing_to_measure(
    shell, sets: dict[str, str], content: str
) -> None:
    Path(sets["tools"]).write_text(content)

    done = shell(*base(sets))

    assert (done.code, done.out) == (2, "")
    error = json.loads(done.err.splitlines()[-1])["error"]
    assert "has no tool that can be read" in error["message"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"queries": "empty"}, "no query that can be read"),
        ({"tools": "nowhere.jsonl"}, "does not exist"),
        ({"against": "queries"}, "does not contain the rows"),
        ({"rows": "folder"}, "is a directory"),
    ],
)
def test_a_run_that_cannot_be_made_says_why(
    shell, sets: dict[str, str], tmp_path: Path, change: dict[str, str], told: str
) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "folder").mkdir()
    given = {"tools": sets["tools"], "queries": sets["queries"]}
    given |= {key: sets.get(name) or str(tmp_path / name) for key, name in change.items()}
    options = [part for key, value in given.items() for part in (f"--{key}", value)]

    done = shell("bench", *options, *PLAIN)

    assert done.code == 2
    assert told in json.loads(done.err)["error"]["message"]
