"""Snapshots of what a model was sent, stored with the session, so that later views only append.

Providers cache a prefix, and one changed byte early on costs everything after it. So the tools of
a view keep the definitions and the order they were first sent with, even when their server is
gone or has changed them. They leave only when they are unloaded or no longer allowed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ..catalog.sanitization import compact_json
from ..catalog.tool import Tool
from .codec import pack_tools, tool_from_row, unpack_tools
from .session_state import SessionState
from .surface import CLIENT_MECHANISMS, REFERENCE_MECHANISMS

# Sections of a stored session. Their names are part of the format on disk.
VIEW_SECTION = "view"
DEFINITIONS_SECTION = "definitions"
REFERENCES_SECTION = "referred"
DEFINED_SECTION = "defined"

Arrival = Literal["start", "late", "loaded", "carried", "offered", "added"]
"""How a tool came into the list.

`start`: in the first list. `late`: later, by the policy. `loaded`: by an answer that delivered
it. `carried`: in full, because it was loaded without an answer or the answer was compacted away.
`offered`, `added`: deferred to a hosted search, with its first list or later.
"""


@dataclass(frozen=True, slots=True)
class SentTool:
    """One tool that was sent: its arrival, and its namespace if it has one."""

    name: str
    arrival: Arrival
    namespace: str = ""


@dataclass(frozen=True, kw_only=True)
class ViewSnapshot:
    """All tools that were sent, in order of arrival; `packed` holds their definitions.

    `policy` is a hash of the rules that the list was built with.
    `reported_catalog` is the fingerprint of the catalog that the model last got news of,
    `scanned_catalog` of the one last searched for tools that the policy puts in view. `grew_at`
    is the number of tools in the list when a small catalog outgrew it: the discovery tools follow
    these. `capacity` is how many tools fit in the provider's list besides the discovery tools.
    """

    sent: tuple[SentTool, ...] = ()
    packed: str = ""
    is_direct: bool = False
    mechanism: str = ""
    surface: str = ""
    reported_catalog: str = ""
    scanned_catalog: str = ""
    grew_at: int | None = None
    capacity: int | None = None
    policy: str = ""

    @property
    def permanent_names(self) -> frozenset[str]:
        """The names that are in view whatever is loaded."""
        return frozenset(s.name for s in self.sent if s.arrival in ("start", "late"))

    @cached_property
    def tools(self) -> Mapping[str, Tool]:
        """The definitions as they were sent, by name; none if they cannot be read."""
        try:
            return {tool.name: tool for tool in unpack_tools(self.packed)}
        except ValueError:
            return {}

    def get(self, name: str) -> Tool | None:
        """The definition that was sent under a name."""
        # The cheap test first: unpacking the definitions is slow.
        return self.tools.get(name) if any(s.name == name for s in self.sent) else None

    def with_tools(self, sent: tuple[SentTool, ...], new: Iterable[Tool] = ()) -> ViewSnapshot:
        """The snapshot with these tools; `new` are the definitions it does not have yet."""
        added = {tool.name: tool for tool in new}
        # Most views change nothing. They must not unpack and pack up to a megabyte.
        if not added and sent == self.sent:
            return self
        if not added and [s.name for s in sent] == [s.name for s in self.sent]:
            return replace(self, sent=sent)
        tools = {**self.tools, **added}
        return replace(self, sent=sent, packed=pack_tools(tools[s.name] for s in sent))

    def names_awaiting_search(self, session: SessionState) -> frozenset[str]:
        """Tools that the policy put in view late and that no answer has delivered yet."""
        # A client mechanism keeps late tools out of the cached prefix, so a search delivers them.
        if self.mechanism not in CLIENT_MECHANISMS:
            return frozenset()
        late = (s.name for s in self.sent if s.arrival == "late")
        return frozenset(late).difference(session.loaded)

    def overflow_names(self, session: SessionState) -> frozenset[str]:
        """Tools that do not fit in the provider's list, after all that was sent or loaded."""
        loaded = dict.fromkeys(session.loaded)
        listed = [s.name for s in self.sent if s.arrival in ("start", "late") or s.name in loaded]
        return frozenset([*dict.fromkeys((*listed, *loaded))][self.capacity :])


def read_snapshot(session: SessionState) -> ViewSnapshot | None:
    """The snapshot of a session's last view; None before its first."""
    text = session.sections.get(VIEW_SECTION)
    if text is None:
        return None
    try:
        row = _SnapshotRow.model_validate_json(text)
        snapshot = _build_snapshot(row, session.sections.get(DEFINITIONS_SECTION, ""))
    except ValueError:
        # A damaged snapshot must not be a failure: the next view makes one from the catalog.
        return None
    return snapshot


def write_snapshot(session: SessionState, snapshot: ViewSnapshot) -> SessionState:
    """Store a snapshot in the session; an unchanged one returns the same session."""
    row = {
        "names": [s.name for s in snapshot.sent],
        # Run-length encoded: a hosted search has thousands of tools with the same arrival.
        "runs": [
            (*place, len([*run]))
            for place, run in groupby(snapshot.sent, key=lambda s: (s.arrival, s.namespace))
        ],
        "direct": snapshot.is_direct,
        "mechanism": snapshot.mechanism,
        "surface": snapshot.surface,
        "seen": snapshot.reported_catalog,
        "scanned": snapshot.scanned_catalog,
        "grew_at": snapshot.grew_at,
        "room": snapshot.capacity,
        "policy": snapshot.policy,
    }
    text = compact_json(row, sort_keys=True)
    for name, now in ((VIEW_SECTION, text), (DEFINITIONS_SECTION, snapshot.packed)):
        if session.sections.get(name, "") != now:
            session = session.with_section(name, now)
    return session


