"""A FastMCP server of both generations that asks the user; stdio, or `http PORT`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from fastmcp import Context, FastMCP
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

app = FastMCP[Any]("questioner")
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SEATS = {"type": "object", "properties": {"seats": {"type": "integer"}}, "required": ["seats"]}
QUESTIONS: list[tuple[str, dict[str, Any]]] = [("Who are you?", NAME), ("How many seats?", SEATS)]


async def ask(ctx: Context, count: int) -> Any:
    """What the user did with each question; a stateless server ends the call with the next one."""
    if ctx.request_context and ctx.request_context.protocol_version < "2026":
        return [await ask_inside_the_call(ctx, *question) for question in QUESTIONS[:count]]
    heard: list[Any] = json.loads(ctx.request_state or "[]")
    if ctx.input_responses:
        reply: Any = ctx.input_responses["next"]
        heard.append({"action": reply.action, "content": reply.content})
    if len(heard) == count:
        return heard
    message, schema = QUESTIONS[len(heard)]
    params = ElicitRequestFormParams(message=message, requested_schema=schema)
    return InputRequiredResult(
        input_requests={"next": ElicitRequest(params=params)}, request_state=json.dumps(heard)
    )


async def ask_inside_the_call(ctx: Context, message: str, schema: dict[str, Any]) -> Any:
    reply = await ctx.session.elicit(
        message=message, requested_schema=schema, related_request_id=ctx.request_id
    )
    return {"action": reply.action, "content": reply.content}


@app.tool(output_schema=None)
async def register(ctx: Context, label: str = "") -> Any:
    """Ask the user's name, and tell what the user did."""
    heard = await ask(ctx, 1)
    return heard if isinstance(heard, InputRequiredResult) else json.dumps([label, *heard])


@app.tool(output_schema=None)
async def book(ctx: Context) -> Any:
    """Ask the user's name and the number of seats, and tell what the user did."""
    heard = await ask(ctx, 2)
    return heard if isinstance(heard, InputRequiredResult) else json.dumps(heard)


@app.tool(output_schema=None)
async def stall(ctx: Context) -> Any:
    """Ask the user's name, and then never end."""
    heard = await ask(ctx, 1)
    return heard if isinstance(heard, InputRequiredResult) else await asyncio.Event().wait()


@app.tool
async def wait() -> None:
    """Never end."""
    await asyncio.Event().wait()


@app.tool
def process() -> int:
    """Tell the id of the process."""
    return os.getpid()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        app.run(sys.argv[1], port=int(sys.argv[2]), show_banner=False)  # type: ignore[arg-type]
    else:
        app.run("stdio", show_banner=False)
