"""Sessions over HTTP: servers forget them, and do not always take leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import mcp_types as types
import pytest

from toolscout.sources.mcp.mcp_source import MCPSource
from toolscout.sources.mcp.servers import Server, ServerLimits


class Host:
    """A server with sessions, in as much of HTTP as it takes."""

    def __init__(self) -> None:
        self.begun = 0
        self.sessions: set[str] = set()
        self.ran: list[str] = []
        self.tools: tuple[str, ...] = ("one", "two")
        self.rest: list[Awaitable[bytes]] = []
        self.takes_leave = True
        self.refusal = b"404 Gone\r\ncontent-length: 0\r\n\r\n"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                method, *lines = head.rstrip().split("\r\n")
                headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if method.startswith("POST"):
                    reply = await self.answer(json.loads(body), headers.get("mcp-session-id", ""))
                elif method.startswith("DELETE") and not self.takes_leave:
                    await reader.read()  # until the client has gone
                    break
                else:
                    reply = b"405 No\r\ncontent-length: 0\r\n\r\n"
                writer.write(b"HTTP/1.1 " + reply)
                if self.rest:
                    writer.write(await self.rest.pop())
                    break
        writer.close()

    async def answer(self, message: dict[str, Any], session: str) -> bytes:
        if message["method"] == "initialize":
            self.begun += 1
            session = f"session-{self.begun}"
            self.sessions.add(session)
        if session not in self.sessions:
            await self.refuse(message)
            return self.refusal
        if "id" not in message:
            return b"202 Taken\r\ncontent-length: 0\r\n\r\n"
        result = await self.result(message)
        data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        return (
            f"200 OK\r\ncontent-type: application/json\r\nmcp-session-id: {session}\r\n"
            f"content-length: {len(data)}\r\n\r\n{data}"
        ).encode()

    async def refuse(self, message: dict[str, Any]) -> None:
        """What happens before a request of a forgotten session is refused."""

    async def result(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["method"] == "tools/list":
            schema = {"type": "object"}
            return {"tools": [{"name": name, "inputSchema": schema} for name in self.tools]}
        if message["method"] == "tools/call":
            self.ran.append(name := message["params"]["name"])
            return {"content": [{"type": "text", "text": f"{name} ran"}]}
        if message["method"] == "completion/complete":
            return {"completion": {"values": ["rain"]}}
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "host", "version": "1"},
        }


@asynccontextmanager
async def hosted(
    host: Host, *, on_change: Callable[[MCPSource], None] | None = None, **limits: float
) -> AsyncIterator[MCPSource]:
    async with await asyncio.start_server(host.serve, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        server = Server(
            name="host",
            transport="http",
            protocol="handshake",
            url=f"http://127.0.0.1:{port}/mcp",
            limits=ServerLimits(**limits),  # type: ignore[arg-type]
        )
        source = MCPSource(server, on_change=on_change)
        try:
            yield source
        finally:
            await source.close()


@pytest.mark.timeout(30)
async def test_a_server_that_does_not_answer_the_closing_request_is_closed_anyway() -> None:
    host = Host()
    async with hosted(host, connect_timeout_seconds=2) as source:
        await source.tools()
        host.takes_leave = False
        await source.close()
        assert source.state.status == "closed"


class Uneven(Host):
    """Refuses one call as soon as the other has come, and that one once the first has run."""

    def __init__(self) -> None:
        super().__init__()
        self.has_come = asyncio.Event()
        self.has_run = asyncio.Event()

    async def refuse(self, message: dict[str, Any]) -> None:
        if message["params"].get("name") == "two":
            self.has_come.set()
            await self.has_run.wait()
        await self.has_come.wait()

    async def result(self, message: dict[str, Any]) -> dict[str, Any]:
        result = await super().result(message)
        if self.ran:
            self.has_run.set()
        return result


@pytest.mark.timeout(60)
async def test_calls_of_a_session_that_was_forgotten_run_once_each_in_the_next() -> None:
    host = Uneven()
    async with hosted(host) as source:
        one, two = await source.tools()
        host.sessions.clear()
        results = await asyncio.gather(source.call(one, {}), source.call(two, {}))
        assert [r.text for r in results] == ["one ran", "two ran"]
        assert host.ran == ["one", "two"]
        assert host.begun == 2


def json_refusal() -> bytes:
    """How servers of the TypeScript SDK refuse a request with an unknown session."""
    error = {"code": -32001, "message": "Session not found"}
    body = json.dumps({"jsonrpc": "2.0", "error": error, "id": None})
    head = f"404 Gone\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"{head}\r\n\r\n{body}".encode()


@pytest.mark.timeout(30)
async def test_a_server_may_say_in_words_of_its_own_that_it_forgot_a_session() -> None:
    host = Host()
    host.refusal = json_refusal()
    async with hosted(host) as source:
        one, _ = await source.tools()
        host.sessions.clear()
        assert (await source.call(one, {})).text == "one ran"
        assert host.ran == ["one"]


SUGGESTIONS = types.CompleteRequestParams(
    ref=types.PromptReference(name="poem"),
    argument=types.CompletionArgument(name="topic", value="r"),
)


@pytest.mark.timeout(30)
async def test_suggestions_are_asked_for_again_when_a_session_was_forgotten() -> None:
    host = Host()
    async with hosted(host) as source:
        await source.tools()
        host.sessions.clear()
        assert (await source.complete(SUGGESTIONS)).completion.values == ["rain"]
        assert host.begun == 2


@pytest.mark.timeout(30)
async def test_a_server_that_forgot_a_session_is_looked_at_in_the_next() -> None:
    host, changed = Host(), asyncio.Event()
    async with hosted(host, on_change=lambda _: changed.set(), poll_seconds=0.05) as source:
        await source.tools()
        changed.clear()
        host.tools = ("three",)
        host.sessions.clear()
        await changed.wait()
        assert [tool.local_name for tool in await source.tools()] == ["three"]


class Slow(Host):
    """Takes a call at once, and refuses what it asks once the session has been forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.has_taken = asyncio.Event()
        self.has_forgotten = asyncio.Event()

    async def refuse(self, message: dict[str, Any]) -> None:
        self.has_forgotten.set()

    async def answer(self, message: dict[str, Any], session: str) -> bytes:
        if message["method"] != "tools/call":
            return await super().answer(message, session)
        self.ran.append(message["params"]["name"])
        self.rest.append(self.later(message["id"]))
        self.has_taken.set()
        return b"200 OK\r\ncontent-type: text/event-stream\r\n\r\n"

    async def later(self, key: int) -> bytes:
        await self.has_forgotten.wait()
        error = {"code": types.INVALID_REQUEST, "message": "Not like that."}
        return f"data: {json.dumps({'jsonrpc': '2.0', 'id': key, 'error': error})}\n\n".encode()


@pytest.mark.timeout(30)
async def test_a_call_that_ran_does_not_run_again_because_another_came_too_late() -> None:
    host = Slow()
    async with hosted(host) as source:
        one, _ = await source.tools()
        calling = asyncio.create_task(source.call(one, {}))
        await host.has_taken.wait()
        host.sessions.clear()
        await source.complete(SUGGESTIONS)
        assert "Not like that" in (await calling).text
        assert host.ran == ["one"]
