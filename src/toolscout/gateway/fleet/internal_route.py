"""The internal route between gateways: how a request is signed, sent and accepted."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, TypeVar

import httpx2
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import StoreError
from .key_ring import SharedCodec

T = TypeVar("T")

OWNER_GONE = "The gateway that has this session has stopped. Open a new session."
MAY_HAVE_RUN = (
    "The gateway that has this session stopped before it answered. The call may have run: check"
    " before you repeat it."
)

PURPOSE = "toolscout internal route"
"""The purpose of the keys that sign requests between gateways."""

PASSED_ON = "toolscout.passed_on"
"""Marks the scope of a request that came over the internal route; nothing else sets it."""

_HEADER = "toolscout-passed-on"
_CONNECT_SECONDS = 2.0
# For clocks that differ and a busy event loop. A request is sent as soon as it is signed.
_VALID_SECONDS = 60.0
# They describe one connection, and not the request.
_HOP_HEADERS = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding"}
    | {b"upgrade", b"content-length", _HEADER.encode()}
)


class OwnerGoneError(Exception):
    """The gateway does not run any more; nothing was answered."""

    def __init__(self, *, was_sent: bool = False) -> None:
        super().__init__()
        self.was_sent = was_sent


class OwnerSilentError(Exception):
    """The gateway did not answer; `may_have_run` if the request had been sent."""

    def __init__(self, *, may_have_run: bool) -> None:
        super().__init__()
        self.may_have_run = may_have_run


class _Pass(BaseModel):
    """What the sender confirms: for whom a request is, and what it is."""

    model_config = ConfigDict(frozen=True)

    to: str
    method: str
    path: str
    body: str
    scheme: str
    client: tuple[str, int] | None
    expires: float
    # The public address, which the name of a cookie contains. Older gateways do not send it.
    server: tuple[str, int | None] | None = None


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


class PassOnClient:
    """Sends requests to the gateways that they belong to, and their answers back."""

    def __init__(self, codec: SharedCodec) -> None:
        self._codec = codec
        # Streams stay open for as long as their client wants.
        timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
        self._http = httpx2.AsyncClient(timeout=timeout, limits=limits, trust_env=False)

    async def send(
        self,
        owner: str,
        address: str,
        scope: Scope,
        *,
        body: bytes,
        receive: Receive,
        send: Send,
        gone: Coroutine[Any, Any, None],
        last_words: str = "",
    ) -> None:
        """Pass a request on; raises before anything was answered if the owner cannot be reached.

        `gone` ends when the owner does not run any more, in whatever way: one that is frozen keeps
        its connections. A reply that has begun as a stream then ends with an error of these words.
        """
        vanishing = asyncio.create_task(gone)
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            requesting = asyncio.create_task(self._request(owner, address, scope, body))
            response = await _first_of(requesting, vanishing, leaving)
            if response is None and leaving.done():
                return
            if response is None:
                raise OwnerGoneError(was_sent=True)
            try:
                copying = asyncio.create_task(_copy(response, send))
                await _first_of(copying, vanishing, leaving)
                if copying.cancelled() and not leaving.done():
                    await _end_reply(response, send, error_event(body, last_words))
            finally:
                # The owner then sees that the client has gone.
                await response.aclose()
        finally:
            vanishing.cancel()
            leaving.cancel()
            await asyncio.gather(vanishing, leaving, return_exceptions=True)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def _request(
        self, owner: str, address: str, scope: Scope, body: bytes
    ) -> httpx2.Response:
        query = scope["query_string"].decode("latin-1")
        path = f"{scope['path']}?{query}" if query else scope["path"]
        token = self._sign(owner, scope, path, body)
        headers = [*_end_to_end(scope["headers"]), (_HEADER.encode(), token.encode())]
        if body:
            headers.append((b"content-length", str(len(body)).encode()))
        request = httpx2.Request(
            scope["method"], f"{address}{path}", headers=headers, content=body or None
        )
        try:
            response = await self._http.send(request, stream=True)
        except httpx2.ConnectError as error:
            raise OwnerGoneError from error
        except httpx2.ConnectTimeout as error:
            raise OwnerSilentError(may_have_run=False) from error
        except httpx2.HTTPError as error:
            raise OwnerSilentError(may_have_run=True) from error
        # Another gateway has the address now.
        if response.status_code == HTTPStatus.GONE and _HEADER in response.headers:
            await response.aclose()
            raise OwnerGoneError
        return response

    def _sign(self, owner: str, scope: Scope, path: str, body: bytes) -> str:
        signed = _Pass(
            to=owner,
            method=scope["method"],
            path=path,
            body=_digest(body),
            scheme=scope["scheme"],
            client=tuple(scope["client"]) if scope.get("client") else None,
            expires=time.time() + _VALID_SECONDS,
            server=tuple(scope["server"]) if scope.get("server") else None,
        )
        return self._codec.seal(signed.model_dump_json().encode())


class InternalRoute:
    """An ASGI application for the internal address: only signed requests get further."""

    def __init__(self, app: ASGIApp, *, replica: str, codec: SharedCodec) -> None:
        self._app = app
        self._replica = replica
        self._codec = codec

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check who sent a request, and answer it."""
        if scope["type"] != "http":
            return
        signed = await self._verify(Headers(scope=scope).get(_HEADER, ""))
        if signed is None or not _describes(signed, scope):
            refusal = PlainTextResponse(
                "Only gateways with the same store may use this address.\n", HTTPStatus.FORBIDDEN
            )
            await refusal(scope, receive, send)
            return
        if signed.to != self._replica:
            gone = PlainTextResponse(
                "Another gateway runs here.\n", HTTPStatus.GONE, headers={_HEADER: self._replica}
            )
            await gone(scope, receive, send)
            return
        body = await read_body(receive)
        if body is None or _digest(body) != signed.body:
            refusal = PlainTextResponse("The body was changed.\n", HTTPStatus.FORBIDDEN)
            await refusal(scope, receive, send)
            return
        headers = [pair for pair in scope["headers"] if pair[0] != _HEADER.encode()]
        inner = {
            **scope,
            "headers": headers,
            "scheme": signed.scheme,
            "client": signed.client,
            "server": signed.server or scope.get("server"),
            PASSED_ON: True,
        }
        await self._app(inner, replay_body(body, receive), send)

    async def _verify(self, token: str) -> _Pass | None:
        if not token:
            return None
        try:
            payload = await asyncio.to_thread(self._codec.unseal_or_reload, token)
            return _Pass.model_validate_json(payload) if payload is not None else None
        except (StoreError, ValidationError):
            return None


