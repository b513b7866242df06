"""Prompts and resources of MCP servers, as tools of a toolbox."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from toolscout.catalog.filters import Filter

FOLDER = Path(__file__).parents[1] / "upstreams"
VIRTUAL = ["get_prompt", "get_resource"]
POEM = {"server": "talker", "name": "poem", "arguments": {"topic": "rain"}}


@pytest.fixture
def talker(tmp_path: Path) -> Path:
    server = {"command": sys.executable, "args": [str(FOLDER / "talker.py")]}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"talker": server}}))
    return path


@pytest.mark.behaviour("B49", "B64", "S23")
async def test_prompts_and_resources_exist_as_long_as_their_server(
    open_box: Any, talker: Path
) -> None:
    box = await open_box(talker, profile="mcpagent")
    assert [n for n in VIRTUAL if n in box.catalog] == VIRTUAL
    session = await box.session("s", allow=Filter(servers=("talker",)))
    assert "get_prompt" not in [t["name"] for t in session.view().tools]
    reply = await session.call("get_prompt", POEM)
    assert "about rain" in reply.text
    await box.remove("talker")
    assert [n for n in VIRTUAL if n in box.catalog] == []


@pytest.mark.parametrize(
    "allow", [Filter(servers=("github",)), lambda t: t.server != "talker", ["get_prompt"]]
)
async def test_a_caller_reads_nothing_of_a_server_whose_tools_it_may_not_use(
    open_box: Any, talker: Path, allow: Any
) -> None:
    box = await open_box(talker, profile="mcpagent")
    session = await box.session("s", allow=allow)
    reply = await session.call("get_prompt", POEM)
    assert reply.is_error
    assert "There is no MCP server 'talker'" in reply.text


async def test_a_selection_without_the_server_leaves_nothing_to_get(
    open_box: Any, talker: Path
) -> None:
    options = {"selected_servers": ["github"]}
    box = await open_box(talker, profile="mcpagent", profile_options=options)
    assert [n for n in VIRTUAL if n in box.catalog] == []


async def test_without_prompts_and_resources_there_are_no_tools_for_them(
    open_box: Any, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps([{"name": "read_file"}]))
    stub = FOLDER.parent / "doors" / "stub_server.py"
    server = {"command": sys.executable, "args": [str(stub), str(rows)], "prefix": False}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"plain": server}}))
    box = await open_box(path, profile="mcpagent")
    assert [t.name for t in box.catalog] == ["read_file"]
    assert box.catalog.sources == ("plain",)
