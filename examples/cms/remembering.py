"""What the site's tools leave in the memory where no schema can say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolscout.memory.entities import Entity
from toolscout.memory.extraction import Extractor
from toolscout.memory.memory import Probe

_MOST = 5


def _mixed(items: object) -> list[Entity]:
    """Things of several types: each says its own."""
    if not isinstance(items, list):
        return []
    return [
        Entity(str(item.get("type") or "resource").lower(), str(item["id"]), str(item["name"]))
        for item in items[:_MOST]
        if isinstance(item, dict) and item.get("id") and item.get("name")
    ]


def from_resource(value: Any) -> list[Entity]:
    """Entities of cms_findResource."""
    return _mixed(value.get("matches"))


def from_search(value: Any) -> list[Entity]:
    """Entities of search_vector."""
    return _mixed(value.get("results"))


EXTRACTORS: Mapping[str, Extractor] = {
    "cms_findResource": from_resource,
    "search_vector": from_search,
}
PROBES = (Probe("cms_getPage", {"id": 1, "name": "Test", "slug": "test"}, type="page", id="1"),)
