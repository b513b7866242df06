"""An MCP server whose tools stand in a file: `python menu.py FILE`, read at each start."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from fastmcp import FastMCP
from mcp_types import ToolAnnotations

server = FastMCP("menu")
for name, description in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")).items():

    def answer(dish: str, name: str = name) -> str:
        return f"{name}: {dish} is on the table."

    hints = ToolAnnotations(read_only_hint=True)
    server.tool(answer, name=name, description=description, annotations=hints)

sys.stderr.write("The kitchen is open.\n")
asyncio.run(server.run_stdio_async(show_banner=False))
