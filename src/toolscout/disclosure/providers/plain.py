"""Plain dictionaries with name, description and parameters, unchanged from the catalog."""

from __future__ import annotations

from typing import Any

from .provider import Definition, Dialect, Provider


def _define(definition: Definition) -> dict[str, Any]:
    return {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.schema,
    }


PLAIN = Provider(
    name="plain", define=_define, name_limit=None, dialect=Dialect(is_object=False, is_modern=False)
)
