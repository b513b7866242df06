"""JSON-RPC dispatcher that tolerates malformed list entries and detects expired HTTP sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast

import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.client.streamable_http import MCP_SESSION_ID
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from .client_channel import CURRENT_CHANNEL
from .message_repair import contradiction_error, is_contradictory
from .observed_events import observe_events
from .stream_backoff import StreamBackoff

_LIST_KEYS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


@dataclass(slots=True)
class _Exchange:
    """The HTTP responses to one request."""

    responses: list[httpx2.Response] = field(default_factory=list[httpx2.Response])
    has_contradiction: bool = False
    backoff: StreamBackoff = field(default_factory=StreamBackoff)

    @property
    def failures(self) -> list[httpx2.Response]:
        """The responses that are errors or redirects."""
        # A redirect that leads to no answer is one too: the server may have run the request first.
        return [r for r in self.responses if r.status_code >= HTTPStatus.MULTIPLE_CHOICES]

    def add(self, response: httpx2.Response) -> None:
        self.responses.append(response)
        observe_events(response, on_data=self._read_event)

    def _read_event(self, data: bytes) -> None:
        # Most events are not parsed here, but only by the SDK.
        if b'"error"' in data and b'"result"' in data:
            self.has_contradiction |= is_contradictory(data)

    def is_contradictory(self) -> bool:
        """Whether the server answered with both a result and an error."""
        for response in self.responses:
            with suppress(httpx2.ResponseNotRead):  # a stream of events, or a redirect
                self.has_contradiction |= is_contradictory(response.content)
        return self.has_contradiction


# The transport posts each request in the context of its sender, so concurrent requests do not see
# each other's responses.
_EXCHANGE: ContextVar[_Exchange | None] = ContextVar("http_exchange", default=None)


class SessionExpiredError(MCPError):
    """The server no longer knows the session, so it did not run the request."""


class HTTPStatusError(MCPError):
    """The server answered with an HTTP status that is an error or a redirect.

    Unless it is between 400 and 499, the request may have run.
    """

    status_code = 0


@contextmanager
def detect_http_failure() -> Generator[None]:
    """Raise SessionExpiredError if the request inside is rejected because of its session.

    Any other HTTP status that is an error or a redirect raises HTTPStatusError. An answer with
    both a result and an error counts as unreadable.
    """
    exchange = _Exchange()
    token = _EXCHANGE.set(exchange)
    try:
        yield
    except MCPError as error:
        failures = exchange.failures
        # The HTTP status decides, because the error is worded freely: the TypeScript SDK sends
        # -32001 "Session not found", others send no body at all. But a server may also answer
        # an unknown method with 404, and then the session is fine.
        if any(map(_rejects_session, failures)) and error.code != types.METHOD_NOT_FOUND:
            raise SessionExpiredError(error.code, error.message, error.data) from error
        if failures:
            failed = HTTPStatusError(error.code, error.message, error.data)
            failed.status_code = failures[-1].status_code
            raise failed from error
        if exchange.is_contradictory():
            raise contradiction_error() from error
        raise
    finally:
        _EXCHANGE.reset(token)


def record_response(response: httpx2.Response) -> None:
    """Remember a response to a message, in the context of its request."""
    exchange = _EXCHANGE.get()
    if exchange is not None and response.request.method == "POST":
        exchange.add(response)


def request_backoff() -> StreamBackoff | None:
    """The back-off of the streams that resume the request of this context."""
    exchange = _EXCHANGE.get()
    return None if exchange is None else exchange.backoff


def _rejects_session(response: httpx2.Response) -> bool:
    # The MCP specification: 404 to a request with a session id means that the session is gone.
    is_missing = response.status_code == HTTPStatus.NOT_FOUND
    return is_missing and MCP_SESSION_ID in response.request.headers


class LenientDispatcher(JSONRPCDispatcher[Any]):
    """A dispatcher that drops malformed entries from a list instead of failing the whole list."""

    # The protocol that lists are validated against, until one is negotiated.
    version = "2025-11-25"

    def __init__(self, read: Any, write: Any) -> None:
        super().__init__(read, write)
        self.problems: list[str] = []

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Send a request with the client's capabilities; filter the reply if it is a list."""
        with detect_http_failure():
            reply = await super().send_raw_request(
                method, _add_capabilities(params), opts, **options
            )
        if method not in _LIST_KEYS:
            return reply
        # In a thread: validating thousands of tools would block the event loop for seconds.
        return await asyncio.to_thread(self._drop_malformed, method, reply)

    def _drop_malformed(self, method: str, reply: dict[str, Any]) -> dict[str, Any]:
        # The SDK validates a list as a whole, so one bad tool would cost all the others. Only a
        # list that fails as a whole is checked entry by entry.
        if self._is_valid(method, reply):
            return reply
        key = _LIST_KEYS[method]
        valid: list[Any] = []
        items: Any = reply.get(key)
        if not isinstance(items, list):
            self.problems.append(f"{key}: the answer contains no list.")
            items = []
        for item in cast("list[Any]", items):
            if self._is_valid(method, {**reply, key: [item]}):
                valid.append(item)
            else:
                self.problems.append(f"{key}: {_display_name(item)} is malformed and skipped.")
        return {**reply, key: valid}

    def _is_valid(self, method: str, reply: dict[str, Any]) -> bool:
        try:
            validate_server_result(method, self.version, reply)
        except ValidationError:
            return False
        return True


def _add_capabilities(params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Replace our capabilities with the client's in requests that declare any.

    Stateless requests carry capabilities in `_meta`. A handshake declares them only once.
    """
    channel = CURRENT_CHANNEL.get()
    meta: dict[str, Any] = (params or {}).get("_meta") or {}
    if channel is None or types.CLIENT_CAPABILITIES_META_KEY not in meta:
        return params
    capabilities = {types.CLIENT_CAPABILITIES_META_KEY: dict(channel.capabilities)}
    return {**(params or {}), "_meta": {**meta, **capabilities}}


def _display_name(item: Any) -> str:
    name = item.get("name") if isinstance(item, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] -- any value that a server sent
    return repr(name)[:80] if isinstance(name, str) else "an entry without a name"
