"""What is in a view, before it is written in any provider's form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..catalog.tool import Tool
from .metatools import Metatool
from .namespaces import MAX_HOSTED_TOOLS, assign_namespaces
from .profile import Profile
from .scope import Scope, is_allowed
from .snapshot import Arrival, SentTool, ViewSnapshot, arrival_lookup, switch_mechanism
from .surface import Mechanism, Surface

EntryState = Literal["full", "stub", "deferred"]


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One tool of a view: with its schema, with a stub of it, or left to the provider to load.

    `space` is the namespace it stands in; `is_late` says that it came after the first list.
    """

    tool: Tool
    state: EntryState = "full"
    is_search: bool = False
    space: str = ""
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """How a view shows tools: the surface, and the provider's mechanism where it is native.

    With `is_whole` nothing is hidden, whatever the rules say.
    """

    surface: Surface
    mechanism: Mechanism = ""
    is_hosted: bool = False
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolList:
    """The entries of a view in order; `search_at` is where a hosted search stands among them,
    `left_out` how many had no room in the provider's list."""

    entries: tuple[ToolEntry, ...]
    search_at: int = 0
    left_out: int = 0


def update_snapshot(
    profile: Profile, scope: Scope, before: ViewSnapshot | None, plan: ViewPlan, *, room: int | None
) -> ViewSnapshot:
    """What has been sent now: all that stays, in its place, and behind it what is new."""
    mark = scope.catalog.fingerprint
    was = _adapt_snapshot(before, scope, plan) if before else ViewSnapshot(seen=mark)
    now = replace(
        was,
        mechanism=plan.mechanism,
        surface=plan.surface,
        is_direct=scope.is_small,
        scanned=mark,
        room=room,
    )
    if follows_catalog(profile, plan):
        return replace(now, shown=(), packed="", scanned="")
    stays = tuple(s for s in now.shown if _keeps_place(s, now, scope))
    new = _new_tools(scope, plan, {s.name for s in stays}, before=before)
    return now.with_tools((*stays, *(s for s, _ in new)), [tool for _, tool in new])


def follows_catalog(profile: Profile, plan: ViewPlan) -> bool:
    """Whether a view lists the catalog as it is now: profiles that hide schemas, not tools."""
    return profile.hiding != "omit" and plan.surface != "native" and not plan.is_whole


def build_tool_list(
    profile: Profile, scope: Scope, snapshot: ViewSnapshot, plan: ViewPlan, extras: Sequence[Tool]
) -> ToolList:
    """Every entry of the view, in order: discovery tools, what features add, then the rest."""
    own = () if plan.is_hosted else profile.metatools_on(plan.surface)
    found = [ToolEntry(m.tool, is_search=m.role == "search") for m in own]
    added = [ToolEntry(tool) for tool in extras]
    if follows_catalog(profile, plan):
        rows, at = _catalog_entries(profile, scope), 0
    else:
        rows = [
            _entry_for(s, snapshot.tools[s.name], plan)
            for s in snapshot.shown
            if _is_listed(s, plan)
        ]
        at = min(snapshot.grew_at or 0, len(rows))
    kept = _fit_to_limit(rows, snapshot.room)
    left_out = len(rows) - len(kept)
    more = [ToolEntry(bridge.tool)] if left_out and (bridge := overflow_tool(profile, plan)) else []
    if snapshot.grew_at is None:
        entries = (*found, *added, *kept, *more)
        return ToolList(entries=entries, left_out=left_out)
    entries = (*added, *kept[:at], *found, *kept[at:], *more)
    return ToolList(entries=entries, search_at=len(added) + at, left_out=left_out)


def tool_capacity(profile: Profile, plan: ViewPlan, *, most: int | None, extras: int) -> int | None:
    """How many tools a provider's list of at most so many takes besides what is always there."""
    if most is None:
        return None
    own = 0 if plan.is_hosted else len(profile.metatools_on(plan.surface))
    return max(0, most - own - extras - (overflow_tool(profile, plan) is not None))


def overflow_tool(profile: Profile, plan: ViewPlan) -> Metatool | None:
    """The tool through which a model runs what has no room in its list.

    Its place at the end is kept free, so that nothing has to leave the list when it is needed.
    """
    bridge = profile.dispatcher()
    return bridge if bridge and plan.surface == "load" and "load" not in bridge.shown else None


