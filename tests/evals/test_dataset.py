"""Labelled sets: what is read, and what is said of rows that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.errors import SourceError
from toolscout.evals.dataset import (
    read_negatives,
    read_queries,
    resolved,
    resolved_negatives,
)


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
        {"id": "d", "query": "x", "relevant": "m"},
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
    assert "relevant: input should be a valid list" in told
    assert "'a' is there already" in told


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


def test_names_are_those_of_the_catalog_and_unknown_ones_are_told(tmp_path: Path) -> None:
    catalog = Catalog([Tool(name="git__read_file", server="git"), Tool(name="mail")])
    queries = lines(
        tmp_path / "q.jsonl", {"id": "a", "query": "x", "relevant": ["readFile", "mail", "nope"]}
    )
    negatives = lines(tmp_path / "n.jsonl", {"id": "b", "query": "x", "offered": ["mail", "nope"]})

    found = resolved(read_queries(queries).rows, catalog)
    offered = resolved_negatives(read_negatives(negatives).rows, catalog)

    assert found.rows[0].relevant == {"git__read_file", "mail", "nope"}
    assert [p.where for p in found.problems] == ["a"]
    assert "'nope'" in found.problems[0].message
    assert offered.rows[0].offered == ("mail",)
    assert len(offered.problems) == 1
