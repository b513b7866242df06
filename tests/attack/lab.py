"""What attacks need: gateways and servers in processes of their own, and raw clients."""

from __future__ import annotations

import asyncio
import json
import linecache
import os
import re
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent
from tests.upstreams.processes import free_port, running

UPSTREAMS = Path(__file__).parents[1] / "upstreams"
VERSION = "2025-06-18"
MODES = ("legacy", "2026-07-28")
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
TOKENS = {"ann": "ann-has-a-long-secret", "bob": "bob-has-a-long-secret"}
_START_SECONDS = 60.0


def bad(fault: str, *more: str, **limits: Any) -> dict[str, Any]:
    """A local server that misbehaves in one way."""
    return {"command": sys.executable, "args": [str(UPSTREAMS / "bad.py"), fault, *more], **limits}


def read_text(result: CallToolResult) -> str:
    return "\n".join(c.text for c in result.content if isinstance(c, TextContent))


def rpc(method: str, params: dict[str, Any] | None = None, key: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": key, "method": method, "params": params or {}}


def initialize() -> dict[str, Any]:
    info = {"name": "attack", "version": "1"}
    params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": info}
    return rpc("initialize", params)


def post_head(length: int, *more: str) -> bytes:
    """The headers of a request whose body has this length."""
    lines = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}", *more]
    lines += [f"{name}: {value}" for name, value in HEADERS.items()]
    return "\r\n".join([*lines, "", ""]).encode()


@dataclass
class Target:
    """A gateway in a process of its own."""

    process: subprocess.Popen[bytes]
    url: str
    home: Path
    log: Path

    @property
    def base(self) -> str:
        return self.url.removesuffix("/mcp")

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.base.partition("://")[2].partition(":")
        return host, int(port)

    @property
    def memory_mb(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", text)
        return int(found[1]) / 1024 if found else 0.0

    @property
    def children(self) -> list[int]:
        folder = Path(f"/proc/{self.process.pid}/task")
        texts = ((task / "children").read_text() for task in folder.iterdir())
        return [int(pid) for text in texts for pid in text.split()]

    async def health(self) -> dict[str, Any]:
        # Its certificate, if it has one, is made for the attack.
        async with httpx2.AsyncClient(timeout=10, verify=False) as http:
            return (await http.get(f"{self.base}/health")).json()

    async def is_alive(self) -> bool:
        """Whether it still runs and reports its health."""
        return self.process.poll() is None and bool((await self.health())["live"])

    @asynccontextmanager
    async def client(self, mode: str = "2026-07-28", token: str = "") -> AsyncIterator[Client]:
        login = {"authorization": f"Bearer {token}"} if token else {}
        async with (
            httpx2.AsyncClient(headers=login, timeout=60) as http,
            Client(
                streamable_http_client(self.url, http_client=http), mode=mode, cache=None
            ) as client,
        ):
            yield client

    async def call(self, tool: str, mode: str = "2026-07-28", **arguments: Any) -> str:
        """The text of the answer to one call."""
        async with self.client(mode) as client:
            return read_text(await client.call_tool(tool, arguments))

    @asynccontextmanager
    async def connect(
        self, sent: bytes = b""
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection on which some bytes are sent, and nothing more."""
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(sent)
        try:
            yield reader, writer
        finally:
            writer.close()

    @asynccontextmanager
    async def sockets(self, count: int, sent: bytes = b"") -> AsyncIterator[list[Any]]:
        """Many such connections; the readers."""
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(self.connect(sent)) for _ in range(count)]
            yield [reader for reader, _ in opened]


async def read_to_end(reader: asyncio.StreamReader, seconds: float = 10.0) -> bytes:
    """All that the gateway still sends; empty if it does not close the connection in time."""
    try:
        async with asyncio.timeout(seconds):
            return await reader.read() or b"closed"
    except (TimeoutError, ConnectionError) as error:
        return b"" if isinstance(error, TimeoutError) else b"closed"


def _read(log: Path) -> str:
    return log.read_text(errors="replace")


def _find_url(log: Path) -> str:
    found = re.search(r"https?://[^\s\"]+/mcp", _read(log))
    return found[0] if found else ""


_MAX_WORD_CHARS = 160


class Lab:
    """A folder in which gateways run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failures: list[str] = []
        """The attempts that the gateway did not withstand."""

    def note(self, is_held: bool, *what: object) -> bool:
        """Whether an attempt was withstood; if not, note what it was and where it was made."""
        if not is_held:
            caller = sys._getframe(1)
            file = Path(caller.f_code.co_filename).name
            words = "; ".join(ascii(each)[:_MAX_WORD_CHARS] for each in what)
            line = linecache.getline(caller.f_code.co_filename, caller.f_lineno).strip()
            self.failures.append(f"{file}:{caller.f_lineno}: {words or line}")
        return is_held

    @asynccontextmanager
    async def gateway(
        self,
        servers: dict[str, Any],
        *,
        max_files: int = 0,
        options: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        **tables: Any,
    ) -> AsyncIterator[Target]:
        """A real `toolscout serve`, from when it is ready until it is not needed."""
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": servers, **tables}))
        log, home = self.folder / "log.txt", self.folder / "home"

        def limit_files() -> None:
            if max_files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))

        environment = {"TOOLSCOUT_HOME": str(home), "TOOLSCOUT_EMBEDDER": "none"}
        command = [sys.executable, "-m", "toolscout.cli", "serve", "--config", "mcp.json"]
        with (
            log.open("wb") as stderr,
            subprocess.Popen(  # noqa: ASYNC220 -- once, at the start
                [*command, "--http", "0", *options],
                cwd=self.folder,
                env={**os.environ, **environment, "TOOLSCOUT_RECORD": "full", **(variables or {})},
                stderr=stderr,
                preexec_fn=limit_files,
            ) as process,
        ):
            try:
                url = await self._wait_for_url(process, log)
                target = Target(process, url, home, log)
                async with asyncio.timeout(_START_SECONDS):
                    while not (await target.health())["ready"]:  # noqa: ASYNC110 -- no event
                        await asyncio.sleep(0.05)
                yield target
            finally:
                process.kill()

    async def _wait_for_url(self, process: subprocess.Popen[bytes], log: Path) -> str:
        async with asyncio.timeout(_START_SECONDS):
            while not (found := _find_url(log)):
                assert process.poll() is None, _read(log)
                await asyncio.sleep(0.05)
        return found

    @contextmanager
    def flood(self) -> Iterator[tuple[dict[str, Any], str]]:
        """A server over HTTP that answers as the argument `text` of a call says; its address."""
        port = free_port()
        base = f"http://127.0.0.1:{port}"
        with running(str(UPSTREAMS / "flood.py"), str(port), "any"):
            yield {"url": f"{base}/mcp", "response_bytes": 5_000_000}, base
