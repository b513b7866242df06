"""Which files of Toolscout take part in a search, a `tool_search`, an MCP call, an agent step.

    python scripts/traces.py "MCP call"

A file counts when a function in it runs. Imports and class bodies do not count: they run once,
for any later request. Everything is warmed up first, so that a trace shows the usual path, and
the home folder is a temporary one.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType

SOURCE = Path(__file__).parents[1] / "src" / "toolscout"
CATALOG = SOURCE / "examples" / "tools.jsonl"
QUERY = "send an email to a customer"


class Trace:
    """Collects the files whose functions run while it is on, in every thread."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}  # in the order of their first call
        self._is_on = False
        self._seen: set[CodeType] = set()
        # Threads take over the profiler when they start, so it is installed before any does.
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
        # The code of modules and of class bodies is compiled without fast locals.
        if code.co_flags & inspect.CO_OPTIMIZED and path.is_relative_to(SOURCE):
            self.files.setdefault(path.relative_to(SOURCE).as_posix())


async def trace_cli_search(trace: Trace) -> None:
    """`toolscout search QUERY --catalog FILE`, from the command to the printed hits."""
    from toolscout.cli.app import app

    arguments = ["search", QUERY, "--catalog", str(CATALOG)]
    with redirect_stdout(StringIO()) as printed:
        app.main(arguments, standalone_mode=False)
        with trace.on():
            app.main(arguments, standalone_mode=False)
    assert "send_email" in printed.getvalue()


async def trace_tool_search(trace: Trace) -> None:
    """`session.call("tool_search", …)` in a session that has searched before."""
    from toolscout import Toolbox

    async with Toolbox([CATALOG]) as box:
        session = await box.session("trace")
        await box.wait_until_ready()
        await session.call("tool_search", {"query": "translate a letter"})
        with trace.on():
            reply = await session.call("tool_search", {"query": QUERY})
    assert "send_email" in reply.text, reply.text


async def trace_session_turn(trace: Trace) -> None:
    """A view, and `session.answer` of a reply that searches and calls a tool."""
    from toolscout import Toolbox

    def reply(number: int, name: str, arguments: dict[str, object]) -> dict[str, object]:
        call = {"type": "tool_use", "id": f"c{number}", "name": name, "input": arguments}
        return {"role": "assistant", "stop_reason": "tool_use", "content": [call]}

    search = {"query": QUERY}
    async with Toolbox([CATALOG]) as box:
        await box.wait_until_ready()
        session = await box.session("trace")
        session.view("anthropic")
        await session.answer(reply(1, "tool_search", search))
        with trace.on():
            session.view("anthropic")
            messages = await session.answer(reply(2, "tool_search", search))
            # A file cannot run it, but that error is an answer too.
            messages += await session.answer(reply(3, "call_tool", {"name": "send_email"}))
    assert "send_email" in str(messages)


async def trace_mcp_call(trace: Trace) -> None:
    """`call_tool` of an MCP client, through the gateway, to a server in a separate process."""
    from fastmcp import Client

    from toolscout import Config
    from toolscout.gateway.gateway import Gateway
    from toolscout.gateway.server import build_server
    from toolscout.gateway.setup import Setup

    with tempfile.TemporaryDirectory() as folder:
        entry = {"command": sys.executable, "args": ["-m", "toolscout.cli.example"]}
        path = Path(folder) / "mcp.json"
        path.write_text(json.dumps({"mcpServers": {"office": entry}}), encoding="utf-8")
        # A call searches nothing; without an encoder, none loads in the background meanwhile.
        config = Config.read(embedder="none")
        # On a busy machine the server may take longer to start than a search waits by default.
        setup = Setup.read(path, config=config, overrides={"start_wait_seconds": 60})
        async with Client(build_server(Gateway(setup))) as client:
            await client.call_tool("tool_search", {"query": "list the tables"})
            call = {"name": "office__list_tables", "arguments": {}}
            await client.call_tool("call_tool", call)
            with trace.on():
                result = await client.call_tool("call_tool", call)
    assert not result.is_error, result


async def trace_agent_step(trace: Trace) -> None:
    """A run of the agent in which the model searches, calls a tool and answers."""
    from toolscout import Agent, Toolbox
    from toolscout.models.scripted import ScriptedCall, ScriptedModel, Turn

    search = Turn(calls=(ScriptedCall("tool_search", {"query": QUERY}),))
    mail = Turn(calls=(ScriptedCall("send_email", {}),))  # a file cannot run it
    async with Toolbox([CATALOG]) as box:
        await box.wait_until_ready()
        await Agent(box, model=ScriptedModel([search, mail, "Done."])).run("Mail a customer")
        with trace.on():
            run = await Agent(box, model=ScriptedModel([search, mail, "Done."])).run(
                "Mail a customer"
            )
    assert run.text == "Done."


TRACES = {
    "CLI search": trace_cli_search,
    "tool_search": trace_tool_search,
    "session turn": trace_session_turn,
    "MCP call": trace_mcp_call,
    "agent step": trace_agent_step,
}


def main() -> None:
    trace = Trace()
    with tempfile.TemporaryDirectory() as home:
        os.environ["TOOLSCOUT_HOME"] = home
        asyncio.run(TRACES[sys.argv[1]](trace))
        sys.setprofile(None)
    print(json.dumps([*trace.files]))


if __name__ == "__main__":
    main()
