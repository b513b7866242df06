"""What the model has been shown, kept with the session, so that later views can only append.

A provider caches a prefix, and a changed byte early on costs all that follows. So the tools of a
view keep the definitions and the order they were first shown with, also when their server is
gone or has changed them; they leave only when they are unloaded or no longer allowed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ..catalog.schema import Schema
from ..catalog.tool import Annotations, Tool
from .session import Session

SECTION = "view"

Came = Literal["start", "late", "loaded", "carried"]
"""How a tool came into view: at the start, later by a rule, by loading, or over a compaction."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One tool in view, as it was when it came."""

    tool: Tool
    came: Came


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that is in view, in the order it came.

    `seen` is the catalog that the model was last told of, `scanned` the one last looked through
    for tools that rules put in view. `metatools_at` is how many tools stand before the discovery
    tools: those of a catalog that was small at first. With `follows`, what rules put in view is
    too much to keep here and is taken from the catalog each time.
    """

    shown: tuple[Shown, ...] = ()
    is_direct: bool = False
    mechanism: str = ""
    surface: str = ""
    seen: str = ""
    scanned: str = ""
    metatools_at: int = 0
    groups: tuple[str, ...] = ()
    follows: bool = False

    @property
    def standing(self) -> frozenset[str]:
        """The names that are in view whatever is loaded."""
        return frozenset(s.tool.name for s in self.shown if s.came in ("start", "late"))

    def get(self, name: str) -> Tool | None:
        """The definition that a name was shown with."""
        return next((s.tool for s in self.shown if s.tool.name == name), None)


def read(session: Session) -> Snapshot | None:
    """What a session has been shown; None before its first view."""
    text = session.sections.get(SECTION)
    if text is None:
        return None
    try:
        row = _Row.model_validate_json(text)
    except ValidationError:
        # Nothing here is worth failing for: the next view makes a new one from the catalog.
        return None
    return Snapshot(
        shown=tuple(Shown(_thaw(s.tool), s.came) for s in row.shown),
        is_direct=row.direct,
        mechanism=row.mechanism,
        surface=row.surface,
        seen=row.seen,
        scanned=row.scanned,
        metatools_at=row.metatools_at,
        groups=tuple(row.groups),
        follows=row.follows,
    )


def write(session: Session, snapshot: Snapshot) -> Session:
    """Keep a snapshot; the same one changes nothing."""
    row = {
        "shown": [{"tool": _freeze(s.tool), "came": s.came} for s in snapshot.shown],
        "direct": snapshot.is_direct,
        "mechanism": snapshot.mechanism,
        "surface": snapshot.surface,
        "seen": snapshot.seen,
        "scanned": snapshot.scanned,
        "metatools_at": snapshot.metatools_at,
        "groups": snapshot.groups,
        "follows": snapshot.follows,
    }
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return session if session.sections.get(SECTION) == text else session.with_section(SECTION, text)


def carry(session: Session) -> Session:
    """After a compaction, which took with it what had loaded the tools, show them by themselves."""
    snapshot = read(session)
    return session if snapshot is None else write(session, carried(snapshot))


def carried(snapshot: Snapshot) -> Snapshot:
    """The same, with loaded tools standing by themselves, whatever the messages still hold."""
    stays = tuple(replace(s, came="carried") if s.came == "loaded" else s for s in snapshot.shown)
    return replace(snapshot, shown=stays)


class _Entry(BaseModel):
    tool: dict[str, Any]
    came: Came


class _Row(BaseModel):
    """The JSON form, checked where it comes in."""

    model_config = ConfigDict(strict=True)

    shown: list[_Entry] = []
    direct: bool = False
    mechanism: str = ""
    surface: str = ""
    seen: str = ""
    scanned: str = ""
    metatools_at: int = 0
    groups: list[str] = []
    follows: bool = False


def _freeze(tool: Tool) -> dict[str, Any]:
    """What a view shows of a tool; the rest is looked up when it is called."""
    row = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "parameters": tool.parameters.text,
        "output": tool.output.text if tool.output else None,
        "server": tool.server,
        "category": tool.category,
        "hints": _hints(tool.annotations),
    }
    return {key: value for key, value in row.items() if value}


def _thaw(row: dict[str, Any]) -> Tool:
    output, hints = row.get("output"), row.get("hints")
    return Tool(
        name=row["name"],
        title=row.get("title", ""),
        description=row.get("description", ""),
        parameters=Schema(row["parameters"]),
        output=Schema(output) if output else None,
        server=row.get("server", ""),
        category=row.get("category", ""),
        annotations=Annotations(*hints) if hints else None,
    )


def _hints(annotations: Annotations | None) -> list[bool | None] | None:
    if annotations is None:
        return None
    return [
        annotations.read_only,
        annotations.destructive,
        annotations.idempotent,
        annotations.open_world,
    ]
