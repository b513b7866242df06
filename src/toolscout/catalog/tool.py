"""The tool record that every part of Toolscout uses."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
from typing import Any, Literal, cast, get_args

from .schema import Schema

Risk = Literal["safe", "moderate", "destructive"]
Deferral = Literal["auto", "always", "never"]
RISKS: tuple[Risk, ...] = get_args(Risk)
DEFERRALS: tuple[Deferral, ...] = get_args(Deferral)


@dataclass(frozen=True, slots=True)
class Annotations:
    """The effects of a tool according to its MCP server; None means unknown."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """Where a tool's result has its entities: under a top-level key, or `$root`."""

    path: str
    type: str
    name_field: str
    id_field: str = "id"
    is_array: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool in a catalog; `name` is unique there."""

    name: str
    description: str = ""
    title: str = ""
    parameters: Schema = field(default_factory=Schema)
    output: Schema | None = None
    server: str = ""
    category: str = ""
    phrases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    usage: str = ""
    skill: str = ""
    risk: Risk | None = None
    requires_confirmation: bool = False
    defer: Deferral = "auto"
    annotations: Annotations | None = None
    extraction: Extraction | None = None
    # JSON text and not a dictionary: a tool is frozen and hashable.
    metadata: str = "{}"
    local: str = ""
    """The name that the source knows, if `name` does not contain it."""

    @property
    def local_name(self) -> str:
        """The name that the source knows, without the server."""
        if self.local or not self.server:
            return self.local or self.name
        return self.name.removeprefix(f"{self.server}__")

    @property
    def meta(self) -> dict[str, Any]:
        """Free metadata, decoded."""
        return json.loads(self.metadata)

    def row(self) -> dict[str, Any]:
        """The tool as a row of `tools.jsonl`, without fields that have their default."""
        row: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters.value,
        }
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in row or item.name == "metadata" or not value or value == item.default:
                continue
            row[item.name] = _to_json_value(value)
        if self.metadata != "{}":
            row["metadata"] = self.meta
        return row

    @property
    def fingerprint(self) -> str:
        """A hash of the whole definition, which changes with any field."""
        parts = (repr(getattr(self, item.name)) for item in fields(self))
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _to_json_value(value: object) -> object:
    match value:
        case Schema():
            return value.value
        case Annotations() | Extraction():
            pairs = ((f.name, getattr(value, f.name)) for f in fields(value))
            return {name: item for name, item in pairs if item is not None}
        case tuple():
            return list(cast("tuple[str, ...]", value))
        case _:
            return value
