"""A session is a value: its moves, and the JSON it is kept as."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from toolscout.disclosure.session_state import SessionState
from toolscout.errors import StoreError


@pytest.mark.behaviour("C31", "C32")
def test_loading_twice_keeps_the_first_order():
    session = SessionState("s").load("b", "a").load("a", "c", "b")
    assert session.loaded == ("b", "a", "c")


def test_a_session_cannot_be_changed_in_place():
    session = SessionState("s").load("a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        session.loaded = ()  # pyright: ignore[reportAttributeAccessIssue]
    after = session.load("b")
    assert session.loaded == ("a",)
    assert after.loaded == ("a", "b")


@pytest.mark.behaviour("S3")
def test_unloading_is_explicit_and_leaves_the_others_in_their_order():
    session = SessionState("s").load("a", "b", "c").unload("b", "never-loaded")
    assert session.loaded == ("a", "c")
    assert session.load("b").loaded == ("a", "c", "b")


@pytest.mark.behaviour("S3")
def test_a_cap_keeps_the_newest():
    session = SessionState("s").load(*(f"t{n}" for n in range(25)), at_most=20)
    assert session.loaded == tuple(f"t{n}" for n in range(5, 25))


@pytest.mark.behaviour("S3")
def test_compaction_clears_only_where_that_is_asked_for():
    session = SessionState("s").load("a").record_uses("a")
    assert session.mark_compacted(clear=False) == session
    assert session.mark_compacted(clear=True).loaded == ()
    assert session.mark_compacted(clear=True).uses == ("a",)


def test_searches_keep_the_last_hundred_each_at_a_sensible_length():
    session = SessionState("s").record_searches("x" * 1_000_000)
    assert len(session.searches[0]) == 500
    for number in range(150):
        session = session.record_searches(str(number))
    assert session.searches == tuple(str(n) for n in range(50, 150))


def test_the_roster_is_fixed_by_the_first_writer():
    session = SessionState("s").with_roster("first", {"github": 3})
    assert session.with_roster("second", {}).roster == "first"
    assert session.with_known_groups({"github": 4}).known == {"github": 4}
    assert session.with_known_groups({"github": 4}).roster == "first"


def test_sections_are_kept_side_by_side():
    session = SessionState("s").with_section("memory", "{}").with_section("rules", "[1]")
    assert session.with_section("memory", "[]").sections == {"memory": "[]", "rules": "[1]"}
    assert session.without_section("memory").sections == {"rules": "[1]"}


def test_a_query_that_utf8_cannot_carry_does_not_spoil_the_json():
    text = SessionState("s").record_searches("\ud800 half a pair").to_json()
    assert SessionState.from_json(text).searches == ("? half a pair",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "cannot be read"),
        ("[]", "schema None"),
        ('{"id": "s"}', "schema None"),
        ('{"schema": 2, "id": "s"}', "Upgrade toolscout"),
        ('{"schema": true, "id": "s"}', "schema True"),
        ('{"schema": 1}', "id: Field required"),
        ('{"schema": 1, "id": "s", "loaded": ["a", 7]}', "loaded.1"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_text_that_is_not_a_session_is_refused_with_the_next_step(text: str, told: str):
    with pytest.raises(StoreError) as caught:
        SessionState.from_json(text)
    assert told in str(caught.value)
    assert caught.value.hint


TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
NAMES = st.lists(TEXT, max_size=5)


@given(
    st.builds(
        lambda i, loaded, searches, uses, roster, known, sections: (
            SessionState(i, roster=roster, known=known, sections=sections)
            .load(*loaded)
            .record_searches(*searches)
            .record_uses(*uses)
        ),
        TEXT,
        NAMES,
        NAMES,
        NAMES,
        st.none() | TEXT,
        st.dictionaries(TEXT, st.integers(0, 9)),
        st.dictionaries(TEXT, TEXT),
    )
)
def test_every_session_survives_its_json(session: SessionState):
    text = session.to_json()
    again = SessionState.from_json(text, version=session.version)
    assert again == session
    assert again.to_json() == text
    assert json.loads(text)["schema"] == 1


class Moves(RuleBasedStateMachine):
    """Random moves against the plainest model there is."""

    names = st.sampled_from("abcdef")

    def __init__(self) -> None:
        super().__init__()
        self.session = SessionState("s")
        self.loaded: list[str] = []
        self.used: list[str] = []

    @rule(names=st.lists(names, max_size=4))
    def load(self, names: list[str]) -> None:
        self.session = self.session.load(*names)
        for name in names:
            if name not in self.loaded:
                self.loaded.append(name)

    @rule(names=st.lists(names, max_size=4), most=st.integers(1, 4))
    def load_capped(self, names: list[str], most: int) -> None:
        self.load(names)
        self.session = self.session.load(at_most=most)
        self.loaded = self.loaded[-most:]

    @rule(name=names)
    def unload(self, name: str) -> None:
        self.session = self.session.unload(name)
        if name in self.loaded:
            self.loaded.remove(name)

    @rule(name=names)
    def use(self, name: str) -> None:
        self.session = self.session.record_uses(name)
        if name not in self.used:
            self.used.append(name)

    @rule()
    def go_through_json(self) -> None:
        self.session = SessionState.from_json(self.session.to_json())

    @rule()
    def compact(self) -> None:
        self.session = self.session.mark_compacted(clear=True)
        self.loaded = []

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        assert list(self.session.loaded) == self.loaded
        assert list(self.session.uses) == self.used


TestMoves = Moves.TestCase
TestMoves.settings = settings(max_examples=50, deadline=None)
