"""Which prompts and resources of a server a caller may list and get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import mcp_types as types

from ...catalog.tool import qualify_name
from .mcp_source import MCPSource
from .resource_uris import denotes, has_parent_segment, is_same_uri
from .uri_templates import matches_template


class ContentAccess(Protocol):
    """What a caller may reach of servers, besides their tools."""

    @property
    def is_limited(self) -> bool:
        """Whether single prompts and resources may be forbidden; then only listed ones exist."""
        ...

    def admits_server(self, source: MCPSource, /) -> bool:
        """Whether the caller may know of a server at all."""
        ...

    def admits_item(self, source: MCPSource, names: Sequence[str], /) -> bool:
        """Whether the caller may get a prompt or resource, which has these names."""
        ...

    def denies_uri(self, uri: str, /) -> bool:
        """Whether a URI is denied to the caller, listed or not."""
        ...


class FullAccess:
    """The access of a caller without limits."""

    is_limited = False

    def admits_server(self, _: MCPSource, /) -> bool:
        """Every server may be known."""
        return True

    def admits_item(self, _: MCPSource, __: Sequence[str], /) -> bool:
        """Everything may be got."""
        return True

    def denies_uri(self, _: str, /) -> bool:
        """No URI is denied."""
        return False


FULL_ACCESS = FullAccess()


def public_name(source: MCPSource, name: str) -> str:
    """The name under which clients know a prompt of a server."""
    return qualify_name(source.name, name) if source.server.is_prefixed else name


def item_names(
    source: MCPSource, item: types.Prompt | types.Resource | types.ResourceTemplate
) -> tuple[str, ...]:
    """The names that a rule knows a prompt or resource by: that of its server's tools, or a URI."""
    match item:
        case types.Prompt():
            return (public_name(source, item.name),)
        case types.Resource():
            return (public_name(source, item.name), item.uri)
        case types.ResourceTemplate():
            return (public_name(source, item.name), item.uri_template)


def visible_prompts(source: MCPSource, access: ContentAccess) -> list[types.Prompt]:
    """The prompts of a server that a caller may get."""
    items = source.listing.prompts if source.listing else ()
    return [i for i in items if access.admits_item(source, item_names(source, i))]


def visible_resources(source: MCPSource, access: ContentAccess) -> list[types.Resource]:
    """The resources of a server that a caller may read."""
    items = source.listing.resources if source.listing else ()
    return [i for i in items if access.admits_item(source, item_names(source, i))]


def visible_templates(source: MCPSource, access: ContentAccess) -> list[types.ResourceTemplate]:
    """The resource templates of a server that a caller may use."""
    items = source.listing.templates if source.listing else ()
    return [i for i in items if access.admits_item(source, item_names(source, i))]


def may_read(source: MCPSource, uri: str, access: ContentAccess) -> bool:
    """Whether a caller may read a URI: a resource that is listed, or one that a template covers."""
    resources = source.listing.resources if source.listing else ()
    # The server may list `x` and `x?all` as two resources. Each is judged by itself.
    listed = [r for r in resources if r.uri == uri] or [r for r in resources if denotes(uri, r.uri)]
    # A template must not give access to a resource that is listed and forbidden.
    if not all(access.admits_item(source, item_names(source, r)) for r in listed):
        return False
    if any(is_same_uri(r.uri, uri) for r in listed):
        return True
    if access.denies_uri(uri) or (access.is_limited and has_parent_segment(uri)):
        return False
    return any(matches_template(t.uri_template, uri) for t in visible_templates(source, access))


def content_name(source: MCPSource, uri: str, access: ContentAccess) -> str:
    """What a record calls a URI that may be read: itself if it is listed, else its template.

    A URI that a template covers has values in it, which are arguments and not a name.
    """
    if any(is_same_uri(resource.uri, uri) for resource in visible_resources(source, access)):
        return uri
    templates = visible_templates(source, access)
    found = next((t for t in templates if matches_template(t.uri_template, uri)), None)
    return public_name(source, found.name) if found is not None else uri
