"""One long conversation with many servers, as the mcpagent design would have it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolscout import tool
from toolscout.catalog.filters import Filter
from toolscout.catalog.result import Result
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.offload.result_store import ResultStore

VERBS = ("list", "get", "create", "update", "delete")
THINGS = {
    "github": ("issue", "pull_request", "branch"),
    "slack": ("channel", "user", "reminder"),
    "weather": ("forecast", "station", "alert"),
}
SPECIAL = {
    "slack": {"send_message": "Send a message to a channel."},
    "weather": {"get_weather": "Tell the weather of a city."},
    "github": {"get_log": "Get the whole log of a build."},
}
LOG = json.dumps({"lines": [f"step {n} of the build passed" for n in range(5_000)]})


class Server:
    """Fifteen tools and some of its own, all of which do little."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def tools(self) -> Sequence[Tool]:
        plain = {f"{v}_{t}": f"{v} a {t}".capitalize() for t in THINGS[self.name] for v in VERBS}
        schema = Schema.of({"type": "object", "properties": {"text": {"type": "string"}}})
        return [
            Tool(name=f"{self.name}__{n}", server=self.name, description=d, parameters=schema)
            for n, d in (plain | SPECIAL[self.name]).items()
        ]

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        return Result.of(LOG if tool.local_name == "get_log" else f"{tool.local_name} done")

    async def close(self) -> None:
        pass


@tool(category="workspace")
def read_workspace_file(path: str) -> str:
    """Read a file of the workspace."""
    return path


@tool(category="workspace")
def write_workspace_file(path: str) -> str:
    """Write a file of the workspace."""
    return path


def names(view: Any) -> list[str]:
    return [t["name"] for t in view.tools]


@pytest.mark.behaviour("B2", "B22", "B35", "B56", "B62", "B85")
async def test_many_servers_behind_a_filter_from_search_to_a_large_result(
    open_box: Any, tmp_path: Path
):
    box = await open_box(
        *(Server(name) for name in THINGS),
        read_workspace_file,
        write_workspace_file,
        profile="mcpagent",
        allow=Filter(servers=("github", "slack"), tools=("workspace:read_workspace_file",)),
        offload=ResultStore(tmp_path / "shelf"),
    )
    session = await box.session("s")
    start = ["search_tools", "add_tool", "show_all_tools", "search_large_output"]
    assert names(session.view()) == start

    async def ask(tool: str, **arguments: Any) -> Any:
        return json.loads((await session.call(tool, arguments)).text)

    assert (await ask("search_tools", query="weather"))["found"] == 0
    assert [t["name"] for t in (await ask("search_tools", query="workspace"))["tools"]] == [
        "read_workspace_file"
    ]
    everything = await ask("show_all_tools")
    assert not [n for n in everything["tools"] if "weather" in n or n == "write_workspace_file"]
    refused = await session.call("add_tool", {"tool_names": ["weather__get_weather"]})
    assert "Not found: weather__get_weather" in refused.text

    found = await ask("search_tools", query="send msg")
    assert found["tools"][0]["name"] == "slack__send_message"
    assert names(session.view()) == start
    await session.call("add_tool", {"tool_names": ["slack__send_message"]})
    assert names(session.view()) == [*start, "slack__send_message"]
    assert (await session.call("slack__send_message", {"text": "Hi"})).text == "send_message done"

    kept = await session.call("github__get_log", {})
    assert "step 4999" not in kept.text
    (file,) = set(re.findall(r"tool_\w+\.json", kept.text))

    async def read(**how: Any) -> str:
        return (await session.call("search_large_output", {"filename": file, **how})).text

    assert "step 0 of the build" in await read(operation="read", start=1, end=60)
    assert "step 4999" in await read(operation="search", pattern="step 4999")
    assert "step 4998" in await read(operation="query", query=".lines[4998]", raw=True)
