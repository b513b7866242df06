"""A server that lists a tool only to clients that can do what it needs; stdio, or `http PORT`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool
from mcp_types import ClientCapabilities

app = FastMCP[Any]("capable")


@app.tool
def plain(text: str = "") -> str:
    """Say it back."""
    return text


@app.tool
def ask(text: str = "") -> str:
    """Ask the user for a colour."""
    return text


@app.tool
def think(text: str = "") -> str:
    """Let the model write a haiku."""
    return text


class ByCapability(Middleware):
    """Hides what the client cannot do."""

    async def on_list_tools(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Sequence[Tool]]
    ) -> Sequence[Tool]:
        assert context.fastmcp_context is not None
        declared = context.fastmcp_context.session.client_capabilities or ClientCapabilities()
        is_shown = {
            "plain": True,
            "ask": declared.elicitation is not None,
            "think": declared.sampling is not None,
        }
        return [tool for tool in await call_next(context) if is_shown[tool.name]]


app.add_middleware(ByCapability())

if __name__ == "__main__":
    if len(sys.argv) > 1:
        app.run(transport="http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
    else:
        app.run(transport="stdio", show_banner=False)
