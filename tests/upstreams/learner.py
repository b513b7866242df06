"""A server of the official SDK whose list of tools grows, and which says so to who listens."""

from __future__ import annotations

from mcp.server.mcpserver import Context, MCPServer

app = MCPServer("learner")


@app.tool()
async def learn(word: str, ctx: Context) -> str:
    """Learn a word: from then on there is a tool for it."""

    def spoken() -> str:
        return word

    app.add_tool(spoken, name=f"say_{word}", description=f"Say {word}.")
    await ctx.notify_tools_changed()
    return f"learnt {word}"


app.run("stdio")