def _describes(signed: _Pass, scope: Scope) -> bool:
    query = scope["query_string"].decode("latin-1")
    path = f"{scope['path']}?{query}" if query else scope["path"]
    is_same = signed.method == scope["method"] and signed.path == path
    return is_same and time.time() < signed.expires


async def read_body(receive: Receive) -> bytes | None:
    """The whole body of a request; None if the client disconnects before its end."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """A receiver that first has a body that was already read."""
    is_sent = False

    async def replay() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def error_response(request_body: bytes, text: str) -> PlainTextResponse:
    """An answer of the protocol to a request that could not be passed on."""
    error = _error_message(read_request(request_body)[0], text)
    return PlainTextResponse(error, HTTPStatus.SERVICE_UNAVAILABLE, media_type="application/json")


def error_event(request_body: bytes, text: str) -> bytes:
    """The same as the last event of a stream; empty if the request expects no answer."""
    key = read_request(request_body)[0]
    if key is None:
        return b""
    return f"event: message\ndata: {_error_message(key, text)}\n\n".encode()


def is_call(request_body: bytes) -> bool:
    """Whether a request calls a tool, which may have effects."""
    return read_request(request_body)[1] == "tools/call"


def last_words(request_body: bytes) -> str:
    """What to answer to a request whose gateway has ended."""
    return MAY_HAVE_RUN if is_call(request_body) else OWNER_GONE


def read_request(body: bytes) -> tuple[Any, Any]:
    """The id and the method of a message of the protocol; None for what it lacks."""
    with suppress(ValueError, RecursionError, AttributeError):
        message = json.loads(body)
        return message.get("id"), message.get("method")
    return None, None


def _error_message(key: object, text: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": key, "error": {"code": -32603, "message": text}})


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in _HOP_HEADERS]


async def _copy(response: httpx2.Response, send: Send) -> None:
    headers = [
        (name.lower(), value)
        for name, value in response.headers.raw
        if name.lower() not in _HOP_HEADERS - {b"content-length"}
    ]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    async for part in response.aiter_raw():
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _first_of(work: asyncio.Task[T], *others: asyncio.Task[None]) -> T | None:
    """The result of the work; None if another task ends first, and the work is cancelled."""
    try:
        await asyncio.wait((work, *others), return_when=asyncio.FIRST_COMPLETED)
        return await work if work.done() else None
    finally:
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


async def _end_reply(response: httpx2.Response, send: Send, event: bytes) -> None:
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    last = event if is_stream else b""
    await send({"type": "http.response.body", "body": last, "more_body": False})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
