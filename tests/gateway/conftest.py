"""A gateway to test: in this process, on loopback, before real servers in child processes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent
from tests.upstreams.processes import listening

from toolscout.config import Config
from toolscout.events import Event
from toolscout.gateway.gateway import Gateway
from toolscout.gateway.server import serve_http
from toolscout.gateway.setup import Setup
from toolscout.gateway.sockets import bind_socket
from toolscout.gateway.startup import QUIET_SECONDS

UPSTREAMS = Path(__file__).parent.parent / "upstreams"
SMALL = {"command": sys.executable, "args": [str(UPSTREAMS / "bad.py"), "ok"]}


def small(fault: str = "ok", *more: str) -> dict[str, Any]:
    """A server that starts at once and does as told."""
    return {"command": sys.executable, "args": [str(UPSTREAMS / "bad.py"), fault, *more]}


def text(result: CallToolResult) -> str:
    return "\n".join(c.text for c in result.content if isinstance(c, TextContent))


@dataclass
class Running:
    """A gateway that serves, and how to reach it."""

    gateway: Gateway
    url: str
    path: Path
    home: Path
    events: list[Event]

    def client(self, mode: str = "auto", **options: Any) -> Client:
        return Client(self.url, mode=mode, **options)


@pytest.fixture(scope="session")
def talker() -> Iterator[dict[str, Any]]:
    """A server that uses all of the protocol; one process for all tests."""
    with listening("http") as url:
        yield {"url": url}


Serve = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Serve a configuration: `servers` as JSON has them, everything else as TOML sections.

    `${GATEWAY_URL}` stands for its own address.
    """

    @asynccontextmanager
    async def serving(
        servers: dict[str, Any],
        *,
        variables: dict[str, str] | None = None,
        quiet_seconds: float = QUIET_SECONDS,
        **sections: Any,
    ) -> AsyncIterator[Running]:
        listener = bind_socket("127.0.0.1", 0)
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        known = {**(os.environ if variables is None else variables), "GATEWAY_URL": base}
        path, home = tmp_path / "mcp.json", tmp_path / "home"
        path.write_text(json.dumps({"mcpServers": servers, **sections}))
        config = Config.read(home=str(home), embedder="none")

        def read_setup() -> Setup:
            is_set = "start_wait_seconds" in sections.get("gateway", {})
            options = {} if is_set else {"start_wait_seconds": 60}
            return Setup.read(path, overrides=options, config=config, variables=known)

        events: list[Event] = []
        gateway = Gateway(read_setup(), sink=events.append, quiet_seconds=quiet_seconds)
        url = f"{base}/mcp"
        task = asyncio.create_task(serve_http(gateway, listener, read_setup=read_setup))
        try:
            yield Running(gateway, url, path, home, events)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return serving


async def cancel_a_wait(running: Running, client: Client) -> None:
    """Call a tool that waits, cancel it once it has begun, and wait until its server has let go."""
    began = asyncio.Event()

    async def progressed(*_: Any) -> None:
        began.set()

    call = asyncio.create_task(client.call_tool("talker__wait", {}, progress_callback=progressed))
    async with asyncio.timeout(60):
        await began.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    async with asyncio.timeout(60):
        while running.gateway.upstreams.states()[0].in_flight:
            await client.call_tool("tool_search", {"query": "anything"})
