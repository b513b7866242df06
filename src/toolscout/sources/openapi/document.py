"""An OpenAPI document with all its files, and the resolution of references between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote, urljoin, urlsplit

# References may lead to references, also in a circle.
_MAX_HOPS = 32
_MAX_GAPS_SHOWN = 20
_MAX_NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file that could not be read, and why."""

    reason: str


class _BrokenReferenceError(Exception):
    """A reference that cannot be resolved, and why."""


@dataclass(slots=True)
class Document:
    """A parsed document with the files read so far, and its location.

    References have the form `address#pointer`; the address of the document itself is empty.
    """

    value: Mapping[str, Any]
    place: str
    files: Mapping[str, Any] = field(default_factory=dict[str, Any])
    wanted: dict[str, None] = field(default_factory=dict[str, None])
    """Files that are referred to and not read yet."""
    context: str = ""
    """The operation for which references are resolved now, for error messages."""
    _gaps: dict[tuple[str, str], dict[str, None]] = field(
        default_factory=dict[tuple[str, str], dict[str, None]]
    )

    def resolve(self, node: Any) -> dict[str, Any]:
        """A node with its reference resolved; an empty object if that fails."""
        try:
            found = self._follow(node, iter(range(_MAX_HOPS)))
        except _BrokenReferenceError as broken:
            self._record_gap(broken)
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}

    def resolve_reference(self, reference: str) -> Any:
        """The target of a reference, or None."""
        try:
            return self._resolve_pointer(reference, iter(range(_MAX_HOPS)))
        except _BrokenReferenceError as broken:
            self._record_gap(broken)
            return None

    def problems(self) -> Iterator[str]:
        """The references that could not be resolved, with the operations that need them."""
        for (reference, reason), names in list(self._gaps.items())[:_MAX_GAPS_SHOWN]:
            shown, more = ", ".join(list(names)[:_MAX_NAMES_SHOWN]), len(names) - _MAX_NAMES_SHOWN
            needed = f"{shown} and {more} more" if more > 0 else shown
            yield f"{reference} cannot be followed: {reason}. It is needed by {needed}."
        if (more := len(self._gaps) - _MAX_GAPS_SHOWN) > 0:
            yield f"{more} more references cannot be followed."

    def base_url(self, *nearer: object) -> str:
        """The URL of the first server, with default variables; `nearer` servers take precedence."""
        servers = next((s for s in nearer if s), None) or self.value.get("servers")
        entries = cast("list[Any]", servers) if isinstance(servers, list) else []
        table = self.resolve(entries[0] if entries else None)
        url = str(table.get("url") or "")
        for name, variable in self.resolve(table.get("variables")).items():
            url = url.replace(f"{{{name}}}", str(self.resolve(variable).get("default", "")))
        # A relative server URL counts from the document's own URL.
        return urljoin(self.place, url) if urlsplit(self.place).scheme in ("http", "https") else url

    def _follow(self, node: Any, hops: Iterator[int]) -> Any:
        """Follow references until a node is not one; all calls share `hops`, so that they end."""
        while isinstance(node, dict):
            reference = cast("dict[str, Any]", node).get("$ref")
            if not isinstance(reference, str):
                break
            if next(hops, None) is None:
                raise _BrokenReferenceError(
                    reference, f"it is longer than {_MAX_HOPS} references, or circular"
                )
            node = self._resolve_pointer(reference, hops)
        return cast("object", node)

    def _resolve_pointer(self, reference: str, hops: Iterator[int]) -> Any:
        address, _, pointer = reference.partition("#")
        found = self._find_file(address, reference)
        if (pointer and not pointer.startswith("/")) or not (address or pointer):
            raise _BrokenReferenceError(
                reference, "it is not a path to a part of a document, like #/components/…"
            )
        for part in pointer.split("/")[1:]:
            found = _child(self._follow(found, hops), unescape_pointer(part))
            if found is None:
                raise _BrokenReferenceError(reference, "there is nothing at that place")
        return found

    def _find_file(self, address: str, reference: str) -> Any:
        if not address:
            return self.value
        if address not in self.files:
            self.wanted[address] = None
            raise _BrokenReferenceError(reference, "it is not read yet")
        found = self.files[address]
        if isinstance(found, UnreadableFile):
            raise _BrokenReferenceError(reference, found.reason)
        return found

    def _record_gap(self, broken: _BrokenReferenceError) -> None:
        reference, reason = broken.args
        self._gaps.setdefault((reference, reason), {})[self.context] = None


def iter_objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a value, each once, even if YAML aliases share it."""
    nodes: list[Any] = [value]
    seen: set[int] = set()
    while nodes:
        node = nodes.pop()
        if id(node) in seen:
            continue
        if isinstance(node, dict):
            seen.add(id(cast("object", node)))
            table = cast("dict[str, Any]", node)
            yield table
            nodes += table.values()
        elif isinstance(node, list):
            seen.add(id(cast("object", node)))
            nodes += cast("list[Any]", node)


def unescape_pointer(part: str) -> str:
    """The key that a part of a JSON pointer in a URL fragment stands for."""
    return unquote(part).replace("~1", "/").replace("~0", "~")


def _child(node: Any, key: str) -> Any:
    if isinstance(node, dict):
        return cast("dict[str, Any]", node).get(key)
    if isinstance(node, list) and key.isdecimal():
        items = cast("list[Any]", node)
        return items[int(key)] if int(key) < len(items) else None
    return None
