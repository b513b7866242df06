"""Answer calls of discovery tools: pure functions from a session to a reply and a new session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..catalog.catalog import Catalog
from ..catalog.result import Content, Result
from ..catalog.tool import Tool
from ..errors import StartingError, ToolscoutError, UnknownToolError
from ..events import Event, LoadToolsEvent, SearchEvent, UnloadToolsEvent
from ..search.engine import Allow, Engine
from ..search.pipeline import MISSING_NAMES_PREFIX, note_missing_names
from ..search.query import parse_all
from .profile import Metatool, Profile, Role, role_for_name
from .reply import ToolSearchResult, json_result, render_side_notes
from .resolution import resolve_name, unknown_tool_message
from .scope import Scope
from .search_arguments import invalid_arguments, read_object, read_search_arguments, read_tool_names
from .session_state import SessionState
from .snapshot import record_delivery
from .tool_search import find_tools, overflow_names

LIST_FULL_HEADING = "Your tool list is full. Run with {dispatcher}:"
"""The line above the definitions of found tools that do not fit in a provider's list."""

RulesLookup = Callable[[Sequence[Tool]], str]
"""Returns the rules of use for some tools."""


HeldLookup = Callable[[str], ToolscoutError | None]
"""Says why a name that is not in the catalog cannot be used now; None if there is no such tool.

With an empty name: why there is no tool at all.
"""


def no_rules(_: Sequence[Tool]) -> str:
    """No rules."""
    return ""


def nothing_held(_: str) -> None:
    """No tool is held."""


@dataclass(frozen=True, slots=True)
class InnerCall:
    """The call inside a `call_tool`: it is authorised, validated and logged under its own name."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryOutcome:
    """The outcome of a discovery tool; if `call` is set, run that call and return its result.

    `starting` are the servers without which it could not answer.
    """

    session: SessionState
    result: Result
    loaded: tuple[str, ...] = ()
    found: tuple[Tool, ...] = ()
    events: tuple[Event, ...] = ()
    call: InnerCall | None = None
    starting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryCall:
    """One call of a discovery tool, with everything needed to answer it."""

    profile: Profile
    tool: Metatool
    arguments: Mapping[str, Any]
    scope: Scope
    engine: Engine
    rules: RulesLookup
    held: HeldLookup
    extras: tuple[Tool, ...] = ()

    @property
    def session(self) -> SessionState:
        """The session before the call."""
        return self.scope.session

    @property
    def shown(self) -> frozenset[str]:
        """The names of tools that are in view and in no catalog."""
        metatools = (m.name for m in self.profile.metatools)
        return frozenset((*metatools, *(t.name for t in self.extras)))

    def answer(self, result: Result) -> DiscoveryOutcome:
        """An outcome that leaves the session unchanged."""
        return DiscoveryOutcome(session=self.session, result=result)


def role_of(profile: Profile, name: str, catalog: Catalog) -> Role | None:
    """The role of a discovery tool by its name here, or by its name in another design."""
    for candidate in profile.metatools:
        if candidate.name == name:
            return candidate.role
    # A real tool called `list_tools` wins over the spelling of another design.
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
    held: HeldLookup = nothing_held,
    extras: Sequence[Tool] = (),
) -> DiscoveryOutcome:
    """Answer a call of a discovery tool; errors become replies and are never raised.

    `extras` are the tools that features add to the view. `held` explains tools that exist but are
    held for approval.
    """
    role = role_of(profile, name, catalog)
    tool = _tool_for(profile, role) if role else None
    scope = Scope.of(profile.policy, catalog, session, allow)
    if role is None or tool is None:
        known = ", ".join(m.name for m in profile.metatools)
        text = f"{name} is not a discovery tool of the profile {profile.name}; they are: {known}."
        return DiscoveryOutcome(session=session, result=Result.error(text))
    call = DiscoveryCall(
        profile=profile,
        tool=tool,
        arguments=arguments,
        scope=scope,
        engine=engine,
        rules=rules,
        held=held,
        extras=tuple(extras),
    )
    try:
        outcome = _ROLE_ACTIONS[role](call)
    except ToolscoutError as error:
        return call.answer(profile.render_error(error))
    loaded = [t for n in outcome.loaded if (t := scope.get(n)) is not None]
    if loaded:
        outcome = replace(outcome, session=record_delivery(outcome.session, loaded))
    tools = [*loaded, *outcome.found]
    return _add_overflow_definitions(call, outcome, tools) if tools else outcome


def _add_overflow_definitions(
    call: DiscoveryCall, outcome: DiscoveryOutcome, tools: Sequence[Tool]
) -> DiscoveryOutcome:
    """Add how to run tools that do not fit in the provider's list, and their definitions."""
    overflow = overflow_names(call.profile, replace(call.scope, session=outcome.session))
    unlisted = {t.name: t for t in tools if t.name in overflow}
    dispatcher = call.profile.dispatcher()
    if not unlisted or dispatcher is None:
        return outcome
    heading = LIST_FULL_HEADING.format(dispatcher=dispatcher.name)
    text = f"{heading}\n{call.profile.describe([*unlisted.values()])}"
    result = replace(outcome.result, content=(*outcome.result.content, Content(text=text)))
    return replace(outcome, result=result)


