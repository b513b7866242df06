"""What is true of a provider's tool definitions, so that nothing else needs to know."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...catalog.names import wire_name
from ...catalog.schema import Schema
from ...catalog.tool import Annotations


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The JSON Schema a provider takes.

    `rejected` keywords are dropped wherever they stand; `allowed`, when given, drops all others.
    With `is_object` the outermost schema must be a plain object: alternatives are folded into it.
    With `is_modern` it must be valid by the draft of 2020-12, whatever draft it was written by.
    `keys` is what the names of parameters must look like, where that matters.
    """

    rejected: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None
    is_object: bool = True
    is_modern: bool = True
    keys: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictMode:
    """What a schema must be for the provider to hold a model to it word for word.

    With `all_required` what is optional becomes nullable; `formats` are those it knows,
    `most_least` is the largest least length of a list; `most_tools` is how many strict tools one
    request may have.
    """

    rejected: frozenset[str]
    all_required: bool
    formats: frozenset[str]
    may_recur: bool = True
    most_least: int | None = None
    most_tools: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A tool ready to be written in a provider's form: its name and schema already fit."""

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
    """A provider's name, its limits, and how a definition is written for it.

    `name_limit` None leaves names as they are; `most_tools` is the most one request may have;
    `wrap` puts the written definitions into the list that goes into a request.
    """

    name: str
    define: Callable[[Definition], dict[str, Any]]
    wrap: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = list
    name_limit: int | None = 64
    most_tools: int | None = None
    dialect: Dialect = Dialect()
    strict: StrictMode | None = None

    def to_wire_name(self, name: str) -> str:
        """The name a tool has in requests."""
        return name if self.name_limit is None else wire_name(name, limit=self.name_limit)
