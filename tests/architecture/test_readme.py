"""The README keeps its word: what it shows can be served, and its commands exist."""

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from toolscout.cli.app import COMMANDS

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")
START = (PROJECT / "docs" / "quickstart-gateway.md").read_text(encoding="utf-8")
JSON = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:    |\$ )((?:toolscout|make|python) .*?)(?:\s+#.*)?$", re.MULTILINE)
BIN = Path(sys.executable).parent


def test_its_configuration_is_the_quick_start_s():
    (servers,) = JSON.findall(README)
    assert servers in JSON.findall(START)


async def test_a_client_with_the_one_entry_of_the_quick_start_reaches_both_servers(tmp_path: Path):
    servers, entry = JSON.findall(START)
    (tmp_path / "mcp.json").write_text(servers, encoding="utf-8")
    one = json.loads(entry)["mcpServers"]["toolscout"]
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"  # what is installed can be called by its name
    command = StdioServerParameters(
        command=str(BIN / one["command"]),
        args=[*one["args"], "--wait", "60"],
        env={"PATH": path, "TOOLSCOUT_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
    )
    async with Client(command) as client:
        shown = [t.name for t in (await client.list_tools()).tools]
        assert all(f"`{name}`" in START for name in shown)
        found = await client.call_tool("tool_search", {"query": "current time in a timezone"})
        assert "time__get_current_time" in str(found.content)
        asked = {"name": "time__get_current_time", "arguments": {"timezone": "Asia/Tokyo"}}
        assert "Asia/Tokyo" in str((await client.call_tool("call_tool", asked)).content)
        assert "git" in str((await client.list_tools()).model_dump())


@pytest.mark.parametrize("command", sorted(set(COMMAND.findall(README))))
def test_its_commands_exist(command: str):
    words = shlex.split(command)
    match words[0]:
        case "make":
            makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE)
        case "toolscout":
            assert words[1] in COMMANDS
        case _:
            script = words[1] if words[1] != "-m" else f"{words[2].replace('.', '/')}"
            assert (PROJECT / script).exists()
