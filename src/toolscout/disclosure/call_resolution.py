"""What a call of a tool means here: which tool, and whether it runs, is refused or is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from ..catalog.catalog import Catalog
from ..catalog.result import Result
from ..catalog.tool import Tool
from ..errors import NotLoaded, SourceError, UnknownTool
from ..search.engine import Allow, Engine
from .discovery import unknown_tool_message
from .name_resolution import nearest_names, resolve_name
from .native import is_hosted
from .profile import Profile
from .scope import Scope, is_allowed
from .session_state import SessionState
from .snapshot import read_snapshot


@dataclass(frozen=True, slots=True)
class Resolution:
    """A tool to run, or a refusal that says how to go on; and the session as it is then."""

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
    """Find the tool a call means and decide, by the profile, what becomes of the call."""
    scope = Scope.of(profile.policy, catalog, session, allow)
    tools = resolve_name(name, scope, aliases=profile.aliases)
    if len(tools) > 1:
        text = f"{name!r} may mean several tools: {', '.join(t.name for t in tools)}. Name one."
        return Resolution(session, refusal=Result.error(text, code=UnknownTool.code))
    tool = next(iter(tools), None)
    if tool is None:
        return Resolution(session, refusal=_unknown_tool_refusal(profile, name, scope, engine))
    if scope.visibility(tool) or profile.hiding == "prompt":
        return Resolution(session, tool)
    shown = read_snapshot(session)
    if shown is not None and is_hosted(shown.mechanism):
        # The provider found it and says nothing of that: the call is how we learn of it.
        return Resolution(session.load(tool.name, at_most=profile.limits.loaded), tool)
    return _resolve_unloaded(profile, tool, session)


def _resolve_unloaded(profile: Profile, tool: Tool, session: SessionState) -> Resolution:
    search = profile.tool_for("search")
    way = f"{search.name} with {tool.name!r}" if search else "a search"
    match profile.on_unloaded:
        case "execute":
            return Resolution(session, tool)
        case "load":
            loaded = session.load(tool.name, at_most=profile.limits.loaded)
            text = (
                f"{tool.name} was not loaded; now it is, and it has not run. "
                f"Call it again with arguments that fit:\n{profile.describe([tool])}"
            )
            return Resolution(loaded, refusal=Result.error(text, code=NotLoaded.code))
        case "reject":
            text = (
                f"{tool.name} is not loaded, so it has not run. Load it first: {way}. "
                f"It takes:\n{profile.describe([tool])}"
            )
            return Resolution(session, refusal=Result.error(text, code=NotLoaded.code))


def _unknown_tool_refusal(profile: Profile, name: str, scope: Scope, engine: Engine) -> Result:
    """Why nothing of that name can be run: its server is away, or there is no such tool."""
    snapshot = read_snapshot(scope.session)
    gone = snapshot.get(name) if snapshot else None
    if gone is not None and is_allowed(gone, scope.allow):
        server = f"Its server {gone.server} is" if gone.server else "It is"
        text = f"{name} cannot be called now. {server} not connected; try later, or another tool."
        return Result.error(text, code=SourceError.code)
    if name in scope.loaded and name not in scope.catalog:
        text = (
            f"{name} cannot be called now. It is no longer in the catalog, and its server may be "
            f"away; try later, or another tool.{_nearest_names_hint(name, scope, engine)}"
        )
        return Result.error(text, code=SourceError.code)
    return Result.error(unknown_tool_message(profile, name, scope, engine), code=UnknownTool.code)


def _nearest_names_hint(name: str, scope: Scope, engine: Engine) -> str:
    near = nearest_names(name, scope, engine)
    return f" Nearest names: {', '.join(near)}." if near else ""
