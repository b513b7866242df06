"""An agent that finds tools for searching documentation, and answers with them.

The model is scripted, so that this runs anywhere: python examples/documentation.py
"""

from __future__ import annotations

import asyncio

from toolscout import Agent, Toolbox, tool
from toolscout.agent.stream_events import CallEndEvent, CallStartEvent, LoadEvent, RunEndEvent
from toolscout.models.scripted import ScriptedCall, ScriptedModel, Turn

PAGES = {
    "retries": "Requests are tried again after 0.5, 1 and 2 seconds when the service is busy.",
    "sessions": "A session is kept for thirty days after its last use.",
    "profiles": "A profile is a named set of choices about what a model sees.",
}


@tool(category="documentation", phrases=["look something up in the documentation"])
async def search_documentation(words: str) -> list[str]:
    """Search the documentation and return the names of fitting pages."""
    return [name for name, text in PAGES.items() if words.lower() in f"{name} {text}".lower()]


@tool(category="documentation", phrases=["read a page"])
async def read_documentation(page: str) -> str:
    """Read one page of the documentation."""
    return PAGES[page]


@tool(category="weather")
async def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"It rains in {city}."


SCRIPT = [
    Turn(calls=(ScriptedCall("search_tools", {"query": "documentation"}),)),
    Turn(
        calls=(
            ScriptedCall(
                "add_tool", {"tool_names": ["search_documentation", "read_documentation"]}
            ),
        )
    ),
    Turn(calls=(ScriptedCall("search_documentation", {"words": "session"}),)),
    Turn(calls=(ScriptedCall("read_documentation", {"page": "sessions"}),)),
    "Thirty days after you last used it.",
]


async def main() -> None:
    tools = [search_documentation, read_documentation, get_weather]
    async with Toolbox(tools, profile="mcpagent", store="memory") as box:
        agent = Agent(box, model=ScriptedModel(SCRIPT))
        async for event in agent.stream("How long is a session kept?"):
            match event:
                case CallStartEvent(call=call):
                    print(f"→ {call.name} {call.arguments}")
                case CallEndEvent(outcome=outcome):
                    print(f"← {outcome.result.text.splitlines()[0]}")
                case LoadEvent(names=names):
                    print(f"+ {', '.join(names)}")
                case RunEndEvent(run=run):
                    print(run.text)
                case _:
                    pass


asyncio.run(main())
