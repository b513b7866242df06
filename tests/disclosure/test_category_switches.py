"""Users switch categories off; the way to tools stays on."""

from __future__ import annotations

import pytest

from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.disclosure.designs.solaris import DISCOVERY, Switch, allow_rule
from toolscout.disclosure.profiles import SOLARIS
from toolscout.disclosure.scope import ToolSelector
from toolscout.disclosure.session_state import SessionState
from toolscout.disclosure.view import view

WEB = Switch(id="web", name="Web", tools=ToolSelector(categories=("Web Content",)))
SWITCHES = (DISCOVERY, WEB)
TOOLS = [
    Tool(name="readSkill"),
    Tool(name="searchSkills"),
    Tool(name="browseWeb", category="Web Content"),
    Tool(name="createPlan"),
]


def shown(stored: dict[str, object], selected: tuple[str, ...] = ()) -> list[str]:
    rule = allow_rule(SWITCHES, stored, selected=selected)
    tools = view(SOLARIS, Catalog(TOOLS), SessionState("s"), allow=rule).tools
    return [t["name"] for t in tools]


CORE = ["searchTools", "readSkill", "searchSkills"]


@pytest.mark.behaviour("A25", "S19", "K28")
def test_discovery_stays_on_whatever_was_stored() -> None:
    assert shown({"discovery": False, "web": False}) == [*CORE, "createPlan"]
    assert DISCOVERY.id == "discovery"
    assert DISCOVERY.tools.names == ("searchTools", "searchSkills", "readSkill")


@pytest.mark.behaviour("A25", "S19")
@pytest.mark.parametrize("stored", [{}, {"web": True}, {"web": None}, {"web": 0}, {"new": False}])
def test_a_category_is_on_unless_it_was_stored_as_exactly_false(stored) -> None:
    assert shown(stored) == [*CORE, "browseWeb", "createPlan"]


@pytest.mark.behaviour("A25", "S19")
def test_a_selection_narrows_what_is_on_and_an_empty_one_does_not() -> None:
    assert shown({}, ("createPlan",)) == [*CORE, "createPlan"]
    assert shown({"web": False}, ("browseWeb",)) == CORE
    assert shown({}, ()) == [*CORE, "browseWeb", "createPlan"]
