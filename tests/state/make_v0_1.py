"""Makes `v0_1/`: a home folder with everything that version 0.1 kept, and what it showed of it.

It runs under 0.1, and under nothing else: its names are those of that version.

    path/to/a/checkout/of/0.1/.venv/bin/python tests/state/make_v0_1.py

What it writes is committed: no later version can make it again. `state/` and `cache/` are the home
itself, `*.toml`, `server.py` and `tools.json` what it was made with, and `expected.json` is what
0.1 showed when it opened the home once more. Every command in it is relative to the folder, so
that it opens wherever it is copied to; tokens are made up.
"""

# ruff: noqa: I001 - modules of 0.1 that are gone cannot be told from those of others

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from toolscout import Agent, Config, Handle, Toolbox
from toolscout.catalog.sources.mcp.grants import Grant, Grants
from toolscout.guidance.rules import Rules
from toolscout.memory.entities import Entity
from toolscout.memory.memory import Memory
from toolscout.models.scripted import Asked, ScriptedModel, Turn

HOME = Path(__file__).parent / "v0_1"
NOON = 1_767_268_800.0  # the first of January 2026
RULE = "Ask before you water in the rain."

SERVER = '''\
"""An MCP server without an SDK behind it; `tools.json` says which tools it has."""

import json
import sys
from pathlib import Path


def called(name, arguments):
    if name == "export_log":
        return "\\n".join(f"day {day}: watered bed {day % 7}" for day in range(1, 1_501))
    if name == "get_bed":
        return json.dumps({"id": arguments["bed"], "name": f"The {arguments['bed']} bed"})
    return f"{name}: done"


def answered(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "garden", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": json.loads(Path("tools.json").read_text(encoding="utf-8"))}
    if method == "tools/call":
        said = called(params["name"], params.get("arguments") or {})
        return {"content": [{"type": "text", "text": said}]}
    raise KeyError(method)


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        reply["result"] = answered(message["method"], message.get("params") or {})
    except KeyError:
        reply["error"] = {"code": -32601, "message": "Method not found"}
    sys.stdout.write(json.dumps(reply) + "\\n")
    sys.stdout.flush()
'''

# A small window, so that few tools are already too many to show; sessions that never expire.
SERVERS = """\
[servers.garden]
command = "python"
args = ["server.py"]

[gateway]
surface = "load"

[settings]
context_window_tokens = 2000
session_ttl_days = 0
"""

POLICIES = (
    SERVERS
    + """
[policies.gardeners]
principals = ["*"]
servers = ["garden"]
deny = ["*remove*"]
"""
)

LOGINS = """\
[servers.shed]
url = "http://shed.example/mcp"

[servers.barn]
url = "http://barn.example/mcp"
"""


def granted(place: str, **more: Any) -> dict[str, Any]:
    """What a login might have given."""
    return {
        "url": f"http://{place}.example/mcp",
        "token_endpoint": f"http://{place}.example/token",
        "client_id": f"made-up-client-of-{place}",
        "resource": f"http://{place}.example/",
        "access_token": f"made-up-access-to-{place}",
        "refresh_token": f"made-up-renewal-of-{place}",
        **more,
    }


SECRET = {"client_secret": "made-up-secret", "sends_secret_in_header": True}
IN_THE_YEAR_3000 = 32_503_680_000.0
GRANTS = {
    "shed": granted("shed", expires_at=IN_THE_YEAR_3000, **SECRET),
    "barn": granted("barn", expires_at=NOON),
}


def tool(
    name: str, description: str, *, reads: bool = False, **properties: Mapping[str, Any]
) -> dict[str, Any]:
    """A definition as the server lists it."""
    schema = {"type": "object", "properties": properties, "required": [*properties][:1]}
    hints = {"readOnlyHint": True} if reads else {"destructiveHint": name.startswith("remove")}
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": hints,
    }


