"""Tools that do nothing but succeed, and toolboxes over them that learn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolscout.config import Config
from toolscout.sources.functions import tool
from toolscout.toolbox.session import Session
from toolscout.toolbox.toolbox import Toolbox

REQUEST = "make a message visible"
"""A request that shares no word with the tool that is meant; other tools have all its words."""

MEANT = "append_entry"
DESCRIPTIONS = {
    MEANT: "Append an entry to the diary.",
    "find_files": "Find files by name or by words inside them.",
    "publish_page": "Make a draft page visible to everybody.",
    "set_status": "Set your status in the team chat.",
    "comment_on_issue": "Comment on an issue of a repository.",
    "log_call": "Log a call with a customer.",
    "send_email": "Send an email message.",
    "create_event": "Create an event in the calendar.",
    "move_card": "Move a card of the board into another column.",
    "upload_image": "Upload an image to the media library.",
    "get_weather": "Tell the weather of a city.",
    "list_orders": "List the orders of a customer.",
    "book_room": "Book a meeting room.",
    "restart_server": "Restart a server of the cluster.",
}


def make_tool(name: str, description: str) -> Callable[..., Any]:
    def run() -> str:
        if name == "restart_server":
            raise RuntimeError("the cluster is down")
        return f"{name} ran"

    options: Any = {"name": name, "description": description}
    return tool(**options)(run)


def office_tools(**changed: str) -> list[Callable[..., Any]]:
    """The tools, with other descriptions for some."""
    return [make_tool(name, text) for name, text in {**DESCRIPTIONS, **changed}.items()]


def open_office(home: Path, *, tools: Any = None, **options: Any) -> Toolbox:
    """A toolbox that learns, with its state in a folder."""
    settings = {"learning": "on", "context_window_tokens": 100, **options.pop("settings", {})}
    config = Config.read(home=home, **settings)
    return Toolbox(tools or office_tools(), config=config, **options)


async def search(session: Session, query: str = REQUEST) -> str:
    """Search as a model does; the reply."""
    return (await session.call("tool_search", {"query": query})).text


async def use(box: Toolbox, name: str, *, session: str, principal: str = "ann") -> None:
    """Search for the request in a session, and call a tool."""
    opened = await box.session(session, principal=principal)
    reply = await search(opened)
    assert name in reply, reply
    assert not (await opened.call(name, {})).is_error


def learn(box: Toolbox) -> None:
    """Wait until everything observed counts."""
    assert box.learner is not None
    box.learner.flush(ends_turns=True)


def rank_of(box: Toolbox, name: str, query: str = REQUEST) -> int:
    """The place of a tool among the hits, from 1."""
    return box.search(query, limit=len(DESCRIPTIONS)).names.index(name) + 1
