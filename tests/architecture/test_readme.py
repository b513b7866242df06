"""The README keeps its word: what it shows can be served, and its commands exist."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from mcp import Client, StdioServerParameters

from toolscout.cli.app import app

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")
START = (PROJECT / "docs" / "quickstart-gateway.md").read_text(encoding="utf-8")
JSON = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^    ((?:toolscout|make|python) .*?)(?:\s+#.*)?$", re.MULTILINE)
INLINE = re.compile(r"`(?:\.venv/bin/)?((?:toolscout|make|python) [^`]+)`")
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


def test_its_program_prints_what_it_says(tmp_path: Path):
    ((program, printed),) = PROGRAM.findall(README)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr


def test_it_shows_the_two_commands_first():
    shown = [command.split()[1] for command in COMMAND.findall(README)]
    assert shown[:2] == ["run", "test"]


@pytest.mark.parametrize(
    "command", sorted({*COMMAND.findall(README), *INLINE.findall(README)}), ids=lambda c: c[:60]
)
def test_its_commands_exist(command: str):
    words = shlex.split(command)
    match words[0]:
        case "make":
            makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE)
        case "toolscout":
            command_of = app.get_command(click.Context(app), words[1])
            assert command_of is not None
            command_of.make_parser(click.Context(command_of)).parse_args(words[2:])
        case _:
            script = words[1] if words[1] != "-m" else f"{words[2].replace('.', '/')}"
            assert (PROJECT / script).exists()
