"""Views: the tools and instructions that a model gets now, in its provider's format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..catalog.catalog import Catalog
from ..catalog.sanitization import compact_json
from ..catalog.tool import Tool
from ..search.engine import Allow
from ..tokens import default_counter
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
from .prompts import Prompt, PromptContext, join_paragraphs
from .rendering import RenderedTool, ToolRenderer
from .resolution import resolve_name
from .roster import build_roster
from .scope import Scope, Visibility, is_allowed, is_small_catalog
from .session_state import SessionState
from .snapshot import ViewSnapshot, drop_outdated_snapshot, read_snapshot, write_snapshot
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

# Over recorded conversations dispatch is billed least with every provider's prices. A test
# recomputes the figures (docs/decisions/surfaces.md).
AUTO_SURFACE: Surface = "dispatch"
"""The surface that `auto` takes for a model without native search."""


def plan_view(
    profile: Profile, target: Target, scope: Scope, before: ViewSnapshot | None
) -> ViewPlan:
    """Choose surface and mechanism; without native search the profile names the fallback."""
    if not profile.metatools:
        # In code mode programs call the tools, which then need not be listed.
        return ViewPlan("dispatch") if profile.runs_code else ViewPlan("direct", is_whole=True)
    if scope.is_small and profile.surface != "dispatch":
        return ViewPlan("direct")
    if profile.surface in ("auto", "native"):
        previous = before.mechanism if before else ""
        mechanism = choose_mechanism(
            target, profile.native, tools=len(scope.tools), previous=previous
        )
        if mechanism:
            return ViewPlan("native", mechanism, is_hosted(mechanism))
        if profile.surface == "native" and profile.native.fallback == "everything":
            return ViewPlan("direct", is_whole=True)
    match profile.surface:
        case "load" | "dispatch":
            return ViewPlan(profile.surface)
        case "auto" | "native":
            # Without a tool to call through, dispatch would find tools that nothing can run.
            return ViewPlan(AUTO_SURFACE if profile.tool_for("call") else "load")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Tools and instructions for a request, ready for the provider's SDK.

    `text` is the tool list as JSON, the same bytes for the same state. `names` maps each name in
    it to the catalog name. `force` is the tool that the model must call now, if any, and `search`
    is the name of the search. `session` records what was sent: keep it, so that the next view
    only appends. `rendered` are the tools one by one, with their definitions.

    `instructions` hold all the text for the model, slots included. A program that sends the slots
    as messages of their own, as `Agent` does, takes `instructions_without_slots` instead.
    """

    text: str
    instructions: str
    session: SessionState
    target: Target
    surface: Surface
    mechanism: Mechanism
    names: Mapping[str, str]
    slots: tuple[tuple[str, str], ...] = ()
    instructions_without_slots: str = ""
    force: str | None = None
    search: str = ""
    notes: tuple[str, ...] = ()
    rendered: tuple[RenderedTool, ...] = field(default=(), compare=False, repr=False)

    @property
    def tools(self) -> list[Any]:
        """The tool list, decoded on each access; the item types differ between SDKs."""
        return json.loads(self.text)

    @property
    def prefix(self) -> str:
        """The part that a provider caches: tools in its context, then the instructions."""
        # Deferred definitions are outside the context until they are loaded. Of a namespace only
        # its name and description are inside.
        visible = [
            {k: v for k, v in tool.items() if tool.get("type") != "namespace" or k != "tools"}
            for tool in self.tools
            if not tool.get("defer_loading")
        ]
        # Without the closing bracket, so that a list that grew begins with the one before it.
        return f"{compact_json(visible)[:-1]}\n{self.instructions}"

    def with_introduction(self, text: str) -> View:
        """The view with a text in front of its instructions."""
        return replace(
            self,
            instructions=join_paragraphs(text, self.instructions),
            instructions_without_slots=join_paragraphs(text, self.instructions_without_slots),
        )

    def real_name(self, name: str) -> str:
        """The catalog name of a tool that the model called."""
        return self.names.get(name, name)

    def native_answer(self, tools: Sequence[Tool]) -> str:
        """Found tools in the format that this provider loads; empty if it has none."""
        rendered = ToolRenderer(target=self.target).render([ToolEntry(t) for t in tools])
        return native_answer(self.mechanism, rendered.tools)

    def references_to_restore(self, names: Iterable[str]) -> SyntheticSearch | None:
        """A search that refers to the loaded, deferred tools, except these names."""
        if self.mechanism not in REFERENCE_MECHANISMS:
            return None
        present, loaded = {*names}, {*self.session.loaded}
        deferred = [tool["name"] for tool in self.tools if tool.get("defer_loading")]
        lost = [n for n in deferred if n not in present and self.real_name(n) in loaded]
        return SyntheticSearch(self.search, tuple(lost)) if lost else None

    def restore_references(self, messages: Sequence[Any]) -> list[Any]:
        """The messages left by a compaction, with references to loaded tools restored.

        A search and its answer are inserted after the first message, in the provider's format.
        Messages that still refer to all loaded tools, or need not, stay unchanged.
        """
        search = self.references_to_restore(tool_references(messages))
        return insert_search(messages, search) if search else [*messages]