def _search(call: DiscoveryCall) -> DiscoveryOutcome:
    arguments = read_search_arguments(call.profile, call.tool, call.arguments)
    if not call.scope.catalog and not call.profile.searches_empty_catalog:
        return _explain_empty_catalog(call, arguments.queries)
    search = find_tools(call.profile, arguments, call.scope, call.engine, shown=call.shown)
    rules = call.rules(search.found.tools) if search.found.tools else ""
    found = replace(search.found, rules=rules, extras=call.extras)
    return DiscoveryOutcome(
        session=search.session,
        result=_report_held_names(call, found),
        loaded=found.loaded,
        found=found.tools,
        events=_search_events(search.session, found),
    )


def _explain_empty_catalog(call: DiscoveryCall, queries: Sequence[str]) -> DiscoveryOutcome:
    why = call.held("")
    text = "No tools are connected now, so there is nothing to find."
    result = Result.error(text) if why is None else Result.error(str(why), code=why.code)
    # Without a hit, but with its queries: they belong into the record of a search that failed.
    search = SearchEvent(session=call.session.id, queries=tuple(queries), found=())
    starting = why.servers if isinstance(why, StartingError) else ()
    return replace(call.answer(result), events=(search,), starting=starting)


def _report_held_names(call: DiscoveryCall, found: ToolSearchResult) -> Result:
    """The reply, where names that the query selects and that are held do not count as unknown."""
    selected: list[str] = []
    with suppress(ToolscoutError):  # the profile may read queries as patterns
        selected = [name for query in parse_all(found.queries) for name in query.select]
    absent = [n for n in selected if not resolve_name(n, call.scope, aliases=call.profile.aliases)]
    held, unknown = _split_held(call, dict.fromkeys((*found.missing, *absent)))
    if not held:
        return _render_reply(call.profile, found)
    text = _join_reasons(held)
    if not found.tools and not unknown:
        return Result.of(text)
    notes = [note for note in found.notes if not note.startswith(MISSING_NAMES_PREFIX)]
    still_absent = [name for name in absent if name in unknown]
    notes += [note_missing_names(still_absent)] if still_absent else []
    missing = tuple(name for name in found.missing if name in unknown)
    result = _render_reply(call.profile, replace(found, missing=missing, notes=tuple(notes)))
    return replace(result, content=(*result.content, Content(text=text)), raw=None)


def _split_held(
    call: DiscoveryCall, names: Iterable[str]
) -> tuple[list[ToolscoutError], tuple[str, ...]]:
    """Why some names that were not found are held, and the names that do not exist."""
    reasons = {name: call.held(name) for name in names}
    held = [reason for reason in reasons.values() if reason is not None]
    return held, tuple(name for name, reason in reasons.items() if reason is None)


def _join_reasons(reasons: Iterable[ToolscoutError]) -> str:
    return "\n".join(dict.fromkeys(map(str, reasons)))


def _render_reply(profile: Profile, found: ToolSearchResult) -> Result:
    """The profile's reply, with side notes as a second block for a native answer."""
    # For a native answer the provider replaces the first block by the tools. Rules, unmatched
    # queries and news would be lost in it, so they go into a block of their own.
    result = profile.reply(found)
    notes = render_side_notes(found) if found.is_native_answer else ""
    return replace(result, content=(*result.content, Content(text=notes))) if notes else result


def _search_events(session: SessionState, found: ToolSearchResult) -> tuple[Event, ...]:
    names = tuple(t.name for t in found.tools)
    search = SearchEvent(
        session=session.id,
        queries=found.queries,
        found=names,
        confidence=found.confidence,
        scores=found.scores,
        near=found.near,
        verdict=found.verdict,
        is_loading=found.awaits_vectors,
        embedder=found.vectors[0].embedder if found.vectors else "",
        vector=b"".join(v.values.astype(np.float16).tobytes() for v in found.vectors),
    )
    if not found.loaded:
        return (search,)
    return (search, LoadToolsEvent(session=session.id, names=found.loaded))


