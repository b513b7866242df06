"""A load balancer that sends each request to the next replica, whatever it belongs to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import cycle
from urllib.parse import urlsplit

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

METHODS = ["GET", "POST", "DELETE"]


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def round_robin(urls: Sequence[str]) -> AsyncIterator[str]:
    """Serve the replicas at one address; yields its URL. Dead replicas are skipped."""
    following = cycle(urls)
    async with httpx2.AsyncClient(timeout=None, trust_env=False) as http:

        async def forward(request: Request) -> StreamingResponse:
            body = await request.body()
            for _ in urls:
                url = next(following)
                headers = [(k, v) for k, v in request.headers.raw if k != b"host"]
                headers.append((b"host", urlsplit(url).netloc.encode()))
                sent = httpx2.Request(request.method, url, headers=headers, content=body or None)
                try:
                    answer = await http.send(sent, stream=True)
                except httpx2.ConnectError:
                    continue
                return StreamingResponse(
                    answer.aiter_raw(), answer.status_code, dict(answer.headers)
                )
            raise AssertionError("No replica is running.")

        app = Starlette(routes=[Route("/mcp", forward, methods=METHODS)])
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, lifespan="off", log_level="error", timeout_graceful_shutdown=0)
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await serving
