"""Health report of a toolbox: the status of its catalog, index, store and features."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..catalog.catalog import Catalog
from ..disclosure.feature import Feature, HealthStatus
from ..disclosure.profile import Profile
from ..errors import ToolscoutError
from ..journal.journal import Journal
from ..learning.learner import Learner
from ..search.engine import Engine
from ..store.contract import Store
from .features import Features
from .live_catalog import LiveCatalog
from .live_overlay import LiveOverlay


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """The status of one component, and the facts behind it."""

    status: HealthStatus = "ok"
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Health:
    """Every component by name; the overall status is the worst of them."""

    parts: Mapping[str, ComponentHealth]

    @property
    def status(self) -> HealthStatus:
        """The worst status of all components."""
        statuses = {part.status for part in self.parts.values()}
        return "error" if "error" in statuses else "degraded" if "degraded" in statuses else "ok"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON."""
        parts = {n: {"status": p.status, **p.facts} for n, p in self.parts.items()}
        return {"status": self.status, "parts": parts}


async def check_health(
    live: LiveCatalog,
    features: Features,
    open_store: Callable[[], Awaitable[Store]],
    *,
    problems: Mapping[str, str],
    feature_problems: Mapping[str, Sequence[str]],
    profile: Profile,
    overlay: LiveOverlay | None = None,
    journal: Journal | None = None,
    learner: Learner | None = None,
) -> Health:
    """Check every component; a check that fails is an error of that component alone."""
    parts = {
        "catalog": _catalog_health(live, problems),
        "index": _index_health(live.engine),
        "profile": _profile_health(profile, live.catalog),
        "store": await _store_health(open_store),
    }
    if overlay is not None:
        parts["overlay"] = _overlay_health(overlay, live.overlay_problems())
    if journal is not None:
        parts["journal"] = _journal_health(journal)
    if learner is not None:
        parts["learning"] = await _learning_health(learner)
    for name, feature in features.by_name.items():
        parts[name] = _add_problems(_feature_health(feature), feature_problems.get(name, ()))
    return Health(parts)


def _add_problems(part: ComponentHealth, problems: Sequence[str]) -> ComponentHealth:
    """Add what is wrong with a component."""
    if not problems:
        return part
    worst: HealthStatus = "error" if part.status == "error" else "degraded"
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


def _profile_health(profile: Profile, catalog: Catalog) -> ComponentHealth:
    """Report names in the options of the profile that select nothing."""
    facts = {"name": profile.name}
    problem = profile.describe_unmatched_names(catalog)
    if not problem:
        return ComponentHealth(facts=facts)
    return ComponentHealth("degraded", {**facts, "problems": [problem]})


def _overlay_health(overlay: LiveOverlay, problems: Sequence[str]) -> ComponentHealth:
    facts = {"file": str(overlay.path), "tools": len(overlay.overlay.entries)}
    return _add_problems(ComponentHealth(facts=facts), problems)


async def _store_health(open_store: Callable[[], Awaitable[Store]]) -> ComponentHealth:
    try:
        store = await open_store()
        # Opening may succeed on a file that cannot be read, so one row is read as well.
        await asyncio.to_thread(store.list, limit=1)
    except ToolscoutError as error:
        return ComponentHealth("error", {"why": str(error)})
    return ComponentHealth()


def _journal_health(journal: Journal) -> ComponentHealth:
    state = journal.status
    if state.status != "degraded":
        return ComponentHealth()
    return ComponentHealth("degraded", {"why": state.reason, "missed": state.missed})


async def _learning_health(learner: Learner) -> ComponentHealth:
    await asyncio.to_thread(learner.refresh)
    state = learner.status
    facts = {"mode": state.mode, "observations": state.observations, "tools": state.tools}
    if not state.problems:
        return ComponentHealth(facts=facts)
    return ComponentHealth("degraded", {**facts, "problems": [*state.problems]})


def _feature_health(feature: Feature) -> ComponentHealth:
    try:
        status, facts = feature.health()
    except Exception as error:  # noqa: BLE001 - one failing feature must not end the report
        return ComponentHealth("error", {"why": repr(error)})
    return ComponentHealth(status, facts)
