"""Why a token was refused, in the answer to the request that sent it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextvars import ContextVar
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_CHALLENGE = b"www-authenticate"
_BODY_HEADERS = (b"content-length", b"content-type")
_DESCRIPTION = re.compile(r'error_description="[^"]*"')
_UNKNOWN = "The token is not known here, or no longer valid. Get a new one and connect again."
_RETRY_SECONDS = 5


class TokenRefusedError(Exception):
    """A token that is not accepted; the text names no value of the token or the configuration."""

    is_temporary = False


class IssuerUnavailableError(TokenRefusedError):
    """A token that cannot be checked now, because its issuer does not answer."""

    is_temporary = True


_refusals: ContextVar[list[TokenRefusedError] | None] = ContextVar("token_refusals", default=None)


def note_refusal(refusal: TokenRefusedError) -> None:
    """Remember why the token of the current request is refused."""
    refusals = _refusals.get()
    if refusals is not None:
        refusals.append(refusal)


class ExplainedChallenges:
    """An ASGI application whose answers to a refused token (401) say what is wrong with it.

    If the issuer of the token does not answer, the token may well be right: that is a 503.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusals: list[TokenRefusedError] = []
        token = _refusals.set(refusals)
        start: Message | None = None

        async def send_explained(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_refusal(message):
                start = message  # its headers depend on the body
                return
            if start is not None:
                first, start = start, None
                for part in _explain(first, refusals[-1] if refusals else None):
                    await send(part)
                return
            await send(message)

        try:
            await self._app(scope, receive, send_explained)
        finally:
            _refusals.reset(token)


def _is_refusal(start: Message) -> bool:
    challenge = dict(start["headers"]).get(_CHALLENGE, b"")
    return start["status"] == HTTPStatus.UNAUTHORIZED and b'error="invalid_token"' in challenge


def _explain(start: Message, refusal: TokenRefusedError | None) -> tuple[Message, Message]:
    reason = str(refusal) if refusal else _UNKNOWN
    headers = {name: value for name, value in start["headers"] if name not in _BODY_HEADERS}
    if refusal is not None and refusal.is_temporary:
        del headers[_CHALLENGE]
        headers[b"retry-after"] = str(_RETRY_SECONDS).encode()
        body = {"error": "temporarily_unavailable", "error_description": reason}
        return _response(HTTPStatus.SERVICE_UNAVAILABLE, headers, body)
    challenge = headers[_CHALLENGE].decode("latin-1")
    headers[_CHALLENGE] = _DESCRIPTION.sub(f'error_description="{reason}"', challenge).encode()
    body = {"error": "invalid_token", "error_description": reason}
    return _response(HTTPStatus.UNAUTHORIZED, headers, body)


def _response(
    status: int, headers: Mapping[bytes, bytes], content: Mapping[str, str]
) -> tuple[Message, Message]:
    body = json.dumps(content).encode()
    more = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    start = {"type": "http.response.start", "status": status, "headers": [*headers.items(), *more]}
    return start, {"type": "http.response.body", "body": body}
