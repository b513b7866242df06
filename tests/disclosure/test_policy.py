"""One chain of rules decides what waits, and says which of them did."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import DEFERRALS, Tool
from toolscout.disclosure.profiles import DEFAULT
from toolscout.disclosure.scope import Policy, ToolSelector
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.view import view, why

NAMED = ToolSelector(names=("t",))
SERVED = ToolSelector(servers=("s",))
GROUPED = ToolSelector(categories=("c",))


def tool(**fields) -> Tool:
    return Tool(name="t", server="s", category="c", **fields)


@pytest.mark.behaviour("K8", "D9", "D10", "C38", "C39", "S2")
@pytest.mark.parametrize(
    ("policy", "marked", "loaded", "small", "reason"),
    [
        (Policy(rule="all"), "never", False, False, "never_defer"),
        (Policy(rule="all", deferred=NAMED), "never", False, False, "never_defer"),
        (Policy(rule="all", pinned=NAMED), "always", False, False, "pinned"),
        (Policy(rule="all", pinned=SERVED), "auto", False, False, "pinned"),
        (Policy(rule="all", pinned=GROUPED, deferred=NAMED), "auto", False, False, "pinned"),
        (Policy(rule="all"), "always", True, False, "loaded"),
        (Policy(rule="none"), "always", False, False, "marked"),
        (Policy(rule="none", marks_ignore_threshold=True), "always", False, True, "marked"),
        (Policy(rule="all"), "always", False, True, "small"),
        (Policy(rule="all", deferred=NAMED), "auto", False, True, "small"),
        (Policy(rule="listed", deferred=NAMED), "auto", False, False, "listed"),
        (Policy(rule="listed", deferred=SERVED), "auto", False, False, "listed"),
        (Policy(rule="listed", deferred=GROUPED), "auto", False, False, "listed"),
        (Policy(rule="none", deferred=NAMED), "auto", False, False, "unlisted"),
        (Policy(rule="listed"), "auto", False, False, "unlisted"),
        (Policy(rule="served"), "auto", False, False, "served"),
        (Policy(rule="all"), "auto", False, False, "all"),
    ],
)
def test_the_first_rule_that_applies_decides(policy, marked, loaded, small, reason) -> None:
    standing = policy.visibility(tool(defer=marked), is_loaded=loaded, is_small=small)
    assert standing.reason == reason
    waits = {"marked", "listed", "served", "all"}
    assert standing.in_view == (reason not in waits)
    assert standing.sentence.startswith("t is in view:" if standing else "t is deferred:")


LISTINGS = st.builds(
    ToolSelector,
    names=st.sampled_from([(), ("t",)]),
    servers=st.sampled_from([(), ("s",)]),
    categories=st.sampled_from([(), ("c",)]),
)
POLICIES = st.builds(
    Policy,
    rule=st.sampled_from(["none", "listed", "served", "all"]),
    pinned=LISTINGS,
    deferred=LISTINGS,
    marks_ignore_threshold=st.booleans(),
)


@given(POLICIES, st.sampled_from(DEFERRALS), st.booleans())
def test_a_loaded_tool_is_in_view_whatever_the_rules(policy, marked, small) -> None:
    assert policy.visibility(tool(defer=marked), is_loaded=True, is_small=small)


@pytest.mark.behaviour("K8", "K28")
def test_a_conversation_can_be_asked_why(tmp_path) -> None:
    catalog = Catalog([Tool(name=f"t{i}", server="s") for i in range(20)])
    profile = replace(DEFAULT, policy=replace(DEFAULT.policy, pinned=ToolSelector(names=("t3",))))
    session = view(profile, catalog, SessionState("s").load("t1")).session

    def asked(name: str):
        return why(profile, name, session=session, catalog=catalog)

    assert asked("tool_search").reason == "discovery"
    assert asked("t1").reason == "loaded"
    assert asked("T3").reason == "pinned"
    assert asked("t5").reason == "all"
    assert not asked("t5").in_view
    assert asked("nowhere").reason == "unknown"
    gone = why(profile, "t3", session=session, catalog=catalog.remove("t3"))
    assert gone.reason == "lost"
    hidden = why(profile, "t5", session=session, catalog=catalog, allow=lambda _: False)
    assert hidden.reason == "unknown"
    for name in ("tool_search", "t1", "t5", "nowhere"):
        assert name in asked(name).sentence


@pytest.mark.behaviour("K28")
def test_a_forbidden_tool_leaves_the_view_at_once() -> None:
    catalog = Catalog([Tool(name=f"t{i}", server="s") for i in range(20)])
    profile = replace(DEFAULT, surface="load")
    first = view(profile, catalog, SessionState("s").load("t1", "t2"))
    assert [t["name"] for t in first.tools] == ["tool_search", "t1", "t2"]
    second = view(profile, catalog, first.session, allow=lambda t: t.name != "t1")
    assert [t["name"] for t in second.tools] == ["tool_search", "t2"]
    lost = view(profile, catalog.remove("t2"), second.session, allow=lambda t: t.name != "t2")
    assert "t2" not in [t["name"] for t in lost.tools]


def test_a_view_that_cannot_be_read_back_is_made_again() -> None:
    catalog = Catalog([Tool(name=f"t{i}", server="s") for i in range(20)])
    profile = replace(DEFAULT, surface="load")
    for broken in ("", "{}", "[]", '{"shown": [{"tool": 5}]}', "nonsense", '{"direct": "yes"}'):
        session = SessionState("s").load("t1").with_section("view", broken)
        assert [t["name"] for t in view(profile, catalog, session).tools] == ["tool_search", "t1"]


def test_definitions_that_cannot_be_read_back_are_taken_from_the_catalog() -> None:
    catalog = Catalog([Tool(name=f"t{i}", server="s") for i in range(20)])
    profile = replace(DEFAULT, surface="load")
    first = view(profile, catalog, SessionState("s").load("t3", "t1"))
    for broken in ("", "nonsense", "{}", "c$@"):
        session = first.session.with_section("definitions", broken)
        assert view(profile, catalog, session).text == first.text
