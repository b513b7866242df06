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
from .lineup import Entry, Lineup, Plan, lineup, overflow, room_for, settle
from .native import answer, arrange, can_be_forced, search_name
from .offering import MOST_HOSTED
from .planning import plan
from .policy import Standing
from .profile import Profile
from .prompts import Prompt, Stage
from .rendering import Pen
from .restating import Restated, referred, restated
from .roster import roster
from .scope import Scope, is_allowed, is_small
from .session import Session
from .snapshot import Snapshot, read, write
from .spelling import meant
from .surface import BY_REFERENCE, Mechanism, Surface
from .target import Target


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
    session: Session
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
        return f"{_json(kept)[:-1]}\n{self.instructions}"

    def real(self, name: str) -> str:
        """The real name of a tool that the model called."""
        return self.names.get(name, name)

    def found(self, tools: Sequence[Tool]) -> str:
        """Found tools in the form that this provider loads them from; empty where it has none."""
        sheet = Pen(target=self.target).write([Entry(t) for t in tools])
        return answer(self.mechanism, sheet.written)

    def unreferred(self, names: Iterable[str]) -> Restated | None:
        """What refers again to the loaded tools that wait in the list, but for these names."""
        if self.mechanism not in BY_REFERENCE:
            return None
        there, loaded = {*names}, {*self.session.loaded}
        waiting = [tool["name"] for tool in self.tools if tool.get("defer_loading")]
        again = [n for n in waiting if n not in there and self.real(n) in loaded]
        return Restated(self.search, tuple(again)) if again else None

    def restated(self, messages: Sequence[Any]) -> list[Any]:
        """The messages that a compaction left, with what brings back the tools they no longer do.

        That is a search and its answer behind the first message, in the provider's form; nothing
        where the tool list has all that is loaded, or the messages still refer to it.
        """
        again = self.unreferred(referred(messages))
        return restated(messages, again) if again else [*messages]


def view(
    profile: Profile,
    catalog: Catalog,
    session: Session,
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
    before = read(session)
    scope = Scope.of(profile.policy, catalog, session, allow)
    is_direct = _is_small(profile, scope, before) and _fits(
        profile, target, scope, before, len(extras)
    )
    scope = replace(scope, was_small=is_direct)
    way = plan(profile, target, scope, before)
    room = room_for(profile, way, most=target.provider.most_tools, extras=len(extras))
    snapshot = settle(profile, scope, before, way, room=room)
    session = _with_roster(profile, scope, way, write(session, snapshot))
    scope = replace(scope, session=session, standing=snapshot.standing)
    line = lineup(profile, scope, snapshot, way, extras)
    search = search_name(way.mechanism, _our_search(profile, target))
    sheet = Pen(target=target, search=search, stub_hint=profile.stub_hint).write(line.entries)
    tools = arrange(way.mechanism, sheet.written, search_at=line.search_at)
    prompt = _prompt(profile, scope, way, extras, search)
    return View(
        text=_json(target.provider.wrap(tools)),
        instructions=prompt.instructions,
        session=session,
        target=target,
        surface=way.surface,
        mechanism=way.mechanism,
        names=sheet.names,
        slots=prompt.slots,
        force=search if _is_forced(profile, session, way) else None,
        search=search,
        notes=_notes(profile, target, scope, way, line),
    )


def why(
    profile: Profile, name: str, *, session: Session, catalog: Catalog, allow: Allow | None = None
) -> Standing:
    """Where a tool stands in a conversation, and the reason as a value and as a sentence."""
    metatool = next((m for m in profile.metatools if m.name == name), None)
    if metatool is not None:
        before = read(session)
        surface = before.surface if before else ""
        is_listed = surface in metatool.shown if surface else bool(metatool.shown)
        return Standing(name, "discovery" if is_listed else "elsewhere")
    scope = Scope.of(profile.policy, catalog, session, allow)
    tool = next(iter(meant(name, scope, aliases=profile.aliases)), None)
    if tool is not None:
        return scope.stand(tool)
    snapshot = read(session)
    gone = snapshot.get(name) if snapshot else None
    if gone is not None and is_allowed(gone, allow):
        return Standing(name, "lost")
    return Standing(name, "unknown")


def _is_small(profile: Profile, scope: Scope, before: Snapshot | None) -> bool:
    """Whether everything is in view: decided at the start, and never again once it was not."""
    if profile.surface == "dispatch" or (before is not None and not before.is_direct):
        return False
    return is_small(profile.policy, scope.catalog, scope.allow)


def _with_roster(profile: Profile, scope: Scope, way: Plan, session: Session) -> Session:
    """Fix the roster when the conversation first needs one."""
    if not profile.roster_tokens or way.surface == "direct" or session.roster is not None:
        return session
    listed = roster(scope.tools, budget_tokens=profile.roster_tokens, by=default_counter())
    return session.with_roster(listed.text, listed.known)


def _fits(
    profile: Profile, target: Target, scope: Scope, before: Snapshot | None, extras: int
) -> bool:
    """Whether a provider's list has room for everything, and for discovery tools if it grows."""
    most = target.provider.most_tools
    if most is None:
        return True
    names = {s.name for s in before.shown} if before else set[str]()
    names.update(t.name for t in scope.tools)
    return len(names) + extras + len(profile.metatools) <= most


def _notes(
    profile: Profile, target: Target, scope: Scope, way: Plan, line: Lineup
) -> tuple[str, ...]:
    """What had to give."""
    notes: list[str] = []
    if line.left_out:
        bridge = overflow(profile, way)
        how = f"; they are run through {bridge.name}" if bridge else ""
        limit = f"{target.provider.name} takes {target.provider.most_tools} tools"
        notes.append(f"{limit}: {line.left_out} were left out{how}.")
    if way.is_hosted and (unoffered := len(scope.tools) - len(line.entries)) > 0:
        notes.append(f"A hosted search takes {MOST_HOSTED} tools: {unoffered} were left out.")
    return tuple(notes)


def _prompt(
    profile: Profile, scope: Scope, way: Plan, extras: Sequence[Tool], search: str
) -> Prompt:
    if way.surface == "direct" and profile.metatools:
        return Prompt()
    own = (*(m.tool for m in profile.shown_on(way.surface)), *extras)
    roster_text = scope.session.roster or ""
    stage = Stage(own=own, scope=scope, roster=roster_text, surface=way.surface, search=search)
    return profile.prompt(stage)


def _our_search(profile: Profile, target: Target) -> str:
    search = profile.tool_for("search")
    return target.provider.wire(search.name) if search else ""


def _is_forced(profile: Profile, session: Session, way: Plan) -> bool:
    """Whether the model must search now: the profile insists, none was seen, and one is there."""
    is_fresh = not session.searches and not session.loaded
    is_there = any(m.role == "search" for m in profile.shown_on(way.surface))
    return profile.forces_search and is_fresh and is_there and can_be_forced(way.mechanism)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
