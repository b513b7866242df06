"""Rules, skills and memory behind a real gateway, as a client gets them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import SMALL, Serve, text
from tests.gateway.test_access import as_

from toolscout.config import Config
from toolscout.errors import ConfigError
from toolscout.gateway.gateway import Gateway
from toolscout.gateway.setup import Setup
from toolscout.toolbox.toolbox import Toolbox

GENERATIONS = ["legacy", "2026-07-28"]
PAGES = """
from fastmcp import FastMCP
from pydantic import BaseModel


class Page(BaseModel):
    id: int
    title: str


server = FastMCP("pages")


@server.tool
def open_page(number: int) -> Page:
    "Open a page of the site."
    return Page(id=number, title=f"Page number {number}")


server.run(show_banner=False)
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def pages(tmp_path: Path) -> dict[str, Any]:
    """A server whose results have entities."""
    return {"command": sys.executable, "args": [str(write(tmp_path / "pages.py", PAGES))]}


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_rules_come_with_a_search_and_with_a_description(
    serve: Serve, tmp_path: Path, mode: str
) -> None:
    write(tmp_path / "rules/servers/one.md", "Only say what is polite.")
    write(tmp_path / "more/tools/two__echo.md", "Whisper.")
    options = {"rules": ["rules", "more/tools/two__echo.md"]}
    servers = {"one": SMALL, "two": SMALL}
    async with serve(servers, gateway=options) as running, running.client(mode) as client:
        found = await client.call_tool("tool_search", {"query": "select:one__echo"})
        assert "Only say what is polite." in text(found)
        described = await client.call_tool("describe_tools", {"names": ["two__echo"]})
        assert "Whisper." in text(described)
        assert "polite" not in text(described)


async def test_an_edited_rule_reaches_a_running_gateway(serve: Serve, tmp_path: Path) -> None:
    rule = write(tmp_path / "rules/servers/one.md", "Only say what is polite.")
    async with (
        serve({"one": SMALL}, gateway={"rules": ["rules"]}) as running,
        running.client("legacy") as client,
    ):
        query = {"query": "select:one__echo"}
        assert "polite" in text(await client.call_tool("tool_search", query))
        assert "polite" not in text(await client.call_tool("tool_search", query))
        rule.write_text("Say what you like.")
        async with asyncio.timeout(30):
            while "Say what you like." not in text(await client.call_tool("tool_search", query)):
                pass
    assert "rules_changed" in {event.kind for event in running.events}


@pytest.mark.parametrize("mode", ["legacy", "auto"])  # the two that read instructions
async def test_skills_are_tools_and_stand_in_the_instructions(
    serve: Serve, tmp_path: Path, mode: str
) -> None:
    write(tmp_path / "skills/manners.md", "How to be polite.")
    async with (
        serve({"one": SMALL}, gateway={"skills": ["skills"]}) as running,
        running.client(mode) as client,
    ):
        names = [t.name for t in (await client.list_tools()).tools]
        assert {"search_skills", "read_skill"} <= set(names)
        assert "- **manners** (`manners`): How to be polite." in (client.instructions or "")
        read = await client.call_tool("read_skill", {"skillId": "manners"})
        assert "How to be polite." in text(read)


async def test_memory_comes_with_a_search_once_it_has_changed(
    serve: Serve, pages: dict[str, Any]
) -> None:
    async with (
        serve({"site": pages}, gateway={"memory": True}) as running,
        running.client("legacy") as client,
    ):
        assert "Session context" not in (client.instructions or "")
        asked = {"name": "site__open_page", "arguments": {"number": 7}}
        assert not (await client.call_tool("call_tool", asked)).is_error
        found = text(await client.call_tool("tool_search", {"query": "a page"}))
        assert "Page number 7 (id 7)" in found
        assert "**Recently used:** site__open_page (1x)" in found
        again = text(await client.call_tool("tool_search", {"query": "a page"}))
        assert "Session context" not in again


