"""A FastMCP server that uses all that the protocol offers; stdio, or `http PORT`, `sse PORT`."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.tools import ToolResult
from mcp_types import (
    AudioContent,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
    ToolListChangedNotification,
)

app = FastMCP[Any]("talker", instructions="Speak clearly.")
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@app.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@app.tool
async def count(to: int, ctx: Context) -> str:
    """Count up, reporting progress and logging on the way."""
    for i in range(to):
        await ctx.report_progress(i + 1, to, f"step {i + 1}")
        await ctx.info(f"at {i + 1}")
    return f"counted to {to}"


@app.tool
async def wait(ctx: Context) -> str:
    """Wait until cancelled."""
    await ctx.report_progress(0, 1, "waiting")
    await asyncio.Event().wait()
    return "never"


@app.tool(output_schema=None)
def show() -> ToolResult:
    """Give back every kind of content."""
    return ToolResult(
        content=[
            TextContent(type="text", text="look"),
            ImageContent(type="image", data="aW1n", mime_type="image/png"),
            AudioContent(type="audio", data="c25k", mime_type="audio/wav"),
            ResourceLink(type="resource_link", uri="talk://greeting", name="greeting"),
            EmbeddedResource(
                type="resource", resource=TextResourceContents(uri="talk://note", text="a note")
            ),
        ],
        meta={"colour": "blue"},
    )


@app.tool
async def greet(ctx: Context) -> Any:
    """Ask the user's name, then greet."""
    question = ElicitRequestFormParams(message="Who are you?", requested_schema=NAME)
    if ctx.request_context and ctx.request_context.protocol_version < "2026":
        reply = await ctx.session.elicit(
            message=question.message, requested_schema=NAME, related_request_id=ctx.request_id
        )
        content = reply.content or {}
    else:
        answers = ctx.input_responses
        if not answers:
            return InputRequiredResult(
                input_requests={"who": ElicitRequest(params=question)}, request_state="asked"
            )
        content = getattr(answers["who"], "content", None) or {}
    return f"Hello {content.get('name')}"


@app.tool
async def muse(ctx: Context) -> Any:
    """Ask the client's model for a line."""
    params = CreateMessageRequestParams(
        messages=[SamplingMessage(role="user", content=TextContent(type="text", text="A line?"))],
        max_tokens=20,
    )
    if ctx.request_context and ctx.request_context.protocol_version < "2026":
        reply: Any = await ctx.session.create_message(
            messages=params.messages, max_tokens=20, related_request_id=ctx.request_id
        )
        return f"It said: {reply.content.text}"
    answers = ctx.input_responses
    if not answers:
        return InputRequiredResult(
            input_requests={"line": CreateMessageRequest(params=params)}, request_state="asked"
        )
    return f"It said: {answers['line'].content.text}"  # type: ignore[union-attr]


@app.tool
async def learn(word: str, ctx: Context) -> str:
    """Learn a word: from then on there is a tool for it."""

    def spoken() -> str:
        return word

    app.tool(spoken, name=f"say_{word}", description=f"Say {word}.")
    await ctx.send_notification(ToolListChangedNotification())
    return f"learnt {word}"


@app.tool
def environment(variable: str) -> str:
    """Tell a variable of the environment."""
    return os.environ.get(variable, "unset")


@app.prompt
def poem(topic: str) -> str:
    """A poem about a topic."""
    return f"Write a poem about {topic}."


@app.resource("talk://greeting")
def greeting() -> str:
    """The greeting."""
    return "Good day."


@app.resource("talk://greeting/{name}")
def named(name: str) -> str:
    """A greeting by name."""
    return f"Good day, {name}."


if __name__ == "__main__":
    if len(sys.argv) > 2:
        app.run(sys.argv[1], port=int(sys.argv[2]), show_banner=False)  # type: ignore[arg-type]
    else:
        app.run("stdio", show_banner=False)
