"""What the model has been sent, kept with the session, so that later views can only append.

A provider caches a prefix, and a changed byte early on costs all that follows. So the tools of a
view keep the definitions and the order they were first sent with, also when their server is
gone or has changed them; they leave only when they are unloaded or no longer allowed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ..catalog.tool import Tool
from .codec import pack_tools, tool_from_row, unpack_tools
from .session_state import SessionState
from .surface import CLIENT_MECHANISMS, REFERENCE_MECHANISMS

VIEW_SECTION = "view"
DEFINITIONS_SECTION = "definitions"
REFERENCES_SECTION = "referred"
DEFINED_SECTION = "defined"

Arrival = Literal["start", "late", "loaded", "carried", "offered", "added"]
"""How a tool came into the list: at the start, later by a rule, by an answer that brought it, by
itself because it was loaded in another way or over a compaction; or deferred to a hosted search,
with its first list or later."""


@dataclass(frozen=True, slots=True)
class SentTool:
    """One tool that was sent: how it came, and the namespace that it stands in, if any."""

    name: str
    came: Arrival
    space: str = ""


@dataclass(frozen=True, kw_only=True)
class ViewSnapshot:
    """All that was sent, in the order it came; `packed` has the definitions.

    `seen` is the catalog that the model was last told of, `scanned` the one last looked through
    for tools that rules put in view. `grew_at` is how many tools stood there when a catalog that
    was small at first grew: the discovery tools come behind these. `room` is how many tools the
    provider's list takes besides the discovery tools.
    """

    shown: tuple[SentTool, ...] = ()
    packed: str = ""
    is_direct: bool = False
    mechanism: str = ""
    surface: str = ""
    seen: str = ""
    scanned: str = ""
    grew_at: int | None = None
    room: int | None = None

    @property
    def permanent_names(self) -> frozenset[str]:
        """The names that are in view whatever is loaded."""
        return frozenset(s.name for s in self.shown if s.came in ("start", "late"))

    @cached_property
    def tools(self) -> Mapping[str, Tool]:
        """The definitions that names were sent with; none where they cannot be read."""
        try:
            return {tool.name: tool for tool in unpack_tools(self.packed)}
        except ValueError:
            return {}

    def get(self, name: str) -> Tool | None:
        """The definition that a name was sent with."""
        return self.tools.get(name) if any(s.name == name for s in self.shown) else None

    def with_tools(self, shown: tuple[SentTool, ...], new: Iterable[Tool] = ()) -> ViewSnapshot:
        """The same with these tools in it, of which some are new."""
        fresh = {tool.name: tool for tool in new}
        if not fresh and shown == self.shown:
            return self
        if not fresh and [s.name for s in shown] == [s.name for s in self.shown]:
            return replace(self, shown=shown)
        tools = {**self.tools, **fresh}
        return replace(self, shown=shown, packed=pack_tools(tools[s.name] for s in shown))

    def names_awaiting_search(self, session: SessionState) -> frozenset[str]:
        """What rules put in view while the list had to stay as it was: a search has yet to bring
        it, where the provider takes found tools from the answer."""
        if self.mechanism not in CLIENT_MECHANISMS:
            return frozenset()
        late = (s.name for s in self.shown if s.came == "late")
        return frozenset(late).difference(session.loaded)

    def overflow_names(self, session: SessionState) -> frozenset[str]:
        """What has no room in the provider's list, when all that was sent or loaded is in it."""
        loaded = dict.fromkeys(session.loaded)
        listed = [s.name for s in self.shown if s.came in ("start", "late") or s.name in loaded]
        return frozenset([*dict.fromkeys((*listed, *loaded))][self.room :])


def read_snapshot(session: SessionState) -> ViewSnapshot | None:
    """What a session has been sent; None before its first view."""
    text = session.sections.get(VIEW_SECTION)
    if text is None:
        return None
    try:
        row = _SnapshotRow.model_validate_json(text)
        found = _build_snapshot(row, session.sections.get(DEFINITIONS_SECTION, ""))
    except ValueError:
        # Nothing here is worth failing for: the next view makes a new one from the catalog.
        return None
    return found


def write_snapshot(session: SessionState, snapshot: ViewSnapshot) -> SessionState:
    """Keep a snapshot; the same one changes nothing."""
    row = {
        "names": [s.name for s in snapshot.shown],
        "runs": [
            (*place, len([*run]))
            for place, run in groupby(snapshot.shown, key=lambda s: (s.came, s.space))
        ],
        "direct": snapshot.is_direct,
        "mechanism": snapshot.mechanism,
        "surface": snapshot.surface,
        "seen": snapshot.seen,
        "scanned": snapshot.scanned,
        "grew_at": snapshot.grew_at,
        "room": snapshot.room,
    }
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    for name, now in ((VIEW_SECTION, text), (DEFINITIONS_SECTION, snapshot.packed)):
        if session.sections.get(name, "") != now:
            session = session.with_section(name, now)
    return session


