"""A small embeddings service on the loopback interface, which can refuse, hang up and babble."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.search.parts import Bag


@dataclass(frozen=True)
class Refuse:
    """An answer that is none: a status, a body, headers; status 0 closes the connection."""

    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass
class Service:
    """What came over the wire, and what is answered; without a plan it encodes."""

    url: str = ""
    bag: Bag = field(default_factory=Bag)
    plan: list[Refuse] = field(default_factory=list[Refuse])
    always: Refuse | None = None
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    keys: list[str | None] = field(default_factory=list[str | None])
    change: Callable[[list[dict[str, Any]]], object] = lambda rows: {"data": rows}

    def answer(self, texts: Sequence[str]) -> object:
        rows = self.bag.encode(texts).tolist()
        items = [{"object": "embedding", "index": i, "embedding": r} for i, r in enumerate(rows)]
        return self.change(items[::-1])  # in no order, as services may


@contextmanager
def serving() -> Iterator[Service]:
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # one packet an answer

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            service.asked.append({"path": self.path, **body})
            service.keys.append(self.headers["authorization"])
            refusal = service.plan.pop(0) if service.plan else service.always
            if refusal is None:
                refusal = Refuse(200, json.dumps(service.answer(body["input"])))
            if not refusal.status:
                self.close_connection = True
                return
            payload = refusal.body.encode()
            self.send_response(refusal.status)
            self.send_header("content-length", str(len(payload)))
            for name, value in refusal.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            """Nothing: the tests say what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