async def test_memory_stands_in_the_instructions_of_a_client_that_comes_back(
    serve: Serve, pages: dict[str, Any]
) -> None:
    token = "alice-token-0123456789"
    options: dict[str, Any] = {"gateway": {"memory": True}, "auth": {"tokens": {"alice": token}}}
    async with serve({"site": pages}, **options) as running:
        for expected in (False, True):
            async with as_(running, token, "auto") as client:
                assert ("Page number 7" in (client.instructions or "")) is expected
                asked = {"name": "site__open_page", "arguments": {"number": 7}}
                await client.call_tool("call_tool", asked)


async def test_without_the_keys_there_are_no_features(serve: Serve) -> None:
    async with serve({"one": SMALL}) as running, running.client("legacy") as client:
        names = [t.name for t in (await client.list_tools()).tools]
        assert "read_skill" not in names
        await client.call_tool("call_tool", {"name": "one__echo", "arguments": {"text": "x"}})
        found = await client.call_tool("tool_search", {"query": "echo"})
        assert "Session context" not in text(found)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("rules", ["nowhere"], "does not exist. Make it a folder or a Markdown file (.md), or"),
        ("rules", ["nowhere.md"], "is not a file"),
        ("rules", ["mcp.json"], "is a file. Make it a folder or a Markdown file"),
        ("skills", ["nowhere"], "TOOLSCOUT_SKILLS"),
        ("skills", ["mcp.json"], "is a file. Make it a folder, or change skills"),
        ("rules", 7, "gateway.rules is wrong"),
        ("skills", ["~nosuchuser/x"], "home folder of an unknown user"),
        ("memory", "perhaps", "gateway.memory is wrong"),
    ],
)
def test_a_path_that_cannot_be_used_is_reported_with_what_to_do(
    tmp_path: Path, key: str, value: Any, says: str
) -> None:
    path = write(tmp_path / "mcp.json", json.dumps({"mcpServers": {}, "gateway": {key: value}}))
    config = Config.read(home=str(tmp_path / "home"), embedder="none")
    with pytest.raises(ConfigError) as error:
        Gateway(Setup.read(path, config=config))
    assert says in str(error.value)


async def test_one_file_sets_the_features_of_the_gateway_and_of_a_toolbox(tmp_path: Path) -> None:
    write(tmp_path / "rules/servers/one.md", "Only say what is polite.")
    write(tmp_path / "skills/manners.md", "How to be polite.")
    path = write(
        tmp_path / "toolscout.toml",
        '[servers]\n[settings]\nrules = ["rules"]\nskills = "skills"\nmemory = true\n'
        f'large_outputs = true\nembedder = "none"\nhome = "{tmp_path / "home"}"\n',
    )
    config = Config.read(path)
    setup = Setup.read(path)
    assert setup.toolbox_config.rules == config.rules == (tmp_path / "rules",)
    parts = {"rules", "memory", "offload", "skills"}
    assert parts <= set((await Gateway(setup).box.health()).parts)
    async with Toolbox(config=config) as box:
        health = (await box.health()).parts
        assert parts <= set(health)
        assert health["rules"].facts["rules"] == 1
        assert health["offload"].facts["is_enabled"]
        names = [tool["name"] for tool in (await box.session("s")).view().tools]
        assert {"read_skill", "search_large_output"} <= set(names)
    path.write_text(path.read_text() + "[gateway]\nmemory = false\n")
    assert not Setup.read(path).toolbox_config.memory


def test_several_paths_come_from_the_environment_as_in_path(tmp_path: Path) -> None:
    config = Config.read(environment={"TOOLSCOUT_RULES": f"a{os.pathsep}~/b"})
    assert config.rules == (Path("a"), Path.home() / "b")
    with pytest.raises(ConfigError, match="setting skills"):
        Config.read(environment={"TOOLSCOUT_SKILLS": "~nosuchuser/x"})
