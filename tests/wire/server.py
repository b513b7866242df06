"""A small HTTP/1.1 server on the loopback interface that can stream, fail and break off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any, Self

from . import anthropic, chat, gemini, responses
from .turns import Hang, Plan, Refuse, Say

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 429: "Too Many Requests"}


@dataclass(frozen=True)
class Seen:
    """A request as it came over the wire."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


def _dialect(path: str) -> ModuleType | None:
    if path.endswith("/messages"):
        return anthropic
    if path.endswith("/chat/completions"):
        return chat
    if path.endswith("/responses"):
        return responses
    return gemini if "enerateContent" in path else None


def _is_streamed(seen: Seen) -> bool:
    return bool(seen.body.get("stream")) or ":streamGenerateContent" in seen.path


class Wire:
    """Answers requests with the planned replies, in order, in the dialect of the path asked.

    A request that the real service would refuse (a call without its result, a tool without a
    schema) is refused here too, whatever the plan says.
    """

    def __init__(self, *plan: Plan) -> None:
        self.seen: list[Seen] = []
        self.hung = asyncio.Event()
        self._plan = list(plan)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    def then(self, *plan: Plan) -> None:
        """Plan more replies."""
        self._plan += plan

    @property
    def url(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in [*self._writers]:
            writer.transport.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        try:
            seen = await _read(reader)
            if seen is not None:
                await self._answer(seen, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(
        self, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.seen.append(seen)
        dialect = _dialect(seen.path)
        if dialect is None:
            await _send(writer, 404, {"error": {"message": "no such path", "type": "not_found"}})
            return
        complaint = dialect.check(seen.body)
        plan: Plan = Refuse(400, complaint) if complaint else self._next()
        match plan:
            case Hang():
                self.hung.set()
                await reader.read()
            case Refuse() if not plan.in_stream:
                await _send(writer, plan.status, dialect.error(plan), plan.headers)
            case Refuse():
                await _stream(writer, dialect.broken(plan), is_whole=True)
            case Say() if not _is_streamed(seen):
                await _send(writer, 200, dialect.whole(plan, seen.body))
            case Say():
                await _say(writer, plan, dialect.frames(plan, seen.body), dialect.GARBLED)

    def _next(self) -> Plan:
        return self._plan.pop(0) if self._plan else Refuse(500, "nothing more is planned")


async def _read(reader: asyncio.StreamReader) -> Seen | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    _, path, _ = first.split(" ")
    headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(path, headers, json.loads(body) if body else {})


async def _send(
    writer: asyncio.StreamWriter,
    status: int,
    body: Any,
    headers: Mapping[str, str] | None = None,
) -> None:
    data = json.dumps(body).encode()
    extra = "".join(f"{k}: {v}\r\n" for k, v in (headers or {}).items())
    writer.write(
        f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(data)}\r\nconnection: close\r\n{extra}\r\n".encode()
        + data
    )
    await writer.drain()


async def _say(writer: asyncio.StreamWriter, plan: Say, frames: list[str], garbled: str) -> None:
    if plan.garble_after is not None:
        await _stream(writer, [*frames[: plan.garble_after], garbled], is_whole=True)
    elif plan.stop_after is not None:
        await _stream(writer, frames[: plan.stop_after], is_whole=True)
    elif plan.cut_after is not None:
        await _stream(writer, frames[: plan.cut_after], is_whole=False)
    else:
        await _stream(writer, frames, is_whole=True)


async def _stream(writer: asyncio.StreamWriter, frames: list[str], *, is_whole: bool) -> None:
    """Server-sent events, chunked; a stream that is not whole lacks the closing chunk."""
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    )
    for frame in frames:
        data = frame.encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
    if is_whole:
        writer.write(b"0\r\n\r\n")
        await writer.drain()
