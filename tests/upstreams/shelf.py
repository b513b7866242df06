"""Servers with templates for paths: `python shelf.py sdk`, or `fastmcp` for its own notation.

Both list `file:///private/key`, which their template covers too.
"""

from __future__ import annotations

import sys

import fastmcp
from mcp.server.mcpserver import MCPServer


def build_sdk() -> MCPServer:
    server = MCPServer("shelf")

    @server.resource("file:///{+path}")
    def read_file(path: str) -> str:
        return f"file {path}"

    @server.resource("shelf://books{/parts*}")
    def read_shelf(parts: list[str]) -> str:
        return f"shelf {'|'.join(parts)}"

    @server.resource("find://books{?word,limit}")
    def find(word: str = "all", limit: str = "10") -> str:
        return f"found {word} {limit}"

    @server.resource("file:///private/key", name="key")
    def read_key() -> str:
        return "the key"

    @server.tool()
    def echo(text: str) -> str:
        return text

    return server


def build_fastmcp() -> fastmcp.FastMCP:
    server = fastmcp.FastMCP("shelf")

    @server.resource("file:///{path*}")
    def read_file(path: str) -> str:
        return f"file {path}"

    @server.resource("find://books{?word,limit}")
    def find(word: str = "all", limit: str = "10") -> str:
        return f"found {word} {limit}"

    @server.resource("file:///private/key", name="key")
    def read_key() -> str:
        return "the key"

    @server.tool()
    def echo(text: str) -> str:
        return text

    return server


if __name__ == "__main__":
    if sys.argv[1] == "sdk":
        build_sdk().run("stdio")
    else:
        build_fastmcp().run("stdio", show_banner=False)
