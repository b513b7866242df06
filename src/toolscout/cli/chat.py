"""`toolscout chat`: a conversation with a model in the terminal."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import click

from ..agent.agent import Agent
from ..agent.loop import target_of
from ..agent.steps import Run
from ..agent.stream_events import (
    CallEndEvent,
    CallStartEvent,
    LoadEvent,
    RetryEvent,
    RunEndEvent,
    StepEndEvent,
    StreamEvent,
    TextEvent,
    ThoughtEvent,
)
from ..config import Config
from ..disclosure.profiles import get_profile
from ..disclosure.session_state import SessionState
from ..disclosure.view import view
from ..errors import ToolscoutError
from ..events import Event, SourceFailureEvent, combine_sinks
from ..models.deltas import Usage
from ..models.model import Model
from ..models.spec import open_model
from ..telemetry.export import open_telemetry
from ..telemetry.lines import render_event
from ..tokens import count_json, default_counter
from ..toolbox.call_record import CallRecord
from ..toolbox.permissions import ApprovalDecision, ApprovalRequest
from ..toolbox.session import Session
from ..toolbox.toolbox import Toolbox
from .config_options import feature_options
from .progress import progress
from .screen import Screen, open_screen

_MAX_CHARACTERS = 300
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
@click.option("--session", default="", metavar="ID", help="Continue this conversation.")
@click.option("--profile", default=None, metavar="NAME", help="How tools are disclosed.")
@feature_options
@click.option(
    "--base-url",
    default=None,
    metavar="URL",
    help="The URL of the model service, if not the default one.",
)
def command(
    *,
    configs: tuple[str, ...],
    model: str,
    session: str,
    profile: str | None,
    base_url: str | None,
    **features: Any,
) -> int:
    """Chat with a model that finds its tools.

    Discoveries and calls are shown as they happen. You are asked about calls that need approval. In
    the conversation, /tools lists the tools in view, /why NAME explains why a tool is in view or
    not, /tokens counts what it all costs, and /quit ends it. Ctrl-C stops an answer. The exit code
    is 1 if an answer failed.
    """
    opened = open_model(model, base_url=base_url, count=default_counter().count)
    name = session or uuid4().hex[:12]  # short enough to type after --session
    config = Config.read(profile=profile, **features)
    return int(asyncio.run(_run_chat(configs, opened, name, config, open_screen())))


async def _run_chat(
    configs: tuple[str, ...], model: Model, session: str, config: Config, screen: Screen
) -> bool:
    approver = ConsoleApprover(screen)

    def report_failed_source(event: Event) -> None:
        if isinstance(event, SourceFailureEvent):
            screen.note("error", render_event(event))

    telemetry = open_telemetry()
    sinks = (report_failed_source, *([telemetry] if telemetry else []))
    try:
        async with AsyncExitStack() as stack:
            with progress("Starting servers"):
                box = Toolbox(configs, config=config, sink=combine_sinks(*sinks))
                await stack.enter_async_context(box)
            agent = Agent(box, model=model, approver=approver.approve)
            await stack.enter_async_context(agent)
            chat = Chat(box=box, agent=agent, model=model, session=session, screen=screen)
            return await chat.run()
    finally:
        if telemetry is not None:
            telemetry.close()


@dataclass(slots=True)
class ConsoleApprover:
    """Asks the user for approval, one question at a time."""

    screen: Screen
    # Calls run in parallel, and there is only one keyboard.
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def approve(self, approval: ApprovalRequest) -> ApprovalDecision:
        """Show the call and read the answer; every answer but yes refuses it."""
        async with self._lock:
            arguments = _shorten(json.dumps(dict(approval.arguments), ensure_ascii=False))
            self.screen.note("approve", f"{approval.why}: {approval.tool.name} {arguments} [y/N]")
            answer = await self.screen.read()
        return ApprovalDecision(answer is not None and answer.strip().lower() in ("y", "yes"))


@dataclass(slots=True, kw_only=True)
class Chat:
    """One conversation: each line of the user is a message or a command."""

    box: Toolbox
    agent: Agent
    model: Model
    session: str
    screen: Screen
    _spent: Usage = field(default_factory=Usage)
    _has_failed: bool = False

    async def run(self) -> bool:
        """Read and answer lines until the user ends it; return whether an answer failed."""
        self.screen.note("session", f"{self.session} · {_HELP}")
        while (line := await self.screen.read()) is not None:
            text = line.strip()
            if text == "/quit":
                break
            if text.startswith("/"):
                await self._run_command(text)
            elif text:
                await self._answer(text)
        return self._has_failed

    async def _answer(self, text: str) -> None:
        """Answer a message; Ctrl-C stops the answer, not the conversation."""
        task = asyncio.create_task(self._stream_answer(text))
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError, ValueError):
            # Unsupported on Windows, and outside the main thread.
            # Where it fails, Ctrl-C ends the program as usual.
            loop.add_signal_handler(signal.SIGINT, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            self.screen.note("stopped", "the work so far stays in the conversation")
        except ToolscoutError as error:
            self._has_failed = True
            self.screen.note("error", str(error))
        finally:
            with suppress(NotImplementedError, ValueError):
                loop.remove_signal_handler(signal.SIGINT)

    async def _stream_answer(self, text: str) -> None:
        async for event in self.agent.stream(text, session=self.session):
            self._show_event(event)

    def _show_event(self, event: StreamEvent) -> None:
        match event:
            case TextEvent(text=text):
                self.screen.say(text)
            case CallStartEvent(call=call, is_discovery=is_discovery):
                label = "search" if is_discovery else "call"
                self.screen.note(label, f"{call.name} {_shorten(call.arguments)}")
            case CallEndEvent(outcome=outcome):
                self._show_call(outcome)
            case LoadEvent(names=names):
                self.screen.note("found", ", ".join(names))
            case RetryEvent(reason=reason, wait_seconds=wait):
                self.screen.note("retry", f"{reason} Trying again in {wait:.1f} s.")
            case RunEndEvent(run=run):
                self._finish_run(run)
            case ThoughtEvent() | StepEndEvent():
                pass

    def _show_call(self, outcome: CallRecord) -> None:
        # A search is shown by the tools it loads: see LoadEvent.
        label = "error" if outcome.result.is_error else "result"
        if label == "error" or not outcome.is_discovery:
            self.screen.note(label, _shorten(outcome.result.text))

    def _finish_run(self, run: Run) -> None:
        self._spent += run.usage
        if run.stopped_by != "answer":
            self.screen.note("stopped", f"by {run.stopped_by}")

    async def _run_command(self, text: str) -> None:
        name, _, rest = text.partition(" ")
        session = await self.box.session(self.session)
        match name:
            case "/tools":
                self._show_tools(session)
            case "/why":
                self._explain_tool(session, rest.strip())
            case "/tokens":
                self._show_tokens(session)
            case _:
                self.screen.note("commands", _HELP)

    def _show_tools(self, session: Session) -> None:
        current = session.view(target_of(self.model))
        names = tuple(dict.fromkeys(current.names.values()))
        deferred = len(self.box.catalog) - sum(name in self.box.catalog for name in names)
        self.screen.note("tools", f"{', '.join(names) or 'none'} · {deferred} more can be found")

    def _explain_tool(self, session: Session, name: str) -> None:
        text = session.why(name).sentence if name else "Name a tool: /why NAME"
        self.screen.note("why", text)

    def _show_tokens(self, session: Session) -> None:
        counter = default_counter()
        current = session.view(target_of(self.model))
        in_view = count_json(current.tools, counter=counter) + counter.count(current.instructions)
        all_tools = view(
            get_profile("everything"), self.box.catalog, SessionState(""), target=current.target
        )
        everything = count_json(all_tools.tools, counter=counter)
        spent = self._spent
        self.screen.note(
            "tokens",
            f"in view {in_view}, all {len(self.box.catalog)} tools {everything} ({counter.name})"
            f" · used {spent.input_tokens} in ({spent.cached_tokens} cached),"
            f" {spent.output_tokens} out",
        )


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CHARACTERS else f"{line[: _MAX_CHARACTERS - 1]}…"
