"""What a call of a discovery tool does: a new session, an answer, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..catalog.catalog import Catalog
from ..catalog.result import Content, Result
from ..catalog.tool import Tool
from ..errors import ToolscoutError, UnknownTool
from ..events import Event
from ..search.engine import Allow, Engine
from .metatools import Metatool, Role, role_for_name
from .name_resolution import nearest_names, resolve_name
from .profile import Profile
from .reply import ToolSearchResult, json_result, render_side_notes
from .scope import Scope
from .search_arguments import invalid_arguments, read_object, read_search_arguments, read_tool_names
from .session_state import SessionState
from .snapshot import record_delivery
from .tool_search import find_tools, overflow_names

UNKNOWN_TOOL_PREFIX = "There is no tool "
"""How an answer begins that knows no tool of a name."""

LIST_FULL_HEADING = "Your tool list is full. Run with {bridge}:"
"""The line above the definitions of found tools that a provider's list has no room for."""

RulesLookup = Callable[[Sequence[Tool]], str]
"""Gives the rules of use that go with some tools."""


def no_rules(_: Sequence[Tool]) -> str:
    """No rules go with any tool."""
    return ""


@dataclass(frozen=True, slots=True)
class InnerCall:
    """The call that a `call_tool` stands for: it is authorised, validated and logged as itself."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a discovery tool did. With `call` set, that call is to be run and answers instead."""

    session: SessionState
    result: Result
    loaded: tuple[str, ...] = ()
    found: tuple[Tool, ...] = ()
    events: tuple[Event, ...] = ()
    call: InnerCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryCall:
    """One call of a discovery tool, with all it may know."""

    profile: Profile
    tool: Metatool
    arguments: Mapping[str, Any]
    scope: Scope
    engine: Engine
    rules: RulesLookup

    @property
    def session(self) -> SessionState:
        """The session as it is before the call."""
        return self.scope.session

    def answer(self, result: Result) -> Outcome:
        """An outcome that only says something."""
        return Outcome(session=self.session, result=result)


def role_of(profile: Profile, name: str, catalog: Catalog) -> Role | None:
    """What a name does as a discovery tool; other designs' spellings count if no tool has them."""
    for candidate in profile.metatools:
        if candidate.name == name:
            return candidate.role
    role = None if name in catalog else role_for_name(name)
    return role if role is not None and _tool_for(profile, role) else None


def _tool_for(profile: Profile, role: Role) -> Metatool | None:
    return profile.dispatcher() if role == "call" else profile.tool_for(role)


def discover(
    profile: Profile,
    name: str,
    arguments: Mapping[str, Any],
    *,
    session: SessionState,
    engine: Engine,
    catalog: Catalog,
    allow: Allow | None = None,
    rules: RulesLookup = no_rules,
) -> Outcome:
    """Answer a call of a discovery tool; whatever is wrong with it is said in the answer."""
    role = role_of(profile, name, catalog)
    tool = _tool_for(profile, role) if role else None
    scope = Scope.of(profile.policy, catalog, session, allow)
    if role is None or tool is None:
        known = ", ".join(m.name for m in profile.metatools)
        text = f"{name} is not a discovery tool of the profile {profile.name}; they are: {known}."
        return Outcome(session=session, result=Result.error(text))
    ask = DiscoveryCall(
        profile=profile, tool=tool, arguments=arguments, scope=scope, engine=engine, rules=rules
    )
    try:
        outcome = _ROLE_ACTIONS[role](ask)
    except ToolscoutError as error:
        return ask.answer(profile.render_error(error))
    loaded = [t for n in outcome.loaded if (t := scope.get(n)) is not None]
    outcome = (
        replace(outcome, session=record_delivery(outcome.session, loaded)) if loaded else outcome
    )
    return _add_overflow_definitions(ask, outcome, [*loaded, *outcome.found])


def _add_overflow_definitions(
    ask: DiscoveryCall, outcome: Outcome, tools: Sequence[Tool]
) -> Outcome:
    """The outcome that also says how to run what the provider's list has no room for."""
    over = overflow_names(ask.profile, replace(ask.scope, session=outcome.session))
    full = {t.name: t for t in tools if t.name in over}
    bridge = ask.profile.dispatcher()
    if not full or bridge is None:
        return outcome
    text = (
        f"{LIST_FULL_HEADING.format(bridge=bridge.name)}\n{ask.profile.describe([*full.values()])}"
    )
    result = replace(outcome.result, content=(*outcome.result.content, Content(text=text)))
    return replace(outcome, result=result)


def _search(ask: DiscoveryCall) -> Outcome:
    asked = read_search_arguments(ask.profile, ask.tool, ask.arguments)
    if not ask.scope.catalog:
        return ask.answer(Result.error("No tools are connected now, so there is nothing to find."))
    finding = find_tools(ask.profile, asked, ask.scope, ask.engine)
    session = finding.session
    found = replace(
        finding.found, rules=ask.rules(finding.found.tools) if finding.found.tools else ""
    )
    return Outcome(
        session=session,
        result=_render_reply(ask.profile, found),
        loaded=found.loaded,
        found=found.tools,
        events=_search_events(session, found),
    )


def _render_reply(profile: Profile, found: ToolSearchResult) -> Result:
    """The reply; where the model is shown tools instead of it, with words that go beside them."""
    result = profile.reply(found)
    words = render_side_notes(found) if found.is_native_answer else ""
    return replace(result, content=(*result.content, Content(text=words))) if words else result


