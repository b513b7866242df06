"""Limits on HTTP requests: the size of a body and its time, and how many sessions and calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol, cast

from fastmcp.server.dependencies import get_http_request
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .call_limits import CallLimits, CallPermit
from .delayed_response import DELAYED_KEY, DelayedResponse
from .limit_settings import LimitSettings
from .refusals import OverLimitError, Refusal
from .session_limits import SessionLimits
from .stream_limits import StreamLimits

_SESSION_HEADER = "mcp-session-id"
_VERSION_HEADER = "mcp-protocol-version"
_PERMIT_KEY = "toolscout.call_permit"
_DRAIN_SECONDS = 1.0
_LISTEN = "subscriptions/listen"
# These have limits of their own: for sessions, streams or notifications.
_FREE_METHODS = frozenset({"ping", "initialize", "server/discover", _LISTEN})
_TOO_LARGE = Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The request is too large.", closes=True)
_TOO_SLOW = Refusal(
    HTTPStatus.REQUEST_TIMEOUT, "The body of the request took too long to arrive.", closes=True
)
_TOO_MANY_BODIES = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE, "Too many large requests arrive at once.", closes=True
)


class RefusalListener(Protocol):
    """Records a request that is over a limit."""

    def __call__(
        self, refusal: Refusal, *, method: str, params: Mapping[str, Any], principal: str
    ) -> None:
        """Record who asked for what, and why it was refused."""
        ...


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of a gateway's HTTP requests, and what they count.

    `needs_login` says whether callers must authenticate, and `principal` who calls. `on_refusal`
    records a request that is refused.
    """

    path: str
    settings: Callable[[], LimitSettings]
    calls: CallLimits
    sessions: SessionLimits
    streams: StreamLimits
    needs_login: Callable[[], bool]
    principal: Callable[[], str]
    on_refusal: RefusalListener


