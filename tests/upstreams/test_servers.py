"""Real servers over every transport, in both generations of the protocol."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from tests.upstreams.processes import TALKER, free_port, listening, running

from toolscout.catalog.tool import Tool
from toolscout.errors import SourceError
from toolscout.sources.mcp.client_channel import CURRENT_CHANNEL
from toolscout.sources.mcp.content import MCPContentSource
from toolscout.sources.mcp.mcp_source import MCPSource
from toolscout.sources.mcp.servers import Protocol, Server, ServerLimits, Transport


@pytest.fixture(scope="module")
def http() -> Iterator[str]:
    with listening("http") as url:
        yield url


@pytest.fixture(scope="module")
def sse() -> Iterator[str]:
    with listening("sse") as url:
        yield url


@asynccontextmanager
async def talker(
    transport: Transport, url: str = "", protocol: Protocol = "auto", **options: Any
) -> AsyncIterator[MCPSource]:
    server = Server(
        name="talker",
        transport=transport,
        command=sys.executable,
        args=options.pop("args", (TALKER,)),
        env=options.pop("env", {}),
        url=url,
        protocol=protocol,
        limits=ServerLimits(connect_timeout_seconds=60),
    )
    source = MCPSource(server, forwards_requests=True, **options)
    try:
        yield source
    finally:
        await source.close()


@dataclass
class RecordingChannel:
    """A client that records progress and log messages, and answers questions."""

    accepts_input_required: bool = False
    capabilities: dict[str, Any] = field(
        default_factory=lambda: {"elicitation": {"form": {}}, "sampling": {}}
    )
    meta: dict[str, Any] = field(default_factory=dict)
    responses: types.InputResponses | None = None
    state: str | None = None
    messages: list[str] = field(default_factory=list)
    has_progress: asyncio.Event = field(default_factory=asyncio.Event)

    def for_user(self, user: object) -> Any:
        return self

    async def wait_for_progress(self) -> None:
        async with asyncio.timeout(30):
            await self.has_progress.wait()

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        self.has_progress.set()
        self.messages.append(f"{progress:g}/{total:g}" if total else f"{progress:g}")

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        self.messages.append(str(message.data))

    async def answer(self, request: types.InputRequest) -> Any:
        if isinstance(request, types.ElicitRequest):
            return types.ElicitResult(action="accept", content={"name": "Ann"})
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(type="text", text="so be it"), model="m"
        )


async def tool_named(source: MCPSource, name: str) -> Tool:
    return next(t for t in await source.tools() if t.local_name == name)


async def call(
    source: MCPSource, name: str, channel: RecordingChannel | None = None, **arguments: Any
) -> Any:
    tool = await tool_named(source, name)
    token = CURRENT_CHANNEL.set(channel)
    try:
        return await source.call(tool, arguments)
    finally:
        CURRENT_CHANNEL.reset(token)


ROUTES: list[tuple[Transport, Protocol]] = [
    ("stdio", "handshake"),
    ("stdio", "stateless"),
    ("http", "handshake"),
    ("http", "stateless"),
    ("sse", "handshake"),
]


@pytest.fixture(params=ROUTES, ids=lambda route: "-".join(route))
def route(request: pytest.FixtureRequest) -> tuple[Transport, str, Protocol]:
    transport, protocol = request.param
    url = "" if transport == "stdio" else request.getfixturevalue(transport)
    return transport, url, protocol


async def test_everything_passes_over_every_transport_and_generation(
    route: tuple[Transport, str, Protocol],
) -> None:
    async with talker(*route) as source:
        summed = await call(source, "add", a=2, b=3)
        assert summed.value == {"sum": 5}
        era = "2026" if route[2] == "stateless" else "2025"
        assert source.state.protocol.startswith(era)

        shown = await call(source, "show")
        kinds = [c.type for c in shown.content]
        assert kinds == ["text", "image", "audio", "link", "resource"]
        assert shown.content[1].data == "aW1n"
        assert shown.raw.meta["colour"] == "blue"

        channel = RecordingChannel()
        counted = await call(source, "count", channel, to=2)
        assert counted.text == "counted to 2"
        assert "2/2" in channel.messages

        assert (await call(source, "greet", channel)).text == "Hello Ann"
        assert (await call(source, "muse", channel)).text == "It said: so be it"

        wrong = await call(source, "add", a="x", b=1)
        assert wrong.is_error


async def test_a_stateless_caller_answers_by_calling_again(http: str) -> None:
    async with talker("http", http, "stateless") as source:
        channel = RecordingChannel(accepts_input_required=True)
        reply = await call(source, "greet", channel)
        assert isinstance(reply.raw, types.InputRequiredResult)
        channel.state = reply.raw.request_state
        channel.responses = {"who": types.ElicitResult(action="accept", content={"name": "Bo"})}
        assert (await call(source, "greet", channel)).text == "Hello Bo"


async def test_without_anybody_to_ask_a_question_is_an_error(http: str) -> None:
    async with talker("http", http, "stateless") as source:
        assert (await call(source, "greet")).is_error


async def test_questions_of_simultaneous_calls_reach_their_own_callers(http: str) -> None:
    class Named(RecordingChannel):
        async def answer(self, request: types.InputRequest) -> Any:
            return types.ElicitResult(action="accept", content={"name": self.meta["me"]})

    for protocol in ("handshake", "stateless"):
        async with talker("http", http, protocol) as source:
            await source.tools()
            names = [f"caller{i}" for i in range(8)]
            results = await asyncio.gather(
                *(call(source, "greet", Named(meta={"me": n})) for n in names)
            )
            assert [r.text for r in results] == [f"Hello {n}" for n in names]


async def test_a_question_on_a_pipe_goes_to_nobody_rather_than_to_the_wrong_caller() -> None:
    async with talker("stdio", protocol="handshake") as source:
        await source.tools()
        channels = [RecordingChannel(), RecordingChannel()]
        waiting = asyncio.create_task(call(source, "wait", channels[0]))
        await channels[0].wait_for_progress()
        reply = await call(source, "greet", channels[1])
        assert "several calls are running" in reply.text
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        greeted = await asyncio.gather(
            call(source, "greet", RecordingChannel()), call(source, "greet", RecordingChannel())
        )
        assert [g.text for g in greeted] == ["Hello Ann", "Hello Ann"]


async def test_a_cancelled_call_leaves_the_connection_in_order(
    route: tuple[Transport, str, Protocol],
) -> None:
    async with talker(*route) as source:
        channel = RecordingChannel()
        task = asyncio.create_task(call(source, "wait", channel))
        await channel.wait_for_progress()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await call(source, "add", a=1, b=1)).value == {"sum": 2}
        assert source.state.in_flight == 0


@pytest.mark.parametrize(
    ("program", "protocol"), [("learner.py", "stateless"), ("talker.py", "handshake")]
)
async def test_a_changed_list_is_heard_of(program: str, protocol: Protocol) -> None:
    changed = asyncio.Event()
    args = (str(Path(TALKER).with_name(program)),)
    async with talker(
        "stdio", protocol=protocol, args=args, on_change=lambda _: changed.set()
    ) as source:
        await source.tools()
        changed.clear()
        await call(source, "learn", word="tea")
        async with asyncio.timeout(30):
            await changed.wait()
        assert (await call(source, "say_tea")).text == "tea"


@pytest.mark.behaviour("B49", "S23")
async def test_prompts_and_resources_are_got_through_two_tools() -> None:
    async with talker("stdio") as source:
        content = MCPContentSource(lambda: [source])
        assert await content.tools() == []
        await source.refresh()
        assert source.state.protocol == "2026-07-28", "the generation is found out"
        prompt, resource = await content.tools()
        assert (prompt.name, resource.name) == ("get_prompt", "get_resource")
        assert "talker: poem(topic)" in prompt.description
        poem = {"server": "talker", "name": "poem", "arguments": {"topic": "rain"}}
        assert "about rain" in (await content.call(prompt, poem)).text
        for uri, text in (
            ("talk://greeting", "Good day."),
            ("talk://greeting/Bo", "Good day, Bo."),
        ):
            got = await content.call(resource, {"server": "talker", "uri": uri})
            assert got.text == text
        with pytest.raises(SourceError, match="Known: talker"):
            await content.call(resource, {"server": "other", "uri": "x://y"})


async def test_an_http_server_that_was_restarted_is_found_again() -> None:
    port = free_port()
    async with talker("http", f"http://127.0.0.1:{port}/mcp", "handshake") as source:
        for i in (1, 2):
            with listening("http", port):
                assert (await call(source, "add", a=i, b=i)).value == {"sum": 2 * i}


async def test_a_call_that_ran_after_a_reconnection_and_was_lost_says_what_is_known_of_it() -> None:
    port = free_port()
    async with talker("http", f"http://127.0.0.1:{port}/mcp", "handshake") as source:
        with listening("http", port):
            await call(source, "add", a=1, b=1)
        channel = RecordingChannel()
        with running(TALKER, "http", str(port)) as process:
            task = asyncio.create_task(call(source, "wait", channel))
            await channel.wait_for_progress()
            process.kill()
            with pytest.raises(SourceError, match="may or may not have taken effect") as lost:
                await task
        assert "twice" not in str(lost.value)


async def test_a_refused_connection_names_the_place() -> None:
    server = Server(name="gone", transport="http", url="http://127.0.0.1:9/mcp")
    source = MCPSource(server)
    with pytest.raises(SourceError, match="nothing answers at http://127"):
        await source.tools()
    await source.close()
