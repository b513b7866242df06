"""Labelled sets: what is read, and what is said of rows that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.errors import SourceError
from toolscout.evals.dataset import read_negatives, read_queries, resolve_negatives, resolve_queries


def lines(path: Path, *rows: object) -> Path:
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def test_groups_are_read_and_plain_names_are_groups_of_one(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "queries.jsonl",
        {"id": "a", "query": "x", "relevant": ["m", "n"], "lang": "en", "split": "ignored"},
        {"id": 2, "query": "y", "relevant": ["m", "n"], "relevant_groups": [["m", "n"]]},
        {"query": "z", "relevant": ["o"]},
    )

    read = read_queries(file)

    assert [row.id for row in read.rows] == ["a", "2", "row-3"]
    assert [len(row.groups) for row in read.rows] == [2, 1, 1]
    assert read.rows[1].relevant == {"m", "n"}
    assert read.problems == ()


def test_every_bad_row_is_reported_with_its_line_and_the_rest_is_read(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "queries.jsonl",
        {"id": "a", "query": "x", "relevant": ["m"]},
        "{not json",
        {"id": "b", "relevant": ["m"]},
        {"id": "c", "query": "x", "relevant": []},
        {"id": "d", "query": "x", "relevant": [None]},
        ["a list"],
        {"id": "a", "query": "again", "relevant": ["m"]},
        {"id": "e", "query": "x", "relevant": ["m"]},
    )

    read = read_queries(file)

    assert [row.id for row in read.rows] == ["a", "e"]
    assert [p.where.rpartition(":")[2] for p in read.problems] == ["2", "3", "4", "5", "6", "7"]
    told = " ".join(p.message for p in read.problems)
    assert "query: field required" in told
    assert "at least one" in told
    assert "relevant.0: input should be a valid string" in told
    assert "A row must be an object" in told
    assert "_" not in told
    assert "'a' is used already" in told


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", "it is empty"),
        (" \u200b\n", "it is empty"),
        ("select:", "it is empty"),
        ("/(a/", "missing )"),
        ("re:[z-a]", "Invalid regex pattern"),
    ],
)
def test_a_query_that_nobody_could_answer_is_reported_and_left_out(
    tmp_path: Path, query: str, told: str
) -> None:
    rows = [
        {"id": str(number), "query": text, "relevant": ["m"], "offered": ["m"]}
        for number, text in enumerate(["mail", query, "/mail|post/"])
    ]
    file = lines(tmp_path / "rows.jsonl", *rows)

    for read in (read_queries(file), read_negatives(file)):
        assert [row.id for row in read.rows] == ["0", "2"]
        (problem,) = read.problems
        assert problem.where == f"{file}:2"
        assert told in problem.message


@pytest.mark.parametrize("indent", [None, 2])
def test_rows_may_stand_in_a_list(tmp_path: Path, indent: int | None) -> None:
    rows = [
        {"query": "x", "relevant": ["m"]},
        {"query": "y"},
        {"query": "z", "relevant": ["n"], "tools": []},
    ]
    file = tmp_path / "queries.json"
    file.write_text(json.dumps(rows, indent=indent), encoding="utf-8")

    read = read_queries(file)

    assert [(row.id, row.query) for row in read.rows] == [("row-1", "x"), ("row-3", "z")]
    (problem,) = read.problems
    assert problem.where.endswith("(item 2)")


def test_a_list_on_a_line_of_its_own_is_a_bad_row_also_at_the_beginning(tmp_path: Path) -> None:
    good = {"id": "a", "query": "x", "relevant": ["m"]}
    file = lines(tmp_path / "queries.jsonl", [], "{not json", good)

    read = read_queries(file)

    assert [row.id for row in read.rows] == ["a"]
    assert [p.where.rpartition(":")[2] for p in read.problems] == ["1", "2"]


def test_one_name_may_stand_without_a_list(tmp_path: Path) -> None:
    queries = lines(
        tmp_path / "q.jsonl",
        {"id": "a", "query": "x", "relevant": "lock_door"},
        {"id": "b", "query": "x", "relevant_groups": ["lock_door", ["mail", "post"]]},
    )
    negatives = lines(tmp_path / "n.jsonl", {"query": "x", "offered": "lock_door"})

    first, second = read_queries(queries).rows

    assert first.groups == ({"lock_door"},)
    assert second.groups == ({"lock_door"}, {"mail", "post"})
    assert read_negatives(negatives).rows[0].offered == ("lock_door",)


def test_one_tool_in_several_spellings_is_one_need(tmp_path: Path) -> None:
    catalog = Catalog([Tool(name="home__lock_door", server="home"), Tool(name="mail")])
    names = ["home__lock_door", "LOCK-DOOR", "lockDoor", "lockDoor"]
    queries = lines(tmp_path / "q.jsonl", {"query": "x", "relevant": [*names, "mail"]})
    negatives = lines(tmp_path / "n.jsonl", {"query": "x", "offered": names})

    found = resolve_queries(read_queries(queries).rows, catalog)
    offered = resolve_negatives(read_negatives(negatives).rows, catalog)

    assert found.rows[0].groups == ({"home__lock_door"}, {"mail"})
    assert offered.rows[0].offered == ("home__lock_door",)


def test_a_name_that_several_tools_have_says_which(tmp_path: Path) -> None:
    catalog = Catalog([Tool(name="a__read", server="a"), Tool(name="b__read", server="b")])
    queries = lines(tmp_path / "q.jsonl", {"query": "x", "relevant": ["read"]})

    (problem,) = resolve_queries(read_queries(queries).rows, catalog).problems

    assert problem.message == "'read' may be any of a__read, b__read."


def test_a_negative_without_any_known_tool_is_left_out(tmp_path: Path) -> None:
    catalog = Catalog([Tool(name="mail")])
    negatives = lines(
        tmp_path / "n.jsonl",
        {"id": "a", "query": "x", "offered": ["nope"]},
        {"id": "b", "query": "x", "offered": ["mail"]},
    )

    found = resolve_negatives(read_negatives(negatives).rows, catalog)

    assert [row.id for row in found.rows] == ["b"]
    assert [p.where for p in found.problems] == ["a"]


def test_negatives_need_tools_offered(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "negatives.jsonl",
        {"id": "n", "query": "x", "offered": ["m", "m"]},
        {"id": "o", "query": "x", "offered": []},
        {"id": "p", "query": "x"},
    )

    read = read_negatives(file)

    assert [(row.id, row.offered) for row in read.rows] == [("n", ("m",))]
    assert len(read.problems) == 2


@pytest.mark.parametrize("name", ["nowhere.jsonl", "binary.jsonl"])
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00\xd8")

    with pytest.raises(SourceError, match="Cannot read"):
        read_queries(tmp_path / name)


def test_names_are_those_of_the_catalog_and_unknown_ones_are_reported(tmp_path: Path) -> None:
    catalog = Catalog([Tool(name="git__read_file", server="git"), Tool(name="mail")])
    queries = lines(
        tmp_path / "q.jsonl", {"id": "a", "query": "x", "relevant": ["readFile", "mail", "nope"]}
    )
    negatives = lines(tmp_path / "n.jsonl", {"id": "b", "query": "x", "offered": ["mail", "nope"]})

    found = resolve_queries(read_queries(queries).rows, catalog)
    offered = resolve_negatives(read_negatives(negatives).rows, catalog)

    assert found.rows[0].relevant == {"git__read_file", "mail", "nope"}
    assert [p.where for p in found.problems] == ["a"]
    assert "'nope'" in found.problems[0].message
    assert offered.rows[0].offered == ("mail",)
    assert len(offered.problems) == 1