def view(
    profile: Profile,
    catalog: Catalog,
    session: SessionState,
    *,
    target: Target | str = "plain",
    allow: Allow | None = None,
    extras: Sequence[Tool] = (),
) -> View:
    """Build the view for the model of a conversation.

    `extras` are tools that features add; they are always in view and must stay the same for a
    conversation.
    """
    target = Target.of(target)
    session = drop_outdated_snapshot(session, profile.policy.fingerprint)
    before = read_snapshot(session)
    scope = Scope.of(profile.policy, catalog, session, allow)
    is_direct = _is_small(profile, scope, before) and _fits(
        profile, target, scope, before, len(extras)
    )
    scope = replace(scope, was_small=is_direct)
    plan = plan_view(profile, target, scope, before)
    capacity = tool_capacity(profile, plan, max_tools=target.provider.max_tools, extras=len(extras))
    snapshot = update_snapshot(profile, scope, before, plan, capacity=capacity)
    session = _fix_roster(profile, scope, plan, write_snapshot(session, snapshot))
    # From here on the scope is that of the new view: tools it just put in view are in view.
    scope = replace(scope, session=session, permanent_names=snapshot.permanent_names)
    tool_list = build_tool_list(profile, scope, snapshot, plan, extras)
    search = search_name(plan.mechanism, _own_search_name(profile, target))
    renderer = ToolRenderer(target=target, search=search, stub_hint=profile.stub_hint)
    rendered = renderer.render(tool_list.entries)
    tools = arrange_tools(plan.mechanism, rendered.tools, search_at=tool_list.search_at)
    prompt = _render_prompt(profile, scope, plan, extras, search)
    return View(
        text=compact_json(target.provider.wrap(tools)),
        instructions=join_paragraphs(prompt.instructions, *(text for _, text in prompt.slots)),
        instructions_without_slots=prompt.instructions,
        session=session,
        target=target,
        surface=plan.surface,
        mechanism=plan.mechanism,
        names=rendered.names,
        slots=prompt.slots,
        force=search if _is_forced(profile, session, plan) else None,
        search=search,
        notes=_overflow_notes(profile, target, scope, plan, tool_list),
        rendered=rendered.tools,
    )


def why(
    profile: Profile,
    name: str,
    *,
    session: SessionState,
    catalog: Catalog,
    allow: Allow | None = None,
) -> Visibility:
    """Whether a tool is in view in a conversation, and why."""
    metatool = next((m for m in profile.metatools if m.name == name), None)
    if metatool is not None:
        before = read_snapshot(session)
        surface = before.surface if before else ""
        is_listed = surface in metatool.surfaces if surface else bool(metatool.surfaces)
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
    """Whether the catalog is small enough to be shown whole."""
    # Once tools are hidden they stay hidden, even if the catalog shrinks: showing all of them
    # later would change the list that the provider has cached.
    if profile.surface == "dispatch" or (before is not None and not before.is_direct):
        return False
    if profile.needs_deferred_tools and not _has_deferrable_tools(profile, scope):
        return True
    return is_small_catalog(profile.policy, scope.catalog, scope.allow)


def _has_deferrable_tools(profile: Profile, scope: Scope) -> bool:
    """Whether there is anything to load now, or was before it was loaded."""
    # Over the whole catalog: what a caller may use never takes a discovery tool away.
    return any(not profile.policy.visibility(tool) for tool in scope.catalog)


def _fix_roster(
    profile: Profile, scope: Scope, plan: ViewPlan, session: SessionState
) -> SessionState:
    """Fix the roster when the conversation first needs one."""
    if not profile.roster_tokens or plan.surface == "direct" or session.roster is not None:
        return session
    roster = build_roster(
        scope.tools, budget_tokens=profile.roster_tokens, counter=default_counter()
    )
    return session.with_roster(roster.text, roster.known)


def _fits(
    profile: Profile, target: Target, scope: Scope, before: ViewSnapshot | None, extras: int
) -> bool:
    """Whether a provider's list has room for everything, and later for the discovery tools."""
    max_tools = target.provider.max_tools
    if max_tools is None:
        return True
    # Tools that were sent keep their place even when their server is gone, so they count.
    names = {s.name for s in before.sent} if before else set[str]()
    names.update(t.name for t in scope.tools)
    return len(names) + extras + len(profile.metatools) <= max_tools


def _overflow_notes(
    profile: Profile, target: Target, scope: Scope, plan: ViewPlan, tool_list: ToolList
) -> tuple[str, ...]:
    """Notes about tools that did not fit."""
    notes: list[str] = []
    if tool_list.left_out:
        dispatcher = overflow_tool(profile, plan)
        how = f"; run them with {dispatcher.name}" if dispatcher else ""
        limit = f"{target.provider.name} accepts {target.provider.max_tools} tools"
        notes.append(f"{limit}: {tool_list.left_out} were left out{how}.")
    if plan.is_hosted and (unoffered := len(scope.tools) - len(tool_list.entries)) > 0:
        notes.append(
            f"A hosted search accepts {MAX_HOSTED_TOOLS} tools: {unoffered} were left out."
        )
    return tuple(notes)


def _render_prompt(
    profile: Profile, scope: Scope, plan: ViewPlan, extras: Sequence[Tool], search: str
) -> Prompt:
    own = profile.metatools_on(plan.surface)
    if plan.surface == "direct" and profile.metatools and not own:
        return Prompt()
    context = PromptContext(
        own=(*(m.tool for m in own), *extras),
        scope=scope,
        roster=scope.session.roster or "",
        surface=plan.surface,
        search=search,
    )
    return profile.prompt(context)


def _own_search_name(profile: Profile, target: Target) -> str:
    search = profile.tool_for("search")
    return target.provider.to_wire_name(search.name) if search else ""


def _is_forced(profile: Profile, session: SessionState, plan: ViewPlan) -> bool:
    """Whether the model must search now, because the profile insists and it has not yet."""
    is_first = not session.searches and not session.loaded
    has_search = any(m.role == "search" for m in profile.metatools_on(plan.surface))
    return profile.forces_search and is_first and has_search and can_be_forced(plan.mechanism)
