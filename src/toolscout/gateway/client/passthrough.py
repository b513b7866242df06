"""Prompts, resources and completions passed on as they are, for the surface that shows all."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any
from weakref import WeakSet, WeakValueDictionary

import mcp_types as types
from fastmcp import FastMCP
from fastmcp.server.context import Context
from fastmcp.server.dependencies import bind_request_context, get_context
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from ...catalog.names import qualify_name
from ...catalog.result import Result
from ...errors import SourceError
from ...sources.mcp.mcp_source import MCPSource
from ..gateway import Gateway

RequestContext = ServerRequestContext[Any, Any]
_EXPRESSION = re.compile(r"\\\{([+#./;?&]?)[^}]*\\\}")


class Passthrough:
    """Finds the server that has a prompt or a resource, and hands its answer on."""

    def __init__(self, gateway: Gateway, app: FastMCP[Any]) -> None:
        self._gateway = gateway
        self._app = app
        self._watchers: dict[str, dict[Connection, MCPSource]] = {}
        self._guests: WeakSet[Connection] = WeakSet()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    def register(self) -> None:
        """Answer these requests in place of FastMCP, which would rebuild what it passes on."""
        server = self._app._mcp_server  # pyright: ignore[reportPrivateUsage] -- it has no public seam for raw requests
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
            server.add_request_handler(method, params, self._bind_handler(handler))

    def _bind_handler(
        self, handler: Callable[[Any], Awaitable[Any]]
    ) -> Callable[[RequestContext, Any], Awaitable[Any]]:
        async def handle_request(request: RequestContext, params: Any) -> Any:
            with bind_request_context(request):
                async with Context(fastmcp=self._app, session=request.session) as context:
                    await self._gateway.wait_until_ready()
                    with self._gateway.bind_client(context):
                        return await handler(params)

        return handle_request

    async def list_prompts(self, _: Any) -> types.ListPromptsResult:
        """All prompts, under names that tell their servers."""
        found = [
            prompt.model_copy(update={"name": self._public_name(source, prompt.name)})
            for source in self._visible_sources()
            for prompt in (source.listing.prompts if source.listing else ())
        ]
        return types.ListPromptsResult(prompts=found)

    async def list_resources(self, _: Any) -> types.ListResourcesResult:
        """All resources."""
        found = [r for s in self._visible_sources() if s.listing for r in s.listing.resources]
        return types.ListResourcesResult(resources=found)

    async def list_resource_templates(self, _: Any) -> types.ListResourceTemplatesResult:
        """All resource templates."""
        found = [t for s in self._visible_sources() if s.listing for t in s.listing.templates]
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def get_prompt(self, params: types.GetPromptRequestParams) -> Any:
        """One prompt, filled in by its server."""
        source, name = self._resolve_prompt(params.name)
        return _unwrap(
            await _translate_source_errors(source.get_prompt(name, params.arguments or {}))
        )

    async def read_resource(self, params: types.ReadResourceRequestParams) -> Any:
        """One resource, read by its server."""
        return _unwrap(
            await _translate_source_errors(
                self._resolve_resource(params.uri).read_resource(params.uri)
            )
        )

    async def subscribe(self, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Let a client hear of changes of a resource, for as long as it is connected."""
        client, uri = _current_connection(), params.uri
        async with self._subscription_lock(uri):
            source = self._resolve_resource(uri)
            await _translate_source_errors(source.subscribe(uri, self._notify_watchers))
            self._watchers.setdefault(uri, {})[client] = source
            if client not in self._guests:
                self._guests.add(client)
                client.exit_stack.push_async_callback(self._drop_client, client)
        return types.EmptyResult()

    async def unsubscribe(self, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Let it hear no more; the server is told when nobody listens."""
        async with self._subscription_lock(params.uri):
            if self._remove_watcher(_current_connection(), params.uri):
                await _translate_source_errors(
                    self._resolve_resource(params.uri).unsubscribe(params.uri)
                )
        return types.EmptyResult()

    async def _drop_client(self, client: Connection) -> None:
        """A client has gone, and with it perhaps the last who listened."""
        watched = [(u, w[client]) for u, w in self._watchers.items() if client in w]
        last = [(uri, source) for uri, source in watched if self._remove_watcher(client, uri)]
        for uri, source in last:
            async with self._subscription_lock(uri):
                if uri not in self._watchers:
                    with suppress(SourceError, MCPError):
                        await source.unsubscribe(uri)

    def _remove_watcher(self, client: Connection, uri: str) -> bool:
        """Take a client off a resource; whether nobody else is left there."""
        watchers = self._watchers.get(uri, {})
        watchers.pop(client, None)
        if not watchers:
            self._watchers.pop(uri, None)
        return not watchers

    def _subscription_lock(self, uri: str) -> asyncio.Lock:
        """Held by whoever begins or ends watching: the server hears of it in the same order."""
        return self._turns.setdefault(uri, asyncio.Lock())

    async def complete(self, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Suggestions from the server whose prompt or template it is."""
        match params.ref:
            case types.PromptReference() as ref:
                source, name = self._resolve_prompt(ref.name)
                params = params.model_copy(update={"ref": ref.model_copy(update={"name": name})})
            case types.ResourceTemplateReference() as ref:
                source = self._resolve_resource(ref.uri)
        # What the envelope says is of the client's connection, not of the server's.
        return await _translate_source_errors(
            source.complete(params.model_copy(update={"meta": None}))
        )

    def _visible_sources(self) -> Iterator[MCPSource]:
        for source in self._gateway.upstreams.sources.values():
            if self._gateway.admits_server(source.name):
                yield source.inner

    def _public_name(self, source: MCPSource, name: str) -> str:
        return qualify_name(source.name, name) if source.server.is_prefixed else name

    def _resolve_prompt(self, name: str) -> tuple[MCPSource, str]:
        for source in self._visible_sources():
            for prompt in source.listing.prompts if source.listing else ():
                if self._public_name(source, prompt.name) == name:
                    return source, prompt.name
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name!r}")

    def _resolve_resource(self, uri: str) -> MCPSource:
        for source in self._visible_sources():
            listing = source.listing
            if listing is None:
                continue
            if any(r.uri == uri for r in listing.resources):
                return source
            if any(_matches_template(t.uri_template, uri) for t in listing.templates):
                return source
        raise MCPError(types.INVALID_PARAMS, f"Resource not found: {uri!r}", {"uri": uri})

    def _notify_watchers(self, uri: str) -> None:
        for client in self._watchers.get(uri, {}):
            task = asyncio.create_task(client.send_resource_updated(uri))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


def _current_connection() -> Connection:
    """The client's connection: the same for all its requests."""
    return get_context().session._connection  # pyright: ignore[reportPrivateUsage] -- there is no other way to it


def _matches_template(template: str, uri: str) -> bool:
    if template == uri:
        return True
    pattern = _EXPRESSION.sub(
        lambda m: ".+" if m[1] in "+#" and m[1] else "[^/]+", re.escape(template)
    )
    return re.fullmatch(pattern, uri) is not None


async def _translate_source_errors(work: Awaitable[Any]) -> Any:
    try:
        return await work
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
