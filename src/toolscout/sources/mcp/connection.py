"""One live session with an MCP server, opened and closed by a single task."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from importlib.metadata import version
from typing import Any, cast

import httpx2
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import listen
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..http_client import create_http_client
from .client_channel import CURRENT_CHANNEL, ClientChannel, InputAnswer
from .dispatcher import LenientDispatcher, record_response, request_backoff
from .message_repair import is_disconnect
from .question_channel import find_channel
from .redirects import CallRedirects
from .servers import Protocol, Server
from .stdio_transport import open_process
from .stream_backoff import StreamBackoff
from .streams import MonitoredStream, StderrTail, wait_for_first

log = logging.getLogger(__name__)
_CLOSE_TIMEOUT_SECONDS = 5.0


class UnvalidatedSession(ClientSession):
    """A session that passes results on unchecked.

    The SDK rejects results that do not match the tool's output schema. A gateway does not
    decide that: the client gets what the server sent.
    """

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Accept every result."""


class Connection:
    """An open session; any task may send requests, but only one task opens and closes it."""

    dispatcher: LenientDispatcher

    def __init__(
        self,
        server: Server,
        *,
        protocol: Protocol,
        forwards_requests: bool = False,
        auth: httpx2.Auth | None = None,
        log_output: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        self.ended = asyncio.Event()
        self.list_changed = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self.on_resource_update: Callable[[str], None] | None = None
        self.channels: list[ClientChannel] = []
        self.has_asked = False
        self.calls_served = 0
        self.status_code = 0
        self._server = server
        self._protocol: Protocol = protocol
        self.forwards_requests = forwards_requests
        self._users = 0
        self._auth = auth
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[UnvalidatedSession] = asyncio.get_running_loop().create_future()
        self._stderr = StderrTail(log_output)
        self._stream: MonitoredStream | None = None
        # One task owns the session, because the SDK's task groups must be left by the task that
        # entered them. Its context is fresh: it outlives the call that happened to start it, and
        # must not look as if it belonged to that call's client.
        self._task = asyncio.create_task(
            self._run(), name=f"mcp {server.name}", context=contextvars.Context()
        )

    @property
    def session(self) -> UnvalidatedSession:
        """The session; available once `wait_until_open` has returned."""
        return self._ready.result()

    @property
    def is_stateless(self) -> bool:
        """Whether the server speaks the stateless protocol (2026-07-28 and later)."""
        return self.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def announces_changes(self) -> bool:
        """Whether the server announces changes of its list of tools."""
        capabilities = self.session.server_capabilities
        return bool(capabilities and capabilities.tools and capabilities.tools.list_changed)

    @property
    def stderr_tail(self) -> str:
        """The last bytes that the server process wrote to stderr, without secrets."""
        return self._server.redact(self._stderr.text)

    @property
    def end_reason(self) -> str:
        """Why the gateway ended the connection; empty if the server or nobody did."""
        return self._stream.end_reason if self._stream else ""

    async def wait_until_open(self, timeout_seconds: float) -> None:
        """Wait until the session is open; raise the error that prevented it."""
        async with asyncio.timeout(timeout_seconds):
            # Shielded, so that one waiter that gives up does not cancel the others' future.
            await asyncio.shield(self._ready)

    async def close(self) -> None:
        """End the session and its process."""
        self._stop.set()
        if not self._ready.done():
            self._task.cancel()
        # The SDK stops a process within time limits of its own, and a cancellation in between
        # would leak the process. An HTTP server may never answer the end of its session.
        is_process = self._server.transport == "stdio"
        timeout = min(_CLOSE_TIMEOUT_SECONDS, self._server.limits.connect_timeout_seconds)
        await asyncio.wait([self._task], timeout=None if is_process else timeout)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=timeout)

    @contextmanager
    def mark_busy(self) -> Generator[None]:
        """Mark the session as in use; it is `idle` when no user is left."""
        self._users += 1
        self.idle.clear()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self.idle.set()

    async def follow_changes(self) -> None:
        """Set `list_changed` on each change of a stateless server, until the stream ends."""
        capabilities = self.session.server_capabilities or types.ServerCapabilities()
        async with listen(
            self.session,
            tools_list_changed=bool(capabilities.tools and capabilities.tools.list_changed),
            prompts_list_changed=bool(capabilities.prompts and capabilities.prompts.list_changed),
            resources_list_changed=bool(
                capabilities.resources and capabilities.resources.list_changed
            ),
        ) as events:
            # Changes before the subscription was open were not announced: list once more.
            self.list_changed.set()
            async for _ in events:
                self.list_changed.set()

    async def _run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                read, write = await self._open_transport(stack)
                self._stream = MonitoredStream(read, self.ended)
                self.dispatcher = LenientDispatcher(self._stream, write)
                session = await stack.enter_async_context(
                    UnvalidatedSession(
                        dispatcher=self.dispatcher,
                        sampling_callback=self._sample if self.forwards_requests else None,
                        elicitation_callback=self._elicit,
                        logging_callback=self._forward_log,
                        message_handler=self._handle_message,
                        client_info=types.Implementation(
                            name="toolscout", version=version("toolscout")
                        ),
                    )
                )
                await _negotiate(session, self._protocol)
                self.dispatcher.version = session.protocol_version or LenientDispatcher.version
                self._ready.set_result(session)
                await wait_for_first(self._stop, self.ended)
        except Exception as error:  # noqa: BLE001 -- the callers that wait for the session must get every error
            if not self._ready.done():
                self._ready.set_exception(_innermost_error(error))
            else:
                log.debug("Connection to %s ended: %r", self._server.name, error)
        finally:
            self._stderr.close()
            self.ended.set()
            if not self._ready.done():
                self._ready.cancel()

    async def _open_transport(self, stack: AsyncExitStack) -> tuple[Any, Any]:
        server = self._server
        match server.transport:
            case "stdio":
                with self._stderr.open_writer() as stderr:
                    return await stack.enter_async_context(open_process(server, errlog=stderr))
            case "http":
                http = await stack.enter_async_context(self._create_client())
                return await stack.enter_async_context(
                    streamable_http_client(
                        server.url,
                        http_client=http,
                        # The SDK's default of 1 MB is too small for long lists of tools.
                        max_sse_event_size=server.limits.response_bytes,
                    )
                )
            case "sse":
                return await stack.enter_async_context(
                    sse_client(server.url, httpx_client_factory=self._create_client)
                )

    def _create_client(self, *_: Any, **options: Any) -> httpx2.AsyncClient:
        redirects = CallRedirects(self._server.url)
        # Of the stream that belongs to no request.
        backoff = StreamBackoff()

        async def on_request(request: httpx2.Request) -> None:
            await redirects.rewrite_request(request)
            if _opens_stream(request):
                await (request_backoff() or backoff).wait()

        async def on_response(response: httpx2.Response) -> None:
            self.status_code = response.status_code
            record_response(response)
            if _opens_stream(response.request):
                (request_backoff() or backoff).observe(response)
            await redirects.check_response(response)

        return create_http_client(
            self._server.url,
            headers={**self._server.headers, **(options.get("headers") or {})},
            allows_private=self._server.allows_private,
            on_request=on_request,
            on_response=on_response,
            auth=self._auth,
            max_response_bytes=self._server.limits.response_bytes,
        )

    async def _handle_message(self, message: IncomingMessage) -> None:
        if isinstance(
            message,
            types.ToolListChangedNotification
            | types.PromptListChangedNotification
            | types.ResourceListChangedNotification,
        ):
            self.list_changed.set()
        elif isinstance(message, types.ResourceUpdatedNotification) and self.on_resource_update:
            self.on_resource_update(message.params.uri)

    def _current_channel(self) -> ClientChannel | None:
        """The client that a server's message is meant for, if that is certain."""
        # Over Streamable HTTP a message arrives on the stream of its call, and so in its context.
        # A pipe is one stream for all calls.
        return CURRENT_CHANNEL.get() or find_channel(self.channels)

    async def _forward_log(self, params: types.LoggingMessageNotificationParams) -> None:
        channel = self._current_channel()
        if channel is not None:
            await channel.log(params)

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
        channel = self._current_channel()
        if channel is not None:
            return await channel.answer(request)
        reason = "several calls are running" if self.channels else "no call is running"
        return types.ErrorData(
            code=types.INVALID_REQUEST, message=f"No user to ask: {reason} on this connection."
        )


async def _negotiate(session: UnvalidatedSession, protocol: Protocol) -> None:
    # Stateless servers answer `server/discover`. Older ones refuse the unknown method, and get
    # the handshake instead, unless they ended over it: then no server is left to ask.
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
    try:
        await session.initialize()
    except MCPError as error:
        # The SDK waits ten seconds for the answer to `server/discover`. A stateless server that
        # starts later has read it by now, and refuses the handshake: ask it again.
        if protocol == "handshake" or error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()


def _opens_stream(request: httpx2.Request) -> bool:
    accepted = request.headers.get("accept", "")
    return request.method == "GET" and "text/event-stream" in accepted


def _innermost_error(error: Exception) -> Exception:
    """The first error inside the exception groups that task groups wrap around it."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error
