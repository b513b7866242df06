"""JSON Schemas as frozen text: compact to keep, decoded when read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ..errors import SchemaError
from .frozen import Unfreezable, frozen
from .parameters import Parameter, described_in, parameters_of

__all__ = ["EMPTY", "Parameter", "Schema"]

EMPTY = '{"type":"object","properties":{}}'
SIZE_CAP = 16_000_000


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON Schema kept as compact text, so a hundred thousand of them fit in memory."""

    text: str = EMPTY

    @classmethod
    def of(cls, value: object) -> Schema:
        """Freeze a decoded schema, its texts cleaned; null means *takes no arguments*."""
        if value is None:
            return _NOTHING
        if not isinstance(value, Mapping):
            raise SchemaError(
                f"A schema must be a JSON object, not {type(value).__name__}.",
                hint='Write {"type": "object", "properties": {…}} or null.',
            )
        try:
            text = frozen(cast("Mapping[object, object]", value))
        except Unfreezable as error:
            raise SchemaError(f"The schema {error}.", hint=error.remedy) from error
        if len(text) > SIZE_CAP:
            raise SchemaError(
                f"The schema has {len(text):,} characters; at most {SIZE_CAP:,} are kept.",
                hint="Leave out long enumerations, examples and inlined definitions.",
            )
        return _NOTHING if text == EMPTY else cls(text)

    @property
    def value(self) -> dict[str, Any]:
        """The schema as a fresh dictionary; changing it changes nothing here."""
        return cast("dict[str, Any]", json.loads(self.text))

    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments, outer ones first, a few levels deep, in declared order."""
        return () if self.text == EMPTY else tuple(parameters_of(self.value))

    def described(self) -> list[tuple[str, str]]:
        """The names and descriptions of the same arguments, for those who need no more."""
        return [] if self.text == EMPTY else list(described_in(self.value))

    def top(self) -> tuple[Parameter, ...]:
        """Only the outermost arguments."""
        return () if self.text == EMPTY else tuple(parameters_of(self.value, deepest=0))


_NOTHING = Schema()
