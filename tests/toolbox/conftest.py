"""A small office of tools, and toolboxes over it that are closed when a test ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from toolscout.sources.functions import tool
from toolscout.toolbox.toolbox import Toolbox

TOPICS = (
    *("invoice", "contact", "calendar", "ticket", "branch", "commit", "playlist", "recipe"),
    *("flight", "hotel", "parcel", "budget", "poll", "survey", "backup", "certificate"),
)


def archive(topic: str) -> Callable[..., Any]:
    def archived(name: str) -> str:
        return f"{topic} {name} archived"

    options: Any = {
        "name": f"archive_{topic}",
        "description": f"Put a {topic} into the archive.",
        "category": "archive",
    }
    return tool(**options)(archived)


@tool(category="mail", phrases=["write to someone"])
async def send_email(to: str, subject: str, body: str = "", copies: int = 1) -> str:
    """Send an email message.

    Args:
        to: The address it goes to.
        subject: What it is about.
        body: What it says.
        copies: How many are sent.
    """
    return f"{copies} sent to {to}: {subject}"


@tool(category="weather")
def get_weather(city: str) -> dict[str, Any]:
    """Tell the weather of a city."""
    return {"city": city, "sky": "clear"}


@tool(category="files")
def read_workspace_file(path: str) -> str:
    """Read a file of the workspace."""
    return f"content of {path}"


@tool(category="files")
def update_workspace_file(path: str, text: str) -> str:
    """Write text into a file of the workspace."""
    return f"{len(text)} characters in {path}"


@tool(category="pages", risk="destructive")
def delete_page(page: int) -> str:
    """Delete a page for good."""
    return f"page {page} is gone"


OFFICE = (
    send_email,
    get_weather,
    read_workspace_file,
    update_workspace_file,
    delete_page,
    *(archive(topic) for topic in TOPICS),
)

Open = Callable[..., Any]


@pytest.fixture(autouse=True)
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search by words alone, and nothing outside the test's own folder."""
    monkeypatch.setenv("TOOLSCOUT_EMBEDDER", "none")
    monkeypatch.setenv("TOOLSCOUT_HOME", str(tmp_path / "home"))


@pytest.fixture
def office() -> tuple[Callable[..., Any], ...]:
    """Twenty-one tools: enough that a default toolbox does not show them all."""
    return OFFICE


@pytest.fixture
async def open_box() -> AsyncIterator[Open]:
    """Opens toolboxes over the office, or over other sources; with nothing kept on disk."""
    async with AsyncExitStack() as stack:

        async def build(*sources: Any, **options: Any) -> Toolbox:
            options.setdefault("store", "memory")
            return await stack.enter_async_context(Toolbox(sources or OFFICE, **options))

        yield build


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where sessions outlive a toolbox."""
    return tmp_path / "sessions.db"
