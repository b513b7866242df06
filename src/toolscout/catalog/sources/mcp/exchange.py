"""What a server may say to its caller while a call runs, and how the two find each other."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol

import mcp_types as types

Answer = types.InputResponse | types.ErrorData


class Exchange(Protocol):
    """One caller, as far as the server it calls may talk back to it.

    `takes_unfinished` says that the caller answers a server's questions itself, by calling again
    with `responses` and `state`; otherwise they are put to it through `answer`. `capabilities`
    are what it can be asked at all, as a client declares them.
    """

    takes_unfinished: bool
    capabilities: Mapping[str, Any]
    meta: Mapping[str, Any]
    responses: types.InputResponses | None
    state: str | None

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass a progress report on."""
        ...

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Pass a log message on."""
        ...

    async def answer(self, request: types.InputRequest) -> Answer:
        """Put a server's question (elicitation or sampling) to the caller."""
        ...


CURRENT: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
"""The exchange of the call that runs in this context."""
