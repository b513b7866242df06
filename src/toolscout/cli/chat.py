"""`toolscout chat`: a conversation in the terminal."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

import click

from ..agent.agent import Agent
from ..agent.happenings import (
    Called,
    Calling,
    Finished,
    Happening,
    Loaded,
    Retried,
    Said,
    Stepped,
    Thought,
)
from ..agent.loop import target_of
from ..agent.steps import Ran, Run
from ..disclosure.profiles import profile as named
from ..disclosure.session import Session
from ..disclosure.view import view
from ..errors import ToolscoutError
from ..events import Event
from ..models.deltas import Usage
from ..models.model import Model
from ..models.spec import open_model
from ..tokens import count_json, default_counter
from ..toolbox.approval import Answer, Approval
from ..toolbox.box import Toolbox
from ..toolbox.handle import Handle
from .screen import Screen, screen

_SHOWN = 300
_HELP = "/tools · /why NAME · /tokens · /quit"


@click.command("chat")
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="FILE",
    help="An mcp.json, a catalog of tools or an OpenAPI document; may be repeated.",
)
@click.option(
    "--model",
    required=True,
    metavar="PROVIDER:NAME",
    help="The model, or scripted:FILE to run offline.",
)
@click.option("--session", default="", metavar="ID", help="Go on with this conversation.")
@click.option("--profile", default=None, metavar="NAME", help="How tools are disclosed.")
@click.option(
    "--base-url",
    default=None,
    metavar="URL",
    help="Where the model service is, if not where it usually is.",
)
def command(
    configs: tuple[str, ...], model: str, session: str, profile: str | None, base_url: str | None
) -> int:
    """Talk with a model that finds its tools.

    Discoveries and calls are shown as they happen, and calls that need a yes are asked for. In the
    conversation, /tools lists what is in view, /why NAME says why a tool is or is not, /tokens
    what it all costs, /quit ends it. Ctrl-C stops an answer. Exits 1 if an answer failed.
    """
    opened = open_model(model, base_url=base_url, count=default_counter().count)
    name = session or uuid4().hex[:12]
    return int(asyncio.run(_talk(configs, opened, name, profile, screen())))


async def _talk(
    configs: tuple[str, ...], model: Model, session: str, profile: str | None, shown: Screen
) -> bool:
    asking = Asking(shown)

    def told(event: Event) -> None:
        if event.kind == "source_failed":
            shown.note("error", f"{event.facts['source']} is not there: {event.facts['why']}")

    async with (
        Toolbox(configs, profile=profile, sink=told) as box,
        Agent(box, model=model, approver=asking.approve) as agent,
    ):
        conversation = Chat(box=box, agent=agent, model=model, session=session, screen=shown)
        return await conversation.run()


@dataclass(slots=True)
class Asking:
    """Asks the user, one question at a time."""

    screen: Screen
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def approve(self, approval: Approval) -> Answer:
        """Show the call and wait for a yes; anything else is a no."""
        async with self._lock:
            arguments = _cut(json.dumps(dict(approval.arguments), ensure_ascii=False))
            self.screen.note("approve", f"{approval.why}: {approval.tool.name} {arguments} [y/N]")
            said = await self.screen.read()
        return Answer(said is not None and said.strip().lower() in ("y", "yes"))


@dataclass(slots=True, kw_only=True)
class Chat:
    """One conversation: what the user types is answered, or is a command."""

    box: Toolbox
    agent: Agent
    model: Model
    session: str
    screen: Screen
    _spent: Usage = field(default_factory=Usage)
    _has_failed: bool = False

    async def run(self) -> bool:
        """Talk until the user ends it; whether any answer failed."""
        self.screen.note("session", f"{self.session} · {_HELP}")
        while (line := await self.screen.read()) is not None:
            text = line.strip()
            if text == "/quit":
                break
            if text.startswith("/"):
                await self._command(text)
            elif text:
                await self._answer(text)
        return self._has_failed

    async def _answer(self, text: str) -> None:
        """Answer; Ctrl-C meanwhile stops the answer and not the conversation."""
        task = asyncio.create_task(self._watch(text))
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError, ValueError):
            # Not on every platform, and not outside the main thread.
            loop.add_signal_handler(signal.SIGINT, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            self.screen.note("stopped", "what was done so far stays in the conversation")
        except ToolscoutError as error:
            self._has_failed = True
            self.screen.note("error", str(error))
        finally:
            with suppress(NotImplementedError, ValueError):
                loop.remove_signal_handler(signal.SIGINT)

    async def _watch(self, text: str) -> None:
        async for happening in self.agent.stream(text, session=self.session):
            self._show(happening)

    def _show(self, happening: Happening) -> None:
        match happening:
            case Said(text):
                self.screen.say(text)
            case Calling(call, is_discovery):
                label = "search" if is_discovery else "call"
                self.screen.note(label, f"{call.name} {_cut(call.arguments)}")
            case Called(ran):
                self._called(ran)
            case Loaded(names):
                self.screen.note("found", ", ".join(names))
            case Retried(_, reason, wait):
                self.screen.note("retry", f"{reason} Trying again in {wait:.1f} s.")
            case Finished(run):
                self._finished(run)
            case Thought() | Stepped():
                pass

    def _called(self, ran: Ran) -> None:
        """What a search found is told by what it loads; everything else by its result."""
        label = "error" if ran.result.is_error else "result"
        if label == "error" or not ran.is_discovery:
            self.screen.note(label, _cut(ran.result.text))

    def _finished(self, run: Run) -> None:
        self._spent += run.usage
        if run.stopped_by != "answer":
            self.screen.note("stopped", f"by {run.stopped_by}")

    async def _command(self, text: str) -> None:
        name, _, rest = text.partition(" ")
        handle = await self.box.session(self.session)
        match name:
            case "/tools":
                self._tools(handle)
            case "/why":
                self._why(handle, rest.strip())
            case "/tokens":
                self._tokens(handle)
            case _:
                self.screen.note("commands", _HELP)

    def _tools(self, handle: Handle) -> None:
        shown = handle.view(target_of(self.model))
        names = tuple(dict.fromkeys(shown.names.values()))
        waiting = len(self.box.catalog) - sum(name in self.box.catalog for name in names)
        self.screen.note("tools", f"{', '.join(names) or 'none'} · {waiting} more can be found")

    def _why(self, handle: Handle, name: str) -> None:
        text = handle.why(name).sentence if name else "Name a tool: /why NAME"
        self.screen.note("why", text)

    def _tokens(self, handle: Handle) -> None:
        by = default_counter()
        shown = handle.view(target_of(self.model))
        seen = count_json(shown.tools, by=by) + by.count(shown.instructions)
        whole = view(named("everything"), self.box.catalog, Session(""), target=shown.target)
        everything = count_json(whole.tools, by=by)
        spent = self._spent
        self.screen.note(
            "tokens",
            f"in view {seen}, all {len(self.box.catalog)} tools {everything} ({by.name}) · used "
            f"{spent.input_tokens} in ({spent.cached_tokens} cached), {spent.output_tokens} out",
        )


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