def carry_loaded_tools(session: SessionState) -> SessionState:
    """After a compaction, which took with it what had brought the tools, show them by themselves.

    Where the provider searches, they wait for its search as they did before. What its list has no
    room for waits to be found again. Where answers refer to the list it stays as it is, and the
    view's `restore_references` refers to them again; to what rules put in view later as well.
    """
    session = session.without_section(REFERENCES_SECTION).without_section(DEFINED_SECTION)
    snapshot = read_snapshot(session)
    if snapshot is None or snapshot.mechanism not in CLIENT_MECHANISMS:
        return session
    if snapshot.mechanism in REFERENCE_MECHANISMS:
        unsent = snapshot.names_awaiting_search(session)
        return session.load(*(s.name for s in snapshot.shown if s.name in unsent))
    # What comes into the list now goes behind what is in it, whenever it was found.
    shown = tuple(map(_as_permanent, sorted(snapshot.shown, key=lambda s: _as_permanent(s) != s)))
    full = shown[: snapshot.room]
    over = (s.name for s in shown[len(full) :] if s.came == "carried")
    return write_snapshot(session.unload(*over), snapshot.with_tools(full))


def record_delivery(session: SessionState, tools: Iterable[Tool]) -> SessionState:
    """Remember that an answer brings tools to the model where its provider takes them from it."""
    snapshot = read_snapshot(session)
    if snapshot is None or snapshot.mechanism not in CLIENT_MECHANISMS:
        return session
    there = {s.name for s in snapshot.shown}
    new = [t for t in tools if t.name not in there]
    shown = (*snapshot.shown, *(SentTool(t.name, "loaded") for t in new))
    return write_snapshot(session, snapshot.with_tools(shown, new)) if new else session


def record_references(session: SessionState, names: Iterable[str]) -> SessionState:
    """Remember that messages refer to tools, where they are all that is left of a conversation."""
    return _write_names(session, REFERENCES_SECTION, names)


def record_definitions(session: SessionState, names: Iterable[str]) -> SessionState:
    """Remember that messages define tools, where they are all that is left of a conversation."""
    return _write_names(session, DEFINED_SECTION, names)


def arrival_lookup(session: SessionState, mechanism: str) -> Callable[[str], Arrival]:
    """How a loaded tool comes that was not sent yet: by messages that bring it, or by itself."""
    names = frozenset[str]()
    if mechanism in CLIENT_MECHANISMS:
        names = _read_names(
            session, REFERENCES_SECTION if mechanism in REFERENCE_MECHANISMS else DEFINED_SECTION
        )
    return lambda name: "loaded" if name in names else "carried"


def switch_mechanism(snapshot: ViewSnapshot, loaded: Iterable[str]) -> ViewSnapshot:
    """The same for another mechanism, which knows nothing of what was found or offered before."""
    kept = frozenset(loaded)
    stays = (s for s in snapshot.shown if s.came not in ("offered", "added") or s.name in kept)
    return snapshot.with_tools(tuple(replace(_as_permanent(s), space="") for s in stays))


def _write_names(session: SessionState, section: str, names: Iterable[str]) -> SessionState:
    text = json.dumps([*dict.fromkeys(names)], ensure_ascii=False, separators=(",", ":"))
    return session.with_section(section, text) if text != "[]" else session


def _read_names(session: SessionState, section: str) -> frozenset[str]:
    try:
        return frozenset(json.loads(session.sections.get(section, "[]")))
    except (ValueError, TypeError):
        return frozenset()


def _as_permanent(shown: SentTool) -> SentTool:
    match shown.came:
        case "loaded" | "offered" | "added":
            return replace(shown, came="carried")
        case "late":
            return replace(shown, came="start")
        case "start" | "carried":
            return shown


def _build_snapshot(row: _SnapshotRow, packed: str) -> ViewSnapshot:
    places: list[tuple[Arrival, str]] = [
        (came, space) for came, space, count in row.runs for _ in range(count)
    ]
    shown = tuple(SentTool(n, *place) for n, place in zip(row.names, places, strict=True))
    if row.shown:
        # Sessions of the first form have each definition beside its name.
        packed = pack_tools(tool_from_row(entry.tool) for entry in row.shown)
        shown = tuple(SentTool(entry.tool["name"], entry.came) for entry in row.shown)
    return ViewSnapshot(
        shown=shown,
        packed=packed,
        is_direct=row.direct,
        mechanism=row.mechanism,
        surface=row.surface,
        seen=row.seen,
        scanned=row.scanned,
        grew_at=row.metatools_at or row.grew_at,
        room=row.room,
    )


class _LegacyEntry(BaseModel):
    tool: dict[str, Any]
    came: Literal["start", "late", "loaded", "carried"]


class _SnapshotRow(BaseModel):
    """The JSON form, checked where it comes in; `shown` and `metatools_at` are of the first."""

    model_config = ConfigDict(strict=True)

    names: list[str] = []
    runs: list[tuple[Arrival, str, int]] = []
    shown: list[_LegacyEntry] = []
    direct: bool = False
    mechanism: str = ""
    surface: str = ""
    seen: str = ""
    scanned: str = ""
    grew_at: int | None = None
    metatools_at: int = 0
    room: int | None = None
