"""One decoded row of a file, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass

LISTS = ("tools", "functions", "function_declarations", "functionDeclarations")
"""Keys under which the known shapes keep their list of tools."""


@dataclass(frozen=True, slots=True)
class Row:
    """A value with the line it starts on, or, with a `fault`, a place that cannot be read."""

    line: int
    value: object = None
    fault: str = ""
    remedy: str = ""
