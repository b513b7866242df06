"""Resolve the name in a call to a tool, and decide whether the call runs, fails or loads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..catalog.catalog import Catalog
from ..catalog.result import Result
from ..catalog.tool import Tool
from ..errors import NotLoadedError, SourceError, UnknownToolError
from ..search.engine import Allow, Engine
from .native import is_hosted
from .profile import Profile
from .scope import Scope, is_allowed
from .session_state import SessionState
from .snapshot import read_snapshot

UNKNOWN_TOOL_PREFIX = "There is no tool "
"""The start of every answer about an unknown tool name."""


def resolve_name(
    name: str, scope: Scope, *, aliases: tuple[tuple[str, str], ...] = ()
) -> tuple[Tool, ...]:
    """The allowed tools that a name may mean; several when it is ambiguous.

    In this order: the exact name, a wire name, a name sent earlier, the name in another case
    style, an alias of the profile, an alias of the overlay. So an alias never hides a tool.
    """
    exact = scope.get(name)
    if exact is not None:
        return (exact,)
    sent = scope.tools_by_wire_name(name)
    if sent:
        return sent
    before = _previous_tool(name, scope)
    found = _resolve_loosely(name, scope) if before is None else _find_renamed(before, scope)
    if found or before is not None:
        return found
    alias_target = dict(aliases).get(name)
    if alias_target is not None:
        return resolve_name(alias_target, scope)
    return _get_allowed(scope.catalog.resolve_alias(name), scope)


def nearest_names(name: str, scope: Scope, engine: Engine, *, limit: int = 5) -> tuple[str, ...]:
    """Names that the caller may have meant instead."""
    results = engine.search(name.replace("_", " "), limit=limit, allow=scope.allow)
    return tuple(dict.fromkeys((*results.names, *results.near)))[:limit]


def unknown_tool_message(profile: Profile, name: str, scope: Scope, engine: Engine) -> str:
    """Say that there is no such tool, with the nearest names and how to find others."""
    # Where everything is in view, there is no search tool to point to.
    is_whole = scope.is_small and profile.surface != "dispatch"
    look = " Look for others with a search." if profile.tool_for("search") and not is_whole else ""
    return f"{UNKNOWN_TOOL_PREFIX}{name[:100]!r}.{_nearest_names_hint(name, scope, engine)}{look}"


def _previous_tool(name: str, scope: Scope) -> Tool | None:
    """The tool of a server that was sent to the model under this name."""
    snapshot = read_snapshot(scope.session)
    before = snapshot.get(name) if snapshot else None
    return before if before and before.server else None


def _find_renamed(before: Tool, scope: Scope) -> tuple[Tool, ...]:
    """The same tool of the same server under its present name."""
    # A tool is renamed when a second server brings one of the same name. The server must match:
    # the call was meant for the first, and must never reach the other.
    found = (scope.get(n) for n in scope.catalog.resolve(before.local_name))
    return tuple(t for t in found if t is not None and t.server == before.server)[:1]


def _resolve_loosely(name: str, scope: Scope) -> tuple[Tool, ...]:
    return _get_allowed(scope.catalog.resolve(name), scope)


def _get_allowed(names: Iterable[str], scope: Scope) -> tuple[Tool, ...]:
    found = (scope.get(name) for name in names)
    return tuple(t for t in found if t is not None)


@dataclass(frozen=True, slots=True)
class Resolution:
    """A tool to run, or a refusal that says how to continue; and the resulting session."""

    session: SessionState
    tool: Tool | None = None
    refusal: Result | None = None


def resolve_call(
    profile: Profile,
    name: str,
    *,
    session: SessionState,
    engine: Engine,
    catalog: Catalog,
    allow: Allow | None = None,
) -> Resolution:
    """Find the tool of a call and decide, by the profile, whether it runs."""
    scope = Scope.of(profile.policy, catalog, session, allow)
    tools = resolve_name(name, scope, aliases=profile.aliases)
    if len(tools) > 1:
        candidates = ", ".join(t.name for t in tools)
        text = f"{name!r} is ambiguous; it may mean: {candidates}. Use one of these names."
        return Resolution(session, refusal=Result.error(text, code=UnknownToolError.code))
    tool = next(iter(tools), None)
    if tool is None:
        return Resolution(session, refusal=_unknown_tool_refusal(profile, name, scope, engine))
    if scope.visibility(tool) or profile.hiding == "prompt":
        return Resolution(session, tool)
    snapshot = read_snapshot(session)
    if snapshot is not None and is_hosted(snapshot.mechanism):
        # A hosted search does not report what it found. The call is the first sign of it.
        return Resolution(session.load(tool.name, at_most=profile.limits.loaded), tool)
    return _resolve_unloaded(profile, tool, session)


def _resolve_unloaded(profile: Profile, tool: Tool, session: SessionState) -> Resolution:
    search = profile.tool_for("search")
    how = f"{search.name} with {tool.name!r}" if search else "a search"
    match profile.on_unloaded:
        case "execute":
            return Resolution(session, tool)
        case "load":
            loaded = session.load(tool.name, at_most=profile.limits.loaded)
            text = (
                f"{tool.name} was not loaded, so it did not run. It is loaded now: call it again "
                f"with arguments that fit:\n{profile.describe([tool])}"
            )
            return Resolution(loaded, refusal=Result.error(text, code=NotLoadedError.code))
        case "reject":
            text = (
                f"{tool.name} is not loaded, so it did not run. Load it first: {how}. "
                f"It takes:\n{profile.describe([tool])}"
            )
            return Resolution(session, refusal=Result.error(text, code=NotLoadedError.code))


def _unknown_tool_refusal(profile: Profile, name: str, scope: Scope, engine: Engine) -> Result:
    """Why the name cannot be called: its server is disconnected, or there is no such tool."""
    # The model was sent this tool, or loaded it, so "there is no tool" would confuse it. A tool
    # that is no longer allowed is treated as unknown: its existence must not leak.
    snapshot = read_snapshot(scope.session)
    gone = snapshot.get(name) if snapshot else None
    if gone is not None and is_allowed(gone, scope.allow):
        server = f"Its server {gone.server} is" if gone.server else "It is"
        advice = "try again later, or use another tool"
        text = f"{name} cannot be called now. {server} not connected; {advice}."
        return Result.error(text, code=SourceError.code)
    if scope.is_loaded(name) and name not in scope.catalog:
        text = (
            f"{name} cannot be called now. It is no longer in the catalog, and its server may be "
            "disconnected; try again later, or use another tool."
            f"{_nearest_names_hint(name, scope, engine)}"
        )
        return Result.error(text, code=SourceError.code)
    return Result.error(
        unknown_tool_message(profile, name, scope, engine), code=UnknownToolError.code
    )


def _nearest_names_hint(name: str, scope: Scope, engine: Engine) -> str:
    near = nearest_names(name, scope, engine)
    return f" Nearest names: {', '.join(near)}." if near else ""
