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
from .live import Live

Status = Literal["ok", "degraded", "error"]


@dataclass(frozen=True, slots=True)
class Part:
    """One part: its status, and the facts behind it."""

    status: Status = "ok"
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Health:
    """Every part by name; the whole is as well as its worst part."""

    parts: Mapping[str, Part]

    @property
    def status(self) -> Status:
        """The worst of all parts."""
        held = {part.status for part in self.parts.values()}
        return "error" if "error" in held else "degraded" if "degraded" in held else "ok"

    def row(self) -> dict[str, Any]:
        """The same as plain JSON."""
        parts = {n: {"status": p.status, **p.facts} for n, p in self.parts.items()}
        return {"status": self.status, "parts": parts}


@runtime_checkable
class Reports(Protocol):
    """A feature that can say how it is."""

    def health(self) -> tuple[Status, Mapping[str, Any]]:
        """Its status and the facts behind it."""
        ...


async def examine(
    live: Live,
    features: Features,
    store: Callable[[], Awaitable[Store]],
    *,
    problems: Mapping[str, str],
    complaints: Mapping[str, Sequence[str]],
) -> Health:
    """Look at every part; one that cannot be looked at is an error and hides no other."""
    parts = {
        "catalog": _catalog(live, problems),
        "index": _index(live.engine),
        "store": await _store(store),
    }
    for name, feature in features.reporting.items():
        parts[name] = _with(_reported(feature), complaints.get(name, ()))
    return Health(parts)


def _with(part: Part, problems: Sequence[str]) -> Part:
    """A part, and what its feature said of the catalog."""
    if not problems:
        return part
    worst: Status = "error" if part.status == "error" else "degraded"
    return Part(worst, {**part.facts, "problems": [*problems]})


def _catalog(live: Live, problems: Mapping[str, str]) -> Part:
    facts = {
        "tools": len(live.catalog),
        "sources": len(live.sources),
        "problems": {**problems},
    }
    return Part("degraded" if problems else "ok", facts)


def _index(engine: Engine) -> Part:
    status = engine.status
    facts = {"tools": status.tools, "vectors": status.vectors, "is_filling": status.is_filling}
    if status.problem:
        return Part("degraded", {**facts, "why": status.problem})
    return Part(facts=facts)


async def _store(store: Callable[[], Awaitable[Store]]) -> Part:
    try:
        opened = await store()
        await asyncio.to_thread(opened.list, limit=1)
    except ToolscoutError as error:
        return Part("error", {"why": str(error)})
    return Part()


def _reported(part: object) -> Part:
    if not isinstance(part, Reports):
        return Part()
    try:
        status, facts = part.health()
    except Exception as error:  # noqa: BLE001 - the report must come through
        return Part("error", {"why": repr(error)})
    return Part(status, facts)
