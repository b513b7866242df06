"""JSON Schema validation that is safe for untrusted schemas.

A schema comes from a server and may be hostile. References to other documents are not followed,
and patterns run in linear time with RE2; patterns that RE2 lacks (look-around) are not checked
here, only by the server that runs the tool.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Any, cast

from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.exceptions import UnknownType
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from ..catalog.schema import Schema
from ..errors import SchemaError

KeywordCheck = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]
# A broken schema fails inside jsonschema wherever its value is used, with whatever that raises.
_SCHEMA_ERRORS = (UnknownType, Unresolvable, RecursionError, TypeError, AttributeError, ValueError)
_re2: Any = import_module("re2")


@contextmanager
def schema_validator(schema: Schema) -> Generator[Validator]:
    """A validator for the schema; errors of the schema itself become SchemaError."""
    # The schema is not checked as a whole first: a flaw in a part that this call does not use is
    # harmless.
    try:
        yield _build_validator(schema)
    except _SCHEMA_ERRORS as error:
        raise SchemaError(
            f"Its schema is not valid JSON Schema: {_describe_flaw(error)}.",
            hint="Report it to the tool's author, or use another tool.",
        ) from error


def _describe_flaw(error: Exception) -> str:
    match error:
        case RecursionError():
            return "its references form a cycle, or it is nested too deeply"
        case Unresolvable():
            return f"it refers to {error.ref!r}, which cannot be followed"
        case _:
            return (str(error).splitlines() or [type(error).__name__])[0][:300]


@lru_cache(maxsize=512)
def _build_validator(schema: Schema) -> Validator:
    value = schema.value
    draft = validators.validator_for(value, default=Draft202012Validator)
    # An empty registry, since the default one would fetch remote references over the network.
    registry: Registry[Any] = Registry()
    return _safe_validator_class(draft)(value, registry=registry)


@lru_cache(maxsize=8)
def _safe_validator_class(draft: type[Validator]) -> type[Validator]:
    extend = cast("Callable[..., type[Validator]]", validators.extend)  # pyright: ignore[reportUnknownMemberType] - the stub leaves it untyped
    return extend(draft, _KEYWORDS)


def _check_pattern(
    _check: Any, pattern: str, instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    if isinstance(instance, str) and _pattern_occurs(pattern, instance) is False:
        yield ValidationError(f"{instance[:100]!r} does not match {pattern!r}")


def _check_pattern_properties(
    check: Any, patterns: Mapping[str, Any], instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    for pattern, subschema in patterns.items():
        for name, value in _items(instance):
            if _pattern_occurs(pattern, name):
                yield from check.descend(value, subschema, path=name, schema_path=pattern)


def _check_additional_properties(
    check: Any, rule: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in _items(instance):
        if name in known or any(_pattern_occurs(p, name) is not False for p in patterns):
            continue
        if rule is False:
            yield ValidationError(f"there is no parameter {name[:100]!r}")
        elif isinstance(rule, dict):
            yield from check.descend(value, rule, path=name)


def _skip_unevaluated_properties(
    _check: Any, _rule: Any, _instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    """Skip the keyword: jsonschema would run its patterns with `re`, which can backtrack."""
    return iter(())


def _pattern_occurs(pattern: str, text: str) -> bool | None:
    """Whether the pattern occurs in the text; None if RE2 does not support the pattern."""
    compiled = _compile_pattern(pattern)
    return None if compiled is None else bool(compiled.search(text))


@lru_cache(maxsize=512)
def _compile_pattern(pattern: str) -> Any | None:
    options = _re2.Options()
    options.log_errors = False  # it would write to stderr for each unsupported pattern
    try:
        return _re2.compile(pattern, options)
    except _re2.error:
        return None


def _items(instance: object) -> Iterator[tuple[str, Any]]:
    return iter(cast("dict[str, Any]", instance).items() if isinstance(instance, dict) else ())


_KEYWORDS: Mapping[str, KeywordCheck] = {
    "pattern": _check_pattern,
    "patternProperties": _check_pattern_properties,
    "additionalProperties": _check_additional_properties,
    "unevaluatedProperties": _skip_unevaluated_properties,
}
