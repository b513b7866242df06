"""Asking JSON with jq, in a child process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from toolscout.catalog.result import Result
from toolscout.disclosure.feature import DetachedSession

from .bench import Bench, ask, store_result, tool

_DATA = {"a": "x y", "items": [{"id": n, "name": f"näme {n}", "tags": ["t"]} for n in range(50)]}


@pytest.mark.behaviour("B37", "B40")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"query": ".a"}, '"x y"'),
        ({"query": ".a", "raw": True}, "x y"),
        ({"query": ".items[48:][].id"}, "48\n49"),
        ({"query": ".items[] | select(.id == 7) | .name"}, '"näme 7"'),
        ({"query": ".items[0]", "compact": True}, '{"id":0,"name":"näme 0","tags":["t"]}'),
        ({"query": ".items[0].tags"}, '[\n  "t"\n]'),
        ({"query": "empty"}, "The query returned nothing."),
    ],
)
async def test_a_program_gives_what_jq_gives(
    bench: Bench, arguments: dict[str, object], expected: str
):
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, _DATA)
    answer = await ask(store, filename=name, operation="query", **arguments)
    assert answer.text == expected
    assert not answer.is_error


@pytest.mark.behaviour("B40")
@pytest.mark.parametrize(
    ("program", "word"),
    [
        (".items[", "syntax error"),
        (".a.b", "Cannot index"),
        (".\0", "NUL"),
        ("  ", "empty"),
        ("." * 10_001, "10,000"),
        ('error("no")', "no"),
    ],
)
async def test_a_program_that_fails_is_reported(bench: Bench, program: str, word: str):
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, _DATA)
    answer = await ask(store, filename=name, operation="query", query=program)
    assert answer.is_error
    assert word in answer.text


@pytest.mark.behaviour("B40")
async def test_text_that_is_not_json_is_reported(bench: Bench):
    store = bench.store(threshold_tokens=3)
    name = await store_result(store, "this is not { JSON")
    answer = await ask(store, filename=name, operation="query", query=".")
    assert answer.is_error
    assert "jq" in answer.text


async def test_lines_of_json_are_queried_one_by_one(bench: Bench):
    store = bench.store(threshold_tokens=3)
    name = await store_result(store, "\n".join(json.dumps({"n": n, "is": "x y"}) for n in range(3)))
    assert name.endswith(".txt")
    assert (await ask(store, filename=name, operation="query", query=".n")).text == "0\n1\n2"


async def test_a_program_that_never_ends_is_ended(bench: Bench):
    store = bench.store(threshold_tokens=10, query_seconds=1.0)
    name = await store_result(store, _DATA)
    silent = await ask(store, filename=name, operation="query", query="last(repeat(1))")
    assert silent.is_error
    assert "stopped after 1 second" in silent.text


async def test_an_endless_answer_is_cut(bench: Bench):
    store = bench.store(threshold_tokens=10, answer_tokens=50)
    name = await store_result(store, _DATA)
    answer = await ask(store, filename=name, operation="query", query='repeat("word")')
    assert not answer.is_error
    assert 20 < answer.text.count("word") <= 60
    assert "longer" in answer.text


async def test_a_program_that_takes_too_much_memory_is_reported(bench: Bench):
    store = bench.store(threshold_tokens=10, query_memory_bytes=200 << 20)
    name = await store_result(store, _DATA)
    program = '"x" * 900000000 | length'
    answer = await ask(store, filename=name, operation="query", query=program)
    assert answer.is_error
    assert not answer.text.endswith("(None)")


async def test_a_program_sees_no_environment_and_no_other_file(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "hunter2")
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, _DATA)
    (tmp_path / "other.json").write_text('{"secret": "hunter2"}')
    seen = await ask(store, filename=name, operation="query", query="[$ENV, env]", compact=True)
    assert "hunter2" not in seen.text
    loading = f'import "other" as $d {{search: "{tmp_path}"}}; $d'
    for program in (loading, f"# a comment\n {loading}", f"\r\n{loading}", f"#\\\n\n{loading}"):
        answer = await ask(store, filename=name, operation="query", query=program)
        assert answer.is_error
        assert "hunter2" not in answer.text
    asked = await ask(
        store, filename=name, operation="query", query=f'"{tmp_path}/other" | modulemeta'
    )
    assert "hunter2" not in asked.text


def test_the_child_itself_cannot_open_files(tmp_path: Path):
    """Programs that load files are refused before; this is the wall behind."""
    (tmp_path / "other.json").write_text('{"secret": "hunter2"}')
    request = {
        "program": f'import "other" as $d {{search: "{tmp_path}"}}; $d',
        "stream": None,
        "compact": True,
        "raw": False,
        "seconds": 10,
        "memory_bytes": 1 << 30,
        "output_bytes": 1_000,
    }
    command = [sys.executable, "-m", "toolscout.offload.jq_worker", json.dumps(request)]
    ended = subprocess.run(command, input=b"{}", capture_output=True, check=True, timeout=60)
    assert b"hunter2" not in ended.stdout
    assert b"other.json" in ended.stderr


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (".items[].id", "0\n1\n2"),
        (".items[] | select(.id == 2) | .name", '"näme 2"'),
        (".items[].tags[0]", '"t"\n"t"\n"t"'),
        ('.["items"][].tags[]', '"t"\n"t"\n"t"'),
        ('."items"[] | .id, .id', "0\n0\n1\n1\n2\n2"),
    ],
)
async def test_a_document_too_large_for_jq_is_streamed_from_an_array(
    bench: Bench, program: str, expected: str
):
    store = bench.store(threshold_tokens=10, query_bytes=100)
    name = await store_result(
        store, {"before": {"items": [9]}, "items": _DATA["items"][:3], "after": 1}
    )
    answer = await ask(store, filename=name, operation="query", query=program)
    assert answer.text == expected


@pytest.mark.parametrize("program", [".items | length", "[.items[].id]", ".items[], .after", "[]"])
async def test_a_program_that_cannot_be_streamed_is_explained(bench: Bench, program: str):
    store = bench.store(threshold_tokens=10, query_bytes=100)
    name = await store_result(store, _DATA)
    answer = await ask(store, filename=name, operation="query", query=program)
    assert answer.is_error
    assert "streamed" in answer.text
    assert "search" in answer.text


async def test_a_path_without_an_array_is_reported(bench: Bench):
    store = bench.store(threshold_tokens=10, query_bytes=100)
    name = await store_result(store, _DATA)
    missing = await ask(store, filename=name, operation="query", query=".nope[]")
    other = await ask(store, filename=name, operation="query", query=".a[]")
    assert missing.is_error
    assert "'nope'" in missing.text
    assert other.is_error


@pytest.mark.behaviour("B37", "B41")
async def test_operations_and_older_names(bench: Bench):
    store = bench.store(threshold_tokens=10)
    name = await store_result(store, _DATA)
    read = await ask(store, name="read_large_output", filename=name, start=2, end=4)
    assert read.text == '"a"'
    asked = await ask(store, name="query_large_output", filename=name, query=".a", raw=True)
    assert asked.text == "x y"
    for arguments in ({}, {"operation": "grep"}):
        answer = await ask(store, filename=name, **arguments)
        assert answer.is_error
        assert all(word in answer.text for word in ("read", "search", "query"))
    unknown = await ask(store, name="write_large_output", filename=name)
    assert unknown.is_error
    assert "write_large_output" in unknown.text


@pytest.mark.behaviour("B36", "B37", "B41")
async def test_one_tool_is_shown_and_the_older_two_only_when_wanted(bench: Bench):
    store = bench.store()
    (unified,) = store.tools()
    schema = unified.parameters.value
    assert unified.name == "search_large_output"
    assert unified.defer == "never"
    assert schema["required"] == ["filename", "operation"]
    assert schema["properties"]["operation"]["enum"] == ["read", "search", "query"]
    assert [
        (p, schema["properties"][p].get("default"))
        for p in (
            "start",
            "end",
            "pattern",
            "case_sensitive",
            "max_results",
            "query",
            "compact",
            "raw",
        )
    ] == [
        ("start", None),
        ("end", None),
        ("pattern", None),
        ("case_sensitive", False),
        ("max_results", 50),
        ("query", None),
        ("compact", False),
        ("raw", False),
    ]
    older = ["read_large_output", "query_large_output"]
    assert [t.name for t in store.alias_tools()] == older
    assert [t.name for t in bench.store(show_aliases=True).tools()] == [unified.name, *older]
    assert bench.store(show_aliases=True).alias_tools() == ()


async def test_a_running_session_is_not_held_up_by_a_query(bench: Bench):
    """The query waits in a child process; the loop serves others meanwhile."""
    store = bench.store(threshold_tokens=10, query_seconds=2.0)
    name = await store_result(store, _DATA)
    endless = asyncio.create_task(
        ask(store, filename=name, operation="query", query="last(repeat(1))")
    )
    small = Result.of("small")
    assert await store.keep(DetachedSession("ann"), tool(), small) is small
    read = await ask(store, filename=name, operation="read", start=1, end=1)
    assert read.text == "{"
    assert not endless.done()
    assert (await endless).is_error
