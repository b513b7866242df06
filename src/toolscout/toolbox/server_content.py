"""Prompts and resources of the MCP servers of a toolbox, for callers that may use the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..catalog.catalog import Catalog
from ..catalog.result import Result
from ..catalog.source import Source
from ..catalog.tool import Tool, qualify_name
from ..disclosure.scope import is_allowed
from ..search.engine import Allow

if TYPE_CHECKING:
    from ..sources.mcp.content_access import ContentAccess
    from ..sources.mcp.mcp_source import MCPSource

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


@runtime_checkable
class ContentSource(Protocol):
    """The source that gets prompts and resources of all servers."""

    def build_tools(self, access: ContentAccess) -> list[Tool]:
        """The tools for one caller."""
        ...

    def check(self, tool: Tool, arguments: Mapping[str, Any], access: ContentAccess) -> None:
        """Raise if the caller may not get what a call asks for."""
        ...


@runtime_checkable
class CallerRule(Protocol):
    """An allow rule for everything of servers, whose caller must not notice what it hides.

    Each rule gets a catalog and an index of its own; rules that are equal share them.
    """

    def __call__(self, tool: Tool, /) -> bool:
        """Whether a tool may be seen and called."""
        ...

    def __hash__(self) -> int:
        """Equal rules have equal hashes."""
        ...

    def admits_content(self, server: str, names: Sequence[str]) -> bool:
        """Whether a prompt or resource with these names may be seen and got."""
        ...

    def admits_unlisted(self, server: str) -> bool:
        """Whether a server may be known whose tools are not known yet."""
        ...

    @property
    def denied_patterns(self) -> Sequence[str]:
        """The patterns of names and URIs that the rule denies."""
        ...


@dataclass(frozen=True, slots=True)
class RuleAccess:
    """What an allow rule lets a caller reach of MCP servers; the rule None means everything.

    A server of which a caller may use no tool does not exist for that caller, nor do its prompts
    and resources. A server without tools exists if the caller may get something else of it.
    """

    allow: Allow | None

    @property
    def is_limited(self) -> bool:
        """Whether the rule judges single prompts and resources."""
        return isinstance(self.allow, CallerRule)

    def admits_server(self, source: MCPSource) -> bool:
        """Whether the caller may know of a server."""
        if self.allow is None:
            return True
        if source.definitions:
            return any(is_allowed(d.tool, self.allow) for d in source.definitions.values())
        if not isinstance(self.allow, CallerRule):
            return is_allowed(_possible_tool(source.name), self.allow)
        if source.listing is None:
            return self.allow.admits_unlisted(source.name)
        return any(
            self.allow.admits_content(source.name, names) for names in _content_names(source)
        )

    def admits_item(self, source: MCPSource, names: Sequence[str]) -> bool:
        """Whether the caller may get a prompt or resource."""
        if not self.admits_server(source):
            return False
        allow = self.allow
        return not isinstance(allow, CallerRule) or allow.admits_content(source.name, names)

    def denies_uri(self, uri: str) -> bool:
        """Whether the rule denies a URI, in any way to write it."""
        from ..sources.mcp.resource_uris import matches_uri

        return isinstance(self.allow, CallerRule) and matches_uri(uri, self.allow.denied_patterns)


def _content_names(source: MCPSource) -> Iterable[Sequence[str]]:
    from ..sources.mcp.content_access import item_names

    listing = source.listing
    items = (*listing.prompts, *listing.resources, *listing.templates) if listing else ()
    return (item_names(source, item) for item in items)


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
