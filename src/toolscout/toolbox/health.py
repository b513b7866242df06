"""How a toolbox is, part by part."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from ..errors import ToolscoutError
from ..search.engine import Engine
from ..store.contract import Store
from .features import Features
from .live_catalog import LiveCatalog

Status = Literal["ok", "degraded", "error"]


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """One part: its status, and the facts behind it."""

    status: Status = "ok"
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Health:
    """Every part by name; the whole is as well as its worst part."""

    parts: Mapping[str, ComponentHealth]

    @property
    def status(self) -> Status:
        """The worst of all parts."""
        held = {part.status for part in self.parts.values()}
        return "error" if "error" in held else "degraded" if "degraded" in held else "ok"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON."""
        parts = {n: {"status": p.status, **p.facts} for n, p in self.parts.items()}
        return {"status": self.status, "parts": parts}


@runtime_checkable
class HealthReporter(Protocol):
    """A feature that can say how it is."""

    def health(self) -> tuple[Status, Mapping[str, Any]]:
        """Its status and the facts behind it."""
        ...


async def check_health(
    live: LiveCatalog,
    features: Features,
    store: Callable[[], Awaitable[Store]],
    *,
    problems: Mapping[str, str],
    complaints: Mapping[str, Sequence[str]],
) -> Health:
    """Look at every part; one that cannot be looked at is an error and hides no other."""
    parts = {
        "catalog": _catalog_health(live, problems),
        "index": _index_health(live.engine),
        "store": await _store_health(store),
    }
    for name, feature in features.by_report_name.items():
        parts[name] = _add_problems(_feature_health(feature), complaints.get(name, ()))
    return Health(parts)


def _add_problems(part: ComponentHealth, problems: Sequence[str]) -> ComponentHealth:
    """A part, and what its feature said of the catalog."""
    if not problems:
        return part
    worst: Status = "error" if part.status == "error" else "degraded"
    return ComponentHealth(worst, {**part.facts, "problems": [*problems]})


def _catalog_health(live: LiveCatalog, problems: Mapping[str, str]) -> ComponentHealth:
    facts = {
        "tools": len(live.catalog),
        "sources": len(live.sources),
        "problems": {**problems},
    }
    return ComponentHealth("degraded" if problems else "ok", facts)


def _index_health(engine: Engine) -> ComponentHealth:
    status = engine.status
    facts = {"tools": status.tools, "vectors": status.vectors, "is_filling": status.is_filling}
    if status.problem:
        return ComponentHealth("degraded", {**facts, "why": status.problem})
    return ComponentHealth(facts=facts)


async def _store_health(store: Callable[[], Awaitable[Store]]) -> ComponentHealth:
    try:
        opened = await store()
        await asyncio.to_thread(opened.list, limit=1)
    except ToolscoutError as error:
        return ComponentHealth("error", {"why": str(error)})
    return ComponentHealth()


def _feature_health(part: object) -> ComponentHealth:
    if not isinstance(part, HealthReporter):
        return ComponentHealth()
    try:
        status, facts = part.health()
    except Exception as error:  # noqa: BLE001 - the report must come through
        return ComponentHealth("error", {"why": repr(error)})
    return ComponentHealth(status, facts)
