"""An OpenAPI document and the files it is spread over, as one: references lead through all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote, urljoin, urlsplit

_MOST_HOPS = 32
_MOST_GAPS = 20
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """Why a file that a document refers to could not be read."""

    reason: str


class _BrokenReference(Exception):
    """A reference that cannot be followed, and why."""


@dataclass(slots=True)
class Document:
    """A parsed document, its files as far as they are read, and where it came from.

    A reference has the form `address#pointer` here; the document itself has no address.
    """

    value: Mapping[str, Any]
    place: str
    files: Mapping[str, Any] = field(default_factory=dict[str, Any])
    wanted: dict[str, None] = field(default_factory=dict[str, None])
    """The files that something refers to and that are not read yet."""
    asked_by: str = ""
    """On whose behalf references are followed just now."""
    _gaps: dict[tuple[str, str], dict[str, None]] = field(
        default_factory=dict[tuple[str, str], dict[str, None]]
    )

    def resolve(self, node: Any) -> dict[str, Any]:
        """A node with its reference followed; what cannot be found is an empty one."""
        try:
            found = self._follow(node, iter(range(_MOST_HOPS)))
        except _BrokenReference as broken:
            self._record_gap(broken)
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}

    def resolve_reference(self, reference: str) -> Any:
        """What a reference points at; nothing where it cannot be found."""
        try:
            return self._resolve_pointer(reference, iter(range(_MOST_HOPS)))
        except _BrokenReference as broken:
            self._record_gap(broken)
            return None

    def problems(self) -> Iterator[str]:
        """The references that could not be followed, and who needed them."""
        for (reference, why), names in list(self._gaps.items())[:_MOST_GAPS]:
            shown, more = ", ".join(list(names)[:_MOST_NAMED]), len(names) - _MOST_NAMED
            needed = f"{shown} and {more} more" if more > 0 else shown
            yield f"{reference} cannot be followed: {why}. It is needed by {needed}."
        if (more := len(self._gaps) - _MOST_GAPS) > 0:
            yield f"{more} more references cannot be followed."

    def base_url(self, *nearer: object) -> str:
        """The address of the first server, its variables at their defaults; the nearest has it."""
        servers = next((s for s in nearer if s), None) or self.value.get("servers")
        listed = cast("list[Any]", servers) if isinstance(servers, list) else []
        table = self.resolve(listed[0] if listed else None)
        url = str(table.get("url") or "")
        for name, variable in self.resolve(table.get("variables")).items():
            url = url.replace(f"{{{name}}}", str(self.resolve(variable).get("default", "")))
        return urljoin(self.place, url) if urlsplit(self.place).scheme in ("http", "https") else url

    def _follow(self, node: Any, hops: Iterator[int]) -> Any:
        """What a node is after all its references; the hops are shared, so that they end."""
        while isinstance(node, dict):
            reference = cast("dict[str, Any]", node).get("$ref")
            if not isinstance(reference, str):
                break
            if next(hops, None) is None:
                raise _BrokenReference(
                    reference, f"it leads on more than {_MOST_HOPS} times, or in a circle"
                )
            node = self._resolve_pointer(reference, hops)
        return cast("object", node)

    def _resolve_pointer(self, reference: str, hops: Iterator[int]) -> Any:
        address, _, pointer = reference.partition("#")
        found = self._find_file(address, reference)
        if (pointer and not pointer.startswith("/")) or not (address or pointer):
            raise _BrokenReference(
                reference, "it is no path to a part of a document, like #/components/…"
            )
        for part in pointer.split("/")[1:]:
            found = _child(self._follow(found, hops), unescape_pointer(part))
            if found is None:
                raise _BrokenReference(reference, "there is nothing at that place")
        return found

    def _find_file(self, address: str, reference: str) -> Any:
        if not address:
            return self.value
        if address not in self.files:
            self.wanted[address] = None
            raise _BrokenReference(reference, "it is not read yet")
        found = self.files[address]
        if isinstance(found, UnreadableFile):
            raise _BrokenReference(reference, found.reason)
        return found

    def _record_gap(self, broken: _BrokenReference) -> None:
        reference, why = broken.args
        self._gaps.setdefault((reference, why), {})[self.asked_by] = None


def iter_objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a value, each once, however often it is shared."""
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
    """A part of a JSON pointer in an address, as the key it stands for."""
    return unquote(part).replace("~1", "/").replace("~0", "~")


def _child(node: Any, key: str) -> Any:
    if isinstance(node, dict):
        return cast("dict[str, Any]", node).get(key)
    if isinstance(node, list) and key.isdecimal():
        items = cast("list[Any]", node)
        return items[int(key)] if int(key) < len(items) else None
    return None
