"""Resume a stream whose gateway has ended, with the events that it wrote to the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import StoreError
from ..client.event_store import read_message, split_event_id
from .internal_route import error_event, error_response, last_words
from .sealed_events import EventKind, OpenEvent
from .shared_events import SharedEvents, StreamOrigin, current_origin

log = logging.getLogger(__name__)
_SESSION_HEADER = "mcp-session-id"
_VERSION_HEADER = "mcp-protocol-version"
_EVENT_HEADER = "last-event-id"
_STORE_SILENT = "The store that has the events of this stream does not answer. Try again."


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRules:
    """What the recovery has to know of the gateway.

    `is_open` says whether a session is open here, `is_local` whether this process had a stream;
    such a stream has ended with its session, and is not resumed.
    """

    path: str
    is_open: Callable[[str], bool]
    is_local: Callable[[str], bool]
    is_refused: Callable[[], bool]
    principal: Callable[[], str]


class StreamRecovery:
    """An ASGI middleware inside the routing; it also notes where the events of streams belong."""

    def __init__(self, app: ASGIApp, *, events: SharedEvents, rules: RecoveryRules) -> None:
        self._app = app
        self._events = events
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request of a stream of a session that is gone, or pass a request on."""
        rules = self._rules
        if scope["type"] != "http" or scope["path"] != rules.path or rules.is_refused():
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        # Stateless clients have neither sessions nor events.
        if headers.get(_VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS:
            await self._app(scope, receive, send)
            return
        session = headers.get(_SESSION_HEADER, "")
        event_id = headers.get(_EVENT_HEADER, "") if scope["method"] == "GET" else ""
        if event_id and session and not rules.is_open(session):
            response = await self._recover(event_id, session)
            if response is not None:
                await response(scope, receive, send)
                return
        origin = StreamOrigin(rules.principal(), session)
        before = current_origin.set(origin)
        try:
            await self._app(scope, _note_body(receive, origin), _note_session(send, origin))
        finally:
            current_origin.reset(before)

    async def _recover(self, event_id: str, session: str) -> Response | None:
        """The rest of a stream; None if nothing of it is known, and the session is unknown too."""
        position = split_event_id(event_id)
        if position is None or self._rules.is_local(position[0]):
            return None
        token, number = position
        principal = self._rules.principal()
        try:
            events = await asyncio.to_thread(
                self._events.read, token, session=session, principal=principal
            )
        except StoreError as error:
            log.warning("A stream cannot be resumed: %s", error)
            return error_response(b"", _STORE_SILENT)
        rest = b"".join(_render(events, token, after=number)) if events else b""
        return Response(rest, media_type="text/event-stream") if rest else None


def _render(events: list[OpenEvent], token: str, *, after: int) -> list[bytes]:
    """The events that the client lacks; if the answer was never written, an error answers."""
    parts = [
        b"event: message\ndata: %b\nid: %b-%d\n\n"
        % (read_message(event.data), token.encode(), event.number)
        for event in events
        if event.kind is not EventKind.REQUEST and event.number > after
    ]
    if not any(event.kind is EventKind.ANSWER for event in events):
        requests = [event.data for event in events if event.kind is EventKind.REQUEST]
        parts += [error_event(request, last_words(request)) for request in requests]
    return parts


def _note_body(receive: Receive, origin: StreamOrigin) -> Receive:
    async def noting() -> Message:
        message = await receive()
        if message["type"] == "http.request":
            origin.request += message.get("body", b"")
        return message

    return noting


def _note_session(send: Send, origin: StreamOrigin) -> Send:
    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start" and not origin.session:
            origin.session = Headers(scope=message).get(_SESSION_HEADER, "")
        await send(message)

    return noting
