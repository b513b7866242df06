"""Which files of Toolscout take part in one search, one `tool_search` and one MCP call.

A file counts when a function in it runs. Imports and class bodies do not count: they run once,
whatever is asked later. Everything is warmed up first, so that a trace shows the usual path.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

CATALOG = Path(__file__).parents[1] / "src/toolscout/examples/tools.jsonl"
SOURCE = Path(__file__).parents[1] / "src" / "toolscout"
QUERY = "send an email to a customer"


class Trace:
    """Collects the files whose functions run while it is on, in every thread."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self._is_on = False
        self._seen: set[CodeType] = set()

    def install(self) -> None:
        """Watch this thread and those that start later; nothing is collected yet."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    @contextmanager
    def on(self) -> Generator[None]:
        """Collect while the block runs."""
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not self._is_on or event != "call" or code in self._seen:
            return
        self._seen.add(code)
        path = Path(code.co_filename)
        # Modules and class bodies are code without fast locals.
        if code.co_flags & inspect.CO_OPTIMIZED and path.is_relative_to(SOURCE):
            self.files.add(path.relative_to(SOURCE).as_posix())


def trace_cli_search() -> set[str]:
    """`toolscout search QUERY --catalog FILE`, from the command to the printed hits."""
    from toolscout.cli.app import app

    trace = Trace()
    trace.install()
    with trace.on(), redirect_stdout(StringIO()):
        app.main(["search", QUERY, "--catalog", str(CATALOG)], standalone_mode=False)
    return trace.files


def trace_tool_search() -> set[str]:
    """`session.call("tool_search", …)` in a session that has searched before."""

    async def run() -> set[str]:
        from toolscout import Toolbox

        trace = Trace()
        trace.install()
        async with Toolbox([CATALOG]) as box:
            session = await box.session("trace")
            await box.wait_until_ready()
            await session.call("tool_search", {"query": "translate a letter"})
            with trace.on():
                reply = await session.call("tool_search", {"query": QUERY})
        assert not reply.is_error, reply.text
        return trace.files

    return asyncio.run(run())


def trace_mcp_call() -> set[str]:
    """`call_tool` of an MCP client, through the gateway, to a server in a process of its own."""

    async def run() -> set[str]:
        from fastmcp import Client

        from toolscout.cli.example import SERVERS
        from toolscout.gateway.gateway import Gateway
        from toolscout.gateway.server import build_server
        from toolscout.gateway.setup import Setup

        assert "clock" in SERVERS
        with tempfile.TemporaryDirectory() as folder:
            server = {
                "command": sys.executable,
                "args": ["-m", "toolscout.cli.example", "clock", folder],
            }
            config = Path(folder) / "mcp.json"
            config.write_text(json.dumps({"mcpServers": {"clock": server}}), encoding="utf-8")
            trace = Trace()
            trace.install()
            gateway = Gateway(Setup.read(config))
            async with Client(build_server(gateway)) as client:
                await gateway.wait_until_ready()
                call: dict[str, Any] = {"name": "clock__now", "arguments": {}}
                found = await client.call_tool("tool_search", {"query": "what time is it"})
                name = next(
                    n for n in (t.name for t in gateway.box.catalog) if "now" in n or "time" in n
                )
                call["name"] = name
                await client.call_tool("call_tool", call, raise_on_error=False)
                with trace.on():
                    result = await client.call_tool("call_tool", call, raise_on_error=False)
        assert found.content
        assert result.content, result
        return trace.files

    return asyncio.run(run())


TRACES = {
    "CLI search": trace_cli_search,
    "tool_search": trace_tool_search,
    "MCP call": trace_mcp_call,
}


def main() -> None:
    """Print the files of one trace, or the number of files of all, as JSON."""
    files = sorted(TRACES[sys.argv[1]]())
    sys.setprofile(None)
    print(json.dumps(files))


if __name__ == "__main__":
    main()