class RequestGuard:
    """An ASGI middleware that refuses requests over a limit before the gateway works on them."""

    def __init__(self, app: ASGIApp, limits: RequestLimits) -> None:
        self._app = app
        self._limits = limits
        self._buffered_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        principal = self._limits.principal()
        is_refused_anyway = self._limits.needs_login() and not principal
        if scope["path"] == self._limits.path and is_refused_anyway:
            await self._app(scope, receive, send)  # a 401, for which no body is read
            return
        request = None
        try:
            body = await self._read_body(scope, receive)
            if body is None:  # the client disconnected
                return
            request = _JSONRequest.parse(body)
            replay = _replay(body, receive)
            if scope["path"] != self._limits.path:
                await self._app(scope, replay, send)
            elif _opens_session(Headers(scope=scope)):
                await self._open_session(principal, scope, replay, send)
            else:
                await self._run(request, principal, scope, replay, send)
        except OverLimitError as error:
            if scope["path"] == self._limits.path:
                known = request or _JSONRequest()
                self._limits.on_refusal(
                    error.refusal, method=known.method, params=known.params, principal=principal
                )
            if error.refusal.closes:
                await _drain(scope, receive)
            response = error.to_response(request.id if request else None)
            await response(scope, receive, send)

    async def _run(
        self, request: _JSONRequest, principal: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if request.id is not None and request.method == _LISTEN:
            self._limits.calls.count(principal)
            with self._limits.streams.admit(principal):
                await self._app(scope, receive, send)
            return
        if not request.is_counted:
            self._limits.calls.count_notification(principal)
            await self._app(scope, receive, send)
            return
        permit = self._limits.calls.admit(principal)
        delayed = DelayedResponse(send)
        with permit:
            try:
                granted = {**scope, _PERMIT_KEY: permit, DELAYED_KEY: delayed}
                await self._app(granted, receive, delayed.send)
                await delayed.finish(request.id, scope, receive)
            finally:
                delayed.close()

    async def _open_session(
        self, principal: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        ticket = self._limits.sessions.admit(principal)

        async def note_session(message: Message) -> None:
            if message["type"] == "http.response.start":
                is_opened = message["status"] < HTTPStatus.BAD_REQUEST
                session_id = Headers(raw=message["headers"]).get(_SESSION_HEADER, "")
                self._limits.sessions.settle(ticket, session_id if is_opened else "")
            await send(message)

        try:
            await self._app(scope, receive, note_session)
        finally:
            self._limits.sessions.settle(ticket, "")

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body of a request; None if the client disconnects before its end."""
        settings = self._limits.settings()
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > settings.request_bytes:
            raise OverLimitError(_TOO_LARGE, retry_seconds=0)
        body = bytearray()
        try:
            async with asyncio.timeout(settings.request_seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    self._append(body, message.get("body", b""), settings)
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError as error:
            raise OverLimitError(_TOO_SLOW, retry_seconds=0) from error
        finally:
            self._buffered_bytes -= len(body)

    def _append(self, body: bytearray, part: bytes, settings: LimitSettings) -> None:
        body += part
        self._buffered_bytes += len(part)
        if len(body) > settings.request_bytes:
            raise OverLimitError(_TOO_LARGE, retry_seconds=0)
        if self._buffered_bytes > settings.request_buffer_bytes:
            raise OverLimitError(_TOO_MANY_BODIES)


async def _drain(scope: Scope, receive: Receive) -> None:
    """Discard what still arrives of a body, for a moment.

    A client that is still sending when the connection closes gets a reset instead of the answer.
    """
    if "expect" in Headers(scope=scope):  # it waits for the answer before it sends
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            message = await receive()
            while message["type"] == "http.request" and message.get("more_body", False):
                message = await receive()


@dataclass(frozen=True, slots=True)
class _JSONRequest:
    """The id, method and parameters of a JSON-RPC message, as far as it has them."""

    id: Any = None
    method: str = ""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def parse(cls, body: bytes) -> _JSONRequest:
        try:
            message: object = json.loads(body)
        except (ValueError, RecursionError):  # the SDK answers it with a parse error
            return cls()
        if not isinstance(message, dict):
            return cls()
        table = cast("dict[str, Any]", message)
        key, method = table.get("id"), table.get("method")
        is_valid = isinstance(key, str | int) and not isinstance(key, bool)
        params = table.get("params")
        return cls(
            key if is_valid else None,
            method if isinstance(method, str) else "",
            cast("dict[str, Any]", params) if isinstance(params, dict) else {},
        )

    @property
    def is_counted(self) -> bool:
        """Whether it makes the gateway work; notifications and responses do not."""
        return self.id is not None and self.method not in ("", *_FREE_METHODS)


def _opens_session(headers: Headers) -> bool:
    """Whether a request asks for a new session, which only the handshake versions have."""
    version = headers.get(_VERSION_HEADER)
    is_handshake = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
    return is_handshake and _SESSION_HEADER not in headers


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receiver that first has the body as one message, and then what comes after it."""
    is_sent = False

    async def replay() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


class PermitMiddleware(Middleware):
    """Keeps the permit of a call until the call has ended; over stdio, asks for one."""

    def __init__(self, calls: CallLimits, *, on_refusal: RefusalListener) -> None:
        self._calls = calls
        self._on_refusal = on_refusal

    async def on_request(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Run a request with its permit."""
        if context.method in _FREE_METHODS:
            return await call_next(context)
        try:
            permit = _http_permit(self._calls)
        except OverLimitError as error:
            self._on_refusal(
                error.refusal,
                method=context.method or "",
                params=_params(context.message),
                principal="",
            )
            raise error.to_rpc_error() from error
        if permit is None:
            return await call_next(context)
        with permit:
            return await call_next(context)


def _params(message: object) -> Mapping[str, Any]:
    return message.model_dump() if isinstance(message, BaseModel) else {}


def _http_permit(calls: CallLimits) -> CallPermit | None:
    """The permit of the HTTP request that is answered; a new one over stdio."""
    try:
        return get_http_request().scope.get(_PERMIT_KEY)
    except RuntimeError:  # the request did not come over HTTP
        return calls.admit("")
