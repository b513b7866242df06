"""One scripted conversation through three doors, and what the model received at each step.

The doors: `sdk`, the plain loop of the quick start over the real Anthropic SDK; `agent`, `Agent`
over the same service; `gateway`, `toolscout serve --profile NAME` in a process of its own with a
real MCP client in place of the model. The model is scripted: each step is a list of calls.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic
import httpx2
from mcp import Client
from mcp_types import CallToolResult, TextContent
from tests.wire.server import Wire
from tests.wire.turns import Say

from toolscout.agent.agent import Agent
from toolscout.catalog.result import Result
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.models.anthropic import AnthropicModel
from toolscout.sources.files import read_tools
from toolscout.toolbox.toolbox import Toolbox

# A model without a tool search of its own, so that our discovery tools are what it gets.
MODEL = "claude-haiku-4-5"
STUB = Path(__file__).parent / "stub_server.py"
DOORS = ("sdk", "agent", "gateway")

Row = Mapping[str, Any]
"""A row of `tools.jsonl`; `result` is what a call of the tool answers."""

Step = Sequence[tuple[str, Mapping[str, Any]]]
"""The calls of one reply of the model: names and arguments."""


@dataclass(frozen=True)
class Received:
    """What the model got with one request: tools by name, instructions, messages.

    A gateway sends no messages: there they are empty.
    """

    tools: Mapping[str, Mapping[str, Any]]
    instructions: str
    messages: Sequence[Any] = ()

    @property
    def names(self) -> list[str]:
        """The names of the tools, in order."""
        return [*self.tools]


@dataclass
class Transcript:
    """A conversation: the requests that the model received, and the answers to its calls."""

    received: list[Received] = field(default_factory=list)
    answers: list[list[str]] = field(default_factory=list)
    errors: list[list[bool]] = field(default_factory=list)
    pages: dict[str, httpx2.Response] = field(default_factory=dict)

    @property
    def first(self) -> Received:
        """What the model got at the start."""
        return self.received[0]

    @property
    def last(self) -> Received:
        """What the model got at the end."""
        return self.received[-1]


class StubSource:
    """The rows as a source of a toolbox."""

    name = "stub"

    def __init__(self, rows: Sequence[Row], folder: Path) -> None:
        self._results = {row["name"]: row.get("result") for row in rows}
        path = folder / "tools.jsonl"
        lines = [json.dumps({k: v for k, v in row.items() if k != "result"}) for row in rows]
        path.write_text("\n".join(lines))
        self._path = path

    async def tools(self) -> Sequence[Tool]:
        return read_tools(self._path).tools

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        said = self._results.get(tool.local_name)
        return Result.of(said or f"{tool.local_name} {json.dumps(arguments, sort_keys=True)}")

    async def close(self) -> None:
        """Nothing to close."""


async def converse(
    door: str,
    rows: Sequence[Row],
    steps: Sequence[Step],
    *,
    folder: Path,
    profile: str,
    options: Mapping[str, Any] | None = None,
    message: str = "Please help.",
    settings: Mapping[str, str] | None = None,
    paths: Sequence[str] = (),
    **more: Any,
) -> Transcript:
    """Lead the conversation through a door; `options` are those of the profile.

    A step without calls ends a turn: the user says the same again, and the session goes on.
    `settings` are those of `Config`, with the embedder `none` unless they name one. `paths` are
    fetched from the gateway at the end. `more` are arguments of `Toolbox` for the first two doors,
    with `sources` beside the rows; what is a dictionary is a table of the configuration for the
    third, and `mode` is that of its client. Rules, skills and memory in the table `gateway` are
    settings of the toolbox behind the first two.
    """
    lead: Callable[..., Any] = {"sdk": _sdk, "agent": _agent, "gateway": _gateway}[door]
    more = {**more, "settings": {"embedder": "none", **(settings or {})}, "paths": paths}
    return await lead(rows, steps, folder, profile, dict(options or {}), message, more)


async def _sdk(
    rows: Sequence[Row],
    steps: Sequence[Step],
    folder: Path,
    profile: str,
    options: dict[str, Any],
    message: str,
    more: dict[str, Any],
) -> Transcript:
    async with Wire(*_plan(steps)) as wire, _open_box(rows, folder, profile, options, more) as box:
        await box.wait_until_ready()
        session = await box.session("talk")
        client = anthropic.AsyncAnthropic(api_key="k", base_url=wire.url, max_retries=0)
        messages: list[Any] = []
        for _ in range(_turns(steps)):
            messages.append({"role": "user", "content": message})
            while True:  # the loop of docs/quickstart-library.md
                view = session.view(model=MODEL)
                reply = await client.messages.create(
                    model=MODEL,
                    max_tokens=1024,
                    system=view.instructions,
                    tools=view.tools,
                    messages=messages,
                )
                more_messages = await session.answer(reply)
                if not more_messages:
                    break
                messages += more_messages
            messages.append({"role": "assistant", "content": reply.content})
        await client.close()
    return _transcript(wire)


async def _agent(
    rows: Sequence[Row],
    steps: Sequence[Step],
    folder: Path,
    profile: str,
    options: dict[str, Any],
    message: str,
    more: dict[str, Any],
) -> Transcript:
    async with Wire(*_plan(steps)) as wire, _open_box(rows, folder, profile, options, more) as box:
        await box.wait_until_ready()
        model = AnthropicModel(MODEL, api_key="k", base_url=wire.url)
        async with Agent(box, model=model) as agent:
            for _ in range(_turns(steps)):
                await agent.run(message, session="talk")
    return _transcript(wire)


async def _gateway(
    rows: Sequence[Row],
    steps: Sequence[Step],
    folder: Path,
    profile: str,
    options: dict[str, Any],
    _: str,
    more: dict[str, Any],
) -> Transcript:
    tools = folder / "rows.json"
    tools.write_text(json.dumps([*rows]))
    # Without a prefix the tools keep their names, as behind the other doors.
    server = {"command": sys.executable, "args": [str(STUB), str(tools)], "prefix": False}
    # Large results add a tool of their own, which none of the designs but one has.
    tables = {k: v for k, v in more.items() if isinstance(v, dict) and k != "settings"}
    if profile != "mcpagent":
        tables["gateway"] = {"large_outputs": False, **tables.get("gateway", {})}
    document = {"mcpServers": {"stub": server}, **({"profile": options} if options else {})}
    (folder / "mcp.json").write_text(json.dumps({**document, **tables}))
    options_of_serve = ["--profile", profile, "--http", "127.0.0.1:0", "--wait", "60"]
    command = [sys.executable, "-m", "toolscout.cli", "serve", "--config", "mcp.json"]
    process = await asyncio.create_subprocess_exec(
        *command,
        *options_of_serve,
        cwd=folder,
        env={**os.environ, "TOOLSCOUT_HOME": str(folder / "home"), **_variables(more["settings"])},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        address = (await process.stderr.readline()).decode().split()[-1]
        # A handshake client has a session, so that what it loads stays in its list.
        async with httpx2.AsyncClient(base_url=address.removesuffix("/mcp")) as http:
            await _wait_for_vectors(http)
            async with Client(address, mode=more.get("mode", "legacy")) as client:
                transcript = await _drive(client, steps)
            transcript.pages = {path: await http.get(path) for path in more["paths"]}
        return transcript
    finally:
        process.terminate()
        await process.communicate()


async def _wait_for_vectors(http: httpx2.AsyncClient) -> None:
    """Wait until every tool has its vectors; without an embedder there is nothing to wait for."""
    async with asyncio.timeout(60):
        while True:
            report = (await http.get("/health")).json()
            if "parts" not in report:
                # A caller under a policy does not see the index, and its own is made by its first
                # search. These conversations search for words of the tools.
                if report["ready"]:
                    return
                await asyncio.sleep(0.05)
                continue
            index = report["parts"]["index"]
            if index["tools"] and all(n == index["tools"] for n in index["vectors"].values()):
                return
            await asyncio.sleep(0.05)


async def _drive(client: Client, steps: Sequence[Step]) -> Transcript:
    transcript = Transcript()
    for step in steps:
        transcript.received.append(await _listed(client))
        results = [await client.call_tool(name, dict(arguments)) for name, arguments in step]
        transcript.answers.append([_text_of(result) for result in results])
        transcript.errors.append([bool(r.is_error) for r in results])
    transcript.received.append(await _listed(client))
    return transcript


def _text_of(result: CallToolResult) -> str:
    return "\n".join(c.text for c in result.content if isinstance(c, TextContent))


async def _listed(client: Client) -> Received:
    tools = {
        t.name: {"description": t.description or "", "schema": t.input_schema}
        for t in (await client.list_tools()).tools
    }
    return Received(tools, client.instructions or "")


def _open_box(
    rows: Sequence[Row],
    folder: Path,
    profile: str,
    options: dict[str, Any],
    more: dict[str, Any],
) -> Toolbox:
    table = more.get("gateway", {})
    features = {k: table[k] for k in ("rules", "skills", "memory") if k in table}
    settings = {**more["settings"], **features}
    config = Config.read(environment={}, home=str(folder / "home"), **settings)
    own = ("paths", "mode", "sources")
    arguments = {k: v for k, v in more.items() if not isinstance(v, dict) and k not in own}
    sources = more.get("sources", ())
    return Toolbox(
        [StubSource(rows, folder), *sources],
        profile=profile,
        profile_options=options or None,
        config=config,
        store="memory",
        **arguments,
    )


def _plan(steps: Sequence[Step]) -> list[Say]:
    """The replies of the scripted model: the calls of each step, then an answer."""
    calls = [tuple((name, json.dumps(arguments)) for name, arguments in step) for step in steps]
    return [*(Say(calls=each) if each else Say("Done.") for each in calls), Say("Done.")]


def _variables(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"TOOLSCOUT_{name.upper()}": value for name, value in settings.items()}


def _turns(steps: Sequence[Step]) -> int:
    return 1 + sum(not step for step in steps)


def _transcript(wire: Wire) -> Transcript:
    transcript = Transcript()
    for seen in wire.seen:
        body = seen.body
        tools = {
            t["name"]: {"description": t.get("description", ""), "schema": t.get("input_schema")}
            for t in body.get("tools", [])
        }
        transcript.received.append(Received(tools, _text(body.get("system", "")), body["messages"]))
    for received in transcript.received[1:]:
        results = [
            block
            for block in received.messages[-1]["content"]
            if isinstance(block, dict) and block.get("type") == "tool_result"
        ]
        transcript.answers.append([_text(block.get("content", "")) for block in results])
        transcript.errors.append([bool(block.get("is_error")) for block in results])
    return transcript


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
