"""Route each request to the gateway that it belongs to: of its session or its question."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import StoreError
from .internal_route import (
    MAY_HAVE_RUN,
    PASSED_ON,
    is_call,
    last_words,
    read_body,
    replay_body,
)
from .owner_client import OwnerClient, OwnerWords
from .request_state import ReplicaStateCodec

_SESSION_HEADER = "mcp-session-id"
# The id of the SDK, and the replica that opened the session.
_SESSION_ID = re.compile(r"([0-9a-f]{32})-([0-9a-f]{8})")
_STORE_SILENT = (
    "This session belongs to another gateway, and the store that says where it is does not answer."
    " Try again."
)
_OWNER_SILENT = "The gateway that has this session does not answer. Try again."


def split_session_id(session_id: str) -> tuple[str, str]:
    """The SDK's id of a session, and the replica that it belongs to; empty if it has none."""
    found = _SESSION_ID.fullmatch(session_id)
    return (found[1], found[2]) if found else (session_id, "")


class ReplicaRouter:
    """An ASGI middleware; a request that was passed on is answered here in any case."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        path: str,
        owners: OwnerClient,
        states: ReplicaStateCodec,
        is_refused: Callable[[], bool],
    ) -> None:
        self._app = app
        self._path = path
        self._owners = owners
        self._states = states
        self._is_refused = is_refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let its owner answer it."""
        # Without a valid login the answer is a 401, here as there.
        if scope["type"] != "http" or scope["path"] != self._path or self._is_refused():
            await self._app(scope, receive, send)
            return
        session, owner = split_session_id(Headers(scope=scope).get(_SESSION_HEADER, ""))
        inner = _with_session(scope, session) if owner else scope
        if owner and owner != self._owners.replica and PASSED_ON not in scope:
            body = await read_body(receive)
        elif not owner and scope["method"] == "POST" and PASSED_ON not in scope:
            body = await read_body(receive)
            owner = await self._find_asking_replica(body or b"")
        else:
            await self._app(inner, receive, self._mark_session(send))
            return
        if body is None:  # the client disconnected
            return
        if owner and owner != self._owners.replica:
            words = _words_for(body)
            if await self._owners.pass_on(owner, scope, body, receive, send, words=words):
                return
        # Without its owner the session is unknown, and the SDK says so.
        await self._app(inner, replay_body(body, receive), self._mark_session(send))

    async def _find_asking_replica(self, body: bytes) -> str:
        """The replica whose question a request answers; empty if it does not answer one."""
        if b'"requestState"' not in body:
            return ""
        try:
            message: Any = json.loads(body)
            token: object = message["params"]["requestState"]
        except (ValueError, RecursionError, LookupError, TypeError):
            return ""
        if not isinstance(token, str):
            return ""
        try:
            return await asyncio.to_thread(self._states.find_replica, token)
        except StoreError:
            return ""

    def _mark_session(self, send: Send) -> Send:
        """Add this replica to the id of a session that opens here."""

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                session_id = headers.get(_SESSION_HEADER, "")
                if session_id and not split_session_id(session_id)[1]:
                    headers[_SESSION_HEADER] = f"{session_id}-{self._owners.replica}"
            await send(message)

        return send_marked


def _words_for(body: bytes) -> OwnerWords:
    return OwnerWords(
        owner_silent=_OWNER_SILENT,
        store_silent=_STORE_SILENT,
        may_have_run=MAY_HAVE_RUN if is_call(body) else "",
        last_words=last_words(body),
    )


def _with_session(scope: Scope, session_id: str) -> Scope:
    name = _SESSION_HEADER.encode()
    headers = [pair for pair in scope["headers"] if pair[0] != name]
    return {**scope, "headers": [*headers, (name, session_id.encode())]}
