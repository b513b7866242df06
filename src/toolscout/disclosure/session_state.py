"""The state of one conversation: a frozen value that serialises to JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from ..catalog.sanitization import compact_json
from ..errors import StoreError

SCHEMA_VERSION = 1
# A session is written after every call, so its history is bounded.
MAX_STORED_SEARCHES = 100
MAX_STORED_QUERY_CHARS = 500


@dataclass(frozen=True, slots=True)
class SessionState:
    """What one conversation has loaded, searched and used, and the data of features.

    `loaded` and `uses` are ordered by first occurrence; names that left the catalog stay, so that
    a tool which returns is in view again. `roster` is the list of tools as the model first got
    it, and `known` the tool counts of each group as last reported, so that changes are reported
    once. `sections` are named JSON texts that other features own and version. `version` counts
    writes, so that two writers never lose each other's changes.
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
        """Load tools; the order of first loading never changes.

        With `at_most`, only that many of the newest stay; 0 keeps all.
        """
        loaded = tuple(dict.fromkeys((*self.loaded, *names)))
        return replace(self, loaded=loaded[-at_most:] if at_most > 0 else loaded)

    def unload(self, *names: str) -> SessionState:
        """Unload tools; names that are not loaded are ignored."""
        return replace(self, loaded=tuple(n for n in self.loaded if n not in names))

    def record_searches(self, *queries: str) -> SessionState:
        """Record queries: the last hundred, each cut to 500 characters."""
        searches = (*self.searches, *(q[:MAX_STORED_QUERY_CHARS] for q in queries))
        return replace(self, searches=searches[-MAX_STORED_SEARCHES:])

    def record_uses(self, *names: str) -> SessionState:
        """Record the tools that were called, in the order of first use."""
        return replace(self, uses=tuple(dict.fromkeys((*self.uses, *names))))

    def with_roster(self, text: str, known: Mapping[str, int]) -> SessionState:
        """Fix the roster; a session that has one keeps it, because the prompt is cached."""
        if self.roster is not None:
            return self
        return replace(self, roster=text, known=dict(known))

    def with_known_groups(self, known: Mapping[str, int]) -> SessionState:
        """Record the tool counts that the model now knows."""
        return replace(self, known=dict(known))

    def with_section(self, name: str, text: str) -> SessionState:
        """Store the JSON of a feature with the session."""
        return replace(self, sections={**self.sections, name: text})

    def without_section(self, name: str) -> SessionState:
        """Remove the JSON of a feature."""
        return replace(self, sections={k: v for k, v in self.sections.items() if k != name})

    def mark_compacted(self, *, clear: bool) -> SessionState:
        """Record a compaction of the conversation; with `clear`, unload every tool."""
        return replace(self, loaded=()) if clear else self

    def with_version(self, version: int) -> SessionState:
        """The same state with the version number of the store."""
        return replace(self, version=version)

    def to_json(self) -> str:
        """The state as JSON text; the same state gives the same bytes."""
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
        # A model can escape half a surrogate pair into an argument. UTF-8 cannot encode it.
        return compact_json(row, sort_keys=True).encode("utf-8", "replace").decode()

    @classmethod
    def from_json(cls, text: str, *, version: int = 0) -> Self:
        """Read a stored session; raises StoreError for a newer schema or any other text."""
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
    """The stored JSON, validated on reading."""

    # Unknown fields are ignored, so that a field can be added without a new schema version.
    model_config = ConfigDict(strict=True, extra="ignore")

    id: str
    loaded: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    roster: str | None = None
    known: dict[str, int] = {}
    sections: dict[str, str] = {}


def _parse_row(text: str) -> _SessionRow:
    # The version is checked before the fields: a newer format should say "upgrade", not name the
    # first field that does not fit.
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
        path = ".".join(str(part) for part in first["loc"]) or "the document"
        raise _unreadable_error(f"{path}: {first['msg']}") from error


def _schema_version(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable_error(str(error)) from error
    return cast("dict[str, object]", value).get("schema") if isinstance(value, dict) else None


def _unreadable_error(reason: str) -> StoreError:
    return StoreError(
        f"A stored session cannot be read: {reason}.",
        hint="Delete it (box.forget) and rebuild it from the conversation's messages, if any.",
    )
