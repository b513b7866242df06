"""Scan all definitions of a catalog, each with the tools of the others in mind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .findings import Finding, has_hard
from .rules import RuleSet
from .scanner import scan_definition
from .tool_names import KnownTools


@dataclass(frozen=True, slots=True)
class ScannedTool:
    """A tool and what the rules found in its definition; `place` is where the definition is."""

    name: str
    server: str
    place: str
    findings: tuple[Finding, ...]

    @property
    def is_hard(self) -> bool:
        """Whether a gateway holds the tool because of the findings."""
        return has_hard(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The tool and its findings as JSON data."""
        return {
            "name": self.name,
            "server": self.server,
            "place": self.place,
            "findings": [finding.to_dict() for finding in self.findings],
        }


@dataclass(frozen=True, slots=True)
class CatalogDefinition:
    """A definition with the tool that it is of; `local` is the server's own name of the tool."""

    value: Mapping[str, Any]
    name: str
    server: str
    place: str

    @property
    def local(self) -> str:
        """The name of the tool without its server."""
        return self.name.removeprefix(f"{self.server}__") if self.server else self.name


def scan_catalog(definitions: Iterable[CatalogDefinition], rules: RuleSet) -> Iterator[ScannedTool]:
    """Scan definitions; a reference to a tool of another server is a finding."""
    definitions = tuple(definitions)
    own: dict[str, set[str]] = {}
    for each in definitions:
        own.setdefault(each.server, set()).add(each.local)
    # Without servers, all tools are of one source, and may refer to one another.
    known = KnownTools.of((each.server, each.local) for each in definitions if len(own) > 1)
    views = {server: known.seen_from(names) for server, names in own.items()}
    for each in definitions:
        found = scan_definition(each.value, rules=rules, known_tools=views[each.server])
        yield ScannedTool(each.name, each.server, each.place, found)
