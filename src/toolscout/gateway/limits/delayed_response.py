"""Delay the start of a response until it is known whether its server gets the call."""

from __future__ import annotations

import asyncio

from fastmcp.server.dependencies import get_http_request
from starlette.types import Message, Receive, Scope, Send

from ...sources.mcp.call_queue import PATIENCE_SECONDS, ServerRefusal
from .refusals import OverLimitError, Refusal

DELAYED_KEY = "toolscout.delayed_response"
# By then nearly all calls that are refused have been. Later, a refusal is the result of the call.
_DELAY_SECONDS = PATIENCE_SECONDS + 0.5


class DelayedResponse:
    """A response whose status can still change, until its first message or for a short time.

    An event that only has an id is sent at once: with it a client resumes a stream that breaks.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._kept: list[Message] = []
        self._lock = asyncio.Lock()
        self._timer: asyncio.Task[None] | None = None
        self._is_started = False
        self.refusal: OverLimitError | None = None
        """Why the call was refused, which becomes the answer if nothing was sent yet."""

    @property
    def is_replaced(self) -> bool:
        """Whether the refusal has to be sent instead of what the application answered."""
        return self.refusal is not None and not self._is_started

    async def send(self, message: Message) -> None:
        """Send a message, or keep it."""
        async with self._lock:
            if self.is_replaced:
                return
            if self._is_started:
                await self._send(message)
                return
            self._kept.append(message)
            if _has_answer(message):
                await self._flush()
            elif self._timer is None:
                self._timer = asyncio.create_task(self._flush_later())

    async def finish(self, request_id: str | int | None, scope: Scope, receive: Receive) -> None:
        """Send the refusal, if there is one and it comes in time."""
        async with self._lock:
            if self.is_replaced and self.refusal is not None:
                self._is_started = True
                response = self.refusal.to_response(request_id)
                await response(scope, receive, self._send)
            else:
                await self._flush()

    def close(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    async def _flush_later(self) -> None:
        await asyncio.sleep(_DELAY_SECONDS)
        async with self._lock:
            if not self.is_replaced:
                await self._flush()

    async def _flush(self) -> None:
        self._is_started = True
        kept, self._kept = self._kept, []
        for message in kept:
            await self._send(message)


def _has_answer(message: Message) -> bool:
    """Whether it has a message of the protocol, or is the end of the response."""
    if message["type"] != "http.response.body":
        return message["type"] != "http.response.start"
    body: bytes = message.get("body", b"")
    is_event = b'"jsonrpc"' in body or body.startswith(b"id:")
    return is_event or not message.get("more_body", False)


def refuse_request(refusal: ServerRefusal) -> OverLimitError:
    """Answer the HTTP request with a status, if its response has not begun; the refusal."""
    error = OverLimitError(
        Refusal(refusal.status, refusal.message), retry_seconds=refusal.retry_seconds
    )
    try:
        delayed = get_http_request().scope.get(DELAYED_KEY)
    except RuntimeError:  # the request did not come over HTTP
        return error
    if isinstance(delayed, DelayedResponse):
        delayed.refusal = error
    return error