def _search_events(session: SessionState, found: ToolSearchResult) -> tuple[Event, ...]:
    names = tuple(t.name for t in found.tools)
    facts = {"queries": found.queries, "found": names, "confidence": found.confidence}
    search = Event("search", session.id, facts)
    if not found.loaded:
        return (search,)
    return (search, Event("load", session.id, {"names": found.loaded}))


def _load(ask: DiscoveryCall) -> Outcome:
    """Load by name; say what was added, what was there, what does not exist."""
    names = read_tool_names(ask.tool, ask.arguments)
    server = ask.arguments.get("server")
    added: list[str] = []
    already: list[str] = []
    apart: list[str] = []
    missing: list[str] = []
    for name in names:
        tools = resolve_name(name, ask.scope, aliases=ask.profile.aliases)
        if isinstance(server, str) and server:
            tools = tuple(t for t in tools if t.server == server)
        if not tools:
            missing.append(name)
        elif len(tools) > 1:
            apart += [t.name for t in tools]
        for tool in tools:
            seen = tool.name in added or ask.scope.visibility(tool).in_view
            (already if seen else added).append(tool.name)
    lines = _format_groups(
        ("Added", added),
        ("Already available", already),
        ("Not found", missing),
        ("On several servers, added under their full names", apart),
    )
    session = ask.session.load(*added, at_most=ask.profile.limits.loaded)
    event = (Event("load", session.id, {"names": tuple(added)}),) if added else ()
    return Outcome(session=session, result=Result.of(lines), loaded=tuple(added), events=event)


def _unload(ask: DiscoveryCall) -> Outcome:
    """Unload by name; discovery tools and pinned ones stay."""
    names = read_tool_names(ask.tool, ask.arguments)
    removed: list[str] = []
    kept: list[str] = []
    for name in names:
        tools = resolve_name(name, ask.scope, aliases=ask.profile.aliases)
        loaded = [t.name for t in tools if t.name in ask.scope.loaded]
        loaded = loaded or ([name] if name in ask.scope.loaded else [])
        removed += loaded
        kept += [] if loaded else [name]
    lines = _format_groups(("Removed", removed), ("Not loaded, so nothing to remove", kept))
    session = ask.session.unload(*removed)
    event = (Event("unload", session.id, {"names": tuple(removed)}),) if removed else ()
    return Outcome(session=session, result=Result.of(lines), events=event)


def _list(ask: DiscoveryCall) -> Outcome:
    """Every name there is, in order."""
    own = [m.name for m in ask.profile.metatools if m.shown] if ask.profile.lists_itself else []
    names = sorted({*own, *(t.name for t in ask.scope.tools)})
    return ask.answer(json_result({"total": len(names), "tools": names}, indent=2))


def _describe(ask: DiscoveryCall) -> Outcome:
    """The whole definitions of some tools, and the nearest names of those that do not exist."""
    names = read_tool_names(ask.tool, ask.arguments)
    tools: dict[str, Tool] = {}
    missing: list[str] = []
    for name in names:
        found = resolve_name(name, ask.scope, aliases=ask.profile.aliases)
        tools |= {t.name: t for t in found}
        if not found:
            missing.append(unknown_tool_message(ask.profile, name, ask.scope, ask.engine))
    session = ask.session.load(*tools, at_most=ask.profile.limits.loaded)
    text = "\n\n".join([*([ask.profile.describe([*tools.values()])] if tools else []), *missing])
    result = Result.of(text) if tools else Result.error(text, code=UnknownTool.code)
    return Outcome(session=session, result=result, loaded=tuple(tools), found=(*tools.values(),))


def _call(ask: DiscoveryCall) -> Outcome:
    """Hand over the inner call."""
    name, arguments = ask.arguments.get("name"), ask.arguments.get("arguments", {})
    if not isinstance(name, str) or not name.strip():
        raise invalid_arguments(ask.tool, "name must be the name of a tool")
    beside = {k: v for k, v in ask.arguments.items() if k not in ("name", "arguments")}
    if beside and arguments:
        raise invalid_arguments(ask.tool, f"{', '.join(beside)} must stand inside arguments")
    # Some models write the inner arguments beside the name; none is lost by that.
    inner = InnerCall(name.strip(), read_object(ask.tool, beside or arguments))
    return replace(ask.answer(Result.of("")), call=inner)


def unknown_tool_message(profile: Profile, name: str, scope: Scope, engine: Engine) -> str:
    """Says that there is no such tool, with the nearest names and the way to find others."""
    near = nearest_names(name, scope, engine)
    also = f" Nearest names: {', '.join(near)}." if near else ""
    # Where everything is in view, no search is.
    is_whole = scope.is_small and profile.surface != "dispatch"
    look = " Look for others with a search." if profile.tool_for("search") and not is_whole else ""
    return f"{UNKNOWN_TOOL_PREFIX}{name[:100]!r}.{also}{look}"


def _format_groups(*groups: tuple[str, list[str]]) -> str:
    return "\n".join(f"{label}: {', '.join(names)}." for label, names in groups if names)


_ROLE_ACTIONS: Mapping[Role, Callable[[DiscoveryCall], Outcome]] = {
    "search": _search,
    "load": _load,
    "unload": _unload,
    "list": _list,
    "describe": _describe,
    "call": _call,
}
