"""JSON schemas of Python functions, and validation of their arguments with Pydantic."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NotRequired, cast, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from ..catalog.result import Result
from ..catalog.schema import Schema
from ..errors import SchemaError

_MISSING = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """How to call a function: its schemas, and the validation of its arguments."""

    schema: Schema
    output: Schema | None
    check: Callable[[Mapping[str, Any]], dict[str, Any]]
    positional: tuple[str, ...]

    def split(self, checked: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Split checked arguments into positional and keyword arguments."""
        positional = [checked[n] for n in self.positional if n in checked]
        return positional, {n: v for n, v in checked.items() if n not in self.positional}


def read_signature(
    function: Callable[..., Any], descriptions: Mapping[str, str]
) -> FunctionSignature:
    """Read a function's signature; `descriptions` are those of its parameters."""
    label = getattr(function, "__qualname__", None) or repr(function)
    try:
        return _build_signature(function, descriptions, label)
    except (NameError, SyntaxError, TypeError, ValueError, PydanticUserError) as error:
        text = str(error).partition("\n")[0].rstrip(".")
        raise SchemaError(
            f"The parameters of {label} have no JSON schema: {text}.",
            hint="Use plain types, dataclasses or Pydantic models defined at module level.",
        ) from error


def _build_signature(
    function: Callable[..., Any], descriptions: Mapping[str, str], label: str
) -> FunctionSignature:
    hints = get_type_hints(_annotation_owner(function), include_extras=True)
    fields: dict[str, Any] = {}
    positional: list[str] = []
    is_open = False
    for name, parameter in _inspect_signature(function, label).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise SchemaError(
                f"{label} takes *{name}, but a tool's arguments have names.",
                hint=f"Take a list instead: {name}: list[...].",
            )
        if parameter.kind is parameter.VAR_KEYWORD:
            is_open = True  # **kwargs: the schema allows more properties
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(name)
        fields[name] = _field_type(
            hints.get(name, Any), parameter.default, descriptions.get(name, "")
        )
    adapter = _build_adapter(fields, is_open=is_open)
    return FunctionSignature(
        schema=_generate_schema(adapter, label),
        output=_output_schema(hints.get("return"), label),
        check=lambda arguments: adapter.validate_python(dict(arguments)),
        positional=tuple(positional),
    )


def _inspect_signature(function: Callable[..., Any], label: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError as error:
        raise SchemaError(
            f"{label} does not declare its parameters.",
            hint="Wrap it in your own function, whose parameters have names.",
        ) from error


def _annotation_owner(function: Callable[..., Any]) -> Any:
    """The object that has the annotations."""
    if isinstance(function, partial):
        return _annotation_owner(cast("partial[Any]", function).func)
    if inspect.isroutine(function):
        return function
    return type(function).__call__


def _field_type(hint: Any, default: Any, description: str) -> Any:
    """The type of one argument: the hint, with description and default added."""
    inner = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    infos = [m for m in (*inner, default) if isinstance(m, FieldInfo)]
    if isinstance(default, FieldInfo):
        hint = Annotated[hint, default]
    elif default is None:
        hint = hint | None if hint is not Any else hint
    if description and not any(info.description for info in infos):
        hint = Annotated[hint, Field(description=description)]
    if default is _MISSING or isinstance(default, FieldInfo):
        is_required = all(info.is_required() for info in infos)
        return hint if is_required else NotRequired[hint]
    # The default is only shown in the schema. Validation leaves the key out, and the function
    # supplies the value itself.
    return NotRequired[Annotated[hint, Field(json_schema_extra=_json_default(default))]]


def _json_default(default: Any) -> dict[str, Any]:
    """A default for the schema, if JSON can encode it."""
    try:
        value = to_jsonable_python(default)
        json.dumps(value, allow_nan=False)
    except (PydanticSerializationError, ValueError):
        return {}
    return {"default": value}


def _build_adapter(fields: dict[str, Any], *, is_open: bool) -> TypeAdapter[dict[str, Any]]:
    # A TypedDict and not a model: validation gives a plain dictionary for the call, with only the
    # arguments that were passed.
    shape: Any = TypedDict("shape", fields)  # pyright: ignore[reportArgumentType]  keys of run time
    shape.__pydantic_config__ = ConfigDict(extra="allow" if is_open else "forbid")
    return TypeAdapter(shape)


class _PlainSchemaGenerator(GenerateJsonSchema):
    """Schemas without generated titles, which only cost tokens, and with valid JSON defaults."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Ignore warnings: a default that cannot be encoded is simply left out."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  the name is Pydantic's
        """No field gets a generated title."""
        return False

    def encode_default(self, dft: Any) -> Any:
        """Refuse NaN and infinity, so that Pydantic leaves the default out."""
        value = super().encode_default(dft)
        try:
            json.dumps(value, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from error
        return value


def _generate_schema(
    adapter: TypeAdapter[Any], label: str, mode: JsonSchemaMode = "validation"
) -> Schema:
    try:
        return Schema.of(
            _remove_titles(adapter.json_schema(mode=mode, schema_generator=_PlainSchemaGenerator))
        )
    except SchemaError as error:
        raise SchemaError(f"{label}: {error.message}", hint=error.hint) from error


def _remove_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove the titles of types, and put `type` and `properties` first."""
    schema.pop("title", None)
    for name, definition in schema.get("$defs", {}).items():
        if definition.get("title") == name:
            del definition["title"]
    return {"type": "object", "properties": {}, **schema}


def _output_schema(hint: Any, label: str) -> Schema | None:
    """The schema of the return type, if it is an object with named fields."""
    # A Result is how a function returns other content; its fields are not those of a value.
    if hint is Result or not isinstance(hint, type) or not _has_fields(hint):
        return None
    return _generate_schema(TypeAdapter(hint), label, "serialization")


def _has_fields(kind: type) -> bool:
    return any(
        hasattr(kind, mark)
        for mark in ("__pydantic_fields__", "__dataclass_fields__", "__required_keys__")
    )
