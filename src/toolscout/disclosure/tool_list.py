"""The tool list of a view, before it is rendered for a provider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..catalog.tool import Tool
from .namespaces import MAX_HOSTED_TOOLS, assign_namespaces
from .profile import Metatool, Profile
from .scope import Scope, is_allowed
from .snapshot import Arrival, SentTool, ViewSnapshot, arrival_lookup, switch_mechanism
from .surface import Mechanism, Surface

EntryState = Literal["full", "stub", "deferred"]
"""How a tool is listed: with its schema, with a stub schema, or deferred to the provider."""


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One tool of a view; `is_late` says that it was not in the first list."""

    tool: Tool
    state: EntryState = "full"
    is_search: bool = False
    namespace: str = ""
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """How a view shows tools: the surface, and the provider's mechanism where it is native.

    With `is_whole` every tool is listed, whatever the policy says.
    """

    surface: Surface
    mechanism: Mechanism = ""
    is_hosted: bool = False
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolList:
    """The entries of a view in order.

    `search_at` is the index of a hosted search among them; `left_out` is the number of tools
    that did not fit in the provider's list.
    """

    entries: tuple[ToolEntry, ...]
    search_at: int = 0
    left_out: int = 0


def update_snapshot(
    profile: Profile,
    scope: Scope,
    before: ViewSnapshot | None,
    plan: ViewPlan,
    *,
    capacity: int | None,
) -> ViewSnapshot:
    """The snapshot with this view: what stays keeps its place, new tools follow."""
    fingerprint = scope.catalog.fingerprint
    adapted = (
        _adapt_snapshot(before, scope, plan)
        if before
        else ViewSnapshot(reported_catalog=fingerprint)
    )
    now = replace(
        adapted,
        mechanism=plan.mechanism,
        surface=plan.surface,
        is_direct=scope.is_small,
        scanned_catalog=fingerprint,
        capacity=capacity,
        policy=profile.policy.fingerprint,
    )
    if follows_catalog(profile, plan):
        return replace(now, sent=(), packed="", scanned_catalog="")
    stays = tuple(s for s in now.sent if _keeps_place(s, now, scope))
    new = _new_tools(scope, plan, {s.name for s in stays}, before=before)
    return now.with_tools((*stays, *(s for s, _ in new)), [tool for _, tool in new])


def follows_catalog(profile: Profile, plan: ViewPlan) -> bool:
    """Whether a view lists the present catalog: in profiles that hide schemas, not tools."""
    return profile.hiding != "omit" and plan.surface != "native" and not plan.is_whole


def build_tool_list(
    profile: Profile, scope: Scope, snapshot: ViewSnapshot, plan: ViewPlan, extras: Sequence[Tool]
) -> ToolList:
    """Every entry of the view in order: discovery tools, tools of features, then the rest."""
    metatools = () if plan.is_hosted else profile.metatools_on(plan.surface)
    discovery = [ToolEntry(m.tool, is_search=m.role == "search") for m in metatools]
    features = [ToolEntry(tool) for tool in extras]
    if follows_catalog(profile, plan):
        rows, at = _catalog_entries(profile, scope), 0
    else:
        rows = [
            _entry_for(s, snapshot.tools[s.name], plan)
            for s in snapshot.sent
            if _is_listed(s, plan)
        ]
        at = min(snapshot.grew_at or 0, len(rows))
    fitting = _fit_to_capacity(rows, snapshot.capacity)
    left_out = len(rows) - len(fitting)
    dispatcher = overflow_tool(profile, plan) if left_out else None
    last = [ToolEntry(dispatcher.tool)] if dispatcher else []
    if snapshot.grew_at is None:
        entries = (*discovery, *features, *fitting, *last)
        return ToolList(entries=entries, left_out=left_out)
    # The list began as the whole catalog without discovery tools. In front of it they would
    # change every byte of the cached prefix, so they follow what was there.
    entries = (*features, *fitting[:at], *discovery, *fitting[at:], *last)
    return ToolList(entries=entries, search_at=len(features) + at, left_out=left_out)


def tool_capacity(
    profile: Profile, plan: ViewPlan, *, max_tools: int | None, extras: int
) -> int | None:
    """How many tools fit in a provider's list besides those that are always there."""
    if max_tools is None:
        return None
    own = 0 if plan.is_hosted else len(profile.metatools_on(plan.surface))
    return max(0, max_tools - own - extras - (overflow_tool(profile, plan) is not None))


def overflow_tool(profile: Profile, plan: ViewPlan) -> Metatool | None:
    """The dispatcher for tools that have no room in the list, if it is not listed anyway."""
    # Its place at the end stays free from the start. Otherwise a tool would have to leave the
    # list when the dispatcher joins it (docs/decisions/surfaces.md).
    tool = profile.dispatcher()
    return tool if tool and plan.surface == "load" and "load" not in tool.surfaces else None


