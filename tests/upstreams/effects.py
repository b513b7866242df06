"""A server whose tool leaves a line in a file for every call, so that effects can be counted."""

from __future__ import annotations

import os
import sys

from mcp.server.mcpserver import MCPServer

app = MCPServer("effects")


@app.tool()
async def leave(number: int) -> str:
    """Leave a mark."""
    # One write, in append mode: a kill leaves a whole line or none.
    descriptor = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{number}\n".encode())
    os.close(descriptor)
    return f"left {number}"


app.run("stdio")