def _load(call: DiscoveryCall) -> DiscoveryOutcome:
    """Load by name; report added, already available, missing and ambiguous names."""
    names = read_tool_names(call.tool, call.arguments)
    server = call.arguments.get("server")
    added: list[str] = []
    already: list[str] = []
    ambiguous: list[str] = []
    missing: list[str] = []
    for name in names:
        tools = resolve_name(name, call.scope, aliases=call.profile.aliases)
        if isinstance(server, str) and server:
            tools = tuple(t for t in tools if t.server == server)
        if not tools:
            (already if name in call.shown else missing).append(name)
        elif len(tools) > 1:
            ambiguous += [t.name for t in tools]
        for tool in tools:
            is_known = tool.name in added or call.scope.visibility(tool).in_view
            (already if is_known else added).append(tool.name)
    held, unknown = _split_held(call, missing)
    lines = _format_groups(
        ("Added", added),
        ("Already available", already),
        ("Not found", unknown),
        ("On several servers, added under their full names", ambiguous),
    )
    lines = "\n".join(part for part in (lines, _join_reasons(held)) if part)
    session = call.session.load(*added, at_most=call.profile.limits.loaded)
    event = (LoadToolsEvent(session=session.id, names=tuple(added)),) if added else ()
    return DiscoveryOutcome(
        session=session, result=Result.of(lines), loaded=tuple(added), events=event
    )


def _unload(call: DiscoveryCall) -> DiscoveryOutcome:
    """Unload by name; discovery tools and pinned tools stay."""
    names = read_tool_names(call.tool, call.arguments)
    removed: list[str] = []
    not_loaded: list[str] = []
    for name in names:
        tools = resolve_name(name, call.scope, aliases=call.profile.aliases)
        loaded = [t.name for t in tools if call.scope.is_loaded(t.name)]
        # A loaded tool whose server is gone resolves to nothing, but its name can be unloaded.
        loaded = loaded or ([name] if call.scope.is_loaded(name) else [])
        removed += loaded
        not_loaded += [] if loaded else [name]
    lines = _format_groups(("Removed", removed), ("Not loaded, so nothing to remove", not_loaded))
    session = call.session.unload(*removed)
    event = (UnloadToolsEvent(session=session.id, names=tuple(removed)),) if removed else ()
    return DiscoveryOutcome(session=session, result=Result.of(lines), events=event)


def _list(call: DiscoveryCall) -> DiscoveryOutcome:
    """Every name there is, sorted."""
    own = (
        [m.name for m in call.profile.metatools if m.surfaces] if call.profile.lists_itself else []
    )
    names = sorted({*own, *(t.name for t in call.scope.tools)})
    return call.answer(json_result({"total": len(names), "tools": names}, indent=2))


def _describe(call: DiscoveryCall) -> DiscoveryOutcome:
    """The complete definitions of some tools, and the nearest names for unknown ones."""
    names = read_tool_names(call.tool, call.arguments)
    tools: dict[str, Tool] = {}
    missing: list[str] = []
    for name in names:
        found = resolve_name(name, call.scope, aliases=call.profile.aliases)
        tools |= {t.name: t for t in found}
        if not found:
            missing.append(name)
    held, unknown = _split_held(call, missing)
    reports = [
        *dict.fromkeys(map(str, held)),
        *(unknown_tool_message(call.profile, n, call.scope, call.engine) for n in unknown),
    ]
    # The model has the schemas now, so the tools count as loaded and calls are not refused.
    session = call.session.load(*tools, at_most=call.profile.limits.loaded)
    rules = call.rules([*tools.values()]) if tools else ""
    described = [call.profile.describe([*tools.values()]), rules] if tools else []
    text = "\n\n".join(part for part in (*described, *reports) if part)
    code = next((reason.code for reason in held if not unknown), UnknownToolError.code)
    result = Result.of(text) if tools else Result.error(text, code=code)
    return DiscoveryOutcome(
        session=session,
        result=result,
        loaded=tuple(tools),
        found=(*tools.values(),),
        starting=tuple(s for why in held if isinstance(why, StartingError) for s in why.servers),
    )


def _call(call: DiscoveryCall) -> DiscoveryOutcome:
    """Return the inner call for the caller to run."""
    name, arguments = call.arguments.get("name"), call.arguments.get("arguments", {})
    if not isinstance(name, str) or not name.strip():
        raise invalid_arguments(call.tool, "name must be the name of a tool")
    beside = {k: v for k, v in call.arguments.items() if k not in ("name", "arguments")}
    if beside and arguments:
        raise invalid_arguments(call.tool, f"{', '.join(beside)} must be inside arguments")
    # Some models write the inner arguments beside the name. They are taken from there.
    inner = InnerCall(name.strip(), read_object(call.tool, beside or arguments))
    return replace(call.answer(Result.of("")), call=inner)


def _format_groups(*groups: tuple[str, Sequence[str]]) -> str:
    return "\n".join(f"{label}: {', '.join(names)}." for label, names in groups if names)


_ROLE_ACTIONS: Mapping[Role, Callable[[DiscoveryCall], DiscoveryOutcome]] = {
    "search": _search,
    "load": _load,
    "unload": _unload,
    "list": _list,
    "describe": _describe,
    "call": _call,
}
