"""Taking entities out of one result: by a custom extractor, a declared schema, or the output's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..catalog.clean import clean_line
from ..catalog.result import Result
from ..catalog.tool import Extraction, Tool
from .entities import Entity
from .inference import inferred

ROOT = "$root"
MOST_ITEMS = 5
MOST_CHARACTERS = 4_000_000
_TEXT_CAP = 200

Extractor = Callable[[Any], Iterable[Entity]]
"""Gets a result's value and gives the entities in it."""


class Missed(ValueError):
    """A result is not what the tool's declaration promises; the text says how."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What was found, and what was wrong if anything was."""

    entities: tuple[Entity, ...] = ()
    problem: str = ""


def extract(tool: Tool, result: Result, extractor: Extractor | None = None) -> Extracted:
    """The entities of a result; whatever goes wrong becomes a problem, never an exception."""
    try:
        return Extracted(found(tool, result, extractor))
    except Missed as error:
        return Extracted(problem=str(error))
    except Exception as error:  # noqa: BLE001 - an extractor is anybody's code; calls must not fail by it
        return Extracted(problem=f"its extractor failed: {type(error).__name__}: {error}")


def found(tool: Tool, result: Result, extractor: Extractor | None = None) -> tuple[Entity, ...]:
    """The same, but with exceptions: an extractor's own, or Missed."""
    if extractor is not None:
        return _custom(extractor(_value(result)))
    schema = tool.extraction
    if schema is None and result.structured is not None:
        schema = inferred(tool)
    return _by_schema(_value(result), schema) if schema is not None else ()


def _value(result: Result) -> Any:
    size = len(result.structured if result.structured is not None else result.text)
    if size > MOST_CHARACTERS:
        raise Missed(f"the result has {size:,} characters; {MOST_CHARACTERS:,} are looked at")
    try:
        return result.value
    except (ValueError, RecursionError) as error:
        raise Missed(f"the result cannot be read as JSON ({error})") from error


def _custom(given: object) -> tuple[Entity, ...]:
    entities = tuple(cast("Iterable[object]", given))
    for entity in entities:
        if not isinstance(entity, Entity):
            raise Missed(f"its extractor gave a {type(entity).__name__}, not an Entity")
    return tuple(_tidy(e) for e in cast("tuple[Entity, ...]", entities) if e.id and e.name)


def _by_schema(value: object, schema: Extraction) -> tuple[Entity, ...]:
    data = _at(value, schema.path)
    if schema.is_array:
        if not isinstance(data, list):
            raise Missed(f"{schema.path!r} is {_kind(data)}, not a list")
        items = cast("Sequence[object]", data)[:MOST_ITEMS]
    else:
        items = (data,)
    entities = tuple(e for item in items if (e := _entity(item, schema)) is not None)
    if items and not entities:
        raise Missed(
            f"no item of {schema.path!r} has both {schema.id_field!r} and {schema.name_field!r}"
        )
    return entities


def _at(value: object, path: str) -> object:
    if path == ROOT:
        return value
    if not isinstance(value, Mapping):
        raise Missed(f"the result is {_kind(value)}, so it has no {path!r}")
    row = cast("Mapping[str, object]", value)
    if path not in row:
        keys = ", ".join(list(row)[:8]) or "nothing"
        raise Missed(f"there is no {path!r} in the result; it has: {keys}")
    return row[path]


def _entity(item: object, schema: Extraction) -> Entity | None:
    if not isinstance(item, Mapping):
        return None
    row = cast("Mapping[str, object]", item)
    identity, name = _text(row.get(schema.id_field)), _text(row.get(schema.name_field))
    return Entity(schema.type, identity, name) if identity and name else None


def _text(value: object) -> str:
    """A field as text; nothing for what is empty, zero, or no plain value."""
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


def _kind(value: object) -> str:
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
