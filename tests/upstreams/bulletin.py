"""A server over HTTP with one resource that all its clients share: `bulletin.py FOLDER`.

A call of `touch` notifies all that are subscribed to the resource. FOLDER/port has its port.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

URI = "board://news"
Request = ServerRequestContext[Any, Any]
subscribed: dict[str, Any] = {}


async def list_tools(_: Request, __: Any) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {}}
    touch = types.Tool(name="touch", description="Change the news.", input_schema=schema)
    return types.ListToolsResult(tools=[touch])


async def call_tool(_: Request, __: Any) -> types.CallToolResult:
    for session in subscribed.values():
        await session.send_resource_updated(URI)
    said = types.TextContent(type="text", text=f"told {len(subscribed)}")
    return types.CallToolResult(content=[said])


async def list_resources(_: Request, __: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource(uri=URI, name="news")])


async def subscribe(ctx: Request, _: Any) -> types.EmptyResult:
    assert ctx.request is not None
    subscribed[ctx.request.headers["mcp-session-id"]] = ctx.session
    return types.EmptyResult()


async def unsubscribe(ctx: Request, _: Any) -> types.EmptyResult:
    subscribed.pop(ctx.request.headers["mcp-session-id"], None)
    return types.EmptyResult()


server: Server[Any] = Server(
    "bulletin",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_subscribe_resource=subscribe,
    on_unsubscribe_resource=unsubscribe,
)
listener = socket.create_server(("127.0.0.1", 0))
(Path(sys.argv[1]) / "port").write_text(str(listener.getsockname()[1]))
config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
