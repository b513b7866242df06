"""Arguments that fit: checked against the real schema, mended where nothing is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, cast

from jsonschema import ValidationError
from jsonschema.protocols import Validator

from ..catalog.sanitization import replace_surrogates
from ..catalog.schema import Schema
from ..catalog.tool import Tool
from ..disclosure.providers.parameter_names import from_wire_keys
from ..disclosure.reply import describe_compact
from ..disclosure.search_arguments import decode_json
from ..errors import InvalidArguments
from .json_schema import schema_validator

_MAX_ROUNDS = 12
_MAX_PROBLEMS = 5
_MAX_MESSAGE_CHARS = 300
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,299})\Z")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,299})(\.\d{1,300})?([eE][+-]?\d{1,3})?\Z")

ValuePath = tuple[str | int, ...]


def read_arguments(tool: Tool, given: object) -> Mapping[str, Any]:
    """The arguments of a call as an object: nothing means none, and JSON text is read."""
    try:
        value = _make_encodable(decode_json(given or "null") if isinstance(given, str) else given)
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(
            f"The arguments of {tool.name} are not JSON: {_shorten(str(error))}.",
            hint=f"Send one JSON object. {signature_hint(tool)}",
        ) from error
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArguments(
            f"The arguments of {tool.name} are a {type(value).__name__}, not an object.",
            hint=f"Send one JSON object with the parameters by name. {signature_hint(tool)}",
        )
    return cast("Mapping[str, Any]", value)


def signature_hint(tool: Tool) -> str:
    """What a tool takes, for whoever sent it something else."""
    return f"It takes:\n{describe_compact([tool])}"


def _make_encodable(value: object) -> object:
    """The same in characters that can be sent on, whoever decoded it."""
    match value:
        case str():
            return replace_surrogates(value)
        case list():
            return [_make_encodable(item) for item in cast("list[object]", value)]
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return {_make_encodable(key): _make_encodable(item) for key, item in items}
        case _:
            return value


def fit_arguments(arguments: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """The arguments as the schema wants them, or InvalidArguments that says where they do not fit.

    Only what loses nothing is changed: `"5"` to 5, `"true"` to true, a number to its digits, JSON
    in a string to what it says, one value to a list of it, and null for "not given". Names that
    a provider was sent for those it does not take are led back.
    """
    with schema_validator(schema) as validator:
        value = dict(from_wire_keys(arguments, schema))
        errors = _errors(validator, value)
        for _ in range(_MAX_ROUNDS):
            better = _repair_round(value, errors, validator)
            if better is value:
                break
            value, errors = better, _errors(validator, better)
        if errors:
            raise _invalid_arguments(errors)
        return value


def _repair_round(
    value: dict[str, Any], errors: Sequence[ValidationError], validator: Validator
) -> dict[str, Any]:
    """One round: every value that has a fitting form takes it; what that uncovers comes next."""
    mended: set[ValuePath] = set()
    for error in errors:
        path = tuple(error.absolute_path)
        if any(path[: len(done)] == done for done in mended):
            continue
        better = _repair_value(value, path, error, validator)
        if better is not value:
            mended.add(path)
            value = better
    return value


def _repair_value(
    value: dict[str, Any], path: ValuePath, error: ValidationError, validator: Validator
) -> dict[str, Any]:
    for reading in _equivalent_values(error):
        if _passes(reading, error, validator):
            return _replace_at(value, path, reading)
    if error.instance is None and path:
        return _drop_null(value, path, validator)
    return value


def _passes(value: Any, error: ValidationError, validator: Any) -> bool:
    """Whether the very rule that failed holds for another value in that place."""
    local: Validator = validator.evolve(schema=error.schema)
    return not any(
        e.validator == error.validator and not e.absolute_path for e in local.iter_errors(value)
    )


def _drop_null(value: dict[str, Any], path: ValuePath, validator: Validator) -> dict[str, Any]:
    """Leave out a null where the parameter need not be given."""
    *above, name = path
    if not isinstance(name, str):
        return value
    holder = _value_at(value, above)
    trial = _replace_at(value, tuple(above), {k: v for k, v in holder.items() if k != name})
    return trial if len(_errors(validator, trial)) < len(_errors(validator, value)) else value


def _errors(validator: Validator, arguments: Mapping[str, Any]) -> list[ValidationError]:
    return sorted(validator.iter_errors(arguments), key=lambda e: [str(p) for p in e.absolute_path])


def _invalid_arguments(errors: Sequence[ValidationError]) -> InvalidArguments:
    told = [
        f"{_format_path(e.absolute_path)}: {_shorten(e.message)}" for e in errors[:_MAX_PROBLEMS]
    ]
    if len(errors) > _MAX_PROBLEMS:
        told.append(f"and {len(errors) - _MAX_PROBLEMS} more")
    return InvalidArguments("; ".join(told))


def _format_path(path: Sequence[str | int]) -> str:
    steps = (f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)
    return "".join(steps).lstrip(".") or "arguments"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[: _MAX_MESSAGE_CHARS - 1]}…"


def _equivalent_values(error: ValidationError) -> Iterator[object]:
    """The values that say the same as the one which failed, in the forms its schema asks for."""
    if error.validator == "type":
        wanted = error.validator_value
        for kind in cast("list[str]", [wanted] if isinstance(wanted, str) else wanted):
            yield from _values_as_type(kind, error.instance)
    for alternative in error.context or ():
        if not alternative.relative_path:
            yield from _equivalent_values(alternative)


def _values_as_type(kind: str, value: object) -> Iterator[object]:
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
            yield from _decode_as(value, kind)
        case "string", int() if not isinstance(value, bool):
            yield str(value)
        case _:
            pass
    if kind == "array" and value is not None and not _is_list(value):
        yield [value]


def _is_list(value: object) -> bool:
    """Whether it is a list, or a list written as text: then that is what was meant."""
    is_written = isinstance(value, str) and any(_decode_as(value, "array"))
    return is_written or isinstance(value, list)


def _decode_as(text: str, kind: str) -> Iterator[object]:
    try:
        value = decode_json(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict if kind == "object" else list):
        yield value


def _value_at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _replace_at(value: Any, path: ValuePath, new: object) -> Any:
    """A copy that differs in one place; everything beside the way to it is shared."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = _replace_at(value[path[0]], path[1:], new)
    return copy
