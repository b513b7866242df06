"""The answer to a request that is over a limit."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from mcp.shared.exceptions import MCPError
from starlette.responses import Response

OVER_LIMIT = -32029
"""The JSON-RPC error code of a request that is over a limit."""

SHORT_WAIT_SECONDS = 1.0
"""How soon to try again when something is full, and nothing says how long that lasts."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused: an HTTP status, and a sentence.

    `closes` is for a connection of which no further request can be read.
    """

    status: int
    text: str
    closes: bool = False

    def to_response(self, *, retry_seconds: float = 0.0, request_id: Any = None) -> Response:
        """The refusal as a JSON-RPC error, which an MCP client shows to its user."""
        headers = {"connection": "close"} if self.closes else {}
        data: dict[str, Any] = {"status": self.status}
        if retry_seconds:
            headers["retry-after"] = str(_whole_seconds(retry_seconds))
            data["retry_after_seconds"] = _whole_seconds(retry_seconds)
        error = {"code": OVER_LIMIT, "message": self.text, "data": data}
        body = json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error})
        return Response(
            body, status_code=self.status, headers=headers, media_type="application/json"
        )

    def to_http(self, *, retry_seconds: float = 0.0) -> bytes:
        """The refusal as the bytes of a whole response, for a connection without a request."""
        response = self.to_response(retry_seconds=retry_seconds)
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in response.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + bytes(response.body)


class OverLimitError(Exception):
    """A request that is over a limit, and how soon it may be tried again."""

    def __init__(self, refusal: Refusal, *, retry_seconds: float = SHORT_WAIT_SECONDS) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal
        self.retry_seconds = retry_seconds

    def to_response(self, request_id: Any = None) -> Response:
        """The answer to the request."""
        return self.refusal.to_response(retry_seconds=self.retry_seconds, request_id=request_id)

    def to_rpc_error(self) -> MCPError:
        """The answer to a request that did not come over HTTP."""
        wait = _whole_seconds(self.retry_seconds)
        data = {"status": self.refusal.status, "retry_after_seconds": wait}
        return MCPError(OVER_LIMIT, self.refusal.text, data)


def _whole_seconds(seconds: float) -> int:
    return max(1, math.ceil(seconds))
