"""Pass prompts, resources and completions of servers through to clients, unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet, WeakValueDictionary

import mcp_types as types
from fastmcp import FastMCP
from fastmcp.server.context import Context
from fastmcp.server.dependencies import bind_request_context, get_context
from mcp.server.connection import Connection
from mcp.shared.exceptions import MCPError

from ...catalog.principals import bind_principal
from ...catalog.result import Result
from ...errors import SourceError
from ...sources.mcp.call_queue import ServerBusyError
from ...sources.mcp.content_access import (
    content_name,
    may_read,
    public_name,
    visible_prompts,
    visible_resources,
    visible_templates,
)
from ...sources.mcp.mcp_source import MCPSource
from ...toolbox.server_content import RuleAccess
from ..fastmcp_compat import RequestContext, RequestHandler, add_request_handler, get_connection
from ..gateway import Gateway
from ..identity.roles import Identity
from ..limits.delayed_response import refuse_request
from .client_call import ClientRequest
from .content_reads import ContentRead, ContentReads

# Each has to be asked for at its server before the stream begins.
_MAX_RESOURCES_PER_STREAM = 256


class _Watcher(Protocol):
    """A client that is subscribed to a resource: its connection, or one of its streams."""

    async def send_resource_updated(self, uri: str) -> None:
        """Announce that the resource has changed."""
        ...


_Watchers = dict[_Watcher, Identity]
"""Those that are subscribed to a resource, each with its principal."""


class _Watched(NamedTuple):
    """A resource that clients are subscribed to.

    By server too, as two servers may have resources with one URI. By `owner` as well, if the
    server has a login for each principal: what changes for one has not changed for another.
    """

    source: MCPSource
    uri: str
    owner: str


class Passthrough:
    """Finds the server that has a prompt or resource, and returns its answer unchanged."""

    def __init__(self, gateway: Gateway, app: FastMCP[Any]) -> None:
        self._gateway = gateway
        self._app = app
        self._reads = ContentReads(gateway.emit)
        self._watchers: dict[_Watched, _Watchers] = {}
        self._clients_with_cleanup: WeakSet[Connection] = WeakSet()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    def register(self) -> None:
        """Answer these requests instead of FastMCP."""
        page = types.PaginatedRequestParams
        for method, params, handler in (
            ("prompts/list", page, self.list_prompts),
            ("prompts/get", types.GetPromptRequestParams, self.get_prompt),
            ("resources/list", page, self.list_resources),
            ("resources/templates/list", page, self.list_resource_templates),
            ("resources/read", types.ReadResourceRequestParams, self.read_resource),
            ("resources/subscribe", types.SubscribeRequestParams, self.subscribe),
            ("resources/unsubscribe", types.UnsubscribeRequestParams, self.unsubscribe),
            ("completion/complete", types.CompleteRequestParams, self.complete),
        ):
            add_request_handler(self._app, method, params, self._bind_handler(handler))

    def _bind_handler(
        self, handler: Callable[[Any, ClientRequest], Awaitable[Any]]
    ) -> RequestHandler:
        # FastMCP sets up its context only for requests that it handles itself.
        async def handle_request(request: RequestContext, params: Any) -> Any:
            async with self._bind_caller(request) as caller:
                return await handler(params, caller)

        return handle_request

    @asynccontextmanager
    async def _bind_caller(self, request: RequestContext) -> AsyncGenerator[ClientRequest]:
        with bind_request_context(request):
            async with Context(fastmcp=self._app, session=request.session) as context:
                await self._gateway.wait_until_ready()
                with self._gateway.clients.bind_client(context) as caller:
                    yield caller

    async def list_prompts(self, _: Any, caller: ClientRequest) -> types.ListPromptsResult:
        """All prompts, with names that begin with their server."""
        prompts = [
            prompt.model_copy(update={"name": public_name(source, prompt.name)})
            for source in self._sources()
            for prompt in visible_prompts(source, caller.access)
        ]
        return types.ListPromptsResult(prompts=prompts)

    async def list_resources(self, _: Any, caller: ClientRequest) -> types.ListResourcesResult:
        """All resources."""
        resources = [r for s in self._sources() for r in visible_resources(s, caller.access)]
        return types.ListResourcesResult(resources=resources)

    async def list_resource_templates(
        self, _: Any, caller: ClientRequest
    ) -> types.ListResourceTemplatesResult:
        """All resource templates."""
        templates = [t for s in self._sources() for t in visible_templates(s, caller.access)]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def get_prompt(self, params: types.GetPromptRequestParams, caller: ClientRequest) -> Any:
        """One prompt, rendered by its server."""
        arguments = params.arguments or {}
        with self._reads.record(caller.caller, "prompts/get", params.name, arguments) as read:
            source, name = self._resolve_prompt(params.name, caller)
            read.start(source.name, name=params.name)
            return _unwrap(await _translate_source_errors(source.get_prompt(name, arguments)))

    async def read_resource(
        self, params: types.ReadResourceRequestParams, caller: ClientRequest
    ) -> Any:
        """One resource, read by its server."""
        with self._record_uri(caller, "resources/read", params.uri) as read:
            source = self._resolve_resource(params.uri, caller)
            read.start(source.name, name=content_name(source, params.uri, caller.access))
            return _unwrap(await _translate_source_errors(source.read_resource(params.uri)))

    def _record_uri(
        self, caller: ClientRequest, method: str, uri: str
    ) -> AbstractContextManager[ContentRead]:
        return self._reads.record(caller.caller, method, uri, {"uri": uri})

    async def subscribe(
        self, params: types.SubscribeRequestParams, caller: ClientRequest
    ) -> types.EmptyResult:
        """Notify a client of changes of a resource for as long as it is connected."""
        client = _current_connection()
        await self._watch(client, params.uri, caller, method="resources/subscribe")
        if client not in self._clients_with_cleanup:
            self._clients_with_cleanup.add(client)
            client.exit_stack.push_async_callback(self._drop_watcher, client)
        return types.EmptyResult()

    @asynccontextmanager
    async def watch_resources(
        self, stream: _Watcher, request: RequestContext, uris: Sequence[str]
    ) -> AsyncGenerator[Sequence[str]]:
        """Notify a stream of changes of resources while the block runs; yields those it can be.

        As the protocol has it, the others are not errors: the acknowledgement leaves them out.
        """
        wanted = list(dict.fromkeys(uris))
        if len(wanted) > _MAX_RESOURCES_PER_STREAM:
            text = f"A stream may have at most {_MAX_RESOURCES_PER_STREAM} resources."
            raise MCPError(types.INVALID_PARAMS, text)
        if not wanted:
            yield ()
            return
        try:
            async with self._bind_caller(request) as caller:
                found = await asyncio.gather(
                    *(self._try_watch(stream, uri, caller) for uri in wanted)
                )
            yield [uri for uri, is_watched in zip(wanted, found, strict=True) if is_watched]
        finally:
            # In a task: a client that disconnects cancels this one.
            self._start(self._drop_watcher(stream))

    async def _try_watch(self, stream: _Watcher, uri: str, caller: ClientRequest) -> bool:
        try:
            await self._watch(stream, uri, caller, method="subscriptions/listen")
        except MCPError:
            return False
        return True

    async def _watch(
        self, watcher: _Watcher, uri: str, caller: ClientRequest, *, method: str
    ) -> None:
        async with self._subscription_lock(uri):
            with self._record_uri(caller, method, uri) as read:
                source = self._resolve_resource(uri, caller)
                read.start(source.name, name=content_name(source, uri, caller.access))
                name = caller.caller.name
                watched = _Watched(source, uri, name if source.has_own_logins else "")
                notify = partial(self._notify_watchers, watched)
                await _translate_source_errors(source.subscribe(uri, notify))
            self._watchers.setdefault(watched, {})[watcher] = caller.caller.identity

    async def unsubscribe(
        self, params: types.UnsubscribeRequestParams, caller: ClientRequest
    ) -> types.EmptyResult:
        """Stop notifying a client; the last one ends the subscription at the server."""
        client, uri = _current_connection(), params.uri
        async with self._subscription_lock(uri):
            found = [watched for watched in self._watched_by(client) if watched.uri == uri]
            if not found:
                self._resolve_resource(uri, caller)
            for watched in found:
                if self._remove_watcher(client, watched):
                    await _translate_source_errors(watched.source.unsubscribe(uri))
        return types.EmptyResult()

    async def _drop_watcher(self, client: _Watcher) -> None:
        """End the subscriptions of a client that has disconnected."""
        for watched in self._watched_by(client):
            if not self._remove_watcher(client, watched):
                continue
            async with self._subscription_lock(watched.uri):
                # Another client may have subscribed while this one waited for the lock.
                if watched not in self._watchers:
                    with suppress(SourceError, MCPError), bind_principal(watched.owner):
                        await watched.source.unsubscribe(watched.uri)

    def _watched_by(self, client: _Watcher) -> list[_Watched]:
        return [key for key, watchers in self._watchers.items() if client in watchers]

    def _remove_watcher(self, client: _Watcher, watched: _Watched) -> bool:
        """Remove a client from a resource; whether no other client is left."""
        watchers = self._watchers.get(watched, {})
        watchers.pop(client, None)
        if not watchers:
            self._watchers.pop(watched, None)
        return not watchers

    def _subscription_lock(self, uri: str) -> asyncio.Lock:
        # Without it, an unsubscribe that is under way could reach the server after the subscribe of
        # another client, which would then never be notified.
        return self._locks.setdefault(uri, asyncio.Lock())

    async def complete(
        self, params: types.CompleteRequestParams, caller: ClientRequest
    ) -> types.CompleteResult:
        """Completions from the server that has the prompt or template."""
        ref = params.ref
        asked = ref.name if isinstance(ref, types.PromptReference) else ref.uri
        arguments = {params.argument.name: params.argument.value}
        with self._reads.record(caller.caller, "completion/complete", asked, arguments) as read:
            match ref:
                case types.PromptReference():
                    source, name = self._resolve_prompt(ref.name, caller)
                    own = ref.model_copy(update={"name": name})
                    read.start(source.name, name=asked)
                case types.ResourceTemplateReference():
                    source, own = self._resolve_resource(ref.uri, caller), ref
                    read.start(source.name, name=content_name(source, ref.uri, caller.access))
            # `_meta` describes the client's connection to the gateway, not that to the server.
            own_params = params.model_copy(update={"ref": own, "meta": None})
            return await _translate_source_errors(source.complete(own_params))

    def _sources(self) -> Iterator[MCPSource]:
        """The servers whose prompts and resources are offered, to callers that may know them."""
        if self._gateway.setup.options.passthrough:
            yield from (source.inner for source in self._gateway.upstreams.sources.values())

    def _resolve_prompt(self, name: str, caller: ClientRequest) -> tuple[MCPSource, str]:
        for source in self._sources():
            for prompt in visible_prompts(source, caller.access):
                if public_name(source, prompt.name) == name:
                    return source, prompt.name
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name!r}")

    def _resolve_resource(self, uri: str, caller: ClientRequest) -> MCPSource:
        for source in self._sources():
            if may_read(source, uri, caller.access):
                return source
        raise MCPError(types.INVALID_PARAMS, f"Resource not found: {uri!r}", {"uri": uri})

    def _notify_watchers(self, watched: _Watched, uri: str) -> None:
        for client, principal in self._watchers.get(watched, {}).items():
            # Judged again for every change: a policy may have been edited since the subscription.
            access = RuleAccess(self._gateway.setup.rule_for(principal))
            if may_read(watched.source, uri, access):
                self._start(client.send_resource_updated(uri))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _current_connection() -> Connection:
    return get_connection(get_context().session)


async def _translate_source_errors(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except ServerBusyError as error:
        raise refuse_request(error.refusal).to_rpc_error() from error
    except SourceError as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from error


def _unwrap(result: Result) -> Any:
    match result.raw:
        case types.ErrorData() as error:
            raise MCPError.from_error_data(error)
        case None:
            raise MCPError(types.INTERNAL_ERROR, result.text)
        case raw:
            return raw
