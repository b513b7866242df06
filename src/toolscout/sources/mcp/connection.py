"""One live session with a server, owned by one task from first byte to last."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, cast

import httpx2
import mcp_types as types
from mcp import ClientSession, MCPError, StdioServerParameters
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import listen
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..http_client import create_http_client
from . import expired_session as forgotten
from .client_channel import CURRENT_CHANNEL, ClientChannel, InputAnswer
from .listing import LenientDispatcher
from .message_repair import is_disconnect
from .servers import Protocol, Server
from .streams import MonitoredStream, StderrTail, wait_for_first

log = logging.getLogger(__name__)
_MAX_EVENT_BYTES = 64 * 1024 * 1024
_CLOSE_TIMEOUT_SECONDS = 5.0


class UnvalidatedSession(ClientSession):
    """A session that hands results on as they are: judging them is the caller's business."""

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Let every result pass."""


class Connection:
    """An open session; requests may come from any task, but one task alone opens and closes it."""

    dispatcher: LenientDispatcher

    def __init__(
        self,
        server: Server,
        *,
        protocol: Protocol,
        talks_back: bool = False,
        auth: httpx2.Auth | None = None,
    ) -> None:
        self.ended = asyncio.Event()
        self.changed = asyncio.Event()
        self.free = asyncio.Event()
        self.free.set()
        self.updated: Callable[[str], None] | None = None
        self.calls: list[ClientChannel] = []
        self.has_asked = False
        self.served = 0
        self.status_code = 0
        self._server = server
        self._protocol: Protocol = protocol
        self._talks_back = talks_back
        self._users = 0
        self._auth = auth
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[UnvalidatedSession] = asyncio.get_running_loop().create_future()
        self._tail = StderrTail()
        # A fresh context: the task outlives the caller that happened to need it first.
        self._task = asyncio.create_task(
            self._run(), name=f"mcp {server.name}", context=contextvars.Context()
        )

    @property
    def session(self) -> UnvalidatedSession:
        """The session; only once `opened` has returned."""
        return self._ready.result()

    @property
    def is_stateless(self) -> bool:
        """Whether the server speaks the stateless generation of the protocol."""
        return self.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def announces_changes(self) -> bool:
        """Whether the server says when its list of tools changes."""
        has = self.session.server_capabilities
        return bool(has and has.tools and has.tools.list_changed)

    @property
    def stderr_tail(self) -> str:
        """The end of what the server's process wrote to its error stream."""
        return self._server.redact(self._tail.text)

    async def wait_until_open(self, timeout_seconds: float) -> None:
        """Wait until the session is open; raise what prevented it."""
        async with asyncio.timeout(timeout_seconds):
            await asyncio.shield(self._ready)

    async def close(self) -> None:
        """End the session and its process."""
        self._stop.set()
        if not self._ready.done():
            self._task.cancel()
        # Whoever stops a process waits with limits of its own, and loses it if interrupted.
        is_process = self._server.transport == "stdio"
        patience = min(_CLOSE_TIMEOUT_SECONDS, self._server.limits.connect_timeout_seconds)
        await asyncio.wait([self._task], timeout=None if is_process else patience)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=patience)

    @contextmanager
    def mark_busy(self) -> Generator[None]:
        """Something runs on the session: it is `free` only when nothing does."""
        self._users += 1
        self.free.clear()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self.free.set()

    async def follow_changes(self) -> None:
        """Hear of changed lists from a stateless server, for as long as it tells."""
        capabilities = self.session.server_capabilities or types.ServerCapabilities()
        async with listen(
            self.session,
            tools_list_changed=bool(capabilities.tools and capabilities.tools.list_changed),
            prompts_list_changed=bool(capabilities.prompts and capabilities.prompts.list_changed),
            resources_list_changed=bool(
                capabilities.resources and capabilities.resources.list_changed
            ),
        ) as events:
            # What changed before the server began to tell was not told.
            self.changed.set()
            async for _ in events:
                self.changed.set()

    async def _run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                read, write = await self._open_transport(stack)
                self.dispatcher = LenientDispatcher(MonitoredStream(read, self.ended), write)
                session = await stack.enter_async_context(
                    UnvalidatedSession(
                        dispatcher=self.dispatcher,
                        sampling_callback=self._sample if self._talks_back else None,
                        elicitation_callback=self._elicit if self._talks_back else None,
                        logging_callback=self._forward_log,
                        message_handler=self._handle_message,
                        client_info=types.Implementation(name="toolscout", version="0.1.0"),
                    )
                )
                await _negotiate(session, self._protocol)
                self.dispatcher.version = session.protocol_version or LenientDispatcher.version
                self._ready.set_result(session)
                await wait_for_first(self._stop, self.ended)
        except Exception as error:  # noqa: BLE001 -- whatever ended it, the waiting callers must hear
            if not self._ready.done():
                self._ready.set_exception(_innermost_error(error))
            else:
                log.debug("Connection to %s ended: %r", self._server.name, error)
        finally:
            self._tail.close()
            self.ended.set()
            if not self._ready.done():
                self._ready.cancel()

    async def _open_transport(self, stack: AsyncExitStack) -> tuple[Any, Any]:
        server = self._server
        match server.transport:
            case "stdio":
                with self._tail.open_writer() as errors:
                    return await stack.enter_async_context(
                        stdio_client(
                            StdioServerParameters(
                                command=server.command,
                                args=list(server.args),
                                env=dict(server.env),
                                cwd=server.cwd or None,
                                encoding_error_handler="replace",
                            ),
                            errlog=errors,
                        )
                    )
            case "http":
                http = await stack.enter_async_context(self._create_client())
                return await stack.enter_async_context(
                    streamable_http_client(
                        server.url, http_client=http, max_sse_event_size=_MAX_EVENT_BYTES
                    )
                )
            case "sse":
                return await stack.enter_async_context(
                    sse_client(server.url, httpx_client_factory=self._create_client)
                )

    def _create_client(self, *_: Any, **asked: Any) -> httpx2.AsyncClient:
        async def record_response(response: httpx2.Response) -> None:
            self.status_code = response.status_code
            forgotten.record_response(response)

        return create_http_client(
            self._server.url,
            headers={**self._server.headers, **(asked.get("headers") or {})},
            allows_private=self._server.allows_private,
            note=record_response,
            auth=self._auth,
        )

    async def _handle_message(self, message: IncomingMessage) -> None:
        if isinstance(
            message,
            types.ToolListChangedNotification
            | types.PromptListChangedNotification
            | types.ResourceListChangedNotification,
        ):
            self.changed.set()
        elif isinstance(message, types.ResourceUpdatedNotification) and self.updated:
            self.updated(message.params.uri)

    def _current_channel(self) -> ClientChannel | None:
        """Whom a message is for: HTTP says so itself; on a pipe only a lone caller is certain."""
        exchange = CURRENT_CHANNEL.get()
        if exchange is None and len(self.calls) == 1:
            exchange = self.calls[0]
        return exchange

    async def _forward_log(self, params: types.LoggingMessageNotificationParams) -> None:
        exchange = self._current_channel()
        if exchange is not None:
            await exchange.log(params)

    async def _sample(
        self,
        context: ClientRequestContext,  # noqa: ARG002 -- the SDK calls it by this name
        params: types.CreateMessageRequestParams,
    ) -> Any:
        return await self._ask_client(types.CreateMessageRequest(params=params))

    async def _elicit(
        self,
        context: ClientRequestContext,  # noqa: ARG002 -- the SDK calls it by this name
        params: types.ElicitRequestParams,
    ) -> Any:
        return await self._ask_client(types.ElicitRequest(params=params))

    async def _ask_client(self, request: types.InputRequest) -> InputAnswer:
        self.has_asked = True
        exchange = self._current_channel()
        if exchange is not None:
            return await exchange.answer(request)
        reason = "several calls are running" if self.calls else "no call is running"
        return types.ErrorData(
            code=types.INVALID_REQUEST, message=f"Nobody to ask: {reason} on this connection."
        )


async def _negotiate(session: UnvalidatedSession, protocol: Protocol) -> None:
    if protocol != "handshake":
        try:
            await session.discover()
        except MCPError as error:
            if protocol == "stateless" or is_disconnect(error):
                raise
        except (RuntimeError, ValueError):
            if protocol == "stateless":
                raise
        else:
            return
    await session.initialize()


def _innermost_error(error: Exception) -> Exception:
    """The one failure inside the groups that task groups wrap around it."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error
