"""Every kind of event is a class, and all events have the same envelope."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation
from tests.agent.office import Agent, Office, calls, open_office, search
from tests.gateway.conftest import Serve, serve, small

from toolscout.catalog.result import Result
from toolscout.catalog.tool import Tool
from toolscout.disclosure.feature import Feature
from toolscout.events import (
    ENVELOPE,
    KINDS,
    ApprovalEvent,
    CatalogChangeEvent,
    DiscoveryResultEvent,
    DiscoveryStartEvent,
    Event,
    FeatureFailureEvent,
    LargeOutputKeptEvent,
    ModelCallEvent,
    OffloadEvent,
    RunStartEvent,
    RunSummaryEvent,
    SourceFailureEvent,
    StepStartEvent,
    StoreFailureEvent,
    ToolCallEvent,
    ToolRefusedEvent,
    ToolsEnabledEvent,
    UpstreamReadyEvent,
    new_id,
    part_of,
    stamp,
)
from toolscout.models.scripted import ScriptedModel
from toolscout.offload.limits import OffloadLimits
from toolscout.offload.result_store import ResultStore
from toolscout.search.engine import Engine
from toolscout.sources.functions import tool
from toolscout.store.memory import MemoryStore
from toolscout.telemetry.lines import render_event
from toolscout.telemetry.logs import Logs
from toolscout.telemetry.metrics import DiscoveryMetrics
from toolscout.telemetry.otel import OpenTelemetry
from toolscout.telemetry.prometheus import PrometheusMetrics
from toolscout.toolbox.permissions import ApprovalDecision
from toolscout.toolbox.toolbox import Toolbox

__all__ = ["serve"]  # the fixture of the gateway's tests

MAIL = ("send_email", {"to": "a", "subject": "b"})
CLASSES = [pytest.param(cls, id=cls.__name__) for cls in KINDS.values()]
ID = re.compile(r"[0-9a-f]{20}")
VALUES = {"str": "x", "int": 1, "float": 1.0, "bool": True, "bytes": b"x"}


def example(cls: type[Event]) -> Event:
    """An event of a class, with a value for each of its own fields."""
    hints = get_type_hints(cls)
    own = [f.name for f in fields(cls) if f.name not in ENVELOPE]
    values: dict[str, Any] = {}
    for name in own:
        hint = hints[name]
        values[name] = VALUES.get(getattr(hint, "__name__", ""), ())
        if get_origin(hint) is tuple:
            values[name] = ("x",)
        elif get_origin(hint) is not None:  # a mapping
            values[name] = {"key": "x"}
    return cls(**values)


def of(kind: type[Any], events: Sequence[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


# The classes


def test_every_kind_has_one_class_and_every_class_one_kind() -> None:
    assert len({*KINDS.values()}) == len(KINDS)
    assert all(cls.kind == kind for kind, cls in KINDS.items())
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", kind) for kind in KINDS)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_class_says_in_one_sentence_what_happened(cls: type[Event]) -> None:
    text = cls.__dict__["__doc__"]
    assert text.endswith(".")
    assert "\n" not in text
    assert not text.startswith(f"{cls.__name__}(")  # what dataclasses write where there is none


@pytest.mark.parametrize("cls", [Event, *CLASSES])
def test_every_field_has_a_type_and_a_description(cls: type[Event]) -> None:
    hints = get_type_hints(cls, include_extras=True)
    for field in fields(cls):
        assert get_origin(hints[field.name]) is Annotated
        assert get_args(hints[field.name])[1]


@pytest.mark.parametrize("cls", CLASSES)
def test_an_event_is_frozen_and_its_facts_are_the_fields_of_its_kind(cls: type[Event]) -> None:
    event = example(cls)
    with pytest.raises(FrozenInstanceError):
        event.session = "other"  # type: ignore[misc]
    assert not hasattr(event, "__dict__")
    assert set(event.facts) == {f.name for f in fields(cls)} - {*ENVELOPE}


@pytest.mark.parametrize("cls", CLASSES)
def test_every_sink_takes_every_event(cls: type[Event]) -> None:
    event = stamp(example(cls), session="s")
    for sink in (Logs(), DiscoveryMetrics(), PrometheusMetrics(), OpenTelemetry()):
        sink(event)
    assert "\n" not in render_event(event)


def test_unset_fields_are_left_out_of_the_facts() -> None:
    assert ToolRefusedEvent(tool="x").facts == {"tool": "x"}
    assert "error" not in RunSummaryEvent().facts
    assert RunSummaryEvent(error="model").facts["error"] == "model"


def test_text_of_users_and_models_is_marked_as_private() -> None:
    private = {(k, n) for k, cls in KINDS.items() for n in example(cls).facts if n in cls.private}
    assert private == {
        ("tool_discovery_start", "arguments"),
        ("tool_discovery_result", "queries"),
        ("tool_discovery_result", "vector"),
        ("tool_not_found", "arguments"),
        ("tool_refused", "arguments"),
        ("tool_call_start", "arguments"),
        ("search", "queries"),
        ("search", "vector"),
        ("content_read_start", "arguments"),
        ("content_read", "arguments"),
        ("request_refused", "arguments"),
    }


# The envelope


def test_stamping_fills_what_is_empty() -> None:
    bare = ToolCallEvent(tool="ring")
    full = stamp(bare, session="s", principal="ann", client="editor", parent="p", clock=lambda: 5.0)
    assert ID.fullmatch(full.id)
    assert full == ToolCallEvent(
        tool="ring",
        time=5.0,
        id=full.id,
        parent="p",
        session="s",
        principal="ann",
        client="editor",
    )
    assert bare == ToolCallEvent(tool="ring")


def test_stamping_never_overwrites() -> None:
    full = ToolCallEvent(
        tool="ring", time=1.0, id="1", parent="2", session="3", principal="4", client="5"
    )
    other = dict.fromkeys(("session", "principal", "client", "parent"), "other")
    assert stamp(full, **other, clock=lambda: 9.0) is full
    for name in ENVELOPE:
        kept = replace(ToolCallEvent(tool="ring"), **{name: getattr(full, name)})
        stamped = stamp(kept, **other, clock=lambda: 9.0)
        assert getattr(stamped, name) == getattr(full, name)


def test_ids_are_unique_and_in_the_order_of_time() -> None:
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(set(ids))
    assert all(ID.fullmatch(each) for each in ids)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_makes_other_ids() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, new_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 20).decode()[-6:] != new_id()[-6:]
    os.close(reader)
    os.close(writer)


async def test_tasks_that_run_at_once_do_not_share_their_parents() -> None:
    events: list[Event] = []
    async with Toolbox([], store="memory", sink=events.append) as box:
        session = await box.session("s")

        async def emit(number: int) -> None:
            with part_of(f"run {number}"):
                await asyncio.sleep(0)
                session.emit(StepStartEvent(step=number))

        await asyncio.gather(*map(emit, range(5)))
        session.emit(StepStartEvent(step=5))
    parents = [(e.step, e.parent) for e in of(StepStartEvent, events)]
    assert parents == [*((n, f"run {n}") for n in range(5)), (5, "")]


# Calls and runs


class Forgetful(Feature):
    """A memory that breaks at every result."""

    def observe(self, section: str | None, tool: Tool, result: Result, *, now: float) -> str:
        message = "no room"
        raise MemoryError(message)

    def render(self, section: str | None, *, discovered: Sequence[str] = ()) -> str:
        return ""


async def test_the_events_of_a_call_are_parts_of_the_call(tmp_path: Any) -> None:
    events: list[Event] = []

    @tool(requires_confirmation=True)
    def report() -> str:
        """Write a long report."""
        return "word " * 5_000

    async def approve(_: object) -> ApprovalDecision:
        return ApprovalDecision(is_approved=True)

    async with Toolbox(
        [report],
        profile="cms",
        store="memory",
        sink=events.append,
        approver=approve,
        memory=Forgetful(),
        offload=ResultStore(
            tmp_path, limits=OffloadLimits(threshold_tokens=100), sink=events.append
        ),
        engine=Engine(),
    ) as box:
        session = await box.session("s")
        await session.call("tool_search", {"query": "write a long report"})
        await session.call("report", {})
        await session.call("report", {})
        await session.call("report", {"unknown": 1})
    first, second = of(ToolCallEvent, events)
    (found,) = of(DiscoveryResultEvent, events)
    for kind in (ApprovalEvent, OffloadEvent, FeatureFailureEvent, LargeOutputKeptEvent):
        assert [e.parent for e in of(kind, events)] == [first.id, second.id], kind
    for kind in (DiscoveryStartEvent, ToolsEnabledEvent):
        assert [e.parent for e in of(kind, events)] == [found.id], kind
    (refused,) = of(ToolRefusedEvent, events)
    assert ID.fullmatch(refused.parent)
    assert refused.parent not in (first.id, second.id, found.id)
    assert {first.parent, second.parent, found.parent} == {""}
    assert len({e.id for e in events}) == len(events)
    assert {e.session for e in events if not isinstance(e, CatalogChangeEvent)} == {"s"}


async def test_the_events_of_a_run_are_parts_of_the_run() -> None:
    events: list[Event] = []
    model = ScriptedModel([calls(search("send an email")), calls(MAIL, MAIL), "Sent.", "Hi."])
    async with open_office(Office(), seen=events) as box:
        agent = Agent(box, model=model)
        await agent.run("Mail a", session="s")
        await agent.run("Hello", session="s")
    first, second = of(RunStartEvent, events)
    for kind, count in (
        (StepStartEvent, 3),
        (ModelCallEvent, 3),
        (DiscoveryResultEvent, 1),
        (ToolCallEvent, 2),
        (RunSummaryEvent, 1),
    ):
        assert len([e for e in of(kind, events) if e.parent == first.id]) == count, kind
    assert {e.kind for e in events if e.parent == second.id} == {
        *("step_start", "model_call", "run_end")
    }
    (found,) = of(DiscoveryResultEvent, events)
    assert [e.parent for e in of(ToolsEnabledEvent, events)] == [found.id]
    assert (first.parent, second.parent) == ("", "")


async def test_a_call_inside_a_tool_is_a_part_of_the_call_of_that_tool() -> None:
    events: list[Event] = []
    boxes: list[Toolbox] = []

    @tool
    def inner() -> str:
        """Do the work."""
        return "done"

    @tool
    async def outer() -> str:
        """Have the work done."""
        return (await (await boxes[0].session("other")).call("inner", {})).text

    async with Toolbox(
        [inner, outer], profile="everything", store="memory", sink=events.append
    ) as box:
        boxes.append(box)
        await (await box.session("s")).call("outer", {})
    within, around = of(ToolCallEvent, events)
    assert (within.tool, within.parent) == ("inner", around.id)
    assert (within.session, around.session) == ("other", "s")


async def test_events_without_a_conversation_have_a_time_and_an_id() -> None:
    events: list[Event] = []

    class Broken:
        name = "broken"

        async def tools(self) -> Sequence[Tool]:
            raise OSError("The cable is out.")

        async def call(self, tool: Tool, arguments: Any) -> Result:
            raise NotImplementedError

        async def close(self) -> None:
            pass

    async with Toolbox(
        [*Office().tools, Broken()], store="memory", sink=events.append, clock=lambda: 7.0
    ):
        pass
    assert of(SourceFailureEvent, events)
    assert of(CatalogChangeEvent, events)
    assert {e.time for e in events} == {7.0}
    assert all(ID.fullmatch(e.id) and not e.parent and not e.session for e in events)


async def test_a_store_that_fails_during_a_call_names_the_session_and_the_call() -> None:
    events: list[Event] = []

    class Full(MemoryStore):
        def put(self, key: str, text: str, *, expected: int) -> Any:
            from toolscout.errors import StoreError

            raise StoreError("no room")

    async with Toolbox(
        Office().tools, profile="everything", store=Full(), sink=events.append, engine=Engine()
    ) as box:
        await (await box.session("s")).call(*MAIL)
    (call,) = of(ToolCallEvent, events)
    failed = of(StoreFailureEvent, events)[0]
    assert (failed.session, failed.parent) == ("s", call.id)


# Who


async def test_principal_and_client_arrive_through_the_session() -> None:
    events: list[Event] = []
    async with Toolbox(
        Office().tools, profile="everything", store="memory", sink=events.append, engine=Engine()
    ) as box:
        for name in ("ann", "bob"):
            session = await box.session("s", principal=name, client=f"editor of {name}")
            await session.call(*MAIL)
            await session.load("send_email")
        await (await box.session("s")).call(*MAIL)
    for kind, count in ((ToolCallEvent, 3), (ToolsEnabledEvent, 2)):
        assert [(e.principal, e.client) for e in of(kind, events)] == [
            ("ann", "editor of ann"),
            ("bob", "editor of bob"),
            ("", ""),
        ][:count]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_principal_and_client_arrive_through_the_gateway(serve: Serve, mode: str) -> None:
    token = "alice-token-0123456789"
    async with (
        serve({"one": small()}, auth={"tokens": {"alice": token}}) as running,
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
    ):
        for name in ("editor", "terminal\n" + "x" * 500):
            transport = streamable_http_client(running.url, http_client=http)
            info = Implementation(name=name, version="1")
            async with Client(transport, mode=mode, client_info=info) as client:
                await client.call_tool("tool_search", {"query": "echo"})
                await client.call_tool(
                    "call_tool", {"name": "one__echo", "arguments": {"text": "x"}}
                )
        events = list(running.events)
    for kind in (DiscoveryResultEvent, ToolCallEvent):
        first, second = of(kind, events)
        assert (first.principal, first.client) == ("alice", "editor")
        assert second.principal == "alice"
        assert second.client.startswith("terminal x")
        assert len(second.client) <= 100
    assert all(e.time and ID.fullmatch(e.id) for e in events)
    assert all((e.principal, e.client) == ("", "") for e in of(UpstreamReadyEvent, events))


async def test_an_anonymous_caller_of_the_gateway_has_no_principal(serve: Serve) -> None:
    async with serve({"one": small()}) as running, running.client() as client:
        await client.call_tool("tool_search", {"query": "echo"})
        (found,) = of(DiscoveryResultEvent, running.events)
    assert found.principal == ""
    assert found.client


# Events of users


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackEvent(Event):
    """A user rated an answer."""

    kind: ClassVar[str] = "feedback"
    private: ClassVar[frozenset[str]] = frozenset({"comment"})

    stars: int
    comment: str = ""


async def test_a_user_s_own_event_passes_like_any_other(caplog: pytest.LogCaptureFixture) -> None:
    events: list[Event] = []
    caplog.set_level("INFO", "toolscout.events")
    logs = Logs()

    def sink(event: Event) -> None:
        events.append(event)
        for each in (logs, DiscoveryMetrics(), PrometheusMetrics(), OpenTelemetry()):
            each(event)

    async with Toolbox([], store="memory", sink=sink) as box:
        session = await box.session("s", principal="ann")
        session.emit(FeedbackEvent(stars=5, comment="secret", client="mine"))
    (event,) = of(FeedbackEvent, events)
    assert event.facts == {"stars": 5, "comment": "secret"}
    assert (event.session, event.principal, event.client) == ("s", "ann", "mine")
    assert ID.fullmatch(event.id)
    assert "feedback" not in KINDS
    assert "stars=5 comment=text(6)" in caplog.text
    assert "secret" not in caplog.text


def test_importing_events_needs_no_uuid() -> None:
    assert "uuid" not in vars(sys.modules["toolscout.events"])
