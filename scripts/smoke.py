"""Check that an installed wheel works, with one extra or none: `python -I smoke.py EXTRA`.

Runs in an environment that has nothing but the wheel and what it asked for.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

COMMAND = Path(sys.executable).with_name("toolscout")
SERVER = """
from fastmcp import FastMCP
server = FastMCP("bell")

@server.tool
def ring(times: int) -> str:
    "Ring the bell so often."
    return "ding " * times

server.run(show_banner=False)
"""


def command(*arguments: str, code: int = 0) -> object:
    done = subprocess.run(
        [COMMAND, *arguments, "--json"], capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout if code != 2 else done.stderr)


def base() -> None:
    """Everything that needs no extra; and parts that need one name it."""
    before = {*sys.modules}
    import toolscout

    assert "site-packages" in toolscout.__file__, toolscout.__file__
    came = {name.partition(".")[0] for name in {*sys.modules} - before}
    assert came - sys.stdlib_module_names == {"toolscout"}, came
    assert all(getattr(toolscout, name) for name in toolscout.__all__)
    found = searched("mail the invoice to Ann")
    assert "mail" in str(found) or "email" in str(found), found
    assert command("catalog", "list")
    assert command("demo")["questions"][0]["found"] == "send_email"  # type: ignore[index]
    assert len(command("demo", "--profile", "cms")["conversations"]) == 3  # type: ignore[index]
    assert command("tokens")["profiles"]["default"]["saved"] > 0  # type: ignore[index]
    asyncio.run(use())


def searched(query: str) -> object:
    return command("search", query, "-k", "3")["hits"]  # type: ignore[index]


async def use() -> None:
    from toolscout import Agent, Toolbox, tool
    from toolscout.models.scripted import ScriptedCall, ScriptedModel, Turn

    @tool(phrases=["make a sound"])
    def ring(times: int = 1) -> str:
        """Ring the bell."""
        return "ding " * times

    model = ScriptedModel(
        [
            Turn(calls=(ScriptedCall("tool_search", {"query": "make a sound"}),)),
            Turn(calls=(ScriptedCall("ring", {"times": 2}),)),
            "It rang.",
        ]
    )
    async with Toolbox([ring], profile="cms") as box:
        run = await Agent(box, model=model).run("Ring twice")
        assert (run.text, run.tools_used) == ("It rang.", ("ring",))


def lacking(extra: str) -> None:
    """Without an extra, every part that needs it names the pip command."""
    from toolscout.errors import MissingExtraError

    try:
        CHECKS[extra]()
    except MissingExtraError as error:
        said = str(error)
    except AssertionError as error:  # a command, or the answer of a tool, said so
        said = str(error)
    else:
        raise AssertionError(f"{extra} works without its extra")
    assert f"toolscout[{extra}]" in said, (extra, said)


def mcp() -> None:
    Path("bell.py").write_text(SERVER, encoding="utf-8")
    servers = {"bell": {"command": sys.executable, "args": ["bell.py"], "cwd": str(Path.cwd())}}
    Path("mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    found = command("check", "--config", "mcp.json")
    assert found["status"] == "ready", found  # type: ignore[index]
    asyncio.run(drive())


async def drive() -> None:
    """The gateway, over stdio, by the official client."""
    from mcp import Client, StdioServerParameters

    arguments = ["serve", "--stdio", "--wait", "60", "--config", "mcp.json"]
    environment = {"TOOLSCOUT_HOME": str(Path("gateway").absolute())}
    serve = StdioServerParameters(command=str(COMMAND), args=arguments, env=environment)
    async with Client(serve) as client:
        found = await client.call_tool("tool_search", {"query": "ring the bell"})
        assert "bell__ring" in str(found.content), found
        asked = {"name": "bell__ring", "arguments": {"times": 2}}
        assert "ding ding" in str((await client.call_tool("call_tool", asked)).content)
    example = ["serve", "--stdio", "--wait", "60", "--example"]
    serve = StdioServerParameters(command=str(COMMAND), args=example, env=environment)
    async with Client(serve) as client:
        found = await client.call_tool("tool_search", {"query": "mail the invoice to Ann"})
        assert "office__send_email" in str(found.content), found


def onnx() -> None:
    from toolscout.embedders import load_embedders
    from toolscout.errors import MissingExtraError, ToolscoutError

    try:
        load_embedders("onnx:nowhere")[0].encode(["text"])
    except ToolscoutError as error:
        assert not isinstance(error, MissingExtraError), error
    else:
        raise AssertionError("a folder that is not there was taken for a model")


def opens(*specs: str) -> None:
    from toolscout.models.spec import open_model

    for spec in specs:
        model = open_model(spec, api_key="none", base_url="http://127.0.0.1:9")
        asyncio.run(model.close())


def openai() -> None:
    from toolscout.embedders import load_embedders

    opens("openai:gpt-5.4", "openai-chat:any")
    assert load_embedders("openai:small@http://127.0.0.1:9/v1")


def tokens() -> None:
    from toolscout.tokens import default_counter, get_counter

    assert get_counter("o200k_base").count("ten thousand tools") == 3
    assert default_counter().is_exact


def offload() -> None:
    async def ask() -> None:
        from toolscout import Toolbox
        from toolscout.offload.limits import OffloadLimits
        from toolscout.offload.result_store import ResultStore

        def rows() -> dict[str, list[int]]:
            """Give many rows."""
            return {"rows": [*range(5_000)]}

        shelf = ResultStore("kept", limits=OffloadLimits(threshold_tokens=100))
        async with Toolbox([rows], profile="everything", offload=shelf) as box:
            session = await box.session("s")
            await session.call("rows", {})
            (path,) = Path("kept").rglob("tool_*.json")
            asked = {"filename": path.name, "operation": "query", "query": ".rows[4999]"}
            answer = await session.call("search_large_output", asked)
            assert answer.text == "4999", answer.text

    asyncio.run(ask())


def watch() -> None:
    async def look() -> None:
        from toolscout.guidance.rules import Rules

        Path("rules").mkdir()
        Path("rules/mail.md").write_text("Be polite.", encoding="utf-8")
        heard: asyncio.Queue[object] = asyncio.Queue()
        rules = Rules("rules", sink=heard.put_nowait)
        while not heard.empty():
            heard.get_nowait()
        async with rules.watch(), asyncio.timeout(30):
            Path("rules/mail.md").write_text("Be brief.", encoding="utf-8")
            await heard.get()

    asyncio.run(look())


def postgres() -> None:
    from toolscout.errors import StoreError
    from toolscout.store.postgres import PostgresStore

    try:
        PostgresStore("postgresql://nobody@127.0.0.1:1/none").get("s")
    except StoreError as error:
        assert "cannot be reached" in str(error), error
    else:
        raise AssertionError("There is no such server.")


def code() -> None:
    async def run() -> None:
        from toolscout import Toolbox

        def ring(times: int) -> str:
            """Ring the bell."""
            return "ding " * times

        async with Toolbox([ring], profile="code", store="memory") as box:
            session = await box.session("s")
            answer = await session.call("run_code", {"code": "await tools.ring(times=2)"})
            assert answer.text == "ding ding ", answer.text

    asyncio.run(run())


def otel() -> None:
    from toolscout.events import CatalogChangeEvent
    from toolscout.telemetry.otel import OpenTelemetry

    OpenTelemetry()(CatalogChangeEvent(added=1))


def everything() -> None:
    for name, check in CHECKS.items():
        if name not in ("base", "all"):
            check()


CHECKS: dict[str, Callable[[], None]] = {
    "base": base,
    "mcp": mcp,
    "onnx": onnx,
    "openai": openai,
    "anthropic": lambda: opens("anthropic:claude-sonnet-4-5"),
    "google": lambda: opens("google:gemini-3-pro"),
    "tokens": tokens,
    "offload": offload,
    "watch": watch,
    "postgres": postgres,
    "code": code,
    "otel": otel,
    "all": everything,
}


if __name__ == "__main__":
    chosen = sys.argv[1]
    base()
    if chosen != "base":
        CHECKS[chosen]()
    else:
        for extra in (name for name in CHECKS if name not in ("base", "all")):
            lacking(extra)
    print(f"{chosen}: works")
