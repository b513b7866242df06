"""What a server may say to its caller while a call runs, and how the two find each other."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol

import mcp_types as types

InputAnswer = types.InputResponse | types.ErrorData


class ClientChannel(Protocol):
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

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Pass a progress report on."""
        ...

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Pass a log message on."""
        ...

    async def answer(self, request: types.InputRequest) -> InputAnswer:
        """Put a server's question (elicitation or sampling) to the caller."""
        ...


CURRENT_CHANNEL: ContextVar[ClientChannel | None] = ContextVar("exchange", default=None)
"""The exchange of the call that runs in this context."""
