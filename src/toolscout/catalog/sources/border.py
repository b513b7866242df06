"""The border that rows from outside cross once: checked, cleaned, and frozen as a tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from sys import intern
from typing import Any, cast

from ...errors import CatalogError, SchemaError
from ..clean import NAME_CAP, clean, clean_line
from ..frozen import Unfreezable, frozen
from ..schema import Schema
from ..tool import DEFERRALS, RISKS, Annotations, Deferral, Extraction, Risk, Tool
from .gemini import hosted_in, in_small_letters

_ALIASES = {
    "title": "title display_name displayName",
    "parameters": "parameters full_parameters inputSchema input_schema parametersJsonSchema"
    " parameters_json_schema",
    "output": "output outputSchema output_schema responseJsonSchema response_json_schema response",
    "related": "related relatedTools related_tools",
    "skill": "skill relatedSkill related_skill",
    "risk": "risk riskLevel risk_level",
    "requires_confirmation": "requires_confirmation requiresConfirmation",
    "defer": "defer deferrable defer_loading",
    "annotations": "annotations hints",
}
"""What others call our fields."""
_PLAIN = "name description server category phrases tags usage extraction metadata local policy"
_OURS = {name: name for name in _PLAIN.split()} | {
    alias: ours for ours, aliases in _ALIASES.items() for alias in aliases.split()
}
_HINTS = {
    "read_only": ("read_only", "readOnlyHint", "readOnly", "readonly"),
    "destructive": ("destructive", "destructiveHint"),
    "idempotent": ("idempotent", "idempotentHint"),
    "open_world": ("open_world", "openWorldHint", "openWorld"),
}
_WISHES: dict[object, str] = {"automatic": "auto", True: "always", False: "auto"}
_EXTRACTION = {
    "path": "path",
    "type": "type",
    "name_field": "nameField",
    "id_field": "idField",
}


def tool_from(row: object) -> Tool:
    """The tool that a row describes; what we do not know is kept as metadata."""
    if not isinstance(row, dict):
        raise CatalogError(
            f"A tool must be an object, not {_kind(row)}.",
            hint='Write {"name": …, "description": …, "parameters": …}.',
        )
    return _Reading(cast("dict[str, Any]", row)).tool()


class _Reading:
    """One row being read; every fault is noted, so that all can be mended at once."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._known: dict[str, Any] = {}
        self._extra: dict[str, Any] = {}
        self._faults: list[str] = []
        for key, raw in row.items():
            ours = _OURS.get(key)
            value = self._schema_or_words(raw) if ours == "parameters" else raw
            if ours is None or (ours == "output" and not isinstance(value, dict)):
                if key != "type" or not _is_plain_type(value):
                    self._extra[key] = value
            elif value is not None and (ours not in self._known or key == "full_parameters"):
                self._known[ours] = value

    def tool(self) -> Tool:
        """The tool, or one error with all faults."""
        known = self._known
        fields: dict[str, Any] = {"name": self._name(known.get("name"))}
        for key, read in _READERS.items():
            if key in known:
                fields[key] = read(self, key, known[key])
        if "annotations" in known:
            self._annotate(fields, self._object("annotations", known["annotations"]))
        if "policy" in known:
            self._apply_policy(fields, known["policy"])
        if self._extra or "metadata" in known:
            fields["metadata"] = self._metadata(known.get("metadata", {}))
        if self._faults:
            name = fields["name"]
            raise CatalogError(
                " ".join([f"{name!r}:", *self._faults] if name else self._faults),
                hint="Mend the row, or delete it.",
            )
        return Tool(**fields)

    def _name(self, given: object) -> str:
        if hosted := self._hosted():
            self._faults.append(f"{hosted!r} is run by the model's provider: leave it out.")
        elif given is not None and not isinstance(given, str):
            self._faults.append(f"Its name must be text, not {_kind(given)}.")
        name = clean_line(given, cap=NAME_CAP + 1) if isinstance(given, str) else ""
        if not name and not self._faults:
            self._faults.append('It has no name: add "name".')
        if len(name) > NAME_CAP:
            self._faults.append(f"Its name has more than {NAME_CAP} characters: shorten it.")
            return clean_line(name, cap=40)
        return name

    def _hosted(self) -> str:
        """What the provider runs, if this is that: a type or a key of its own, and little more."""
        kind = self._extra.get("type")
        if isinstance(kind, str) and self._known.keys().isdisjoint(("description", "parameters")):
            return kind
        return "" if self._known else hosted_in(self._extra)

    def _is(self, key: str, value: object, kind: type, wanted: str) -> bool:
        if isinstance(value, kind):
            return True
        self._faults.append(f"Its {key} must be {wanted}, not {_kind(value)}.")
        return False

    def _object(self, key: str, value: object) -> dict[str, Any]:
        is_one = self._is(key, value, dict, "an object")
        return cast("dict[str, Any]", value) if is_one else {}

    def line(self, key: str, value: Any) -> str:
        """A text on one line; equal ones are kept once."""
        return intern(clean_line(value)) if self._is(key, value, str, "text") else ""

    def prose(self, key: str, value: Any) -> str:
        """A text of several lines."""
        return clean(value) if self._is(key, value, str, "text") else ""

    def lines(self, key: str, value: Any) -> tuple[str, ...]:
        """Several texts, each once; a single one may stand alone."""
        items: list[Any] = [value] if isinstance(value, str) else value
        if not _is_texts(items):
            self._faults.append(f"Its {key} must be a list of texts.")
            return ()
        return tuple(dict.fromkeys(text for item in items if (text := clean_line(item))))

    def flag(self, key: str, value: Any) -> bool:
        """True or false."""
        return self._is(key, value, bool, "true or false") and value

    def risk(self, key: str, value: Any) -> Risk | None:
        """How dangerous it is."""
        return value if self._is_known(key, value, RISKS) else None

    def deferral(self, key: str, value: Any) -> Deferral:
        """Whether it is kept out of view; others say so with true and false."""
        spelled: Any = _WISHES.get(value, value) if isinstance(value, str | bool) else value
        return spelled if self._is_known(key, spelled, DEFERRALS) else "auto"

    def _is_known(self, key: str, value: object, allowed: tuple[str, ...]) -> bool:
        if value in allowed:
            return True
        self._faults.append(f"Its {key} {value!r} is not known: use {', '.join(allowed)}.")
        return False

    def schema(self, key: str, value: Any) -> Schema:
        """A JSON schema."""
        try:
            return Schema.of(in_small_letters(value))
        except SchemaError as error:
            self._faults.append(f"Its {key}: {error}")
            return Schema()

    def extraction(self, key: str, value: Any) -> Extraction | None:
        """Where entities are found in its results."""
        row = self._object(key, value)
        texts: dict[str, str] = {}
        for ours, theirs in _EXTRACTION.items():
            text = row.get(ours, row.get(theirs, "id" if ours == "id_field" else None))
            if not _is_text(text):
                self._faults.append(f"Its extraction needs {ours!r} as text.")
                return None
            texts[ours] = clean_line(text)
        is_array = row.get("is_array", row.get("isArray", False))
        return Extraction(**texts, is_array=is_array is True)

    def _schema_or_words(self, value: object) -> object:
        """A schema; words for a reader in its place are kept beside it."""
        if not isinstance(value, str):
            return value
        decoded = _object_in(value)
        if decoded is None:
            self._extra["arguments"] = clean(value)
        return decoded

    def _annotate(self, fields: dict[str, Any], given: dict[str, Any]) -> None:
        rest = dict(given)
        title = rest.pop("title", None)
        if isinstance(title, str) and not fields.get("title"):
            fields["title"] = clean_line(title)
        said: dict[str, bool] = {}
        for ours, spellings in _HINTS.items():
            for spelling in spellings:
                value = rest.pop(spelling, None)
                if value is not None and self.flag(f"annotation {spelling}", value) is value:
                    said[ours] = value
        fields["annotations"] = Annotations(**said) if said else None
        if rest:
            self._extra["annotations"] = rest

    def _apply_policy(self, fields: dict[str, Any], policy: object) -> None:
        if policy == "requires_approval":
            fields["requires_confirmation"] = True
        elif policy != "auto":
            self._extra["policy"] = policy

    def _metadata(self, given: object) -> str:
        try:
            return frozen(self._extra | self._object("metadata", given))
        except Unfreezable as error:
            self._faults.append(f"Its metadata {error}.")
            return "{}"


_READERS: dict[str, Callable[[_Reading, str, Any], object]] = {
    "title": _Reading.line,
    "description": _Reading.prose,
    "parameters": _Reading.schema,
    "output": _Reading.schema,
    "server": _Reading.line,
    "category": _Reading.line,
    "phrases": _Reading.lines,
    "tags": _Reading.lines,
    "related": _Reading.lines,
    "usage": _Reading.prose,
    "skill": _Reading.line,
    "risk": _Reading.risk,
    "requires_confirmation": _Reading.flag,
    "defer": _Reading.deferral,
    "extraction": _Reading.extraction,
    "local": _Reading.line,
}


def _kind(value: object) -> str:
    """A value's type in the words of JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case Mapping():
            return "an object"
        case _:
            return type(value).__name__


def _is_plain_type(value: object) -> bool:
    """Whether a type says only that this is a tool."""
    return value in ("function", "custom", "tool")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in cast("list[object]", value))


def _object_in(text: str) -> dict[str, Any] | None:
    """The object that a text spells out, if it is one."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
