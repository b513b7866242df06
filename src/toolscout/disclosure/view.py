"""Exactly what the model sees now, in the form its provider takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..catalog.catalog import Catalog
from ..catalog.tool import Tool
from ..search.engine import Allow
from ..tokens import default_counter
from .name_resolution import resolve_name
from .namespaces import MAX_HOSTED_TOOLS
from .native import (
    arrange_tools,
    can_be_forced,
    choose_mechanism,
    is_hosted,
    native_answer,
    search_name,
)
from .profile import Profile
from .prompts import Prompt, PromptContext
from .rendering import ToolRenderer
from .roster import build_roster
from .scope import Scope, Visibility, is_allowed, is_small_catalog
from .session_state import SessionState
from .snapshot import ViewSnapshot, read_snapshot, write_snapshot
from .surface import REFERENCE_MECHANISMS, Mechanism, Surface
from .synthetic_search import SyntheticSearch, insert_search, tool_references
from .target import Target
from .tool_list import (
    ToolEntry,
    ToolList,
    ViewPlan,
    build_tool_list,
    overflow_tool,
    tool_capacity,
    update_snapshot,
)

AUTO_SURFACE: Surface = "dispatch"
"""What `auto` means where a model has no native search: over recorded conversations it is billed
least with every provider's prices (docs/decisions/surfaces.md has the figures)."""


def plan_view(
    profile: Profile, target: Target, scope: Scope, before: ViewSnapshot | None
) -> ViewPlan:
    """The way of this view; a model without native search falls back as the profile says."""
    if not profile.metatools:
        return ViewPlan("direct", is_whole=True)
    if scope.is_small and profile.surface != "dispatch":
        return ViewPlan("direct")
    if profile.surface in ("auto", "native"):
        was = before.mechanism if before else ""
        name = choose_mechanism(target, profile.native, tools=len(scope.tools), before=was)
        if name:
            return ViewPlan("native", name, is_hosted(name))
        if profile.surface == "native" and profile.native.fallback == "everything":
            return ViewPlan("direct", is_whole=True)
    match profile.surface:
        case "load" | "dispatch":
            return ViewPlan(profile.surface)
        case "auto" | "native":
            return ViewPlan(AUTO_SURFACE if profile.tool_for("call") else "load")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What goes into a request: tools and instructions, ready for the provider's SDK.

    `text` is the tool list as JSON, the same bytes for the same state. `names` gives the real
    name behind each name in it. `force` is the tool that the model must call now, if the profile
    says so, `search` what it looks for tools with. `session` has what was shown fixed in it: keep
    it, so that the next view can only append.
    """

    text: str
    instructions: str
    session: SessionState
    target: Target
    surface: Surface
    mechanism: Mechanism
    names: Mapping[str, str]
    slots: tuple[tuple[str, str], ...] = ()
    force: str | None = None
    search: str = ""
    notes: tuple[str, ...] = ()

    @property
    def tools(self) -> list[Any]:
        """The tool list, decoded afresh; every SDK has a type of its own for what is in it."""
        return json.loads(self.text)

    @property
    def prefix(self) -> str:
        """What a provider caches of it: the tools that are really in its context, then the text."""
        kept = [
            {k: v for k, v in tool.items() if tool.get("type") != "namespace" or k != "tools"}
            for tool in self.tools
            if not tool.get("defer_loading")
        ]
        return f"{_compact_json(kept)[:-1]}\n{self.instructions}"

    def real_name(self, name: str) -> str:
        """The real name of a tool that the model called."""
        return self.names.get(name, name)

    def native_answer(self, tools: Sequence[Tool]) -> str:
        """Found tools in the form that this provider loads them from; empty where it has none."""
        sheet = ToolRenderer(target=self.target).render([ToolEntry(t) for t in tools])
        return native_answer(self.mechanism, sheet.written)

    def references_to_restore(self, names: Iterable[str]) -> SyntheticSearch | None:
        """What refers again to the loaded tools that wait in the list, but for these names."""
        if self.mechanism not in REFERENCE_MECHANISMS:
            return None
        there, loaded = {*names}, {*self.session.loaded}
        waiting = [tool["name"] for tool in self.tools if tool.get("defer_loading")]
        again = [n for n in waiting if n not in there and self.real_name(n) in loaded]
        return SyntheticSearch(self.search, tuple(again)) if again else None

    def restore_references(self, messages: Sequence[Any]) -> list[Any]:
        """The messages that a compaction left, with what brings back the tools they no longer do.

        That is a search and its answer behind the first message, in the provider's form; nothing
        where the tool list has all that is loaded, or the messages still refer to it.
        """
        again = self.references_to_restore(tool_references(messages))
        return insert_search(messages, again) if again else [*messages]


def view(
    profile: Profile,
    catalog: Catalog,
    session: SessionState,
    *,
    target: Target | str = "plain",
    allow: Allow | None = None,
    extras: Sequence[Tool] = (),
) -> View:
    """What the model of a conversation sees now.

    `extras` are tools that features add; they are always in view and must stay the same for a
    conversation.
    """
    target = Target.of(target)
    before = read_snapshot(session)
    scope = Scope.of(profile.policy, catalog, session, allow)
    is_direct = _is_small(profile, scope, before) and _fits(
        profile, target, scope, before, len(extras)
    )
    scope = replace(scope, was_small=is_direct)
    way = plan_view(profile, target, scope, before)
    room = tool_capacity(profile, way, most=target.provider.most_tools, extras=len(extras))
    snapshot = update_snapshot(profile, scope, before, way, room=room)
    session = _fix_roster(profile, scope, way, write_snapshot(session, snapshot))
    scope = replace(scope, session=session, permanent_names=snapshot.permanent_names)
    line = build_tool_list(profile, scope, snapshot, way, extras)
    search = search_name(way.mechanism, _own_search_name(profile, target))
    sheet = ToolRenderer(target=target, search=search, stub_hint=profile.stub_hint).render(
        line.entries
    )
    tools = arrange_tools(way.mechanism, sheet.written, search_at=line.search_at)
    prompt = _render_prompt(profile, scope, way, extras, search)
    return View(
        text=_compact_json(target.provider.wrap(tools)),
        instructions=prompt.instructions,
        session=session,
        target=target,
        surface=way.surface,
        mechanism=way.mechanism,
        names=sheet.names,
        slots=prompt.slots,
        force=search if _is_forced(profile, session, way) else None,
        search=search,
        notes=_overflow_notes(profile, target, scope, way, line),
    )


def why(
    profile: Profile,
    name: str,
    *,
    session: SessionState,
    catalog: Catalog,
    allow: Allow | None = None,
) -> Visibility:
    """Where a tool stands in a conversation, and the reason as a value and as a sentence."""
    metatool = next((m for m in profile.metatools if m.name == name), None)
    if metatool is not None:
        before = read_snapshot(session)
        surface = before.surface if before else ""
        is_listed = surface in metatool.shown if surface else bool(metatool.shown)
        return Visibility(name, "discovery" if is_listed else "elsewhere")
    scope = Scope.of(profile.policy, catalog, session, allow)
    tool = next(iter(resolve_name(name, scope, aliases=profile.aliases)), None)
    if tool is not None:
        return scope.visibility(tool)
    snapshot = read_snapshot(session)
    gone = snapshot.get(name) if snapshot else None
    if gone is not None and is_allowed(gone, allow):
        return Visibility(name, "lost")
    return Visibility(name, "unknown")


def _is_small(profile: Profile, scope: Scope, before: ViewSnapshot | None) -> bool:
    """Whether everything is in view: decided at the start, and never again once it was not."""
    if profile.surface == "dispatch" or (before is not None and not before.is_direct):
        return False
    return is_small_catalog(profile.policy, scope.catalog, scope.allow)


def _fix_roster(
    profile: Profile, scope: Scope, way: ViewPlan, session: SessionState
) -> SessionState:
    """Fix the roster when the conversation first needs one."""
    if not profile.roster_tokens or way.surface == "direct" or session.roster is not None:
        return session
    listed = build_roster(scope.tools, budget_tokens=profile.roster_tokens, by=default_counter())
    return session.with_roster(listed.text, listed.known)


def _fits(
    profile: Profile, target: Target, scope: Scope, before: ViewSnapshot | None, extras: int
) -> bool:
    """Whether a provider's list has room for everything, and for discovery tools if it grows."""
    most = target.provider.most_tools
    if most is None:
        return True
    names = {s.name for s in before.shown} if before else set[str]()
    names.update(t.name for t in scope.tools)
    return len(names) + extras + len(profile.metatools) <= most


