"""Parse rows from outside into tools: check, clean and freeze them, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from sys import intern
from typing import Any, cast

from ..catalog.sanitization import NAME_CAP, JSONEncodeError, clean, clean_line, encode_json
from ..catalog.schema import Schema
from ..catalog.tool import DEFERRALS, RISKS, Annotations, Deferral, Extraction, Risk, Tool
from ..errors import CatalogError, SchemaError
from . import tool_formats


def parse_tools(value: object, *, server: str = "") -> Iterator[Tool | CatalogError]:
    """Every tool in a decoded value, or the error of one that is invalid."""
    for row in tool_formats.unwrap_tools(value, server):
        try:
            yield row if isinstance(row, CatalogError) else parse_tool(row)
        except CatalogError as error:
            yield error


def parse_tool(row: object) -> Tool:
    """Parse a row; unknown keys are kept as metadata."""
    if not isinstance(row, dict):
        raise CatalogError(
            f"A tool must be an object, not {_json_type(row)}.",
            hint='Write {"name": …, "description": …, "parameters": …}.',
        )
    return _ToolParser(cast("dict[str, Any]", row)).parse()


class _ToolParser:
    """Parses one row and collects all its errors, so that they can be fixed at once."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._known: dict[str, Any] = {}
        self._extra: dict[str, Any] = {}
        self._faults: list[str] = []
        for key, raw in row.items():
            field = tool_formats.FIELD_NAMES.get(key)
            value = self._schema_or_prose(raw) if field == "parameters" else raw
            if field is None or (field == "output" and not isinstance(value, dict)):
                if key != "type" or not tool_formats.is_plain_type(value):
                    self._extra[key] = value
            elif value is not None and (field not in self._known or key == "full_parameters"):
                self._known[field] = value

    def parse(self) -> Tool:
        """The tool, or one error with all faults of the row."""
        known = self._known
        fields: dict[str, Any] = {"name": self._parse_name(known.get("name"))}
        for key, parse in _FIELD_PARSERS.items():
            if key in known:
                fields[key] = parse(self, key, known[key])
        if "annotations" in known:
            self._apply_annotations(fields, self._parse_object("annotations", known["annotations"]))
        for key, deferral in _DEFERRAL_FLAGS.items():
            if key in known and self.parse_flag(key, known[key]):
                fields["defer"] = deferral
        if "policy" in known:
            self._apply_policy(fields, known["policy"])
        if self._extra or "metadata" in known:
            fields["metadata"] = self._parse_metadata(known.get("metadata", {}))
        if self._faults:
            name = fields["name"]
            raise CatalogError(
                " ".join([f"{name!r}:", *self._faults] if name else self._faults),
                hint="Fix the row, or delete it.",
            )
        return Tool(**fields)

    def _parse_name(self, value: object) -> str:
        if provider_tool := self._provider_tool():
            self._faults.append(f"{provider_tool!r} is run by the model's provider: remove it.")
        elif value is not None and not isinstance(value, str):
            self._faults.append(f"Its name must be text, not {_json_type(value)}.")
        name = clean_line(value, cap=NAME_CAP + 1) if isinstance(value, str) else ""
        if not name and not self._faults:
            self._faults.append('It has no name: add "name".')
        if len(name) > NAME_CAP:
            self._faults.append(f"Its name has more than {NAME_CAP} characters: shorten it.")
            return clean_line(name, cap=40)
        return name

    def _provider_tool(self) -> str:
        """The type or key of a tool that the model's provider runs, such as `web_search`."""
        kind = self._extra.get("type")
        if isinstance(kind, str) and self._known.keys().isdisjoint(("description", "parameters")):
            return kind
        return "" if self._known else tool_formats.builtin_tool_key(self._extra)

    def _check_type(self, key: str, value: object, kind: type, expected: str) -> bool:
        if isinstance(value, kind):
            return True
        self._faults.append(f"Its {key} must be {expected}, not {_json_type(value)}.")
        return False

    def _parse_object(self, key: str, value: object) -> dict[str, Any]:
        is_object = self._check_type(key, value, dict, "an object")
        return cast("dict[str, Any]", value) if is_object else {}

    def parse_line(self, key: str, value: Any) -> str:
        """A text on one line, interned because many tools share a server or a category."""
        return intern(clean_line(value)) if self._check_type(key, value, str, "text") else ""

    def parse_prose(self, key: str, value: Any) -> str:
        """A text of several lines."""
        return clean(value) if self._check_type(key, value, str, "text") else ""

    def parse_lines(self, key: str, value: Any) -> tuple[str, ...]:
        """Several texts without duplicates; a single text need not be in a list."""
        items: list[Any] = [value] if isinstance(value, str) else value
        if not _is_text_list(items):
            self._faults.append(f"Its {key} must be a list of texts.")
            return ()
        return tuple(dict.fromkeys(text for item in items if (text := clean_line(item))))

    def parse_flag(self, key: str, value: Any) -> bool:
        """True or false."""
        return self._check_type(key, value, bool, "true or false") and value

    def parse_risk(self, key: str, value: Any) -> Risk | None:
        """The risk level."""
        return value if self._check_choice(key, value, RISKS) else None

    def parse_deferral(self, key: str, value: Any) -> Deferral:
        """The deferral; other formats have a boolean instead."""
        spelled: Any = (
            tool_formats.DEFERRAL_NAMES.get(value, value)
            if isinstance(value, str | bool)
            else value
        )
        return spelled if self._check_choice(key, spelled, DEFERRALS) else "auto"

    def _check_choice(self, key: str, value: object, allowed: tuple[str, ...]) -> bool:
        if value in allowed:
            return True
        self._faults.append(f"Its {key} {value!r} is not known: use {', '.join(allowed)}.")
        return False

    def parse_schema(self, key: str, value: Any) -> Schema:
        """A JSON schema."""
        try:
            return Schema.of(tool_formats.lowercase_types(value))
        except SchemaError as error:
            self._faults.append(f"Its {key}: {error}")
            return Schema()

    def parse_extraction(self, key: str, value: Any) -> Extraction | None:
        """The extraction of entities from results."""
        row = self._parse_object(key, value)
        texts: dict[str, str] = {}
        for field, alias in tool_formats.EXTRACTION_NAMES.items():
            text = row.get(field, row.get(alias, "id" if field == "id_field" else None))
            if not isinstance(text, str) or not text:
                self._faults.append(f"Its extraction needs {field!r} as text.")
                return None
            texts[field] = clean_line(text)
        is_array = row.get("is_array", row.get("isArray", False))
        return Extraction(**texts, is_array=is_array is True)

    def _schema_or_prose(self, value: object) -> object:
        """A schema; prose instead of one is kept as metadata."""
        if not isinstance(value, str):
            return value
        decoded = tool_formats.decode_object(value)
        if decoded is None:
            self._extra["arguments"] = clean(value)
        return decoded

    def _apply_annotations(self, fields: dict[str, Any], annotations: dict[str, Any]) -> None:
        rest = dict(annotations)
        title = rest.pop("title", None)
        if isinstance(title, str) and not fields.get("title"):
            fields["title"] = clean_line(title)
        hints: dict[str, bool] = {}
        for field, spellings in tool_formats.HINT_NAMES.items():
            for spelling in spellings:
                value = rest.pop(spelling, None)
                if value is not None and self.parse_flag(f"annotation {spelling}", value) is value:
                    hints[field] = value
        fields["annotations"] = Annotations(**hints) if hints else None
        if rest:
            self._extra["annotations"] = rest

    def _apply_policy(self, fields: dict[str, Any], policy: object) -> None:
        if policy == "requires_approval":
            fields["requires_confirmation"] = True
        elif policy != "auto":
            self._extra["policy"] = policy

    def _parse_metadata(self, value: object) -> str:
        try:
            return encode_json(self._extra | self._parse_object("metadata", value))
        except JSONEncodeError as error:
            self._faults.append(f"Its metadata {error}.")
            return "{}"


_FIELD_PARSERS: dict[str, Callable[[_ToolParser, str, Any], object]] = {
    "title": _ToolParser.parse_line,
    "description": _ToolParser.parse_prose,
    "parameters": _ToolParser.parse_schema,
    "output": _ToolParser.parse_schema,
    "server": _ToolParser.parse_line,
    "category": _ToolParser.parse_line,
    "phrases": _ToolParser.parse_lines,
    "tags": _ToolParser.parse_lines,
    "related": _ToolParser.parse_lines,
    "usage": _ToolParser.parse_prose,
    "skill": _ToolParser.parse_line,
    "risk": _ToolParser.parse_risk,
    "requires_confirmation": _ToolParser.parse_flag,
    "defer": _ToolParser.parse_deferral,
    "extraction": _ToolParser.parse_extraction,
    "local": _ToolParser.parse_line,
}


# The last one that is set wins: a tool that must always be loaded is never deferred.
_DEFERRAL_FLAGS: dict[str, Deferral] = {"should_defer": "always", "always_load": "never"}


def _json_type(value: object) -> str:
    """The JSON name of a value's type."""
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


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in cast("list[object]", value))
