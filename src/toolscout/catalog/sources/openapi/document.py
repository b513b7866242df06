"""An OpenAPI document: read from a file or a URL, its local references followed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import httpx2
import yaml

from ....errors import SourceError
from ..mcp.guard import client
from ..mcp.servers import is_address
from ..yamlevents import Loader

_LARGEST = 64 * 1024 * 1024
_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document and where it came from."""

    value: Mapping[str, Any]
    place: str

    def resolve(self, node: Any) -> dict[str, Any]:
        """A node with its reference followed; what cannot be found is an empty one."""
        found: Any = node
        for _ in range(_DEEPEST):
            if not isinstance(found, dict):
                return {}
            table = cast("dict[str, Any]", found)
            reference = table.get("$ref")
            if not isinstance(reference, str):
                return table
            found = self.at(reference)
        return {}

    def at(self, reference: str) -> Any:
        """What a local reference points at."""
        if not reference.startswith("#/"):
            return None
        found: Any = self.value
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
        return found

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The references that lead out of the document, and are not followed."""
        found: dict[str, None] = {}
        nodes: list[Any] = [self.value]
        seen: set[int] = set()
        while nodes:
            node = nodes.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, dict):
                table = cast("dict[str, Any]", node)
                reference = table.get("$ref")
                if isinstance(reference, str) and not reference.startswith("#"):
                    found[reference] = None
                nodes += table.values()
            elif isinstance(node, list):
                nodes += cast("list[Any]", node)
        return tuple(sorted(found))

    def base_url(self, *nearer: object) -> str:
        """The address of the first server, its variables at their defaults; the nearest has it."""
        servers = next((s for s in nearer if s), None) or self.value.get("servers")
        listed = cast("list[Any]", servers) if isinstance(servers, list) else []
        table = self.resolve(listed[0] if listed else None)
        url = str(table.get("url") or "")
        for name, variable in self.resolve(table.get("variables")).items():
            url = url.replace(f"{{{name}}}", str(self.resolve(variable).get("default", "")))
        return urljoin(self.place, url) if urlsplit(self.place).scheme in ("http", "https") else url


async def load(place: str, *, allows_private: bool = False) -> Document:
    """Read a document from a path or a URL, JSON or YAML."""
    if place.startswith(("http://", "https://")):
        text = await _fetch(place, allows_private=allows_private)
    else:
        text = _read(Path(place))
    try:
        is_json = text.lstrip().startswith("{")
        value: Any = json.loads(text) if is_json else yaml.load(text, Loader)  # noqa: S506 -- it is a safe one
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise SourceError(f"{place} is neither JSON nor YAML: {error}.") from error
    if not isinstance(value, dict):
        raise SourceError(f"{place} does not hold an OpenAPI document.")
    table = cast("dict[str, Any]", value)
    version = str(table.get("openapi", ""))
    if not version.startswith(("3.0", "3.1")):
        said = f"version {version}" if version else "no version of OpenAPI"
        raise SourceError(
            f"{place} names {said}.", hint="OpenAPI 3.0 and 3.1 are read; convert it first."
        )
    return Document(table, place)


def _read(path: Path) -> str:
    try:
        return path.expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"Cannot read {path}: {error}.") from error


async def _fetch(url: str, *, allows_private: bool) -> str:
    async def nothing(_: httpx2.Response) -> None:
        pass

    if not is_address(url):
        raise SourceError(f"Cannot fetch {url}: it is not an address.")
    try:
        async with client(url, headers={}, allows_private=allows_private, note=nothing) as http:
            response = await http.get(url)
            response.raise_for_status()
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise SourceError(f"Cannot fetch {url}: {error}.") from error
    if len(response.content) > _LARGEST:
        raise SourceError(f"{url} is larger than {_LARGEST // 2**20} MB.")
    return response.text
