"""Searches that missed: which they are, and which belong together."""

from __future__ import annotations

import json

import numpy as np
import pytest

from toolscout.journal.missed_searches import cluster_misses, find_misses, read_misses
from toolscout.store.log_contract import LogRow
from toolscout.store.memory_log import MemoryLog

NOW = 10_000.0
Rows = list[LogRow]


def search(
    rows: Rows, text: str, *, confidence: float = 0.9, session: str = "s", time: float = 0.0,
    vector: bytes = b"", queries: int = 1, tool: str = "mail__send", principal: str = "",
) -> None:  # fmt: skip
    data = {
        "hits": [[tool, 1.0]] if tool else [],
        "confidence": confidence,
        "queries": queries,
        "query_chars": len(text),
        "query_texts": [text],
        "embedder": "e" if vector else "",
    }
    number = len(rows) + 1
    rows.append(
        LogRow(
            id=f"r{number}", time=time or number, kind="search", session=session, outcome="ok",
            principal=principal, data=json.dumps(data), vector=vector, sequence=number,
        )
    )  # fmt: skip


def call(rows: Rows, *, session: str = "s", kind: str = "call", principal: str = "") -> None:
    number = len(rows) + 1
    rows.append(
        LogRow(id=f"r{number}", time=number, kind=kind, session=session, tool="mail__send",
               principal=principal, sequence=number)
    )  # fmt: skip


def missed(rows: Rows, now: float = NOW) -> list[tuple[str, str]]:
    found = find_misses(rows, now=now, shows_texts=True)
    return [(miss.texts[0], miss.reason) for miss in found]


def test_a_search_with_low_confidence_missed_even_if_something_was_called() -> None:
    rows: Rows = []
    search(rows, "unsure", confidence=0.3)
    call(rows)
    assert missed(rows) == [("unsure", "low confidence")]


def test_a_sure_search_missed_only_if_nothing_was_called_in_its_turn() -> None:
    rows: Rows = []
    search(rows, "first words")
    search(rows, "other words")
    call(rows)
    search(rows, "in vain")
    search(rows, "of another session", session="t")
    call(rows, session="t")
    assert missed(rows) == [("in vain", "no call")]


@pytest.mark.parametrize("kind", ["call", "refusal"])
def test_a_refused_call_is_a_call(kind: str) -> None:
    rows: Rows = []
    search(rows, "delete it")
    call(rows, kind=kind)
    assert missed(rows) == []


def test_a_call_after_a_long_pause_belongs_to_no_search() -> None:
    rows: Rows = []
    search(rows, "long ago", time=1.0)
    rows.append(LogRow(id="late", time=700.0, kind="call", session="s", sequence=2))
    assert missed(rows) == [("long ago", "no call")]


def test_a_search_of_this_minute_may_still_be_followed_by_a_call() -> None:
    rows: Rows = []
    search(rows, "just now", time=NOW - 30)
    search(rows, "unsure now", time=NOW - 30, confidence=0.1, session="t")
    assert missed(rows) == [("unsure now", "low confidence")]
    assert ("just now", "no call") in missed(rows, NOW + 60)


def test_without_sessions_callers_are_separated_by_name() -> None:
    rows: Rows = []
    search(rows, "ann asks", session="", principal="ann")
    search(rows, "bob asks", session="", principal="bob")
    call(rows, session="", principal="bob")
    assert missed(rows) == [("ann asks", "no call")]


def unit(*values: float) -> bytes:
    vector = np.array(values, np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float16).tobytes()


def groups(rows: Rows, *, shows_texts: bool = True) -> list[list[str]]:
    found = cluster_misses(find_misses(rows, now=NOW, shows_texts=shows_texts))
    return [[miss.row.id for miss in cluster.misses] for cluster in found]


def test_searches_with_near_vectors_are_together_whatever_their_words() -> None:
    rows: Rows = []
    search(rows, "post a letter", vector=unit(1, 0.1, 0))
    search(rows, "weather", vector=unit(0, 0, 1))
    search(rows, "mail this", vector=unit(1, 0, 0.1))
    # Of two queries: the mean of the two.
    search(rows, "both", vector=unit(1, 0.2, 0) + unit(1, 0, 0), queries=2)
    assert groups(rows, shows_texts=False) == [["r4", "r3", "r1"], ["r2"]]


def test_damaged_vectors_raise_nothing() -> None:
    rows: Rows = []
    search(rows, "one", vector=unit(1, 0))
    search(rows, "cut off", vector=unit(1, 0)[:-1] + b"xx", queries=2)
    search(rows, "nothing", vector=unit(1, 0)[:0])
    search(rows, "not a number", vector=np.array([np.nan, 1], np.float16).tobytes())
    assert sorted(key for group in groups(rows) for key in group) == ["r1", "r2", "r3", "r4"]


def test_without_vectors_searches_that_share_most_words_are_together() -> None:
    rows: Rows = []
    search(rows, "polish the silver")
    search(rows, "sell a house")
    search(rows, "please polish silver")
    assert groups(rows) == [["r3", "r1"], ["r2"]]


def test_without_texts_and_vectors_what_was_found_decides_and_no_text_is_read() -> None:
    rows: Rows = []
    search(rows, "one", tool="a")
    search(rows, "two", tool="b")
    search(rows, "three", tool="a")
    assert groups(rows, shows_texts=False) == [["r3", "r1"], ["r2"]]
    found = cluster_misses(find_misses(rows, now=NOW, shows_texts=False))
    assert all(cluster.texts == () for cluster in found)


def test_a_group_names_its_most_frequent_request_and_tools() -> None:
    log, rows = MemoryLog(), list[LogRow]()
    for text, tool in (("polish silver", "a"), ("polish silver", "b"), ("polish the silver", "b")):
        search(rows, text, tool=tool, confidence=0.2, session=tool)
    for row in rows:
        log.append(row)
    (cluster,) = read_misses(log, now=NOW, shows_texts=True)
    assert cluster.texts == ("polish silver", "polish the silver")
    assert cluster.tools == ("b", "a")
    assert (cluster.sessions, cluster.confidence) == (2, pytest.approx(0.2))
    assert dict(cluster.reasons) == {"low confidence": 3}
    assert read_misses(log, now=NOW, shows_texts=True, since=NOW) == []
