"""Asking a server what it offers, and taking only what can be used."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import mcp_types as types
from mcp import MCPError
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from ...catalog.names import normalise_name, qualify_name
from ...errors import SchemaError
from . import wire
from .client_channel import CURRENT_CHANNEL
from .expired_session import detect_expired_session
from .listing_cache import Listing
from .servers import Server

MAX_TOOLS = 20_000
MAX_SCHEMA_CHARS = 1_000_000
_MAX_PAGES = 1_000
_LIST_KEYS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_Item = TypeVar("_Item")


class LenientDispatcher(JSONRPCDispatcher[Any]):
    """A channel that drops what is malformed from a list, instead of losing the whole list."""

    version = "2025-11-25"

    def __init__(self, read: Any, write: Any) -> None:
        super().__init__(read, write)
        self.problems: list[str] = []

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Send a request as its caller's; sift the reply if it is a list."""
        with detect_expired_session():
            reply = await super().send_raw_request(
                method, _add_capabilities(params), opts, **options
            )
        if method not in _LIST_KEYS:
            return reply
        return await asyncio.to_thread(self._drop_malformed, method, reply)

    def _drop_malformed(self, method: str, reply: dict[str, Any]) -> dict[str, Any]:
        if self._is_valid(method, reply):
            return reply
        key = _LIST_KEYS[method]
        kept: list[Any] = []
        found: Any = reply.get(key)
        if not isinstance(found, list):
            self.problems.append(f"{key}: the answer holds no list.")
            found = []
        for item in cast("list[Any]", found):
            if self._is_valid(method, {**reply, key: [item]}):
                kept.append(item)
            else:
                self.problems.append(f"{key}: {_display_name(item)} is malformed and left out.")
        return {**reply, key: kept}

    def _is_valid(self, method: str, reply: dict[str, Any]) -> bool:
        try:
            validate_server_result(method, self.version, reply)
        except ValidationError:
            return False
        return True


def _add_capabilities(params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The request with the caller's capabilities, where the protocol tells them each time."""
    exchange = CURRENT_CHANNEL.get()
    meta: dict[str, Any] = (params or {}).get("_meta") or {}
    if exchange is None or types.CLIENT_CAPABILITIES_META_KEY not in meta:
        return params
    own = {types.CLIENT_CAPABILITIES_META_KEY: dict(exchange.capabilities)}
    return {**(params or {}), "_meta": {**meta, **own}}


def _display_name(item: Any) -> str:
    name = item.get("name") if isinstance(item, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] -- whatever a server sent
    return repr(name)[:80] if isinstance(name, str) else "an entry without a name"


async def fetch_listing(session: Any, sifter: LenientDispatcher) -> Listing:
    """Everything the server offers: tools, prompts and resources, page by page."""
    has = session.server_capabilities or types.ServerCapabilities()
    sifter.problems.clear()
    tools = await _fetch_pages(session.list_tools, lambda p: p.tools, sifter) if has.tools else ()
    prompts = (
        await _fetch_pages(session.list_prompts, lambda p: p.prompts, sifter) if has.prompts else ()
    )
    resources: Sequence[types.Resource] = ()
    templates: Sequence[types.ResourceTemplate] = ()
    if has.resources:
        resources = await _fetch_pages(session.list_resources, lambda p: p.resources, sifter)
        templates = await _fetch_pages(
            session.list_resource_templates, lambda p: p.resource_templates, sifter
        )
    usable = await asyncio.to_thread(lambda: tuple(_usable_tools(tools, sifter.problems)))
    return Listing(
        tools=usable,
        prompts=tuple(prompts),
        resources=tuple(resources),
        templates=tuple(templates),
        instructions=session.instructions or "",
        protocol=session.protocol_version or "",
        problems=tuple(sifter.problems),
    )


async def _fetch_pages(
    ask: Callable[..., Awaitable[Any]],
    items: Callable[[Any], Sequence[_Item]],
    sifter: LenientDispatcher,
) -> Sequence[_Item]:
    found: list[_Item] = []
    cursor: str | None = None
    seen: set[str] = set()
    try:
        for _ in range(_MAX_PAGES):
            page = await ask(params=types.PaginatedRequestParams(cursor=cursor))
            found += items(page)
            cursor = page.next_cursor
            if cursor is None or cursor in seen or len(found) > MAX_TOOLS:
                break
            seen.add(cursor)
    except MCPError as error:
        if error.code != types.METHOD_NOT_FOUND:
            raise
    if cursor is not None:
        taken = min(len(found), MAX_TOOLS)
        sifter.problems.append(f"The list did not end; the first {taken} entries are taken.")
    return found[:MAX_TOOLS]


def _usable_tools(tools: Iterable[types.Tool], problems: list[str]) -> Iterable[types.Tool]:
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            problems.append(f"tools: {tool.name!r} is listed twice; the first is taken.")
        elif not tool.name.strip():
            problems.append("tools: an entry without a name is left out.")
        elif (size := _schema_chars(tool)) > MAX_SCHEMA_CHARS:
            problems.append(
                f"tools: {tool.name!r} has a schema of {size:,} characters and is left out;"
                f" at most {MAX_SCHEMA_CHARS:,} are taken."
            )
        else:
            yield tool
        seen.add(tool.name)


def _schema_chars(tool: types.Tool) -> int:
    return len(str(tool.input_schema)) + len(str(tool.output_schema or ""))


@dataclass(frozen=True, slots=True)
class ServerTools:
    """What a listing comes to here: its tools by the names the server gives them, and problems.

    `spellings` are their full names, by the one spelling that all ways to write a name share.
    """

    listing: Listing | None = None
    definitions: Mapping[str, wire.MCPToolDefinition] = field(
        default_factory=dict[str, wire.MCPToolDefinition]
    )
    spellings: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, server: Server, listing: Listing | None) -> ServerTools:
        """Define all that a server lists; of a long list that takes a while."""
        if listing is None:
            return cls()
        problems = list(listing.problems)
        found = {d.local: d for d in _define_tools(server, listing.tools, problems)}
        names = (qualify_name(server.name, local) for local in found)
        return cls(listing, found, {normalise_name(n): n for n in names}, tuple(problems))


def _define_tools(
    server: Server, listed: Iterable[types.Tool], problems: list[str]
) -> Iterable[wire.MCPToolDefinition]:
    """The listed tools that the configuration lets in, as the catalog will know them."""
    taken: set[str] = set()
    for item in listed:
        if not server.allows_tool(item.name):
            continue
        try:
            definition = wire.define_tool(server, item, taken=taken)
        except SchemaError as error:
            problems.append(f"tools: {item.name!r} is left out: {error.message}")
            continue
        taken.add(definition.tool.name)
        yield definition
