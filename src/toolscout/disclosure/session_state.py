"""One conversation's state: a frozen value with legal moves, plain JSON outside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import StoreError

SCHEMA_VERSION = 1
MAX_STORED_SEARCHES = 100
MAX_STORED_QUERY_CHARS = 500


@dataclass(frozen=True, slots=True)
class SessionState:
    """What one conversation has loaded, searched and used, and what features keep with it.

    `loaded` and `uses` are in the order of the first time; names that left the catalog stay in
    them, so that a tool which comes back is in view again. `roster` is the list of what exists
    as the model was first told it, and `known` counts the tools of each group it has been told
    of, so that later changes can be said once. `sections` are named JSON texts that features
    above own and version themselves; nothing here knows what they hold. `version` counts
    writes, so that two writers never lose each other's.
    """

    id: str
    version: int = 0
    loaded: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    roster: str | None = None
    known: Mapping[str, int] = field(default_factory=dict[str, int])
    sections: Mapping[str, str] = field(default_factory=dict[str, str])

    def load(self, *names: str, at_most: int = 0) -> SessionState:
        """Bring tools into view; the order of first loading never changes.

        With `at_most`, the newest that many stay and the oldest leave; 0 keeps all.
        """
        loaded = tuple(dict.fromkeys((*self.loaded, *names)))
        return replace(self, loaded=loaded[-at_most:] if at_most > 0 else loaded)

    def unload(self, *names: str) -> SessionState:
        """Take tools out of view again; names that are not loaded are ignored."""
        return replace(self, loaded=tuple(n for n in self.loaded if n not in names))

    def record_searches(self, *queries: str) -> SessionState:
        """Remember what was asked: the last hundred queries, each up to a sensible length."""
        asked = (*self.searches, *(q[:MAX_STORED_QUERY_CHARS] for q in queries))
        return replace(self, searches=asked[-MAX_STORED_SEARCHES:])

    def record_uses(self, *names: str) -> SessionState:
        """Remember which tools were called, in the order of first use."""
        return replace(self, uses=tuple(dict.fromkeys((*self.uses, *names))))

    def with_roster(self, text: str, known: Mapping[str, int]) -> SessionState:
        """Fix the list of what exists; once it is fixed, later lists change nothing."""
        if self.roster is not None:
            return self
        return replace(self, roster=text, known=dict(known))

    def with_known_groups(self, known: Mapping[str, int]) -> SessionState:
        """Remember that the model has heard of the catalog as it is now."""
        return replace(self, known=dict(known))

    def with_section(self, name: str, text: str) -> SessionState:
        """Keep a feature's JSON with the session."""
        return replace(self, sections={**self.sections, name: text})

    def without_section(self, name: str) -> SessionState:
        """Forget what a feature kept."""
        return replace(self, sections={k: v for k, v in self.sections.items() if k != name})

    def mark_compacted(self, *, clear: bool) -> SessionState:
        """The conversation was shortened: loaded tools stay unless they are to go with it."""
        return replace(self, loaded=()) if clear else self

    def with_version(self, version: int) -> SessionState:
        """The same state, as the store numbered it."""
        return replace(self, version=version)

    def to_json(self) -> str:
        """The whole value as one JSON text; the same state gives the same bytes."""
        row = {
            "schema": SCHEMA_VERSION,
            "id": self.id,
            "loaded": self.loaded,
            "searches": self.searches,
            "uses": self.uses,
            "roster": self.roster,
            "known": dict(self.known),
            "sections": dict(self.sections),
        }
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        # A model can escape half a surrogate pair into an argument; UTF-8 cannot carry it.
        return text.encode("utf-8", "replace").decode()

    @classmethod
    def from_json(cls, text: str, *, version: int = 0) -> Self:
        """Read it back; text of a newer schema or of another kind is refused, never guessed at."""
        row = _parse_row(text)
        return cls(
            id=row.id,
            version=version,
            loaded=row.loaded,
            searches=row.searches,
            uses=row.uses,
            roster=row.roster,
            known=row.known,
            sections=row.sections,
        )


class _SessionRow(BaseModel):
    """The JSON form, checked where it comes in."""

    model_config = ConfigDict(strict=True, extra="ignore")

    id: str
    loaded: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    roster: str | None = None
    known: dict[str, int] = {}
    sections: dict[str, str] = {}


def _parse_row(text: str) -> _SessionRow:
    schema = _schema_version(text)
    if type(schema) is not int or schema > SCHEMA_VERSION:
        raise StoreError(
            f"A stored session has schema {schema!r}; this version reads up to {SCHEMA_VERSION}.",
            hint="Upgrade toolscout, give the session another id, or delete it (box.forget).",
        )
    try:
        return _SessionRow.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise _unreadable_error(f"{where}: {first['msg']}") from error


def _schema_version(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable_error(str(error)) from error
    return cast("dict[str, object]", value).get("schema") if isinstance(value, dict) else None


def _unreadable_error(why: str) -> StoreError:
    return StoreError(
        f"A stored session cannot be read: {why}.",
        hint="Delete it (box.forget) and rebuild it from the conversation's messages, if any.",
    )
