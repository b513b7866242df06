"""Options of a profile that meet the tools of a toolbox."""

from __future__ import annotations

from typing import Any

import pytest

from toolscout import Tool
from toolscout.disclosure.profiles import get_profile
from toolscout.errors import ConfigError, SchemaError


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


@pytest.mark.parametrize(
    ("profile", "options", "problem"),
    [
        ("cms", {"words_only": 0.2, "vectors_only": 0.5}, r"vectors_only \(0.5\) is above"),
        ("cms", {"memory": "yes"}, "memory"),
        ("cms", {"force_search": 1}, "force_search"),
        ("cortex", {"enabled": "no"}, "enabled"),
        ("cortex", {"defer_mcp": 0}, "defer_mcp"),
        ("cortex", {"always_load": "read"}, "it takes a list of names"),
        ("everruns", {"never_defer": "read"}, "it takes a list of names"),
        ("mcpagent", {"pre_discovered": "read"}, "it takes a list of names"),
        ("solaris", {"core": "read"}, "it takes a list of names"),
    ],
)
def test_a_wrong_option_is_refused(profile: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        get_profile(profile, options)


async def test_a_session_can_have_another_profile_with_options(open_box: Any) -> None:
    box = await open_box(profile="solaris")
    options = {"pre_discovered": ["send_email"]}
    session = await box.session("s", profile="mcpagent", profile_options=options)
    names = [t["name"] for t in session.view().tools]
    assert names[:2] == ["search_tools", "add_tool"]
    assert "send_email" in names
    # Without a profile the options are for that of the toolbox.
    listed = await box.session("t", profile_options={"deferred": ["send_email"]})
    assert "send_email" in listed.view().instructions.partition("## Other tools")[2]


async def test_a_description_of_several_lines_is_one_line_of_the_prompt(open_box: Any) -> None:
    lines = Tool(name="read_page", description="Read a page.\n\nOne of:\n- home")
    box = await open_box(lines, profile="solaris")
    text = (await box.session("s")).view().instructions
    assert "- **read_page**: Read a page. One of: - home" in text


def test_a_dictionary_as_parameters_is_refused_with_the_way_to_write_it() -> None:
    schema: Any = {"type": "object", "properties": {}}
    with pytest.raises(SchemaError, match=r"Schema\.of"):
        Tool(name="read_page", parameters=schema)
