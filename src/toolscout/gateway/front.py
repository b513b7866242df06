"""The caller's side of a call: what an upstream may say to the client while it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import mcp_types as types
from fastmcp.server.context import Context
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ..catalog.sources.mcp.exchange import Answer

_OF_THE_CONNECTION = frozenset(
    {
        types.PROTOCOL_VERSION_META_KEY,
        types.CLIENT_INFO_META_KEY,
        types.CLIENT_CAPABILITIES_META_KEY,
        "progressToken",
        "progress_token",
    }
)

_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)


class Front:
    """A connected client, as an upstream's call reaches it."""

    def __init__(self, context: Context, *, level: types.LoggingLevel = "info") -> None:
        request = context.request_context
        assert request is not None, "a front exists only while a request runs"
        self._session: ServerSession = context.session
        self._request_id = request.request_id
        self.is_stateless = request.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.takes_unfinished = self.is_stateless
        self.capabilities: Mapping[str, Any] = _capabilities(self._session)
        self.meta: Mapping[str, Any] = {
            key: value
            for key, value in (request.meta or {}).items()
            if key not in _OF_THE_CONNECTION
        }
        if not self.is_stateless:
            self.meta = {**self.meta, types.LOG_LEVEL_META_KEY: level}
        self._level = _LEVELS.index(level)
        self.responses = context.input_responses
        self.state = context.request_state

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass a progress report on, if the client asked for any."""
        await self._session.report_progress(progress, total, message)

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Pass a log message on, on the stream of the call it belongs to, if it is wanted."""
        if not self.is_stateless and _LEVELS.index(message.level) < self._level:
            return
        await self._session.send_notification(
            types.LoggingMessageNotification(params=message), related_request_id=self._request_id
        )

    def can_answer(self, request: types.InputRequest) -> bool:
        """Whether the client has said that it can be asked such a thing."""
        has = self._session.client_capabilities or types.ClientCapabilities()
        match request:
            case types.ElicitRequest():
                return has.elicitation is not None
            case types.CreateMessageRequest():
                return has.sampling is not None
            case types.ListRootsRequest():
                return has.roots is not None

    async def answer(self, request: types.InputRequest) -> Answer:
        """Ask the client; one that cannot be asked is an error that says so."""
        kind: Any = {
            "elicitation/create": types.ElicitResult,
            "sampling/createMessage": types.CreateMessageResult,
            "roots/list": types.ListRootsResult,
        }[request.method]
        try:
            return await self._session.send_request(
                request,
                kind,
                metadata=ServerMessageMetadata(related_request_id=self._request_id),
            )
        except MCPError as error:
            return error.error
        except ValidationError:
            return types.ErrorData(
                code=types.INVALID_REQUEST, message="The client's answer was not one."
            )


def _capabilities(session: ServerSession) -> dict[str, Any]:
    """What the client can be asked, as it declared it."""
    has = session.client_capabilities or types.ClientCapabilities()
    asked = has.model_copy(update={"experimental": None, "extensions": None, "tasks": None})
    return asked.model_dump(mode="json", by_alias=True, exclude_none=True)