def _adapt_snapshot(before: ViewSnapshot, scope: Scope, plan: ViewPlan) -> ViewSnapshot:
    """What was sent, as it stands when the catalog has outgrown a list of all, or when another
    mechanism takes over."""
    was = before
    if was.is_direct and not scope.is_small:
        shown = tuple(replace(s, came="start") for s in was.shown)
        was = replace(was, shown=shown, grew_at=len(shown))
    return switch_mechanism(was, scope.loaded) if was.mechanism != plan.mechanism else was


def _new_tools(
    scope: Scope, plan: ViewPlan, names: set[str], *, before: ViewSnapshot | None
) -> list[tuple[SentTool, Tool]]:
    """What comes into the list now: by rules, for a hosted search to find, and by loading."""
    is_same = before is not None and before.mechanism == plan.mechanism
    scanned = before.scanned if before else ""
    ruled = [] if scanned == scope.catalog.fingerprint else _tools_by_rule(scope, plan)
    new = {t.name: (SentTool(t.name, "late" if before else "start"), t) for t in ruled}
    loaded = (scope.get(n) for n in scope.session.loaded if n not in new)
    if not (plan.is_hosted and is_same):
        how = arrival_lookup(scope.session, plan.mechanism)
        new |= {t.name: (SentTool(t.name, how(t.name)), t) for t in loaded if t is not None}
    if plan.is_hosted:
        free = MAX_HOSTED_TOOLS - len(names)
        rest = [t for t in scope.tools if t.name not in names and t.name not in new][:free]
        came: Arrival = "added" if is_same else "offered"
        taken = {s.space for s in before.shown} if before else set[str]()
        pairs = assign_namespaces(plan.mechanism, rest, taken=taken)
        new |= {t.name: (SentTool(t.name, came, space), t) for t, space in pairs}
    return [pair for name, pair in new.items() if name not in names]


def _keeps_place(shown: SentTool, snapshot: ViewSnapshot, scope: Scope) -> bool:
    """Whether a tool keeps its place: it may be away, but not unloaded and not forbidden."""
    sent = snapshot.tools.get(shown.name)
    if sent is None or not is_allowed(scope.catalog.get(shown.name) or sent, scope.allow):
        return False
    return shown.came not in ("loaded", "carried") or shown.name in scope.loaded


def _tools_by_rule(scope: Scope, plan: ViewPlan) -> list[Tool]:
    """The tools that rules put in view, whatever has been loaded."""
    small = scope.is_small
    return [t for t in scope.tools if plan.is_whole or scope.policy.visibility(t, is_small=small)]


def _is_listed(shown: SentTool, plan: ViewPlan) -> bool:
    """Whether the list has a tool: on dispatch only what it began with."""
    return plan.surface != "dispatch" or shown.came == "start"


def _entry_for(shown: SentTool, tool: Tool, plan: ViewPlan) -> ToolEntry:
    """On native, what was there from the start in full, and what came later left to the provider.

    A hosted search must be given every tool it may find, and those it may have found even if they
    are gone, since messages refer to them; for a search that we answer it is enough to define
    what it has found.
    """
    if plan.surface != "native" or shown.came in ("start", "carried"):
        return ToolEntry(tool)
    return ToolEntry(tool, "deferred", space=shown.space, is_late=shown.came != "offered")


def _catalog_entries(profile: Profile, scope: Scope) -> list[ToolEntry]:
    """Every tool, those that wait as stubs where the profile hollows them out."""
    if profile.hiding == "prompt":
        return [ToolEntry(t) for t in scope.tools]
    return [ToolEntry(t, "full" if scope.visibility(t) else "stub") for t in scope.tools]


def _fit_to_limit(entries: Sequence[ToolEntry], most: int | None) -> list[ToolEntry]:
    """The first so many entries; what the provider loads itself does not count."""
    if most is None:
        return [*entries]
    kept: list[ToolEntry] = []
    for entry in entries:
        most -= entry.state != "deferred"
        if most >= 0 or entry.state == "deferred":
            kept.append(entry)
    return kept
