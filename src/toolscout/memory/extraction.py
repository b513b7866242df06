"""Extracts entities from a result by a custom extractor, a declared or an inferred schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..catalog.result import Result
from ..catalog.sanitization import clean_line
from ..catalog.tool import Extraction, Tool
from .entities import Entity
from .inference import infer_extraction

ROOT = "$root"
# Of a list only the first items count: a long one would push everything else out of the window.
MAX_ITEMS = 5
# Parsing a larger result would hold up the call.
MAX_CHARACTERS = 4_000_000
_TEXT_CAP = 200

Extractor = Callable[[Any], Iterable[Entity]]
"""Returns the entities in the value of a result."""


class ExtractionError(ValueError):
    """A result does not match the declared schema; the text says how."""


@dataclass(frozen=True, slots=True)
class ExtractionResult:
    """The entities found, or the problem."""

    entities: tuple[Entity, ...] = ()
    problem: str = ""


def extract(tool: Tool, result: Result, extractor: Extractor | None = None) -> ExtractionResult:
    """The entities of a result; a failure becomes a problem, never an exception."""
    try:
        return ExtractionResult(extract_or_raise(tool, result, extractor))
    except ExtractionError as error:
        return ExtractionResult(problem=str(error))
    except Exception as error:  # noqa: BLE001 - an extractor is user code and must not fail a call
        return ExtractionResult(problem=f"its extractor failed: {type(error).__name__}: {error}")


def extract_or_raise(
    tool: Tool, result: Result, extractor: Extractor | None = None
) -> tuple[Entity, ...]:
    """The entities of a result; raises ExtractionError, or what the extractor raises."""
    if extractor is not None:
        return _check_custom(extractor(_result_value(result)))
    schema = tool.extraction
    # Only structured results are known to follow the output schema.
    if schema is None and result.structured is not None:
        schema = infer_extraction(tool)
    return _extract_by_schema(_result_value(result), schema) if schema is not None else ()


def _result_value(result: Result) -> Any:
    size = len(result.structured if result.structured is not None else result.text)
    if size > MAX_CHARACTERS:
        raise ExtractionError(
            f"the result has {size:,} characters; only {MAX_CHARACTERS:,} are allowed"
        )
    try:
        return result.value
    except (ValueError, RecursionError) as error:
        raise ExtractionError(f"the result cannot be read as JSON ({error})") from error


def _check_custom(extracted: object) -> tuple[Entity, ...]:
    entities = tuple(cast("Iterable[object]", extracted))
    for entity in entities:
        if not isinstance(entity, Entity):
            raise ExtractionError(
                f"its extractor returned a {type(entity).__name__}, not an Entity"
            )
    return tuple(_tidy(e) for e in cast("tuple[Entity, ...]", entities) if e.id and e.name)


def _extract_by_schema(value: object, schema: Extraction) -> tuple[Entity, ...]:
    data = _value_at(value, schema.path)
    if schema.is_array:
        if not isinstance(data, list):
            raise ExtractionError(f"{schema.path!r} is {_describe_type(data)}, not a list")
        items = cast("Sequence[object]", data)[:MAX_ITEMS]
    else:
        items = (data,)
    entities = tuple(e for item in items if (e := _entity(item, schema)) is not None)
    if items and not entities:
        raise ExtractionError(
            f"no item of {schema.path!r} has both {schema.id_field!r} and {schema.name_field!r}"
        )
    return entities


def _value_at(value: object, path: str) -> object:
    if path == ROOT:
        return value
    if not isinstance(value, Mapping):
        raise ExtractionError(f"the result is {_describe_type(value)}, so it has no {path!r}")
    row = cast("Mapping[str, object]", value)
    if path not in row:
        keys = ", ".join(list(row)[:8]) or "nothing"
        raise ExtractionError(f"there is no {path!r} in the result; it has: {keys}")
    return row[path]


def _entity(item: object, schema: Extraction) -> Entity | None:
    if not isinstance(item, Mapping):
        return None
    row = cast("Mapping[str, object]", item)
    identity, name = _text(row.get(schema.id_field)), _text(row.get(schema.name_field))
    return Entity(schema.type, identity, name) if identity and name else None


def _text(value: object) -> str:
    """A field as text; "" for an empty value, zero, or anything but text and numbers."""
    if not value or isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return clean_line(str(value), cap=_TEXT_CAP)


def _tidy(entity: Entity) -> Entity:
    return Entity(
        clean_line(str(entity.type), cap=_TEXT_CAP),
        clean_line(str(entity.id), cap=_TEXT_CAP),
        clean_line(str(entity.name), cap=_TEXT_CAP),
        entity.timestamp,
    )


def _describe_type(value: object) -> str:
    match value:
        case None:
            return "null"
        case Mapping():
            return "an object"
        case list():
            return "a list"
        case str():
            return "text"
        case _:
            return "a plain value"
