"""Options of a profile that meet the tools of a toolbox."""

from __future__ import annotations

from typing import Any


async def test_health_names_the_options_that_select_nothing(open_box: Any) -> None:
    core = ["send_email", "archive", "get_wether"]
    box = await open_box(profile="solaris", profile_options={"core": core})
    part = (await box.health()).parts["profile"]
    assert part.status == "degraded"
    assert part.facts["problems"] == ["No tool, server or category is named get_wether."]
    well = await open_box(profile="solaris", profile_options={"core": core[:2]})
    assert (await well.health()).parts["profile"].status == "ok"


async def test_adding_a_tool_that_a_feature_shows_says_it_is_there(open_box: Any) -> None:
    session = await (await open_box(profile="mcpagent")).session("s")
    names = [t["name"] for t in session.view().tools]
    assert "search_large_output" in names
    reply = await session.call("add_tool", {"tool_names": ["search_large_output", "add_tool"]})
    assert reply.text == "Already available: search_large_output, add_tool."
