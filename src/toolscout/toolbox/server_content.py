"""Prompts and resources of the MCP servers of a toolbox, for callers that may use the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol, runtime_checkable

from ..catalog.catalog import Catalog
from ..catalog.result import Result
from ..catalog.source import Source
from ..catalog.tool import Tool, qualify_name
from ..disclosure.scope import is_allowed
from ..search.engine import Allow

CONTENT = "mcp content"
"""The name of the source that gets prompts and resources."""


@runtime_checkable
class ContentServer(Protocol):
    """A source that may have prompts and resources, as an MCP server does."""

    def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Awaitable[Result]:
        """Get a prompt of the server."""
        ...

    def read_resource(self, uri: str) -> Awaitable[Result]:
        """Read a resource of the server."""
        ...


def build_content_source(
    sources: Callable[[], Iterable[Source]], admits: Callable[[str], bool]
) -> Source:
    """A source with `get_prompt` and `get_resource` over the MCP servers that are admitted."""
    # Imported here, so that a toolbox without MCP servers does not load the MCP client.
    from ..sources.mcp.content import MCPContentSource
    from ..sources.mcp.mcp_source import MCPSource

    return MCPContentSource(
        lambda: [s for s in sources() if isinstance(s, MCPSource) and admits(s.name)]
    )


def admits_server(server: str, catalog: Catalog, allow: Allow | None) -> bool:
    """Whether a caller may read prompts and resources of a server: it may use at least one of its
    tools."""
    if allow is None:
        return True
    # A rule judges tools. For a server that has none it judges one that it could have.
    tools = [t for t in catalog if t.server == server]
    return any(is_allowed(t, allow) for t in tools or [_possible_tool(server)])


def _possible_tool(server: str) -> Tool:
    return Tool(name=qualify_name(server, "tool"), server=server)
