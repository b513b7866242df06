"""Validate a set of tools: every problem at once, each with its place and remedy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from ..errors import InvalidCatalogError
from .metaschema import SchemaFault, find_schema_faults
from .problem import Problem
from .schema import Schema
from .tool import Tool

Field = Literal[
    "title", "description", "category", "phrases", "tags", "usage", "risk", "extraction"
]


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """The result of a validation; errors make a catalog invalid, warnings do not."""

    tool_count: int = 0
    custom_extractor_count: int = 0
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether there are no errors; warnings are allowed."""
        return not self.errors

    def summary(self) -> dict[str, Any]:
        """The report as values that JSON can encode."""
        return {
            "valid": self.is_valid,
            "tool_count": self.tool_count,
            "custom_extractor_count": self.custom_extractor_count,
            "errors": [str(p) for p in self.errors],
            "warnings": [str(p) for p in self.warnings],
        }

    def raise_if_invalid(self) -> ValidationReport:
        """Return this report, or raise InvalidCatalogError with all errors at once."""
        if self.errors:
            raise InvalidCatalogError([str(p) for p in self.errors])
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """What to check tools against; an unset field is not checked.

    `callable_names` are the tools that can be called: each must have an entry, except those in
    `exempt`, and no other tool may have one. `extractors` are the tools with a custom extractor.
    `categories` are the allowed categories, and `fields` the fields that every tool must fill.
    """

    callable_names: Collection[str] | None = None
    exempt: Collection[str] = ()
    extractors: Collection[str] = ()
    categories: Collection[str] | None = None
    fields: Collection[Field] = ()


def validate(
    tools: Mapping[str, Tool] | Iterable[Tool], expected: Expectations | None = None
) -> ValidationReport:
    """Check tools against one another and against expectations."""
    expected = expected or Expectations()
    validator = _Validator(expected)
    for key, tool in _entries(tools):
        validator.add(key, tool)
    problems = list(validator.problems())
    return ValidationReport(
        tool_count=len(validator.tools),
        custom_extractor_count=len(set(expected.extractors)),
        errors=tuple(p for p in problems if p.severity == "error"),
        warnings=tuple(p for p in problems if p.severity == "warning"),
    )


def _entries(tools: Mapping[str, Tool] | Iterable[Tool]) -> Iterable[tuple[str, Tool]]:
    if isinstance(tools, Mapping):
        return cast("Mapping[str, Tool]", tools).items()
    return ((tool.name, tool) for tool in tools)


class _Validator:
    """Collects tools, then checks them together."""

    def __init__(self, expected: Expectations) -> None:
        self.tools: dict[str, Tool] = {}
        self._expected = expected
        self._problems: list[Problem] = []
        # By schema text: many tools share a schema, and checking one is slow.
        self._schema_faults: dict[str, tuple[SchemaFault, ...]] = {}

    def add(self, key: str, tool: Tool) -> None:
        if tool.name != key:
            self._add_error(
                key, "name", f"Its own name is {tool.name!r}.", "Use the same name in both places."
            )
        if key in self.tools:
            self._add_error(key, "duplicate", "Two tools have this name.", "Rename one of them.")
        self.tools[key] = tool

    def problems(self) -> Iterator[Problem]:
        for key, tool in self.tools.items():
            self._check_fields(key, tool)
            self._check_schema(key, "parameters", tool.parameters)
            if tool.output is not None:
                self._check_schema(key, "output", tool.output)
            self._check_related(key, tool)
        self._check_callable()
        self._check_extractors()
        yield from self._problems

    def _add_error(self, where: str, code: str, message: str, remedy: str) -> None:
        self._problems.append(Problem(where, message, remedy, "error", code))

    def _add_warning(self, where: str, code: str, message: str, remedy: str) -> None:
        self._problems.append(Problem(where, message, remedy, "warning", code))

    def _check_fields(self, key: str, tool: Tool) -> None:
        expected = self._expected
        for field in expected.fields:
            if not getattr(tool, field):
                self._add_error(key, "missing", f"It has no {field}.", f"Add {field!r}.")
        known = expected.categories
        if known is not None and tool.category and tool.category not in known:
            self._add_error(
                key,
                "category",
                f"Its category {tool.category!r} is not known.",
                f"Use one of {', '.join(known)}, or declare it.",
            )
        path = "" if tool.extraction is None else tool.extraction.path
        if path != "$root" and ("." in path or "/" in path or "[" in path):
            self._add_error(
                key,
                "extraction",
                f"Its extraction path {path!r} goes deeper than one level.",
                "Use $root or a top-level key, or write a custom extractor.",
            )

    def _check_schema(self, key: str, field: str, schema: Schema) -> None:
        if schema.text not in self._schema_faults:
            self._schema_faults[schema.text] = tuple(find_schema_faults(schema))
        for fault in self._schema_faults[schema.text]:
            add = self._add_error if fault.fatal else self._add_warning
            add(key, "schema", f"Its {field} schema: {fault.text}.", "Fix the JSON schema.")

    def _check_related(self, key: str, tool: Tool) -> None:
        known = self._expected.callable_names or ()
        for name in tool.related:
            if name not in self.tools and name not in known:
                self._add_warning(
                    key, "related", f"Its related tool {name!r} is not known.", "Correct the name."
                )

    def _check_callable(self) -> None:
        names = self._expected.callable_names
        if names is None:
            return
        for name in names:
            if name not in self.tools and name not in self._expected.exempt:
                self._add_error(
                    name, "undescribed", "It can be called but has no entry.", "Add one."
                )
        for name in self.tools:
            if name not in names:
                self._add_error(
                    name,
                    "orphan",
                    "It is described, but there is no such tool.",
                    "Remove the entry, or register the tool.",
                )

    def _check_extractors(self) -> None:
        names = self._expected.callable_names
        for name in self._expected.extractors:
            tool = self.tools.get(name)
            if tool is None and (names is None or name not in names):
                self._add_error(
                    name,
                    "extractor",
                    "It has a custom extractor, but there is no such tool.",
                    "Remove the extractor.",
                )
            elif tool is not None and tool.extraction is not None:
                self._add_error(
                    name,
                    "extractors",
                    "It has both an extraction schema and a custom extractor.",
                    "Keep one of them.",
                )
