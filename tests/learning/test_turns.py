"""Which calls belong to which searches."""

from __future__ import annotations

from typing import Any

from toolscout.events import DiscoveryResultEvent, ToolCallEvent
from toolscout.learning.turns import WINDOW_SECONDS, SearchTurn, Turns

from .rows import SIZE, vector

MODEL = "model"


class Clock:
    """Events a second apart."""

    def __init__(self) -> None:
        self.turns = Turns(dimensions=lambda: SIZE)
        self.now = 1_000_000.0
        self.ended: list[SearchTurn] = []

    def search(
        self, *names: str, near: tuple[str, ...] = (), seed: int = 1, **options: Any
    ) -> None:
        self.now += 1
        values: dict[str, Any] = {"session": "s", "vector": vector(seed), **options}
        event = DiscoveryResultEvent(
            id=f"{self.now}",
            time=self.now,
            tool="tool_search",
            names=names,
            scores=tuple(5.0 - place for place in range(len(names))),
            near=near,
            embedder=MODEL,
            **values,
        )
        self.ended += self.turns.read(event)

    def call(self, name: str, **options: Any) -> None:
        self.now += 1
        values: dict[str, Any] = {"session": "s", **options}
        self.ended += self.turns.read(ToolCallEvent(id="c", time=self.now, tool=name, **values))

    def observed(self) -> list[list[str]]:
        turns = [*self.ended, *self.turns.finish()]
        rows = [o for turn in turns for o in turn.observations(model=MODEL, time=0)]
        return [[*o.called] for o in rows]


def test_a_successful_call_of_a_found_tool_is_observed():
    clock = Clock()
    clock.search("a", "b")
    clock.call("b")
    assert clock.observed() == [["b"]]


def test_a_call_of_a_name_listed_below_the_hits_is_observed():
    clock = Clock()
    clock.search("a", near=("x", "y"))
    clock.call("y")
    assert clock.observed() == [["y"]]


def test_failed_calls_and_tools_that_no_reply_listed_are_not():
    clock = Clock()
    clock.search("a", "b")
    clock.call("a", is_error=True)
    clock.call("other")
    assert clock.observed() == []


def test_every_search_of_a_turn_is_credited():
    clock = Clock()
    clock.search("a", "b", seed=1)
    clock.search("c", "d", seed=2)
    clock.call("d")
    assert clock.observed() == [["d"], ["d"]]


def test_searches_for_different_needs_are_credited_with_their_own_tools():
    clock = Clock()
    clock.search("a", "b", seed=1)
    clock.search("c", "d", seed=2)
    clock.call("b")
    clock.call("c")
    assert clock.observed() == [["b"], ["c"]]


def test_a_search_after_a_call_begins_a_new_turn():
    clock = Clock()
    clock.search("a", seed=1)
    clock.call("a")
    clock.search("b", seed=2)
    assert len(clock.ended) == 1
    clock.call("b")
    assert clock.observed() == [["a"], ["b"]]


def test_a_look_up_by_name_belongs_to_the_search_before_it():
    clock = Clock()
    clock.search("a", "b")
    clock.search("z", vector=b"")
    clock.call("z")
    assert clock.observed() == [["z"]]


def test_a_client_without_sessions_is_known_by_its_principal_and_program():
    clock = Clock()
    clock.search("a", "b", session="~1", principal="ann", client="editor", seed=1)
    clock.search("a", "c", session="~2", principal="bob", client="editor", seed=2)
    clock.call("a", session="~3", principal="ann", client="editor")
    (turn,) = clock.turns.finish()
    assert (turn.principal, [*turn.called]) == ("ann", ["a"])


def test_another_program_or_a_session_with_calls_of_its_own_takes_no_credit():
    clock = Clock()
    clock.search("a", "b", session="one", principal="ann", client="editor")
    clock.call("b", session="one", principal="ann", client="editor")
    clock.call("a", session="two", principal="ann", client="editor")
    clock.call("a", session="three", principal="ann", client="other")
    assert clock.observed() == [["b"]]


def test_programs_that_share_a_session_have_turns_of_their_own():
    clock = Clock()
    clock.search("a", "b", session="ops", principal="ops", client="editor", seed=1)
    clock.call("b", session="ops", principal="ops", client="cron")
    clock.search("b", "c", session="ops", principal="ops", client="cron", seed=2)
    assert clock.turns.recent_calls("ops", "ops", "editor", clock.now) == []
    assert clock.turns.recent_calls("ops", "ops", "cron", clock.now) == ["b"]
    assert clock.observed() == []
    clock.search("a", "b", session="ops", principal="ops", client="editor", seed=1)
    clock.search("b", "c", session="ops", principal="ops", client="cron", seed=2)
    clock.call("c", session="ops", principal="ops", client="cron")
    (turn,) = clock.turns.finish()
    assert (turn.client, [*turn.called]) == ("cron", ["c"])


def test_the_next_search_of_a_client_without_sessions_ends_its_turn():
    clock = Clock()
    clock.search("a", session="~1", client="editor")
    clock.call("a", session="~2", client="editor")
    clock.search("b", session="~3", client="editor", seed=2)
    assert [[*turn.called] for turn in clock.ended] == [["a"]]


def test_a_call_long_after_a_search_does_not_belong_to_it():
    clock = Clock()
    clock.search("a")
    clock.now += WINDOW_SECONDS + 1
    clock.call("a")
    assert clock.observed() == []


def test_a_clock_that_is_set_back_ends_turns_and_loses_nothing():
    clock = Clock()
    clock.search("a")
    clock.call("a")
    clock.now -= 1e6
    clock.search("b", seed=2)
    assert clock.observed() == [["a"]]


def test_recent_calls_are_those_of_the_conversation_and_end_with_the_window():
    clock = Clock()
    clock.search("a", "b")
    clock.call("a")
    assert clock.turns.recent_calls("s", "", "", clock.now) == ["a"]
    assert clock.turns.recent_calls("other", "", "else", clock.now) == []
    assert clock.turns.recent_calls("s", "", "", clock.now + WINDOW_SECONDS + 1) == []


def test_queries_of_one_call_are_credited_together_without_a_trace():
    clock = Clock()
    clock.search("a", "b", vector=vector(1) + vector(2), queries=("one", "two"))
    clock.call("b")
    assert clock.observed() == [["b"], ["b"]]
