"""The office as an MCP server of the official SDK."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.learning.office import DESCRIPTIONS

app = MCPServer("office")


def add_tool(name: str, description: str) -> None:
    def run() -> str:
        return f"{name} ran"

    app.add_tool(run, name=name, description=description)


for _name, _description in DESCRIPTIONS.items():
    add_tool(_name, _description)
app.run("stdio")
