"""Pass prompts, resources and completions of servers through to clients, unchanged."""

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
from mcp.shared.exceptions import MCPError

from ...catalog.result import Result
from ...catalog.tool import qualify_name
from ...errors import SourceError
from ...sources.mcp.mcp_source import MCPSource
from ..fastmcp_compat import RequestContext, RequestHandler, add_request_handler, get_connection
from ..gateway import Gateway
from .client_call import ClientRequest

# An expression of an RFC 6570 URI template, after re.escape().
_EXPRESSION = re.compile(r"\\\{([+#./;?&]?)[^}]*\\\}")


class Passthrough:
    """Finds the server that has a prompt or resource, and returns its answer unchanged."""

    def __init__(self, gateway: Gateway, app: FastMCP[Any]) -> None:
        self._gateway = gateway
        self._app = app
        self._watchers: dict[str, dict[Connection, MCPSource]] = {}
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
            with bind_request_context(request):
                async with Context(fastmcp=self._app, session=request.session) as context:
                    await self._gateway.wait_until_ready()
                    with self._gateway.clients.bind_client(context) as caller:
                        return await handler(params, caller)

        return handle_request

    async def list_prompts(self, _: Any, caller: ClientRequest) -> types.ListPromptsResult:
        """All prompts, with names that begin with their server."""
        prompts = [
            prompt.model_copy(update={"name": self._public_name(source, prompt.name)})
            for source in self._visible_sources(caller)
            for prompt in (source.listing.prompts if source.listing else ())
        ]
        return types.ListPromptsResult(prompts=prompts)

    async def list_resources(self, _: Any, caller: ClientRequest) -> types.ListResourcesResult:
        """All resources."""
        resources = [
            r for s in self._visible_sources(caller) if s.listing for r in s.listing.resources
        ]
        return types.ListResourcesResult(resources=resources)

    async def list_resource_templates(
        self, _: Any, caller: ClientRequest
    ) -> types.ListResourceTemplatesResult:
        """All resource templates."""
        templates = [
            t for s in self._visible_sources(caller) if s.listing for t in s.listing.templates
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def get_prompt(self, params: types.GetPromptRequestParams, caller: ClientRequest) -> Any:
        """One prompt, rendered by its server."""
        source, name = self._resolve_prompt(params.name, caller)
        return _unwrap(
            await _translate_source_errors(source.get_prompt(name, params.arguments or {}))
        )

    async def read_resource(
        self, params: types.ReadResourceRequestParams, caller: ClientRequest
    ) -> Any:
        """One resource, read by its server."""
        return _unwrap(
            await _translate_source_errors(
                self._resolve_resource(params.uri, caller).read_resource(params.uri)
            )
        )

    async def subscribe(
        self, params: types.SubscribeRequestParams, caller: ClientRequest
    ) -> types.EmptyResult:
        """Notify a client of changes of a resource for as long as it is connected."""
        client, uri = _current_connection(), params.uri
        async with self._subscription_lock(uri):
            source = self._resolve_resource(uri, caller)
            await _translate_source_errors(source.subscribe(uri, self._notify_watchers))
            self._watchers.setdefault(uri, {})[client] = source
            if client not in self._clients_with_cleanup:
                self._clients_with_cleanup.add(client)
                client.exit_stack.push_async_callback(self._drop_client, client)
        return types.EmptyResult()

    async def unsubscribe(
        self, params: types.UnsubscribeRequestParams, caller: ClientRequest
    ) -> types.EmptyResult:
        """Stop notifying a client; the last one ends the subscription at the server."""
        async with self._subscription_lock(params.uri):
            if self._remove_watcher(_current_connection(), params.uri):
                await _translate_source_errors(
                    self._resolve_resource(params.uri, caller).unsubscribe(params.uri)
                )
        return types.EmptyResult()

    async def _drop_client(self, client: Connection) -> None:
        """End the subscriptions of a client that has disconnected."""
        watched = [(u, w[client]) for u, w in self._watchers.items() if client in w]
        unwatched = [(uri, source) for uri, source in watched if self._remove_watcher(client, uri)]
        for uri, source in unwatched:
            async with self._subscription_lock(uri):
                # Another client may have subscribed while this one waited for the lock.
                if uri not in self._watchers:
                    with suppress(SourceError, MCPError):
                        await source.unsubscribe(uri)

    def _remove_watcher(self, client: Connection, uri: str) -> bool:
        """Remove a client from a resource; whether no other client is left."""
        watchers = self._watchers.get(uri, {})
        watchers.pop(client, None)
        if not watchers:
            self._watchers.pop(uri, None)
        return not watchers

    def _subscription_lock(self, uri: str) -> asyncio.Lock:
        # Without it, an unsubscribe that is under way could reach the server after the subscribe of
        # another client, which would then never be notified.
        return self._locks.setdefault(uri, asyncio.Lock())

    async def complete(
        self, params: types.CompleteRequestParams, caller: ClientRequest
    ) -> types.CompleteResult:
        """Completions from the server that has the prompt or template."""
        match params.ref:
            case types.PromptReference() as ref:
                source, name = self._resolve_prompt(ref.name, caller)
                params = params.model_copy(update={"ref": ref.model_copy(update={"name": name})})
            case types.ResourceTemplateReference() as ref:
                source = self._resolve_resource(ref.uri, caller)
        # `_meta` describes the client's connection to the gateway, not the gateway's to the server.
        return await _translate_source_errors(
            source.complete(params.model_copy(update={"meta": None}))
        )

    def _visible_sources(self, caller: ClientRequest) -> Iterator[MCPSource]:
        if not self._gateway.setup.options.passthrough:
            return
        for source in self._gateway.upstreams.sources.values():
            if caller.admits_server(source.name):
                yield source.inner

    def _public_name(self, source: MCPSource, name: str) -> str:
        return qualify_name(source.name, name) if source.server.is_prefixed else name

    def _resolve_prompt(self, name: str, caller: ClientRequest) -> tuple[MCPSource, str]:
        for source in self._visible_sources(caller):
            for prompt in source.listing.prompts if source.listing else ():
                if self._public_name(source, prompt.name) == name:
                    return source, prompt.name
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name!r}")

    def _resolve_resource(self, uri: str, caller: ClientRequest) -> MCPSource:
        for source in self._visible_sources(caller):
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
    return get_connection(get_context().session)


def _matches_template(template: str, uri: str) -> bool:
    if template == uri:
        return True
    # `{+name}` and `{#name}` may expand to several path segments, all others to one.
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
