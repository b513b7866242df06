"""Tools, prompts and resources that an MCP server lists: fetched, filtered and named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import mcp_types as types
from mcp import MCPError
from pydantic import TypeAdapter

from ...catalog.tool import normalise_name, qualify_name
from ...errors import SchemaError
from . import wire
from .dispatcher import LenientDispatcher
from .servers import Server

MAX_TOOLS = 20_000
MAX_SCHEMA_CHARS = 1_000_000
# A server may page forever, or give the same cursor again and again.
_MAX_PAGES = 1_000
_FORMAT = 1
_TOOLS = TypeAdapter(list[types.Tool])
_PROMPTS = TypeAdapter(list[types.Prompt])
_RESOURCES = TypeAdapter(list[types.Resource])
_TEMPLATES = TypeAdapter(list[types.ResourceTemplate])
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Listing:
    """Tools, prompts and resources of one server, and the problems found while listing them."""

    tools: tuple[types.Tool, ...] = ()
    prompts: tuple[types.Prompt, ...] = ()
    resources: tuple[types.Resource, ...] = ()
    templates: tuple[types.ResourceTemplate, ...] = ()
    instructions: str = ""
    protocol: str = ""
    problems: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The listing as text that `from_json` reads back."""
        record = {
            "format": _FORMAT,
            "protocol": self.protocol,
            "instructions": self.instructions,
            "problems": list(self.problems),
            "tools": _dump_items(_TOOLS, self.tools),
            "prompts": _dump_items(_PROMPTS, self.prompts),
            "resources": _dump_items(_RESOURCES, self.resources),
            "templates": _dump_items(_TEMPLATES, self.templates),
        }
        return json.dumps(record, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Listing:
        """Read a cached listing; ValueError if its format is unknown."""
        record: dict[str, Any] = json.loads(text)
        if record["format"] != _FORMAT:
            raise ValueError("written by another version")
        return cls(
            tools=tuple(_TOOLS.validate_python(record["tools"], by_name=False)),
            prompts=tuple(_PROMPTS.validate_python(record["prompts"], by_name=False)),
            resources=tuple(_RESOURCES.validate_python(record["resources"], by_name=False)),
            templates=tuple(_TEMPLATES.validate_python(record["templates"], by_name=False)),
            instructions=str(record["instructions"]),
            protocol=str(record["protocol"]),
            problems=tuple(str(p) for p in record["problems"]),
        )


def _dump_items(adapter: TypeAdapter[Any], items: tuple[Any, ...]) -> Any:
    return adapter.dump_python(list(items), mode="json", by_alias=True, exclude_none=True)


async def fetch_listing(session: Any, dispatcher: LenientDispatcher) -> Listing:
    """Fetch everything the server lists: tools, prompts and resources, page by page."""
    capabilities = session.server_capabilities or types.ServerCapabilities()
    problems = dispatcher.problems
    problems.clear()
    tools: Sequence[types.Tool] = ()
    prompts: Sequence[types.Prompt] = ()
    resources: Sequence[types.Resource] = ()
    templates: Sequence[types.ResourceTemplate] = ()
    if capabilities.tools:
        tools = await _fetch_pages(session.list_tools, lambda p: p.tools, problems)
    if capabilities.prompts:
        prompts = await _fetch_pages(session.list_prompts, lambda p: p.prompts, problems)
    if capabilities.resources:
        resources = await _fetch_pages(session.list_resources, lambda p: p.resources, problems)
        templates = await _fetch_pages(
            session.list_resource_templates, lambda p: p.resource_templates, problems
        )
    # In a thread: measuring thousands of schemas would block the event loop.
    usable = await asyncio.to_thread(lambda: tuple(_usable_tools(tools, problems)))
    return Listing(
        tools=usable,
        prompts=tuple(prompts),
        resources=tuple(resources),
        templates=tuple(templates),
        instructions=session.instructions or "",
        protocol=session.protocol_version or "",
        problems=tuple(problems),
    )


async def _fetch_pages(
    fetch: Callable[..., Awaitable[Any]],
    items_of: Callable[[Any], Sequence[_Item]],
    problems: list[str],
) -> Sequence[_Item]:
    items: list[_Item] = []
    cursor: str | None = None
    seen: set[str] = set()
    try:
        for _ in range(_MAX_PAGES):
            page = await fetch(params=types.PaginatedRequestParams(cursor=cursor))
            items += items_of(page)
            cursor = page.next_cursor
            if cursor is None or cursor in seen or len(items) > MAX_TOOLS:
                break
            seen.add(cursor)
    except MCPError as error:
        # A server may declare a capability without all of its methods, such as resources without
        # templates: that is an empty list, not a failed server.
        if error.code != types.METHOD_NOT_FOUND:
            raise
    if cursor is not None:
        count = min(len(items), MAX_TOOLS)
        problems.append(f"The list did not end; only the first {count} entries are used.")
    return items[:MAX_TOOLS]


def _usable_tools(tools: Iterable[types.Tool], problems: list[str]) -> Iterable[types.Tool]:
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            problems.append(f"tools: {tool.name!r} is listed twice; the first one is used.")
        elif not tool.name.strip():
            problems.append("tools: an entry without a name is skipped.")
        elif (size := _schema_chars(tool)) > MAX_SCHEMA_CHARS:
            problems.append(
                f"tools: {tool.name!r} has a schema of {size:,} characters and is skipped;"
                f" the limit is {MAX_SCHEMA_CHARS:,}."
            )
        else:
            yield tool
        seen.add(tool.name)


def _schema_chars(tool: types.Tool) -> int:
    return len(str(tool.input_schema)) + len(str(tool.output_schema or ""))


@dataclass(frozen=True, slots=True)
class ServerTools:
    """The tools of a listing as the catalog has them, keyed by the server's own names.

    `spellings` maps normalised names to full names, so that two servers' names can be compared
    however they are written.
    """

    listing: Listing | None = None
    definitions: Mapping[str, wire.MCPToolDefinition] = field(
        default_factory=dict[str, wire.MCPToolDefinition]
    )
    spellings: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, server: Server, listing: Listing | None) -> ServerTools:
        """Define every tool of a listing; for thousands of tools this takes seconds."""
        if listing is None:
            return cls()
        problems = list(listing.problems)
        definitions = {d.local: d for d in _define_tools(server, listing.tools, problems)}
        names = (qualify_name(server.name, local) for local in definitions)
        return cls(listing, definitions, {normalise_name(n): n for n in names}, tuple(problems))


def _define_tools(
    server: Server, tools: Iterable[types.Tool], problems: list[str]
) -> Iterable[wire.MCPToolDefinition]:
    """Define the listed tools that the configuration allows."""
    used_names: set[str] = set()
    for item in tools:
        if not server.allows_tool(item.name):
            continue
        try:
            definition = wire.define_tool(server, item, used_names=used_names)
        except SchemaError as error:
            problems.append(f"tools: {item.name!r} is skipped: {error.message}")
            continue
        used_names.add(definition.tool.name)
        yield definition
