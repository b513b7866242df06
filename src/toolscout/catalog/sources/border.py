"""The border that rows from outside cross once: checked, cleaned, and frozen as a tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from sys import intern
from typing import Any, cast

from ...errors import CatalogError, SchemaError
from ..clean import NAME_CAP, clean, clean_line
from ..frozen import Unfreezable, frozen
from ..schema import Schema
from ..tool import DEFERRALS, RISKS, Annotations, Extraction, Tool

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
_PLAIN = "name description server category phrases tags usage extraction metadata local policy type"
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
_KINDS = frozenset({"function", "custom", "tool"})


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
                self._extra[key] = value
            elif value is not None and (ours not in self._known or key == "full_parameters"):
                self._known[ours] = value

    def tool(self) -> Tool:
        """The tool, or one error with all faults."""
        name = self._name()
        annotations, title = self._annotations()
        tool = Tool(
            name=name,
            title=self._line("title") or title,
            description=self._prose("description"),
            parameters=self._schema("parameters"),
            output=self._schema("output") if "output" in self._known else None,
            server=intern(self._line("server")),
            category=intern(self._line("category")),
            phrases=self._lines("phrases"),
            tags=self._lines("tags"),
            related=self._lines("related"),
            usage=self._prose("usage"),
            skill=self._line("skill"),
            risk=self._choice("risk", RISKS, None),
            requires_confirmation=self._flag("requires_confirmation") or self._needs_approval(),
            defer=self._choice("defer", DEFERRALS, "auto"),
            annotations=annotations,
            extraction=self._extraction(),
            local=self._line("local"),
            metadata=self._metadata(),
        )
        if self._faults:
            raise CatalogError(
                " ".join([f"{name!r}:", *self._faults] if name else self._faults),
                hint="Mend the row, or delete it.",
            )
        return tool

    def _name(self) -> str:
        given = self._known.get("name")
        name = clean_line(given, cap=NAME_CAP + 1) if isinstance(given, str) else ""
        if isinstance(self._known.get("type"), str) and not self._is_described():
            self._faults.append(
                f"{self._known['type']!r} is run by the model's provider: leave it out."
            )
        elif given is None or (isinstance(given, str) and not name):
            self._faults.append('It has no name: add "name".')
        elif not isinstance(given, str):
            self._faults.append(f"Its name must be text, not {_kind(given)}.")
        elif len(name) > NAME_CAP:
            self._faults.append(f"Its name has more than {NAME_CAP} characters: shorten it.")
            name = clean_line(name, cap=40)
        return name

    def _is_described(self) -> bool:
        """Whether this may be a tool of ours: hosted tools have a type and nothing more."""
        kind = self._known.get("type")
        return kind in _KINDS or not self._known.keys().isdisjoint(("description", "parameters"))

    def _typed(self, key: str, kind: type, wanted: str) -> Any:
        value = self._known.get(key)
        if value is None or isinstance(value, kind):
            return value
        self._faults.append(f"Its {key} must be {wanted}, not {_kind(value)}.")
        return None

    def _object(self, key: str) -> dict[str, Any]:
        return cast("dict[str, Any]", self._typed(key, dict, "an object")) or {}

    def _line(self, key: str) -> str:
        value = self._typed(key, str, "text") if key in self._known else None
        return clean_line(value) if value else ""

    def _prose(self, key: str) -> str:
        value = self._typed(key, str, "text") if key in self._known else None
        return clean(value) if value else ""

    def _flag(self, key: str) -> bool:
        return bool(self._typed(key, bool, "true or false"))

    def _lines(self, key: str) -> tuple[str, ...]:
        if key not in self._known:
            return ()
        value = self._known[key]
        items: list[Any] = [value] if isinstance(value, str) else value
        if not _is_texts(items):
            self._faults.append(f"Its {key} must be a list of texts.")
            return ()
        return tuple(dict.fromkeys(text for item in items if (text := clean_line(item))))

    def _choice(self, key: str, allowed: tuple[Any, ...], default: Any) -> Any:
        value = self._known.get(key, default)
        if value is default:
            return default
        value = _WISHES.get(value, value) if isinstance(value, str | bool) else value
        if value not in allowed:
            self._faults.append(f"Its {key} {value!r} is not known: use {', '.join(allowed)}.")
            return default
        return value

    def _needs_approval(self) -> bool:
        policy = self._known.get("policy")
        if policy not in (None, "auto", "requires_approval"):
            self._extra["policy"] = policy
        return policy == "requires_approval"

    def _schema_or_words(self, value: object) -> object:
        """A schema; words for a reader in its place are kept beside it."""
        if not isinstance(value, str):
            return value
        decoded = _object_in(value)
        if decoded is None:
            self._extra["arguments"] = clean(value)
        return decoded

    def _schema(self, key: str) -> Schema:
        value = self._known.get(key)
        try:
            return Schema.of(_lowered(value) if _is_loud(value) else value)
        except SchemaError as error:
            self._faults.append(f"Its {key}: {error}")
            return Schema()

    def _annotations(self) -> tuple[Annotations | None, str]:
        if "annotations" not in self._known:
            return None, ""
        rest = dict(self._object("annotations"))
        title = rest.pop("title", None)
        said: dict[str, bool] = {}
        for ours, spellings in _HINTS.items():
            for spelling in spellings:
                value = rest.pop(spelling, None)
                if isinstance(value, bool):
                    said[ours] = value
                elif value is not None:
                    self._faults.append(f"Its annotation {spelling} must be true or false.")
        if rest:
            self._extra["annotations"] = rest
        return Annotations(**said) if said else None, clean_line(title if _is_text(title) else "")

    def _extraction(self) -> Extraction | None:
        row = self._object("extraction")
        if not row:
            return None
        texts = {
            ours: row.get(ours, row.get(theirs, default))
            for ours, theirs, default in (
                ("path", "path", None),
                ("type", "type", None),
                ("name_field", "nameField", None),
                ("id_field", "idField", "id"),
            )
        }
        for key, value in texts.items():
            if not _is_text(value):
                self._faults.append(f"Its extraction needs {key!r} as text.")
                return None
        is_array = row.get("is_array", row.get("isArray", False))
        return Extraction(**texts, is_array=is_array is True)

    def _metadata(self) -> str:
        given = self._object("metadata")
        kind = self._known.get("type")
        if kind is not None and kind not in _KINDS:
            self._extra.setdefault("type", kind)
        if not given and not self._extra:
            return "{}"
        try:
            return frozen(self._extra | given)
        except Unfreezable as error:
            self._faults.append(f"Its metadata {error}.")
            return "{}"


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


def _is_loud(value: object) -> bool:
    """Whether a schema names its types in capitals, as Gemini does."""
    kind = cast("dict[str, object]", value).get("type") if isinstance(value, dict) else None
    return isinstance(kind, str) and kind.isupper()


def _lowered(value: object) -> object:
    if isinstance(value, list):
        return [_lowered(item) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    pairs = cast("dict[str, object]", value).items()
    return {
        key: item.lower() if key == "type" and isinstance(item, str) else _lowered(item)
        for key, item in pairs
    }
