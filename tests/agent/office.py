"""A small office whose tools the tests call; every call is written down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from toolscout.agent.agent import Agent
from toolscout.config import Config
from toolscout.disclosure.profile import Profile
from toolscout.events import Event
from toolscout.models.scripted import ScriptedCall, ScriptedModel, Turn
from toolscout.search.engine import Engine
from toolscout.sources.functions import tool
from toolscout.toolbox.toolbox import Toolbox


class Office:
    """Tools with effects one can see."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.hanging = asyncio.Event()
        self.meeting = asyncio.Barrier(3)
        self.rates = iter(["1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7"])

    @property
    def tools(self) -> list[Callable[..., Any]]:
        """What the office can do, and some odd machines it has."""
        return [*self._desks(), *self._machines()]

    def _desks(self) -> list[Callable[..., Any]]:
        office = self

        @tool(category="mail", phrases=["send an email", "write to someone"])
        async def send_email(to: str, subject: str, body: str = "") -> str:
            """Send an email message."""
            office.done.append(f"mail to {to}: {subject}")
            return f"sent to {to}"

        @tool(category="contacts", phrases=["look up an address"])
        async def find_contact(name: str) -> dict[str, str]:
            """Find the email address of a person."""
            office.done.append(f"looked up {name}")
            return {"name": name, "email": f"{name.lower()}@example.com"}

        @tool(category="accounts", risk="destructive", phrases=["remove an account"])
        async def delete_account(name: str) -> str:
            """Delete the account of a person for good."""
            office.done.append(f"deleted {name}")
            return "gone"

        @tool(category="calendar", requires_confirmation=True, phrases=["announce a meeting"])
        async def announce(text: str) -> str:
            """Announce a meeting to everybody."""
            office.done.append(f"announced {text}")
            return "announced"

        @tool(category="answers", phrases=["hand in the answer"])
        async def final_answer(answer: str) -> str:
            """Hand in the final answer."""
            return answer

        return [send_email, find_contact, delete_account, announce, final_answer]

    def _machines(self) -> list[Callable[..., Any]]:
        office = self

        @tool(category="odd", phrases=["wait for ever"])
        async def hang() -> str:
            """Wait for something that never comes."""
            office.hanging.set()
            await asyncio.Event().wait()
            return "never"

        @tool(category="odd", phrases=["break something"])
        async def fail() -> str:
            """Fail with an exception."""
            message = "the printer is on fire"
            raise RuntimeError(message)

        @tool(category="odd", phrases=["return nothing"])
        async def nothing() -> None:
            """Return nothing at all."""

        @tool(category="odd", phrases=["return an object"])
        async def strange() -> Any:
            """Return something JSON does not know."""
            return {"when": object(), "set": {1}}

        @tool(category="odd", phrases=["meet three at once"])
        async def meet(who: str) -> str:
            """Wait until three are here."""
            await office.meeting.wait()
            return f"{who} met"

        @tool(category="money", phrases=["exchange rate now"])
        async def rate() -> str:
            """The exchange rate at this moment."""
            return next(office.rates)

        return [hang, fail, nothing, strange, meet, rate]


def open_office(
    office: Office,
    *,
    profile: Profile | str = "cms",
    store: Any = "memory",
    seen: list[Event] | None = None,
    timeout: float = 60.0,
    window: int = 200_000,
    **more: Any,
) -> AbstractAsyncContextManager[Toolbox]:
    """A toolbox over the office's tools."""
    config = Config.read(environment={}, call_timeout_seconds=timeout, context_window_tokens=window)
    events = seen if seen is not None else []
    # Words alone find tools at once and always the same ones; vectors join while tests run.
    engine = Engine()
    return Toolbox(
        office.tools,
        profile=profile,
        store=store,
        sink=events.append,
        config=config,
        engine=engine,
        **more,
    )


def calls(*asked: tuple[str, Any] | str, say: str = "") -> Turn:
    """A turn of calls: names, or names with arguments."""
    pairs = [(a, {}) if isinstance(a, str) else a for a in asked]
    return Turn(say=say, calls=tuple(ScriptedCall(name, arguments) for name, arguments in pairs))


def search(query: str) -> tuple[str, Any]:
    """A call of the search tool."""
    return "tool_search", {"query": query}


def shown(model: ScriptedModel, place: int = -1) -> list[str]:
    """The names of the tools in a request."""
    return [tool["name"] for tool in model.requests[place].tools]


__all__ = ["Agent", "Office", "calls", "open_office", "search", "shown"]
