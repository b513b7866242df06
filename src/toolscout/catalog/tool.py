"""The tool record that every part of Toolscout uses, and the spellings of its name."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, cast, get_args

from ..errors import SchemaError
from .schema import Schema

Risk = Literal["safe", "moderate", "destructive"]
Deferral = Literal["auto", "always", "never"]
RISKS: tuple[Risk, ...] = get_args(Risk)
DEFERRALS: tuple[Deferral, ...] = get_args(Deferral)
SEPARATOR = "__"
# Everything but the characters that all providers allow in a function's name.
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
# Where a word begins in camelCase, also after an acronym: read|File, HTTP|Server.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINTS = re.compile(r"[\s_\-./:~]+")
_OVERLAY_FIELDS = frozenset({"added_phrases", "aliases"})
_HASH_SUFFIX = re.compile(r"--[0-9a-f]{8,64}\Z")
# 55 safe characters at most, an underscore and eight hex digits: 64 characters, the limit of most
# providers.
CHANGED_WIRE_NAME = re.compile(r"[A-Za-z0-9_-]{1,55}_[0-9a-f]{8}(?![A-Za-z0-9_-])")
"""The form of wire names that differ from the name of their tool."""


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
    added_phrases: tuple[str, ...] = ()
    """The last of `phrases`: those that an overlay added. Not part of the definition."""
    aliases: tuple[str, ...] = ()
    """Other names, which an overlay added. Not part of the definition."""

    def __post_init__(self) -> None:
        # A schema looks like a dictionary, so users often pass one directly.
        parameters, output = cast("object", self.parameters), cast("object", self.output)
        if not (isinstance(parameters, Schema) and isinstance(output, Schema | None)):
            raise SchemaError(
                f"The schemas of {self.name} must be of the class Schema.",
                hint="Write parameters=Schema.of({...}), from toolscout.catalog.schema.",
            )

    @property
    def local_name(self) -> str:
        """The name that the source knows, without the server."""
        if self.local or not self.server:
            return self.local or self.name
        return self.name.removeprefix(f"{self.server}{SEPARATOR}")

    @property
    def definition(self) -> Tool:
        """The tool as its source defines it, without what an overlay added."""
        return self.with_overlay() if self.added_phrases or self.aliases else self

    def with_overlay(self, *, phrases: tuple[str, ...] = (), aliases: tuple[str, ...] = ()) -> Tool:
        """The tool with the phrases and aliases of an overlay, instead of those it had."""
        own = self.phrases[: len(self.phrases) - len(self.added_phrases)]
        new = tuple(phrase for phrase in dict.fromkeys(phrases) if phrase not in own)
        if (new, aliases) == (self.added_phrases, self.aliases):
            return self
        return replace(self, phrases=(*own, *new), added_phrases=new, aliases=aliases)

    @property
    def meta(self) -> dict[str, Any]:
        """Free metadata, decoded."""
        return json.loads(self.metadata)

    def row(self) -> dict[str, Any]:
        """The definition as a row of `tools.jsonl`, without fields that have their default."""
        tool = self.definition
        row: dict[str, Any] = {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters.value,
        }
        for item in fields(tool):
            value = getattr(tool, item.name)
            if item.name in row or item.name == "metadata" or not value or value == item.default:
                continue
            row[item.name] = _to_json_value(value)
        if self.metadata != "{}":
            row["metadata"] = self.meta
        return row

    @property
    def fingerprint(self) -> str:
        """A hash of the whole definition, which changes with any field of it."""
        tool = self.definition
        names = (item.name for item in fields(tool) if item.name not in _OVERLAY_FIELDS)
        parts = (repr(getattr(tool, name)) for name in names)
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


def digest(*parts: str, length: int = 8) -> str:
    """A short stable hash."""
    text = "\0".join(parts).encode(errors="surrogatepass")
    return hashlib.sha256(text).hexdigest()[:length]


def qualify_name(server: str, tool: str) -> str:
    """`server__tool`, unless the name already starts with the server."""
    if not server or tool.startswith(f"{server}{SEPARATOR}"):
        return tool
    return f"{server}{SEPARATOR}{tool}"


def add_hash_suffix(source: str, name: str, *, length: int = 8) -> str:
    """A name made unique by a hash of its source: `search--3fa1b2c4`."""
    return f"{name}--{digest(source, name, length=length)}"


def has_hash_suffix(name: str) -> bool:
    """Whether a name has the form that only `add_hash_suffix` may produce."""
    return "--" in name and _HASH_SUFFIX.search(name) is not None


def wire_name(name: str, *, limit: int = 64) -> str:
    """A name that every provider accepts; a changed name ends in a hash of the original."""
    safe = _UNSAFE.sub("_", name)
    if not safe or safe[0] in "0123456789-":
        safe = f"t_{safe}"
    if safe == name and len(name) <= limit:
        return name
    suffix = digest(name)
    return f"{safe[: limit - len(suffix) - 1]}_{suffix}"


def normalise_name(name: str) -> str:
    """One spelling for every case style: `readFile`, `read-file` and `ReadFile` are `read_file`."""
    if name.isascii():
        # Most names are snake_case already; skipping the regular expressions is much faster.
        if name.islower() and name.isidentifier() and SEPARATOR not in name:
            return name.strip("_")
        return _JOINTS.sub("_", _HUMP.sub("_", name)).strip("_").lower()
    # Case folding can undo NFKC, so normalise before and after it.
    folded = unicodedata.normalize("NFKC", _HUMP.sub("_", name)).casefold()
    return _JOINTS.sub("_", unicodedata.normalize("NFKC", folded)).strip("_")


def name_spellings(name: str) -> set[str]:
    """The normalised spellings under which a server or category is found, whatever the case."""
    return {normalise_name(name), normalise_name(name.casefold())} - {""} or {name}
