"""Sessions that a server has forgotten: which requests it refused for that, and so did not run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from http import HTTPStatus

import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.client.streamable_http import MCP_SESSION_ID

_REFUSALS: ContextVar[list[httpx2.Response] | None] = ContextVar("refusals", default=None)


class SessionExpired(MCPError):
    """The server does not know the session any more; what was asked in it has not run."""


@contextmanager
def detect_expired_session() -> Generator[None]:
    """Tell a request that is refused for its session from one that is refused for itself.

    A server may say it in whatever words; and what it says to one request is not said to another
    that runs beside it, so the status of an answer is looked for where its request came from.
    """
    refusals: list[httpx2.Response] = []
    token = _REFUSALS.set(refusals)
    try:
        yield
    except MCPError as error:
        if refusals and error.code != types.METHOD_NOT_FOUND:
            raise SessionExpired(error.code, error.message, error.data) from error
        raise
    finally:
        _REFUSALS.reset(token)


def record_response(response: httpx2.Response) -> None:
    """Take note of an answer in the context of its request."""
    refusals, asked = _REFUSALS.get(), response.request
    is_refusal = response.status_code == HTTPStatus.NOT_FOUND and asked.method == "POST"
    if refusals is not None and is_refusal and MCP_SESSION_ID in asked.headers:
        refusals.append(response)
