"""Use a gateway with the official Python SDK, version 1: `python_v1.py COMMAND ARGUMENTS`."""

import asyncio
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(command: str, *arguments: str) -> None:
    server = StdioServerParameters(command=command, args=[*arguments], env={**os.environ})
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        found = await session.call_tool("tool_search", {"query": "echo a message back"})
        assert "everything__echo" in found.content[0].text, found
        echo = {"name": "everything__echo", "arguments": {"message": "hello"}}
        assert "hello" in (await session.call_tool("call_tool", echo)).content[0].text
    print("Python SDK 1: searched and called a real server")


asyncio.run(main(*sys.argv[1:]))
