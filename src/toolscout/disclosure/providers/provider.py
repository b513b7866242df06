"""The facts about a provider's tool definitions: names, schemas, strict mode and limits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...catalog.schema import Schema
from ...catalog.tool import Annotations, wire_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The JSON Schema that a provider accepts.

    `rejected` keywords are dropped everywhere; `allowed`, if given, drops all others. With
    `is_object` the top level must be a plain object: alternatives are merged into it. With
    `is_modern` the schema must be valid under draft 2020-12. `keys` is the pattern for parameter
    names, if the provider has one.
    """

    rejected: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None
    is_object: bool = True
    is_modern: bool = True
    keys: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictMode:
    """The requirements for strict mode, where the provider guarantees valid arguments.

    With `all_required` optional parameters become nullable. `formats` are the supported string
    formats, `max_min_items` is the largest `minItems`, and `max_tools` is the number of strict
    tools in one request.
    """

    rejected: frozenset[str]
    all_required: bool
    formats: frozenset[str]
    may_recur: bool = True
    max_min_items: int | None = None
    max_tools: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A tool whose name and schema already fit a provider, ready to be rendered."""

    name: str
    description: str
    schema: dict[str, Any]
    title: str = ""
    output: Schema | None = None
    annotations: Annotations | None = None
    is_strict: bool = False
    is_deferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider's name, its limits, and how it writes a definition.

    `define` renders one definition and `wrap` makes the tool list of a request from all of them.
    `name_limit` is the length of tool names; None leaves names unchanged. `max_tools` is the
    number of tools in one request.
    """

    name: str
    define: Callable[[Definition], dict[str, Any]]
    wrap: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = list
    name_limit: int | None = 64
    max_tools: int | None = None
    dialect: Dialect = Dialect()
    strict: StrictMode | None = None

    def to_wire_name(self, name: str) -> str:
        """The name of a tool in requests to this provider."""
        return name if self.name_limit is None else wire_name(name, limit=self.name_limit)
