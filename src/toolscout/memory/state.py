"""A conversation's memory as a value, and as the JSON text that is kept with the session."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .entities import Entity
from .usage import Usage

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class State:
    """All that is remembered; `results` and `processed` count since the turn began."""

    entities: tuple[Entity, ...] = ()
    used: tuple[Usage, ...] = ()
    summary: str = ""
    results: int = 0
    processed: int = 0

    def row(self, discovered: Sequence[str] = ()) -> dict[str, Any]:
        """The memory as plain data, with the tools that the session has loaded."""
        row: dict[str, Any] = {
            "entities": [asdict(entity) for entity in self.entities],
            "discoveredTools": [*discovered],
            "usedTools": [asdict(record) for record in self.used],
        }
        return {**row, "summary": self.summary} if self.summary else row

    def to_json(self) -> str:
        """The same state gives the same bytes."""
        row = {"schema": SCHEMA, **asdict(self)}
        return json.dumps(row, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


class Unreadable(ValueError):
    """What is kept is not a memory, or one of a later version."""


def read(text: str | None) -> State:
    """The state that was kept; an empty one where there is none yet."""
    if text is None:
        return State()
    try:
        row = _Row.model_validate_json(text)
    except ValidationError as error:
        raise Unreadable(str(error.errors(include_url=False)[0]["msg"])) from error
    return State(
        entities=tuple(Entity(e.type, e.id, e.name, e.timestamp) for e in row.entities),
        used=tuple(Usage(u.name, u.count, u.last_used, u.last_result) for u in row.used),
        summary=row.summary,
        results=row.results,
        processed=row.processed,
    )


class _Strict(BaseModel):
    """The JSON form, checked where it comes in."""

    model_config = ConfigDict(strict=True, extra="ignore")


class _Entity(_Strict):
    type: str
    id: str
    name: str
    timestamp: str


class _Usage(_Strict):
    name: str
    count: int
    last_used: str
    last_result: Literal["success", "error"]


class _Row(_Strict):
    version: Literal[1] = Field(alias="schema")
    entities: list[_Entity] = []
    used: list[_Usage] = []
    summary: str = ""
    results: int = 0
    processed: int = 0
