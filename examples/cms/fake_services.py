"""Fake web services for the example: a photo service and a few web pages.

They are real HTTP servers on the loopback address, so that the tools make real requests without a
network.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .http_tools import readable_text

WEB = Path(__file__).with_name("web")
PHOTOS = (
    (101, "Mountain lake at sunrise", "Ida Berg"),
    (102, "Snow-covered mountain peaks", "Jon Vik"),
    (103, "Fresh bread on a wooden table", "Mara Olsen"),
    (104, "Cosy fireplace in a wooden cabin", "Ida Berg"),
    (105, "Red boats in a fjord harbour", "Emil Dahl"),
    (106, "Hikers on a forest trail", "Nora Lund"),
    (107, "Bedroom with white linen and a lake view", "Mara Olsen"),
    (108, "Northern lights over a frozen lake", "Jon Vik"),
)


def make_png(seed: int, size: int = 16) -> bytes:
    """A valid PNG of one colour, which depends on the seed."""
    colour = bytes(((seed * 37) % 256, (seed * 67) % 256, (seed * 97) % 256))
    raw = (b"\0" + colour * size) * size
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print no requests."""

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def json(self, value: object, status: int = 200) -> None:
        self.reply(status, json.dumps(value, ensure_ascii=False).encode())


class _Photos(_Handler):
    def do_GET(self) -> None:
        url = urlsplit(self.path)
        found = re.fullmatch(r"/(?:v1/photos/|files/)(\d+)(?:\.png)?", url.path)
        if url.path == "/v1/search":
            parameters = parse_qs(url.query)
            limit = int(parameters.get("per_page", ["5"])[0])
            photos = _match(parameters.get("query", [""])[0], {p: p[1] for p in PHOTOS})
            self.json({"photos": [_photo(*p) for p in photos[:limit]]})
        elif found and (photo := next((p for p in PHOTOS if p[0] == int(found[1])), None)):
            if url.path.startswith("/files/"):
                self.reply(200, make_png(photo[0]), "image/png")
            else:
                self.json(_photo(*photo))
        else:
            self.json({"error": "not found"}, 404)


class _Web(_Handler):
    def do_GET(self) -> None:
        url = urlsplit(self.path)
        pages = {f"/{path.stem}": path for path in sorted(WEB.glob("*.html"))}
        if url.path == "/search":
            query = parse_qs(url.query).get("q", [""])[0]
            texts = {name: readable_text(path.read_text("utf-8")) for name, path in pages.items()}
            matches = _match(query, {name: " ".join(text) for name, text in texts.items()})
            base = f"http://{self.headers['host']}"
            self.json(
                [
                    {"title": texts[n][0], "url": base + n, "excerpt": texts[n][1][:160]}
                    for n in matches
                ]
            )
        elif url.path in pages:
            self.reply(200, pages[url.path].read_bytes(), "text/html; charset=utf-8")
        else:
            self.reply(404, b"not found", "text/plain")

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.json({"received": json.loads(data or b"null")}, 201)


def _photo(number: int, alt: str, photographer: str) -> dict[str, Any]:
    src = f"/files/{number}.png"
    return {"id": number, "alt": alt, "photographer": photographer, "src": src}


def _match(query: str, texts: dict[Any, str]) -> list[Any]:
    """The keys of texts that share words with a query, most words first."""
    words = set(re.findall(r"\w{3,}", query.lower()))
    scores = {k: len(words & set(re.findall(r"\w{3,}", t.lower()))) for k, t in texts.items()}
    return sorted((k for k, score in scores.items() if score), key=lambda k: -scores[k])


@contextmanager
def _serve(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serve_fakes() -> Iterator[tuple[str, str]]:
    """Serve the photo service and the web pages; yields their URLs."""
    with _serve(_Photos) as photos, _serve(_Web) as web:
        yield photos, web
