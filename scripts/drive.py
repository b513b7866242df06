"""Use a running gateway as a client would, in both generations of the protocol.

`python scripts/drive.py http://127.0.0.1:8765/mcp` searches, describes and calls, and fails on the
first answer that is not what the documentation promises. `--stdio COMMAND ...` starts a gateway in
front of real servers and calls one of them. `--time COMMAND ...`, or an address, does the same with
the servers of the README.
"""

from __future__ import annotations

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

SURFACE = {"tool_search", "describe_tools", "call_tool"}


def text(result: CallToolResult) -> str:
    return "\n".join(c.text for c in result.content if isinstance(c, TextContent))


async def use(url: str, mode: str) -> None:
    async with Client(url, mode=mode) as client:  # type: ignore[arg-type]
        shown = [t.name for t in (await client.list_tools()).tools]
        assert set(shown) >= SURFACE, shown

        found = await client.call_tool("tool_search", {"query": "mail the invoice to Ann"})
        assert not found.is_error, text(found)
        assert "office__send_email" in text(found), text(found)

        asked = {"name": "office__weather_forecast", "arguments": {"place": "Oslo"}}
        forecast = await client.call_tool("call_tool", asked)
        assert not forecast.is_error, text(forecast)
        assert "Oslo" in text(forecast), text(forecast)

        wrong = await client.call_tool("call_tool", {"name": "office__weather_forecast",
                                                     "arguments": {"city": "Oslo"}})  # fmt: skip
        assert wrong.is_error
        assert "place" in text(wrong), text(wrong)

        unknown = await client.call_tool("call_tool", {"name": "office__weather_report"})
        assert unknown.is_error
        assert "office__" in text(unknown), text(unknown)

        described = await client.call_tool("describe_tools", {"names": ["office__list_pages"]})
        assert "list_pages" in text(described), text(described)
    print(f"{mode}: searched, described, called")


async def main(url: str) -> None:
    for mode in ("legacy", "auto"):
        await use(url, mode)


def gateway(command: str, *arguments: str) -> StdioServerParameters:
    # A client passes on only what it is given; servers need their usual environment.
    return StdioServerParameters(command=command, args=[*arguments], env={**os.environ})


async def use_servers(*command: str) -> None:
    """Search and call tools of real servers over stdio."""
    async with Client(gateway(*command)) as client:
        found = await client.call_tool("tool_search", {"query": "echo a message back"})
        assert "everything__echo" in text(found), text(found)
        echo = {"name": "everything__echo", "arguments": {"message": "hello"}}
        assert "hello" in text(await client.call_tool("call_tool", echo))
    print("stdio: searched and called a real server")


async def use_time(*command: str) -> None:
    """Ask the servers of the README for the time, at an address or over stdio."""
    target = command[0] if command[0].startswith("http") else gateway(*command)
    async with Client(target) as client:
        found = await client.call_tool("tool_search", {"query": "what time is it in Tokyo"})
        assert "time__get_current_time" in text(found), text(found)
        asked = {"name": "time__get_current_time", "arguments": {"timezone": "Asia/Tokyo"}}
        assert "Asia/Tokyo" in text(await client.call_tool("call_tool", asked))
    print("time: searched and called a server of the README")


if __name__ == "__main__":
    if sys.argv[1] == "--stdio":
        asyncio.run(use_servers(*sys.argv[2:]))
    elif sys.argv[1] == "--time":
        asyncio.run(use_time(*sys.argv[2:]))
    else:
        asyncio.run(main(sys.argv[1]))
