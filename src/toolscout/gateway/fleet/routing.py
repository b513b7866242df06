"""Route each request to the gateway that it belongs to: of its session or its question."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import StoreError
from .internal_route import (
    MAY_HAVE_RUN,
    PASSED_ON,
    OwnerGoneError,
    OwnerSilentError,
    PassOnClient,
    error_response,
    is_call,
    last_words,
    read_body,
    replay_body,
)
from .replicas import ReplicaRegistry
from .request_state import ReplicaStateCodec

log = logging.getLogger(__name__)
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
        registry: ReplicaRegistry,
        client: PassOnClient,
        states: ReplicaStateCodec,
        is_refused: Callable[[], bool],
    ) -> None:
        self._app = app
        self._path = path
        self._registry = registry
        self._client = client
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
        if owner and owner != self._registry.replica and PASSED_ON not in scope:
            body = await read_body(receive)
        elif not owner and scope["method"] == "POST" and PASSED_ON not in scope:
            body = await read_body(receive)
            owner = await self._find_asking_replica(body or b"")
        else:
            await self._app(inner, receive, self._mark_session(send))
            return
        if body is None:  # the client disconnected
            return
        if owner and owner != self._registry.replica:
            is_done = await self._pass_on(owner, scope, body, receive, send)
            if is_done:
                return
        # Without its owner the session is unknown, and the SDK says so.
        await self._app(inner, replay_body(body, receive), self._mark_session(send))

    async def _pass_on(
        self, owner: str, scope: Scope, body: bytes, receive: Receive, send: Send
    ) -> bool:
        """Whether the owner, or an error, has answered; if not, the owner is gone."""
        try:
            address = await asyncio.to_thread(self._registry.find_address, owner)
            if address is None:
                return False
            await self._client.send(
                owner,
                address,
                scope,
                body=body,
                receive=receive,
                send=send,
                gone=self._registry.wait_until_gone(owner),
                last_words=last_words(body),
            )
        except OwnerGoneError as error:
            self._registry.forget(owner)
            if not (error.was_sent and is_call(body)):
                return False
            await error_response(body, MAY_HAVE_RUN)(scope, receive, send)
        except StoreError as error:
            log.warning("A request cannot be passed on: %s", error.message)
            await error_response(body, _STORE_SILENT)(scope, receive, send)
        except OwnerSilentError as error:
            self._registry.forget(owner)
            text = MAY_HAVE_RUN if error.may_have_run else _OWNER_SILENT
            await error_response(body, text)(scope, receive, send)
        return True

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
                    headers[_SESSION_HEADER] = f"{session_id}-{self._registry.replica}"
            await send(message)

        return send_marked


def _with_session(scope: Scope, session_id: str) -> Scope:
    name = _SESSION_HEADER.encode()
    headers = [pair for pair in scope["headers"] if pair[0] != name]
    return {**scope, "headers": [*headers, (name, session_id.encode())]}
