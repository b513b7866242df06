"""The three sides of a gateway, each built and used on its own."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from fastmcp import Client, FastMCP
from tests.gateway.conftest import Serve, small

from toolscout.config import Config
from toolscout.errors import CallRefusedError
from toolscout.events import Event, ToolCallEvent, ToolCallStartEvent, stamp
from toolscout.gateway.client.client_side import ClientSide
from toolscout.gateway.client.provider import ViewProvider
from toolscout.gateway.operations.operations import Operations
from toolscout.gateway.setup import Setup
from toolscout.gateway.upstream.upstream_side import UpstreamSide
from toolscout.search.engine import Engine
from toolscout.sources.functions import tool
from toolscout.store.log_contract import LogFilter
from toolscout.toolbox.toolbox import Toolbox


def read_setup(folder: Path, servers: dict[str, Any] | None = None, **tables: Any) -> Setup:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers or {}, **tables}))
    return Setup.read(path, config=Config.read(home=str(folder / "home"), embedder="none"))


def call_events(name: str) -> tuple[Event, ...]:
    start = ToolCallStartEvent(parent="c1", tool=name, arguments={"city": "Rome"})
    return stamp(start, session="s"), stamp(ToolCallEvent(id="c1", tool=name), session="s")


# Operations


async def test_operations_alone_record_events_and_report_problems(tmp_path: Path) -> None:
    heard: list[Event] = []
    setup = read_setup(tmp_path)
    operations = Operations(setup, sink=heard.append)
    await operations.start(setup)
    for event in call_events("weather"):
        operations.on_event(event)
    (row,) = operations.journal.store.read(LogFilter(kind="call"))
    assert (row.tool, row.outcome) == ("weather", "ok")
    (line,) = (tmp_path / "home" / "state" / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["arguments"] == {"city": "text(4)"}
    assert 'toolscout_calls_total{outcome="ok",server=""} 1' in operations.metrics.render((), {})
    assert len(heard) == 2
    assert operations.problems() == []
    operations.close()


async def test_a_listener_that_fails_keeps_nothing_from_the_journal(tmp_path: Path) -> None:
    def fail(_: Event) -> None:
        raise RuntimeError("broken listener")

    operations = Operations(read_setup(tmp_path), sink=fail)
    for event in call_events("weather"):
        operations.on_event(event)
    assert len(operations.journal.store.read(LogFilter(kind="call"))) == 1
    operations.close()


# Upstream side


async def test_the_upstream_side_alone_lists_servers_and_explains_what_is_held(
    tmp_path: Path,
) -> None:
    setup = read_setup(tmp_path, {"small": small("ok")}, gateway={"require_approval": True})
    upstream = UpstreamSide(setup, Engine(), sink=lambda _: None, quiet_seconds=0.0)
    async with Toolbox(upstream.create_sources(setup), engine=Engine(), store="memory") as box:
        upstream.upstreams.attach(box)
        await box.wait_until_ready()
        assert upstream.is_complete
        (held, *_) = [t for s in upstream.upstreams.sources.values() for t in s.tools_on_hold()]
        refusal = upstream.explain_missing(held.name, None)
        assert isinstance(refusal, CallRefusedError)
        assert "approve" in str(refusal)
        assert upstream.explain_missing(held.name, frozenset()) is None  # not for this caller
        assert upstream.explain_missing("no_such_tool", None) is None


# Client side


async def test_the_client_side_alone_serves_any_toolbox(tmp_path: Path) -> None:
    @tool
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"

    setup = read_setup(tmp_path)
    operations = Operations(setup, sink=lambda _: None)
    upstream = UpstreamSide(setup, Engine(), sink=lambda _: None, quiet_seconds=60.0)
    async with Toolbox([greet], engine=Engine(), store="memory", profile=setup.profile) as box:
        upstream.upstreams.attach(box)
        clients = ClientSide(
            box,
            read_setup=lambda: setup,
            upstream=upstream,
            operations=operations,
            wait_until_ready=lambda: asyncio.sleep(0),
        )
        app = FastMCP[Any]("alone", providers=[ViewProvider(clients)])
        async with Client(app) as client:
            names = [t.name for t in await client.list_tools()]
            call = {"name": "greet", "arguments": {"name": "Ann"}}
            said = await client.call_tool("call_tool", call)
        await clients.close()
    assert "tool_search" in names
    assert said.content[0].text == "Hello Ann"
    operations.close()


# One policy for each request


async def test_the_policy_of_a_caller_is_resolved_once_for_each_request(serve: Serve) -> None:
    policies = {"everybody": {"tools": ["small__*"]}}
    async with (
        serve({"small": small("ok")}, policies=policies) as running,
        running.client("legacy") as client,
    ):
        await client.list_tools()
        for name, arguments in (
            ("tool_search", {"query": "echo a text"}),
            ("call_tool", {"name": "small__echo", "arguments": {"text": "hi"}}),
            ("describe_tools", {"names": ["small__echo"]}),
        ):
            with counted(Setup.rule_for.__code__) as count:
                await client.call_tool(name, arguments)
            assert count() == 1, name
        with counted(Setup.rule_for.__code__) as count:
            await client.list_tools()
        assert count() == 1


class counted:  # noqa: N801 - reads as a block
    """Counts how often a function runs while the block does, without touching it."""

    def __init__(self, code: object) -> None:
        self._code = code
        self._calls = 0

    def __enter__(self) -> Any:
        def profile(frame: Any, event: str, _: object) -> None:
            self._calls += event == "call" and frame.f_code is self._code

        sys.setprofile(profile)
        return lambda: self._calls

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
