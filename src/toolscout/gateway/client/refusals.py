"""Plain answers to requests that are refused because of their Host or Origin header."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# What FastMCP answers, and what to say instead. Another 403 or 421 passes unchanged.
_ANSWERS: Mapping[bytes, bytes] = {
    b"Misdirected Request": (
        b"This gateway does not answer to this host name. If it is right, add it to allowed_hosts"
        b" under [gateway] in the configuration of the gateway, and restart the gateway.\n"
    ),
    b"Forbidden Origin": (
        b"Web pages of this origin may not call this gateway. If they should, add the origin to"
        b" allowed_origins under [gateway] in the configuration of the gateway, and restart the"
        b" gateway.\n"
    ),
}
_STATUSES = (403, 421)


class ExplainedRefusals:
    """An ASGI application whose refusals say which setting to change."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def send_explained(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and message["status"] in _STATUSES:
                start = message  # its headers depend on the body
                return
            if start is not None:
                first, start = start, None
                body = _ANSWERS.get(message.get("body", b""))
                if body is not None:
                    first, message = _with_body(first, body), {**message, "body": body}
                await send(first)
            await send(message)

        await self._app(scope, receive, send_explained)


def _with_body(start: Message, body: bytes) -> Message:
    """The start of a response with the headers of another body."""
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    others = [pair for pair in start["headers"] if pair[0] not in dict(headers)]
    return {**start, "headers": [*others, *headers]}
