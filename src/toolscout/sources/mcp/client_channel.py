"""The client behind a call, as the MCP server that runs the call may reach it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol

import mcp_types as types

from ...catalog.questions import CallUser

InputAnswer = types.InputResponse | types.ErrorData


class ClientChannel(Protocol):
    """One client, as the server it calls may reach it.

    `accepts_input_required`: the client answers a server's questions itself, by calling again
    with `responses` and `state`. Otherwise each question is passed to `answer`. `capabilities` are
    those that the client declares; they decide what it can be asked.
    """

    accepts_input_required: bool
    capabilities: Mapping[str, Any]
    meta: Mapping[str, Any]
    responses: types.InputResponses | None
    state: str | None

    def for_user(self, user: CallUser | None) -> ClientChannel:
        """The channel of one call that may ask this user; itself if it asks its client."""
        ...

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Forward a progress report."""
        ...

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Forward a log message."""
        ...

    async def answer(self, request: types.InputRequest) -> InputAnswer:
        """Ask the client the server's question (elicitation or sampling)."""
        ...


CURRENT_CHANNEL: ContextVar[ClientChannel | None] = ContextVar("client_channel", default=None)
"""The client of the call that runs in this context."""