def drop_outdated_snapshot(session: SessionState, policy: str) -> SessionState:
    """Begin the list again if it was built with other rules: the profile or an option changed."""
    snapshot = read_snapshot(session)
    # Sessions of older versions have no hash, and keep their list.
    if snapshot is None or snapshot.policy in ("", policy):
        return session
    return session.without_section(VIEW_SECTION).without_section(DEFINITIONS_SECTION)


def carry_loaded_tools(session: SessionState) -> SessionState:
    """Keep loaded tools callable after a compaction removed the answers that delivered them.

    With a hosted search nothing changes: it finds them again. With references the list stays, and
    the view's `restore_references` refers to the tools again. Else they join the list in full, up
    to its capacity; the rest is unloaded and can be found again.
    """
    session = session.without_section(REFERENCES_SECTION).without_section(DEFINED_SECTION)
    snapshot = read_snapshot(session)
    if snapshot is None or snapshot.mechanism not in CLIENT_MECHANISMS:
        return session
    if snapshot.mechanism in REFERENCE_MECHANISMS:
        # The restored references must also cover what the policy put in view late.
        undelivered = snapshot.names_awaiting_search(session)
        return session.load(*(s.name for s in snapshot.sent if s.name in undelivered))
    # Tools that now join the list follow those that are in it, whenever they were found. The
    # sort is stable and puts False first, so the cached prefix holds.
    sent = tuple(map(_as_permanent, sorted(snapshot.sent, key=lambda s: _as_permanent(s) != s)))
    fitting = sent[: snapshot.capacity]
    overflow = (s.name for s in sent[len(fitting) :] if s.arrival == "carried")
    return write_snapshot(session.unload(*overflow), snapshot.with_tools(fitting))


def record_delivery(session: SessionState, tools: Iterable[Tool]) -> SessionState:
    """Record that an answer delivers tools, where the provider loads them from answers."""
    snapshot = read_snapshot(session)
    if snapshot is None or snapshot.mechanism not in CLIENT_MECHANISMS:
        return session
    present = {s.name for s in snapshot.sent}
    new = [t for t in tools if t.name not in present]
    sent = (*snapshot.sent, *(SentTool(t.name, "loaded") for t in new))
    return write_snapshot(session, snapshot.with_tools(sent, new)) if new else session


def record_references(session: SessionState, names: Iterable[str]) -> SessionState:
    """Record that messages refer to tools, for a session rebuilt from its messages."""
    return _write_names(session, REFERENCES_SECTION, names)


def record_definitions(session: SessionState, names: Iterable[str]) -> SessionState:
    """Record that messages define tools, for a session rebuilt from its messages."""
    return _write_names(session, DEFINED_SECTION, names)


def arrival_lookup(session: SessionState, mechanism: str) -> Callable[[str], Arrival]:
    """The arrival of loaded tools that no view has sent: delivered by messages, or carried."""
    names = frozenset[str]()
    if mechanism in CLIENT_MECHANISMS:
        names = _read_names(
            session, REFERENCES_SECTION if mechanism in REFERENCE_MECHANISMS else DEFINED_SECTION
        )
    return lambda name: "loaded" if name in names else "carried"


def switch_mechanism(snapshot: ViewSnapshot, loaded: Iterable[str]) -> ViewSnapshot:
    """The snapshot for another mechanism."""
    # The new mechanism does not know what was delivered or offered before. Loaded tools are
    # listed in full, and tools that were only offered leave.
    names = frozenset(loaded)
    stays = (s for s in snapshot.sent if s.arrival not in ("offered", "added") or s.name in names)
    return snapshot.with_tools(tuple(replace(_as_permanent(s), namespace="") for s in stays))


def _write_names(session: SessionState, section: str, names: Iterable[str]) -> SessionState:
    text = compact_json([*dict.fromkeys(names)])
    return session.with_section(section, text) if text != "[]" else session


def _read_names(session: SessionState, section: str) -> frozenset[str]:
    try:
        return frozenset(json.loads(session.sections.get(section, "[]")))
    except (ValueError, TypeError):
        return frozenset()


def _as_permanent(sent: SentTool) -> SentTool:
    """The tool as one that the list shows in full from now on."""
    match sent.arrival:
        case "loaded" | "offered" | "added":
            return replace(sent, arrival="carried")
        case "late":
            return replace(sent, arrival="start")
        case "start" | "carried":
            return sent


def _build_snapshot(row: _SnapshotRow, packed: str) -> ViewSnapshot:
    places: list[tuple[Arrival, str]] = [
        (arrival, namespace) for arrival, namespace, count in row.runs for _ in range(count)
    ]
    sent = tuple(SentTool(n, *place) for n, place in zip(row.names, places, strict=True))
    if row.shown:
        # The first format stored each definition beside its name.
        packed = pack_tools(tool_from_row(entry.tool) for entry in row.shown)
        sent = tuple(SentTool(entry.tool["name"], entry.came) for entry in row.shown)
    return ViewSnapshot(
        sent=sent,
        packed=packed,
        is_direct=row.direct,
        mechanism=row.mechanism,
        surface=row.surface,
        reported_catalog=row.seen,
        scanned_catalog=row.scanned,
        # `metatools_at` is the name of `grew_at` in the first format, with 0 for None.
        grew_at=row.metatools_at or row.grew_at,
        capacity=row.room,
        policy=row.policy,
    )


class _LegacyEntry(BaseModel):
    """A tool in the first format."""

    tool: dict[str, Any]
    came: Literal["start", "late", "loaded", "carried"]


class _SnapshotRow(BaseModel):
    """The stored JSON, validated on reading; `shown` and `metatools_at` are the first format."""

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
    policy: str = ""