BED = {"type": "string", "description": "Which bed."}
PLANT = {"type": "string", "description": "Which plant."}
# Long enough that not showing it saves something.
KINDS = {"type": "string", "enum": [f"kind-{number:03}" for number in range(300)]}
TOOLS = [
    tool("water_bed", "Water a bed.", bed=BED, litres={"type": "integer"}),
    tool("get_bed", "Get a bed by its name.", reads=True, bed=BED),
    tool("move_plant", "Move a plant to another bed.", plant=PLANT, bed=BED),
    tool("remove_plant", "Pull a plant out for good.", plant=PLANT),
    tool("sow_seeds", "Sow seeds of one kind.", kind=KINDS, bed=BED),
    tool("forecast_frost", "Tell which nights will be below zero.", reads=True),
    tool("export_log", "Export the log of the whole year.", reads=True),
]
CHANGED = [
    {**t, "description": "Move a plant, and the gardener with it."}
    if t["name"] == "move_plant"
    else t
    for t in TOOLS
]


def environment(**more: str) -> dict[str, str]:
    """What commands run in: this home, this Python, and words alone for searching."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "TOOLSCOUT_HOME": str(HOME), "TOOLSCOUT_EMBEDDER": "none", **more}


def command(*arguments: str) -> Any:
    """What a `toolscout` command says with `--json`."""
    done = subprocess.run(
        [Path(sys.executable).with_name("toolscout"), *arguments, "--json"],
        cwd=HOME,
        env=environment(),
        capture_output=True,
        check=False,
    )
    return json.loads(done.stdout)


@asynccontextmanager
async def gateway(config: str, session: str) -> AsyncIterator[Client]:
    """A client of the gateway in a conversation."""
    serve = StdioServerParameters(
        command=str(Path(sys.executable).with_name("toolscout")),
        args=["serve", "--stdio", "--wait", "60", "--session", session, "--config", config],
        env=environment(),
        cwd=HOME,
    )
    async with Client(serve) as client:
        yield client


def text(result: CallToolResult) -> str:
    """What a call said."""
    return "\n".join(c.text for c in result.content if isinstance(c, TextContent))


async def listed(client: Client) -> list[dict[str, Any]]:
    """The tools that a client of the gateway sees."""
    shown = (await client.list_tools()).tools
    return [t.model_dump(mode="json", by_alias=True, exclude_none=True) for t in shown]


def beds(value: Any) -> list[Entity]:
    """The bed that a result of `get_bed` is about."""
    return [Entity("bed", value["id"], value["name"])]


def opened(**more: Any) -> Toolbox:
    """A toolbox over the server, with all that keeps something with a session."""
    config = Config.read(HOME / "servers.toml", environment=environment(), **more)
    return Toolbox(
        [HOME / "servers.toml"],
        config=config,
        rules=Rules(servers={"garden": RULE}),
        memory=Memory(extractors={"garden__get_bed": beds}),
        clock=lambda: NOON,
    )


async def converse(box: Toolbox, name: str, model: str) -> None:
    """A conversation over somebody's own SDK."""
    session = await box.session(name)
    session.view(model)
    await session.call("tool_search", {"query": "water a bed"})
    await session.call("garden__water_bed", {"bed": "north", "litres": 9})
    await session.call("tool_search", {"query": "get a bed by name"})
    await session.call("garden__get_bed", {"bed": "south"})
    await session.load("garden__move_plant", "garden__forecast_frost")
    session.view(model)
    await session.finish()
    await session.save()


async def talk(box: Toolbox) -> None:
    """A conversation of an agent."""
    script = [
        Turn(calls=(Asked("tool_search", {"query": "water a bed"}),)),
        Turn(say="I do it.", calls=(Asked("garden__water_bed", {"bed": "north"}),)),
        "The north bed is watered.",
    ]
    # Its answers have tools in the form of one provider, which are kept word for word.
    model = ScriptedModel(script, name="claude-sonnet-4-5", provider="anthropic")
    async with Agent(box, model=model) as agent:
        await agent.run("Water the north bed.", session="talk")


