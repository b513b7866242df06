"""Prompts and resources of all MCP servers as two tools, `get_prompt` and `get_resource`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...catalog.filters import SERVER_CONTENT
from ...catalog.result import Result
from ...catalog.sanitization import clean_line
from ...catalog.schema import Schema
from ...catalog.tool import Annotations, Tool
from ...errors import SourceError
from .content_access import (
    FULL_ACCESS,
    ContentAccess,
    may_read,
    visible_prompts,
    visible_resources,
    visible_templates,
)
from .mcp_source import MCPSource

NAME = "mcp content"
_MAX_LINES = 60
_MAX_LINE_CHARS = 160


class MCPContentSource:
    """Offers `get_prompt` and `get_resource` over what the servers list at the moment."""

    def __init__(self, servers: Callable[[], Iterable[MCPSource]]) -> None:
        self.name = NAME
        self._servers = servers

    async def tools(self) -> Sequence[Tool]:
        """Each of the two tools, if there is something to get with it."""
        return self.build_tools(FULL_ACCESS)

    def build_tools(self, access: ContentAccess) -> list[Tool]:
        """The tools for one caller: their descriptions list only what the caller may get."""
        prompts, resources = list(self._prompt_lines(access)), list(self._resource_lines(access))
        tools: list[Tool] = []
        if prompts:
            tools.append(
                _build_tool(
                    "get_prompt",
                    "Get a prompt that an MCP server offers, filled in.",
                    prompts,
                    required=("server", "name"),
                    properties={
                        "server": {"type": "string", "description": "The server that has it."},
                        "name": {"type": "string", "description": "The prompt's name."},
                        "arguments": {
                            "type": "object",
                            "additionalProperties": {"type": "string"},
                            "description": "What to fill in.",
                        },
                    },
                )
            )
        if resources:
            tools.append(
                _build_tool(
                    "get_resource",
                    "Read a resource that an MCP server offers.",
                    resources,
                    required=("server", "uri"),
                    properties={
                        "server": {"type": "string", "description": "The server that has it."},
                        "uri": {"type": "string", "description": "The resource's URI."},
                    },
                )
            )
        return tools

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Get one prompt or resource from its server."""
        server = self._find_server(str(arguments["server"]))
        if tool.local_name == "get_prompt":
            values: Mapping[str, Any] = arguments.get("arguments") or {}
            # MCP defines prompt arguments as strings; models send numbers too.
            texts = {key: str(value) for key, value in values.items()}
            return await server.get_prompt(str(arguments["name"]), texts)
        return await server.read_resource(str(arguments["uri"]))

    async def close(self) -> None:
        """Do nothing: the servers are closed by their owner."""

    def check(self, tool: Tool, arguments: Mapping[str, Any], access: ContentAccess) -> None:
        """Raise if the caller may not get what a call of one of the tools asks for."""
        server = self._find_server(str(arguments["server"]), access)
        if not access.is_limited:
            return
        if tool.local_name == "get_prompt":
            name = str(arguments["name"])
            if name not in [prompt.name for prompt in visible_prompts(server, access)]:
                raise SourceError(f"Server {server.name!r} has no prompt {name!r}.")
        elif not may_read(server, str(arguments["uri"]), access):
            raise SourceError(f"Server {server.name!r} has no resource {arguments['uri']!r}.")

    def _find_server(self, name: str, access: ContentAccess = FULL_ACCESS) -> MCPSource:
        servers = {s.name: s for s in self._servers() if access.admits_server(s)}
        if name not in servers:
            known = f"Known: {', '.join(servers)}." if servers else "There is none."
            raise SourceError(f"There is no MCP server {name!r} here.", hint=known)
        return servers[name]

    def _prompt_lines(self, access: ContentAccess) -> Iterator[str]:
        for source in self._servers():
            for prompt in visible_prompts(source, access):
                arguments = ", ".join(a.name for a in prompt.arguments or ())
                yield _format_line(source.name, f"{prompt.name}({arguments})", prompt.description)

    def _resource_lines(self, access: ContentAccess) -> Iterator[str]:
        for source in self._servers():
            for resource in visible_resources(source, access):
                yield _format_line(source.name, resource.uri, resource.description or resource.name)
            for template in visible_templates(source, access):
                yield _format_line(source.name, template.uri_template, template.description)


def _format_line(server: str, name: str, description: str | None) -> str:
    return clean_line(f"{server}: {name} {description or ''}", cap=_MAX_LINE_CHARS)


def _build_tool(
    name: str,
    summary: str,
    lines: Sequence[str],
    *,
    required: Sequence[str],
    properties: Mapping[str, Any],
) -> Tool:
    # The list is part of the description, which costs tokens in every request: it is cut.
    listed = list(lines[:_MAX_LINES])
    if len(lines) > _MAX_LINES:
        listed.append(f"and {len(lines) - _MAX_LINES} more")
    return Tool(
        name=name,
        description="\n".join((summary, *listed)),
        parameters=Schema.of(
            {"type": "object", "properties": dict(properties), "required": list(required)}
        ),
        category=SERVER_CONTENT,
        annotations=Annotations(read_only=True),
    )
