"""An HTTP server that answers calls badly: `python flood.py PORT KIND`; no SDK behind it.

With the kind `any`, the argument `text` of a call decides.
"""

from __future__ import annotations

import gzip
import itertools
import json
import sys
import time
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

PORT, KIND = int(sys.argv[1]), sys.argv[2]
PIECE = b"y" * 65_536
TOOL = {"name": "echo", "description": "Say it back.", "inputSchema": {"type": "object"}}
HANDSHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "flood", "version": "1"},
}
PRIMING = "retry: 0\nid: 5\ndata: \n\n"
ran = 0
opened: list[float] = []
polling_call = 0


def endless(start: bytes) -> Iterator[bytes]:
    """1.5 GB, unless the reader stops."""
    yield start
    for _ in itertools.islice(itertools.count(), 24_000):
        yield PIECE


def bomb() -> bytes:
    """A gigabyte of blanks, small on the wire."""
    return gzip.compress(b'{"jsonrpc": "2.0"' + b" " * 1_000_000_000, 1)


def send_too_much(kind: str) -> Response:
    json_type, start = "application/json", b'{"jsonrpc": "2.0", "x": "'
    match kind:
        case "body":
            return StreamingResponse(endless(start), media_type=json_type)
        case "line":
            return StreamingResponse(endless(b"data: " + start), media_type="text/event-stream")
        case "error body":
            return StreamingResponse(endless(start), status_code=500, media_type=json_type)
        case "bomb":
            return Response(bomb(), media_type=json_type, headers={"content-encoding": "gzip"})
        case _:
            headers = {"content-encoding": "gzip, gzip"}
            return Response(gzip.compress(b"{}"), media_type=json_type, headers=headers)


BROKE = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "It broke"}}
UNCLEAR = {
    "500": lambda: Response("Internal Server Error", status_code=500),
    "500 json": lambda: JSONResponse(BROKE, status_code=500),
    "504": lambda: Response("<html>Gateway Time-out", status_code=504, media_type="text/html"),
    "429": lambda: Response("Slow down", status_code=429),
    "html": lambda: Response("<html>Welcome", media_type="text/html"),
    "nonsense": lambda: Response("{not json", media_type="application/json"),
    "event": lambda: Response("data: {not json\n\n", media_type="text/event-stream"),
    "302": lambda: Response(status_code=302, headers={"location": "/ran"}),
    "303": lambda: Response("See /ran", status_code=303, headers={"location": "/ran"}),
    "307": lambda: Response(status_code=307, headers={"location": "/mcp"}),
    "308": lambda: Response(status_code=308, headers={"location": "/other"}),
    "202": lambda: Response(status_code=202),
}

ERRORS = {
    "internal error": {"error": {"code": -32603, "message": "Lost after commit"}},
    "result and error": {"result": {"content": []}, "error": {"code": 1, "message": "No"}},
    "no such method": {"error": {"code": -32601, "message": "Method not found"}},
    "wrong arguments": {"result": None, "error": {"code": -32602, "message": "No such order"}},
}


def answer_with_error(kind: str, key: int) -> Response:
    """A JSON-RPC error with status 200, as a body or as an event."""
    message = {"jsonrpc": "2.0", "id": key, **ERRORS[kind.removesuffix(" event")]}
    if kind.endswith(" event"):
        text = f"event: message\r\ndata: {json.dumps(message)}\r\n\r\n"
        return StreamingResponse(iter([text[:40], text[40:]]), media_type="text/event-stream")
    return JSONResponse(message)


def open_stream() -> Response:
    """A stream that ends at once; only the fifth one has an event."""
    opened.append(time.monotonic())
    message = {"method": "notifications/message", "params": {"level": "info", "data": "x"}}
    if KIND == "polls":
        message = {"id": polling_call, "result": {"content": [{"type": "text", "text": "done"}]}}
    event = f"retry: 0\nid: 6\ndata: {json.dumps({'jsonrpc': '2.0', **message})}\n\n"
    return Response(event if len(opened) == 5 else PRIMING, media_type="text/event-stream")


def answer_get(path: str) -> Response:
    if path == "/opened":
        return JSONResponse(opened)
    if path == "/mcp" and KIND in ("reconnects", "polls"):
        return open_stream()
    return Response(str(ran), status_code=200 if path == "/ran" else 405)


async def answer(request: Request) -> Response:
    global ran, polling_call
    if request.method != "POST":
        return answer_get(request.url.path)
    message = json.loads(await request.body())
    key, method = message.get("id"), message["method"]
    results = {"initialize": HANDSHAKE, "tools/list": {"tools": [TOOL]}}
    if key is None:
        return Response(status_code=202)
    if method == "tools/call":
        ran += 1
        kind = message["params"]["arguments"]["text"] if KIND == "any" else KIND
        if kind == "polls":
            polling_call = key
            return Response(PRIMING, media_type="text/event-stream")
        if kind.removesuffix(" event") in ERRORS:
            return answer_with_error(kind, key)
        if kind != "gzip":
            return UNCLEAR[kind]() if kind in UNCLEAR else send_too_much(kind)
        content = [{"type": "text", "text": "small again"}]
        body = json.dumps({"jsonrpc": "2.0", "id": key, "result": {"content": content}})
        headers = {"content-encoding": "gzip"}
        packed = gzip.compress(body.encode())
        return Response(packed, media_type="application/json", headers=headers)
    if method not in results:
        error = {"code": -32601, "message": "Method not found"}
        return JSONResponse({"jsonrpc": "2.0", "id": key, "error": error})
    # Only a session has a stream of its own.
    headers = {"mcp-session-id": "one"} if KIND == "reconnects" else {}
    body = {"jsonrpc": "2.0", "id": key, "result": results[method]}
    return JSONResponse(body, headers=headers)


app = Starlette(routes=[Route("/{path}", answer, methods=["GET", "POST", "DELETE"])])
uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="info")
