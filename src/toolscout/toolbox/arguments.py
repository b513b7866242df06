"""Arguments that fit: checked against the real schema, mended where nothing is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, cast

from jsonschema import ValidationError
from jsonschema.protocols import Validator

from ..catalog.clean import encodable
from ..catalog.schema import Schema
from ..catalog.tool import Tool
from ..disclosure.asking import decoded
from ..disclosure.providers.keys import with_real_keys
from ..disclosure.replies.definitions import compactly
from ..errors import InvalidArguments
from .checking import checking

_ROUNDS = 12
_MOST_PROBLEMS = 5
_MESSAGE_CAP = 300
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,299})\Z")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,299})(\.\d{1,300})?([eE][+-]?\d{1,3})?\Z")

Path = tuple[str | int, ...]


def read_arguments(tool: Tool, given: object) -> Mapping[str, Any]:
    """The arguments of a call as an object: nothing means none, and JSON text is read."""
    try:
        value = _sound(decoded(given or "null") if isinstance(given, str) else given)
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(
            f"The arguments of {tool.name} are not JSON: {_cut(str(error))}.",
            hint=f"Send one JSON object. {taking(tool)}",
        ) from error
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArguments(
            f"The arguments of {tool.name} are a {type(value).__name__}, not an object.",
            hint=f"Send one JSON object with the parameters by name. {taking(tool)}",
        )
    return cast("Mapping[str, Any]", value)


def taking(tool: Tool) -> str:
    """What a tool takes, for whoever sent it something else."""
    return f"It takes:\n{compactly([tool])}"


def _sound(value: object) -> object:
    """The same in characters that can be sent on, whoever decoded it."""
    match value:
        case str():
            return encodable(value)
        case list():
            return [_sound(item) for item in cast("list[object]", value)]
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return {_sound(key): _sound(item) for key, item in items}
        case _:
            return value


def fitted(arguments: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """The arguments as the schema wants them, or InvalidArguments that says where they do not fit.

    Only what loses nothing is changed: `"5"` to 5, `"true"` to true, a number to its digits, JSON
    in a string to what it says, one value to a list of it, and null for "not given". Names that
    a provider was sent for those it does not take are led back.
    """
    with checking(schema) as validator:
        value = dict(with_real_keys(arguments, schema))
        errors = _errors(validator, value)
        for _ in range(_ROUNDS):
            better = _mended(value, errors, validator)
            if better is value:
                break
            value, errors = better, _errors(validator, better)
        if errors:
            raise _misfit(errors)
        return value


def _mended(
    value: dict[str, Any], errors: Sequence[ValidationError], validator: Validator
) -> dict[str, Any]:
    """One round: every value that has a fitting form takes it; what that uncovers comes next."""
    mended: set[Path] = set()
    for error in errors:
        path = tuple(error.absolute_path)
        if any(path[: len(done)] == done for done in mended):
            continue
        better = _mend(value, path, error, validator)
        if better is not value:
            mended.add(path)
            value = better
    return value


def _mend(
    value: dict[str, Any], path: Path, error: ValidationError, validator: Validator
) -> dict[str, Any]:
    for reading in _readings(error):
        if _passes(reading, error, validator):
            return _replaced(value, path, reading)
    if error.instance is None and path:
        return _without_null(value, path, validator)
    return value


def _passes(value: Any, error: ValidationError, validator: Any) -> bool:
    """Whether the very rule that failed holds for another value in that place."""
    local: Validator = validator.evolve(schema=error.schema)
    return not any(
        e.validator == error.validator and not e.absolute_path for e in local.iter_errors(value)
    )


def _without_null(value: dict[str, Any], path: Path, validator: Validator) -> dict[str, Any]:
    """Leave out a null where the parameter need not be given."""
    *above, name = path
    if not isinstance(name, str):
        return value
    holder = _at(value, above)
    trial = _replaced(value, tuple(above), {k: v for k, v in holder.items() if k != name})
    return trial if len(_errors(validator, trial)) < len(_errors(validator, value)) else value


def _errors(validator: Validator, arguments: Mapping[str, Any]) -> list[ValidationError]:
    return sorted(validator.iter_errors(arguments), key=lambda e: [str(p) for p in e.absolute_path])


def _misfit(errors: Sequence[ValidationError]) -> InvalidArguments:
    told = [f"{_place(e.absolute_path)}: {_cut(e.message)}" for e in errors[:_MOST_PROBLEMS]]
    if len(errors) > _MOST_PROBLEMS:
        told.append(f"and {len(errors) - _MOST_PROBLEMS} more")
    return InvalidArguments("; ".join(told))


def _place(path: Sequence[str | int]) -> str:
    steps = (f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)
    return "".join(steps).lstrip(".") or "arguments"


def _cut(text: str) -> str:
    return text if len(text) <= _MESSAGE_CAP else f"{text[: _MESSAGE_CAP - 1]}…"


def _readings(error: ValidationError) -> Iterator[object]:
    """The values that say the same as the one which failed, in the forms its schema asks for."""
    if error.validator == "type":
        wanted = error.validator_value
        for kind in cast("list[str]", [wanted] if isinstance(wanted, str) else wanted):
            yield from _read_as(kind, error.instance)
    for alternative in error.context or ():
        if not alternative.relative_path:
            yield from _readings(alternative)


def _read_as(kind: str, value: object) -> Iterator[object]:
    """The values of a kind that say exactly the same."""
    match kind, value:
        case "integer", str() if _INTEGER.match(value):
            yield int(value)
        case "number", str() if _NUMBER.match(value) and isfinite(float(value)):
            yield json.loads(value)
        case "boolean", str() if value.lower() in ("true", "false"):
            yield value.lower() == "true"
        case "null", str() if value.lower() == "null":
            yield None
        case "object" | "array", str():
            yield from _decoded(value, kind)
        case "string", int() if not isinstance(value, bool):
            yield str(value)
        case _:
            pass
    if kind == "array" and value is not None and not _is_list(value):
        yield [value]


def _is_list(value: object) -> bool:
    """Whether it is a list, or a list written as text: then that is what was meant."""
    is_written = isinstance(value, str) and any(_decoded(value, "array"))
    return is_written or isinstance(value, list)


def _decoded(text: str, kind: str) -> Iterator[object]:
    try:
        value = decoded(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict if kind == "object" else list):
        yield value


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _replaced(value: Any, path: Path, new: object) -> Any:
    """A copy that differs in one place; everything beside the way to it is shared."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copy