def _overflow_notes(
    profile: Profile, target: Target, scope: Scope, way: ViewPlan, line: ToolList
) -> tuple[str, ...]:
    """What had to give."""
    notes: list[str] = []
    if line.left_out:
        bridge = overflow_tool(profile, way)
        how = f"; they are run through {bridge.name}" if bridge else ""
        limit = f"{target.provider.name} takes {target.provider.most_tools} tools"
        notes.append(f"{limit}: {line.left_out} were left out{how}.")
    if way.is_hosted and (unoffered := len(scope.tools) - len(line.entries)) > 0:
        notes.append(f"A hosted search takes {MAX_HOSTED_TOOLS} tools: {unoffered} were left out.")
    return tuple(notes)


def _render_prompt(
    profile: Profile, scope: Scope, way: ViewPlan, extras: Sequence[Tool], search: str
) -> Prompt:
    if way.surface == "direct" and profile.metatools:
        return Prompt()
    own = (*(m.tool for m in profile.metatools_on(way.surface)), *extras)
    roster_text = scope.session.roster or ""
    stage = PromptContext(
        own=own, scope=scope, roster=roster_text, surface=way.surface, search=search
    )
    return profile.prompt(stage)


def _own_search_name(profile: Profile, target: Target) -> str:
    search = profile.tool_for("search")
    return target.provider.to_wire_name(search.name) if search else ""


def _is_forced(profile: Profile, session: SessionState, way: ViewPlan) -> bool:
    """Whether the model must search now: the profile insists, none was seen, and one is there."""
    is_fresh = not session.searches and not session.loaded
    is_there = any(m.role == "search" for m in profile.metatools_on(way.surface))
    return profile.forces_search and is_fresh and is_there and can_be_forced(way.mechanism)


def _compact_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
