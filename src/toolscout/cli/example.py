"""The built-in example of the gateway: one MCP server with the tools of the example catalog."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from ..examples.office import OfficeSource


def write_example_config(folder: Path) -> Path:
    """Write the configuration of the example into a folder and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    entry = {"command": sys.executable, "args": ["-m", "toolscout.cli.example"]}
    servers = {"mcpServers": {OfficeSource.name: entry}}
    path = folder / "mcp.json"
    path.write_text(json.dumps(servers, indent=2) + "\n", encoding="utf-8")
    return path


async def _serve() -> None:
    from ..gateway.serve_source import build_source_server

    server = build_source_server(OfficeSource())
    await server.run_stdio_async(show_banner=False, log_level="WARNING")


if __name__ == "__main__":
    asyncio.run(_serve())
