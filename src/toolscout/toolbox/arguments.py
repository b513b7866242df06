"""Reads the arguments of a call, repairs them without loss, and validates them by the schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, cast

from jsonschema import ValidationError
from jsonschema.protocols import Validator

from ..catalog.sanitization import decode_json, replace_surrogates
from ..catalog.schema import Schema
from ..catalog.tool import Tool
from ..disclosure.providers.parameter_names import from_wire_keys
from ..disclosure.reply import describe_compact
from ..errors import InvalidArgumentsError, UnknownToolError
from ..models.messages import encode_input
from .json_schema import schema_validator

# A repair may uncover errors further inside (a list in a string, then the numbers in the list).
# Each level takes a round; the bound ends schemas whose repairs undo each other.
_MAX_ROUNDS = 12
_MAX_PROBLEMS = 5
_MAX_MESSAGE_CHARS = 300
# A float has at most 309 digits before the point, and Python refuses to parse integers of more than
# 4,300 digits. Longer numbers stay text and fail validation.
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,299})\Z")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,299})(\.\d{1,300})?([eE][+-]?\d{1,3})?\Z")

ValuePath = tuple[str | int, ...]


def read_tool_name(name: object) -> str:
    """The name in a call as text that can be encoded; anything but text is an error."""
    if not isinstance(name, str):
        raise UnknownToolError(
            f"A {type(name).__name__} is not the name of a tool.", hint="Call a tool by its name."
        )
    return replace_surrogates(name)


def read_arguments(tool: Tool, raw: object) -> Mapping[str, Any]:
    """The arguments of a call as an object: JSON text is decoded, and nothing means none."""
    try:
        value = _make_encodable(decode_json(raw or "null") if isinstance(raw, str) else raw)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentsError(
            f"The arguments of {tool.name} are not JSON: {_shorten(str(error))}.",
            hint=f"Send one JSON object. {signature_hint(tool)}",
        ) from error
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArgumentsError(
            f"The arguments of {tool.name} are a {type(value).__name__}, not an object.",
            hint=f"Send one JSON object with the parameters by name. {signature_hint(tool)}",
        )
    return cast("Mapping[str, Any]", value)


def encode_arguments(arguments: object) -> str:
    """The arguments of a call as JSON text; text is taken for JSON and stays unchanged."""
    return arguments if isinstance(arguments, str) else encode_input(arguments or {})


def signature_hint(tool: Tool) -> str:
    """The signature of a tool, for an error about its arguments."""
    return f"It takes:\n{describe_compact([tool])}"


def _make_encodable(value: object) -> object:
    """Replace lone surrogates, which JSON can hold but UTF-8 cannot encode."""
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
    """The arguments as the schema requires; raises an error that names each problem and its place.

    Only repairs that lose nothing are made: `"5"` to 5, `"true"` to true, a number to text, JSON
    in a string to its value, one value to a list of it, and null to a missing parameter.
    Parameter names that were replaced for a provider are mapped back.
    """
    with schema_validator(schema) as validator:
        value = dict(from_wire_keys(arguments, schema))
        errors = _errors(validator, value)
        for _ in range(_MAX_ROUNDS):
            repaired = _repair_round(value, errors, validator)
            if repaired is value:
                break
            value, errors = repaired, _errors(validator, repaired)
        if errors:
            raise _invalid_arguments(errors)
        return value


def _repair_round(
    value: dict[str, Any], errors: Sequence[ValidationError], validator: Validator
) -> dict[str, Any]:
    """Replace every value that has an equivalent its schema accepts."""
    repaired: set[ValuePath] = set()
    for error in errors:
        path = tuple(error.absolute_path)
        # The error describes a value that a repair above or at its path has replaced.
        if any(path[: len(prefix)] == prefix for prefix in repaired):
            continue
        after = _repair_value(value, path, error, validator)
        if after is not value:
            repaired.add(path)
            value = after
    return value


def _repair_value(
    value: dict[str, Any], path: ValuePath, error: ValidationError, validator: Validator
) -> dict[str, Any]:
    for candidate in _equivalent_values(error):
        if _passes(candidate, error, validator):
            return _replace_at(value, path, candidate)
    if error.instance is None and path:
        return _drop_null(value, path, validator)
    return value


def _passes(value: Any, error: ValidationError, validator: Any) -> bool:
    """Whether the keyword that failed accepts another value in the same place."""
    # Only that keyword: the value may still have errors inside, which later rounds repair.
    local: Validator = validator.evolve(schema=error.schema)
    return not any(
        e.validator == error.validator and not e.absolute_path for e in local.iter_errors(value)
    )


def _drop_null(value: dict[str, Any], path: ValuePath, validator: Validator) -> dict[str, Any]:
    """Remove a null if that leaves fewer errors, as it does for an optional parameter."""
    *parent_path, name = path
    if not isinstance(name, str):
        return value
    parent = _value_at(value, parent_path)
    trial = _replace_at(value, tuple(parent_path), {k: v for k, v in parent.items() if k != name})
    return trial if len(_errors(validator, trial)) < len(_errors(validator, value)) else value


def _errors(validator: Validator, arguments: Mapping[str, Any]) -> list[ValidationError]:
    return sorted(validator.iter_errors(arguments), key=lambda e: [str(p) for p in e.absolute_path])


def _invalid_arguments(errors: Sequence[ValidationError]) -> InvalidArgumentsError:
    lines = [
        f"{_format_path(e.absolute_path)}: {_shorten(e.message)}" for e in errors[:_MAX_PROBLEMS]
    ]
    if len(errors) > _MAX_PROBLEMS:
        lines.append(f"and {len(errors) - _MAX_PROBLEMS} more")
    return InvalidArgumentsError("; ".join(lines))


def _format_path(path: Sequence[str | int]) -> str:
    steps = (f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)
    return "".join(steps).lstrip(".") or "arguments"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[: _MAX_MESSAGE_CHARS - 1]}…"


def _equivalent_values(error: ValidationError) -> Iterator[object]:
    """Values of the types the schema accepts that mean the same as the one that failed."""
    if error.validator == "type":
        wanted = error.validator_value
        for kind in cast("list[str]", [wanted] if isinstance(wanted, str) else wanted):
            yield from _values_as_type(kind, error.instance)
    # The branches of an anyOf or oneOf; only errors of the value itself, not of its parts.
    for alternative in error.context or ():
        if not alternative.relative_path:
            yield from _equivalent_values(alternative)


def _values_as_type(kind: str, value: object) -> Iterator[object]:
    """Values of a JSON type that mean exactly the same."""
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
    """Whether it is a list, or JSON text of one, which must not be wrapped in another list."""
    is_encoded = isinstance(value, str) and any(_decode_as(value, "array"))
    return is_encoded or isinstance(value, list)


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
    """A copy with another value at a path; everything outside the path is shared."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = _replace_at(value[path[0]], path[1:], new)
    return copy
