"""Entity extractors for tools whose results mix several types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolscout.memory.entities import Entity
from toolscout.memory.extraction import Extractor
from toolscout.memory.memory import Probe

_MAX_ENTITIES = 5


def _extract_typed(items: object) -> list[Entity]:
    """Entities from items that each name their type."""
    if not isinstance(items, list):
        return []
    return [
        Entity(str(item.get("type") or "resource").lower(), str(item["id"]), str(item["name"]))
        for item in items[:_MAX_ENTITIES]
        if isinstance(item, dict) and item.get("id") and item.get("name")
    ]


def from_resource(value: Any) -> list[Entity]:
    """Entities of cms_findResource."""
    return _extract_typed(value.get("matches"))


def from_search(value: Any) -> list[Entity]:
    """Entities of search_vector."""
    return _extract_typed(value.get("results"))


EXTRACTORS: Mapping[str, Extractor] = {
    "cms_findResource": from_resource,
    "search_vector": from_search,
}
PROBES = (Probe("cms_getPage", {"id": 1, "name": "Test", "slug": "test"}, type="page", id="1"),)
