"""What is in a view, before it is written in any provider's form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..catalog.tool import Tool
from .profile import Profile
from .scope import Scope, is_allowed
from .snapshot import Came, Shown, Snapshot, carried
from .surface import Mechanism, Surface

State = Literal["full", "stub", "deferred"]

MOST_KEPT = 256
"""Where rules put more tools than this in view, they follow the catalog and are not kept."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tool of a view: with its schema, with a stub of it, or left to the provider to load."""

    tool: Tool
    state: State = "full"
    is_search: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """How a view shows tools: the surface, and the provider's mechanism where it is native.

    With `is_whole` nothing is hidden, whatever the rules say.
    """

    surface: Surface
    mechanism: Mechanism = ""
    is_hosted: bool = False
    is_whole: bool = False


def settle(profile: Profile, scope: Scope, before: Snapshot | None, plan: Plan) -> Snapshot:
    """What has been shown now: all that stays, in its place, and behind it what is new."""
    mark = scope.catalog.fingerprint
    was = before or Snapshot(seen=mark)
    grown = was.is_direct and not scope.is_small
    now = replace(
        carried(was) if was.mechanism != plan.mechanism else was,
        mechanism=plan.mechanism,
        surface=plan.surface,
        is_direct=scope.is_small,
        scanned=mark,
        metatools_at=len(was.shown) if grown else was.metatools_at,
    )
    if plan.is_whole or (profile.hiding != "omit" and plan.surface != "native"):
        return replace(now, shown=(), scanned="")
    stays = tuple(s for s in now.shown if _stays(s, scope))
    names = {s.tool.name for s in stays}
    fresh = [] if was.scanned == mark else _ruled(scope)
    if not before and len(fresh) > MOST_KEPT:
        now = replace(now, follows=True)
    ruled: Came = "late" if before else "start"
    new = [Shown(t, ruled) for t in fresh if t.name not in names and not now.follows]
    names |= {t.name for t in fresh}
    came: Came = "loaded" if before else "carried"
    loaded = (scope.get(n) for n in scope.session.loaded if n not in names)
    return replace(now, shown=(*stays, *new, *(Shown(t, came) for t in loaded if t is not None)))


def lineup(
    profile: Profile, scope: Scope, snapshot: Snapshot, plan: Plan, extras: Sequence[Tool]
) -> tuple[Entry, ...]:
    """Every entry of the view, in order: discovery tools, what features add, then the rest."""
    own = () if plan.is_hosted else profile.shown_on(plan.surface)
    meta = [Entry(m.tool, is_search=m.role == "search") for m in own]
    meta += [Entry(t) for t in extras]
    if plan.is_whole:
        return (*meta, *(Entry(t) for t in scope.tools))
    if plan.surface == "native":
        return (*meta, *_native(scope, snapshot, plan))
    if profile.hiding != "omit":
        return (*meta, *_hollow(profile, scope))
    rows = [s for s in snapshot.shown if plan.surface != "dispatch" or s.came == "start"]
    entries = [*_followed(scope, snapshot), *(Entry(s.tool) for s in rows)]
    at = min(snapshot.metatools_at, len(entries))
    return (*entries[:at], *meta, *entries[at:])


def _stays(shown: Shown, scope: Scope) -> bool:
    """Whether a tool keeps its place: it may be away, but not unloaded and not forbidden."""
    tool = scope.catalog.get(shown.tool.name) or shown.tool
    if not is_allowed(tool, scope.allow):
        return False
    return shown.came in ("start", "late") or shown.tool.name in scope.loaded


def _ruled(scope: Scope) -> list[Tool]:
    """The tools that rules put in view, whatever has been loaded."""
    small = scope.is_small
    return [t for t in scope.tools if scope.policy.stand(t, is_small=small)]


def _followed(scope: Scope, snapshot: Snapshot) -> list[Entry]:
    """The tools that rules put in view, as the catalog has them now, where they are not kept."""
    return [Entry(t) for t in _ruled(scope)] if snapshot.follows else []


def _hollow(profile: Profile, scope: Scope) -> list[Entry]:
    """Every tool, those that wait as stubs where the profile hollows them out."""
    if profile.hiding == "prompt":
        return [Entry(t) for t in scope.tools]
    return [Entry(t, "full" if scope.stand(t) else "stub") for t in scope.tools]


def _native(scope: Scope, snapshot: Snapshot, plan: Plan) -> list[Entry]:
    """What was there from the start in full; what came later is left to the provider to load.

    A hosted search must be given every tool it may find, and those it has found even if they are
    gone, since messages refer to them; for a search that we answer it is enough to define what it
    has found.
    """
    states: dict[Came, State] = {
        "start": "full",
        "carried": "full",
        "late": "deferred",
        "loaded": "deferred",
    }
    entries = [
        *_followed(scope, snapshot),
        *(Entry(s.tool, states[s.came]) for s in snapshot.shown),
    ]
    if not plan.is_hosted:
        return entries
    full = {e.tool.name: e for e in entries if e.state == "full"}
    found = {e.tool.name: e for e in entries if e.state == "deferred"}
    offered = {t.name: Entry(t, "deferred") for t in scope.tools if t.name not in full}
    return [*full.values(), *(offered | found).values()]
