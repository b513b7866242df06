"""JSON-RPC dispatcher that tolerates malformed list entries and detects expired HTTP sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
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

_LIST_KEYS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
# The HTTP responses that reject the session of the request sent in this context. The transport
# posts each request in the context of its sender, so concurrent requests do not see each other's.
_REJECTIONS: ContextVar[list[httpx2.Response] | None] = ContextVar("rejections", default=None)


class SessionExpiredError(MCPError):
    """The server no longer knows the session, so it did not run the request."""


@contextmanager
def detect_expired_session() -> Generator[None]:
    """Raise SessionExpiredError if the request inside is rejected because of its session."""
    rejections: list[httpx2.Response] = []
    token = _REJECTIONS.set(rejections)
    try:
        yield
    except MCPError as error:
        # The HTTP status decides, because the error is worded freely: the TypeScript SDK sends
        # -32001 "Session not found", others send no body at all. But a server may also answer
        # an unknown method with 404, and then the session is fine.
        if rejections and error.code != types.METHOD_NOT_FOUND:
            raise SessionExpiredError(error.code, error.message, error.data) from error
        raise
    finally:
        _REJECTIONS.reset(token)


def record_response(response: httpx2.Response) -> None:
    """Remember a response that rejects a session, in the context of its request."""
    rejections, request = _REJECTIONS.get(), response.request
    # The MCP specification: 404 to a request with a session id means that the session is gone.
    is_rejection = response.status_code == HTTPStatus.NOT_FOUND and request.method == "POST"
    if rejections is not None and is_rejection and MCP_SESSION_ID in request.headers:
        rejections.append(response)


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
        with detect_expired_session():
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
