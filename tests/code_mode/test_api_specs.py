"""The code mode of design B: OpenAPI documents instead of a search, and programs of calls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolscout.catalog.result import Result
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.sources.functions import tool
from toolscout.toolbox.session import Session
from toolscout.toolbox.toolbox import Toolbox

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Server:
    def __init__(self, name: str, *tools: str) -> None:
        self.name = name
        self._tools = [
            Tool(name=t, server=name, description=f"Does {t}.", parameters=Schema.of(NUMBER))
            for t in tools
        ]

    async def tools(self) -> list[Tool]:
        return self._tools

    async def call(self, tool: Tool, arguments: Any) -> Result:
        return Result.of({"tool": tool.local_name, **arguments})

    async def close(self) -> None: ...


@tool
def add(a: int) -> int:
    """Add one."""
    return a + 1


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with Toolbox(
        [Server("crm", "list", "drop"), Server("wiki", "read"), add],
        profile="mcpagent",
        profile_options={"code_execution": True, "selected_servers": ("crm",)},
        config=Config.read(embedder="none", home=tmp_path),
        store="memory",
    ) as box:
        yield await box.session("s", allow=lambda t: t.local_name != "drop")


@pytest.mark.behaviour("B81", "B50")
async def test_a_model_sees_two_tools_and_an_index_of_what_it_may_use(session: Session) -> None:
    view = session.view()
    assert [t["name"] for t in view.tools] == ["get_api_spec", "run_code"]
    index = json.loads(view.instructions.splitlines()[-1])
    assert index == {"crm": {"tools": ["list"]}}


@pytest.mark.behaviour("B82")
async def test_the_index_has_every_server_with_its_tools_sorted(tmp_path: Path) -> None:
    async with Toolbox(
        [Server("wiki", "write", "read"), Server("crm", "list"), add],
        profile="mcpagent",
        profile_options={"code_execution": True},
        config=Config.read(embedder="none", home=tmp_path),
        store="memory",
    ) as box:
        text = (await box.session("s")).view().instructions
    assert json.loads(text.splitlines()[-1]) == {
        "crm": {"tools": ["list"]},
        "custom": {"tools": ["add"]},
        "wiki": {"tools": ["read", "write"]},
    }


async def test_a_document_has_the_tools_of_a_server_and_how_to_call_them(session: Session) -> None:
    text = (await session.call("get_api_spec", {"server_name": "crm"})).text
    document = yaml.safe_load(text)
    assert document["openapi"] == "3.0.3"
    assert [*document["paths"]] == ["/tools/mcp/crm/list"]
    operation = document["paths"]["/tools/mcp/crm/list"]["post"]
    assert operation["requestBody"]["content"]["application/json"]["schema"] == NUMBER
    assert operation["x-call"] == "await crm.list(n: int) -> Any"
    program = "await crm.list(n=3)"
    assert (await session.call("run_code", {"code": program})).value == {"tool": "list", "n": 3}


async def test_unknown_hidden_and_unselected_tools_have_no_document(session: Session) -> None:
    for arguments in (
        {"server_name": "nowhere"},
        {"server_name": "wiki"},  # not selected
        {"server_name": "crm", "tool_name": "drop"},  # this caller may not use it
        {"server_name": "crm", "tool_name": "nothing"},
        {},
    ):
        result = await session.call("get_api_spec", arguments)
        assert result.is_error, arguments
        assert "Choose one of the index." in result.text