async def serve_plot(config: str) -> None:
    """A conversation through the gateway, in which two tools are found and one is used."""
    async with gateway(config, "plot") as client:
        await listed(client)
        await client.call_tool("tool_search", {"query": "export the log of the year"})
        await client.call_tool("tool_search", {"query": "water a bed"})
        await client.call_tool("garden__water_bed", {"bed": "north"})


async def put_aside() -> str:
    """The name of a result that was too large for that conversation."""
    async with gateway("servers.toml", "plot") as client:
        large = text(await client.call_tool("garden__export_log", {}))
        return re.findall(r"tool_\w+\.txt", large)[0]


async def as_kept(box: Toolbox, name: str, model: str) -> dict[str, Any]:
    """What a conversation has, when it is opened once more."""
    session: Handle = await box.session(name)
    view = session.view(model)
    return {
        "model": model,
        "loaded": session.state.loaded,
        "searches": session.state.searches,
        "uses": session.state.uses,
        "recall": session.render_memory(),
        "mechanism": view.mechanism,
        "view": view.text,
        "instructions": view.instructions,
    }


async def main() -> None:
    """Make the home, then open it once more and write down what is seen."""
    assert version("toolscout").startswith("0.1."), "this runs under 0.1"
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    os.chdir(HOME)
    os.environ["PATH"] = environment()["PATH"]
    (HOME / "server.py").write_text(SERVER, encoding="utf-8")
    for name, config in (("servers", SERVERS), ("policies", POLICIES), ("logins", LOGINS)):
        (HOME / f"{name}.toml").write_text(config, encoding="utf-8")
    models = {"ann": "anthropic:claude-sonnet-4-5", "otto": "openai:gpt-5.4", "chad": "openai-chat"}

    tools = HOME / "tools.json"
    tools.write_text(json.dumps(TOOLS, indent=1), encoding="utf-8")
    await serve_plot("servers.toml")
    large = await put_aside()
    async with opened() as box:
        for name, model in models.items():
            await converse(box, name, model)
        await talk(box)
    tools.write_text(json.dumps(CHANGED, indent=1), encoding="utf-8")
    await serve_plot("policies.toml")
    for grant in GRANTS.values():
        Grants.of(Config.read(environment=environment())).save(Grant.model_validate(grant))
    async with opened(embedder="use") as box:
        await box.ready()
        asked = "will it be freezing"
        vectors = {"query": asked, "found": box.search(asked, limit=1).hits[0].name}

    expected: dict[str, Any] = {"made_by": version("toolscout"), "vectors": vectors}
    async with opened() as box:
        expected["sessions"] = {n: await as_kept(box, n, m) for n, m in models.items()}
        kept = (await box.session("talk")).state
        expected["talk"] = {"loaded": kept.loaded, "conversation": kept.sections["conversation"]}
    expected["rule"] = RULE
    expected["gateway"] = {}
    for config in ("servers.toml", "policies.toml"):
        async with gateway(config, "plot") as client:
            expected["gateway"][config] = await listed(client)
            if config == "servers.toml":
                part = {"filename": large, "operation": "read", "start": 20_001, "end": 20_100}
                said = await client.call_tool("search_large_output", part)
                expected["large"] = {"asked": part, "answer": text(said)}
    expected["pins"] = command("pins", "list")
    expected["diff"] = command("pins", "diff")
    expected["grants"] = GRANTS
    expected["tokens_saved"] = command("check", "--config", "servers.toml")["tokens_saved"]
    told = json.dumps(expected, ensure_ascii=False, indent=1)
    (HOME / "expected.json").write_text(told + "\n", encoding="utf-8")
    for lock in (HOME / "state" / "pins").glob(".*.lock"):
        lock.unlink()
    # Whoever opens a store last writes its journal into it; a gateway that ends leaves it beside.
    store = sqlite3.connect(HOME / "state" / "toolscout.db")
    store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()


if __name__ == "__main__":
    asyncio.run(main())