def _adapt_snapshot(before: ViewSnapshot, scope: Scope, plan: ViewPlan) -> ViewSnapshot:
    """The snapshot after the catalog outgrew a list of all tools, or the mechanism changed."""
    snapshot = before
    if snapshot.is_direct and not scope.is_small:
        # The model has seen these tools. They stay as if they had been there from the start.
        sent = tuple(replace(s, arrival="start") for s in snapshot.sent)
        snapshot = replace(snapshot, sent=sent, grew_at=len(sent))
    if snapshot.mechanism != plan.mechanism:
        snapshot = switch_mechanism(snapshot, scope.session.loaded)
    return snapshot


def _new_tools(
    scope: Scope, plan: ViewPlan, names: set[str], *, before: ViewSnapshot | None
) -> list[tuple[SentTool, Tool]]:
    """Tools that join the list: by the policy, by loading, or for a hosted search to find."""
    is_same = before is not None and before.mechanism == plan.mechanism
    # The policy gives the same answer for the same catalog. Skipping the pass keeps a view of
    # 100,000 tools fast; loaded tools are added below in any case.
    scanned = before.scanned_catalog if before else ""
    in_view = [] if scanned == scope.catalog.fingerprint else _tools_by_policy(scope, plan)
    new = {t.name: (SentTool(t.name, "late" if before else "start"), t) for t in in_view}
    loaded = (scope.get(n) for n in scope.session.loaded if n not in new)
    # A hosted search has every tool in its list already and finds the loaded ones itself.
    if not (plan.is_hosted and is_same):
        arrival_of = arrival_lookup(scope.session, plan.mechanism)
        new |= {t.name: (SentTool(t.name, arrival_of(t.name)), t) for t in loaded if t is not None}
    if plan.is_hosted:
        free = MAX_HOSTED_TOOLS - len(names)
        rest = [t for t in scope.tools if t.name not in names and t.name not in new][:free]
        # The first list of a hosted search is "offered". Later tools are "added" and follow
        # the search entry, so that the list still begins with the same bytes.
        arrival: Arrival = "added" if is_same else "offered"
        used = {s.namespace for s in before.sent} if before else set[str]()
        pairs = assign_namespaces(plan.mechanism, rest, used=used)
        new |= {t.name: (SentTool(t.name, arrival, space), t) for t, space in pairs}
    return [pair for name, pair in new.items() if name not in names]


def _keeps_place(sent: SentTool, snapshot: ViewSnapshot, scope: Scope) -> bool:
    """Whether a tool keeps its place: it must be allowed and loaded; its server may be gone."""
    tool = snapshot.tools.get(sent.name)
    # Security comes before the cache: a tool that is no longer allowed leaves the list.
    if tool is None or not is_allowed(scope.catalog.get(sent.name) or tool, scope.allow):
        return False
    return sent.arrival not in ("loaded", "carried") or scope.is_loaded(sent.name)


def _tools_by_policy(scope: Scope, plan: ViewPlan) -> list[Tool]:
    """The tools that the policy puts in view, whatever is loaded."""
    small = scope.is_small
    return [t for t in scope.tools if plan.is_whole or scope.policy.visibility(t, is_small=small)]


def _is_listed(sent: SentTool, plan: ViewPlan) -> bool:
    """Whether the list shows a tool: on dispatch, only the tools it began with."""
    return plan.surface != "dispatch" or sent.arrival == "start"


def _entry_for(sent: SentTool, tool: Tool, plan: ViewPlan) -> ToolEntry:
    """The entry of a sent tool: on native, tools that arrived later are deferred."""
    # A hosted search needs every tool it may find, and those it may have found, even if their
    # server is gone: messages refer to them. A search that we answer needs only what it found.
    if plan.surface != "native" or sent.arrival in ("start", "carried"):
        return ToolEntry(tool)
    is_late = sent.arrival != "offered"
    return ToolEntry(tool, "deferred", namespace=sent.namespace, is_late=is_late)


def _catalog_entries(profile: Profile, scope: Scope) -> list[ToolEntry]:
    """Every tool of the catalog; deferred ones as stubs if the profile hides schemas."""
    if profile.hiding == "prompt":
        return [ToolEntry(t) for t in scope.tools]
    return [ToolEntry(t, "full" if scope.visibility(t) else "stub") for t in scope.tools]


def _fit_to_capacity(entries: Sequence[ToolEntry], capacity: int | None) -> list[ToolEntry]:
    """The first entries, up to the capacity."""
    if capacity is None:
        return [*entries]
    fitting: list[ToolEntry] = []
    for entry in entries:
        # Deferred entries do not count: the provider loads them itself, and its search has a
        # limit of its own (MAX_HOSTED_TOOLS).
        capacity -= entry.state != "deferred"
        if capacity >= 0 or entry.state == "deferred":
            fitting.append(entry)
    return fitting
