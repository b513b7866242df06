"""An MCP server whose tools are rows of a file; a call answers with the row's result."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

ROWS = {row["name"]: row for row in json.loads(Path(sys.argv[1]).read_text())}


def definition(row: dict[str, Any]) -> types.Tool:
    return types.Tool(
        name=row["name"],
        description=row.get("description", ""),
        input_schema=row.get("parameters") or {"type": "object"},
        annotations=row.get("annotations"),
        _meta=row.get("_meta"),
    )


async def list_tools(*_: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[definition(row) for row in ROWS.values()])


async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    row = ROWS[params.name]
    said = row.get("result", f"{params.name} {json.dumps(params.arguments or {}, sort_keys=True)}")
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)])


async def main() -> None:
    server = Server("stub", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


asyncio.run(main())
