"""Builds sources from functions, tools, and paths of catalog, MCP and OpenAPI files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..catalog.result import Result
from ..catalog.source import Source
from ..catalog.tool import Tool
from ..config import Config
from ..errors import SourceError
from ..events import Sink, ignore
from ..sources.files import FileSource
from ..sources.functions import FunctionSource

SourceLike = Source | Callable[..., Any] | Tool | str | Path
"""A Source, a function, a tool without one, or the path of a file."""

_SERVER_KEYS = {"mcpServers", "servers", "mcp_servers"}
_YAML_KEY = re.compile(r"^([A-Za-z_]+)\s*:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a toolbox passes to its sources: a callback for changed lists, settings, a sink."""

    changed: Callable[[Source], None]
    config: Config
    sink: Sink = ignore


class InlineFunctionSource(FunctionSource):
    """Functions passed without a source; each is added and replaced on its own."""

    def merge_onto(self, before: Source) -> Source:
        """A source with the functions of both; these replace functions of the same name."""
        return self.merge(before) if isinstance(before, InlineFunctionSource) else self


class DefinitionOnlySource:
    """Tools that can be found and described but not run, because no code came with them."""

    def __init__(self, tools: Iterable[Tool], *, name: str = "described") -> None:
        self.name = name
        self._tools = tuple(tools)

    def merge_onto(self, before: Source) -> Source:
        """A source with the tools of both; these replace tools of the same name."""
        if not isinstance(before, DefinitionOnlySource):
            return self
        names = {t.name for t in self._tools}
        return DefinitionOnlySource(
            (*(t for t in before._tools if t.name not in names), *self._tools)
        )

    async def tools(self) -> Sequence[Tool]:
        """The tools it was built from."""
        return self._tools

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:  # noqa: ARG002 - the contract's
        """Raise an error that says why the tool cannot run here."""
        raise SourceError(
            f"{tool.name} is only described here; no function or server that can run it is "
            f"connected.",
            hint="Give the toolbox the function or the server behind it.",
        )

    async def close(self) -> None:
        """Nothing to close."""


def build_sources(
    inputs: Iterable[SourceLike] | SourceLike, *, context: SourceContext
) -> list[Source]:
    """Sources in input order; all functions form one source, and so do all bare tools."""
    items = [*_iterate_inputs(inputs)]
    functions = [i for i in items if _is_function(i)]
    tools = [i for i in items if isinstance(i, Tool)]
    sources: list[Source] = []
    if functions:
        sources.append(InlineFunctionSource(cast("list[Callable[..., Any]]", functions)))
    if tools:
        sources.append(DefinitionOnlySource(tools))
    for item in items:
        if isinstance(item, str | Path):
            sources += _sources_from_path(Path(item).expanduser(), context)
        elif _is_source(item):
            sources.append(cast("Source", item))
    return _ensure_unique_names(sources)


def _ensure_unique_names(sources: list[Source]) -> list[Source]:
    """The same sources with distinct names: files of the same name are named by their paths."""
    names = [s.name for s in sources]
    for source in sources:
        if isinstance(source, FileSource) and names.count(source.name) > 1:
            source.name = str(source.path)
    names = [s.name for s in sources]
    doubled = sorted({n for n in names if names.count(n) > 1})
    if doubled:
        raise SourceError(
            f"Several sources have the same name: {', '.join(doubled)}.",
            hint="Give each of them, or each server of the files, its own name.",
        )
    return sources


def _iterate_inputs(inputs: Iterable[SourceLike] | SourceLike) -> Iterator[SourceLike]:
    if isinstance(inputs, str | Path | Tool) or _is_source(inputs) or _is_function(inputs):
        yield cast("SourceLike", inputs)
        return
    if not isinstance(inputs, Iterable):
        raise _invalid_source_error(inputs)
    for item in cast("Iterable[SourceLike]", inputs):
        if not (isinstance(item, str | Path | Tool) or _is_source(item) or _is_function(item)):
            raise _invalid_source_error(item)
        yield item


def _invalid_source_error(item: object) -> SourceError:
    return SourceError(
        f"{item!r} is not a source of tools.",
        hint="Give functions, tools, paths of files, or Source objects.",
    )


def _is_source(item: object) -> bool:
    return all(callable(getattr(item, part, None)) for part in ("tools", "call", "close"))


def _is_function(item: object) -> bool:
    return callable(item) and not isinstance(item, type) and not _is_source(item)


def _sources_from_path(path: Path, context: SourceContext) -> list[Source]:
    """The sources in a file; its top-level keys say what kind of file it is."""
    if not path.exists():
        raise SourceError(
            f"There is no file {path}.",
            hint="Give the path of a catalog file or of an mcp.json.",
        )
    keys = _top_level_keys(path)
    # OpenAPI first: its documents have a `servers` key too, with another meaning.
    if {"openapi", "paths"} <= keys:
        return [_openapi_source(path)]
    if path.suffix == ".toml" or keys & _SERVER_KEYS:
        return _mcp_sources(path, context)
    return [FileSource(path)]


def _top_level_keys(path: Path) -> set[str]:
    """The top-level keys of a JSON or YAML file; none if it is neither or cannot be parsed."""
    if path.suffix not in (".json", ".yaml", ".yml"):
        return set()
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".json":
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError):
            return set()
        return set(cast("dict[str, object]", value)) if isinstance(value, dict) else set()
    # A pattern is enough for unindented keys; the source parses the file later.
    return set(_YAML_KEY.findall(text))


def _openapi_source(path: Path) -> Source:
    from ..sources.openapi.api_source import OpenAPISource

    return OpenAPISource.from_path(path)


def _mcp_sources(path: Path, context: SourceContext) -> list[Source]:
    # Imported here, so that a toolbox without MCP servers does not load the MCP client.
    from ..sources.mcp.listing_cache import ListingCache
    from ..sources.mcp.mcp_source import MCPSource
    from ..sources.mcp.oauth_tokens import OAuthTokenStore
    from ..sources.mcp.server_config import read_server_config

    listings = ListingCache.of(context.config)
    grants = OAuthTokenStore.of(context.config)
    return [
        MCPSource(s, listings=listings, grants=grants, on_change=context.changed, sink=context.sink)
        for s in read_server_config(path).servers
    ]
