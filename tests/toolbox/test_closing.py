"""A toolbox lets go of all it opened, and waits for no service that is slow to answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest

from toolscout.config import Config
from toolscout.toolbox.toolbox import Toolbox


class Service(ThreadingHTTPServer):
    """An embeddings service that answers when it is let, and notices who hangs up."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked, self.may_answer, self.left = Event(), Event(), Event()

    @property
    def spec(self) -> str:
        return f"openai:tiny@http://127.0.0.1:{self.server_address[1]}/v1"


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Service

    def do_POST(self) -> None:
        size = int(self.headers["content-length"])
        texts = json.loads(self.rfile.read(size))["input"]
        self.server.asked.set()
        self.server.may_answer.wait(60)
        rows = [{"index": i, "embedding": [1.0, float(len(t))]} for i, t in enumerate(texts)]
        body = json.dumps({"data": rows}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def finish(self) -> None:
        super().finish()
        self.server.left.set()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        thread = Thread(target=service.serve_forever)
        thread.start()
        yield service
        service.may_answer.set()
        service.shutdown()
        thread.join()


async def test_the_connections_of_an_embedder_are_closed_with_the_toolbox(
    office: tuple[Callable[..., Any], ...], service: Service
):
    service.may_answer.set()
    async with Toolbox(office, store="memory", config=Config(embedder=service.spec)) as box:
        await box.wait_until_ready()
        assert service.asked.is_set()
        assert not service.left.is_set()
    assert service.left.wait(30)


async def test_closing_does_not_wait_for_a_service_that_does_not_answer(
    office: tuple[Callable[..., Any], ...], service: Service
):
    async with Toolbox(office, store="memory", config=Config(embedder=service.spec)):
        assert service.asked.wait(30)
    assert not service.may_answer.is_set()
    assert not service.left.is_set()
    service.may_answer.set()
    assert service.left.wait(30)
