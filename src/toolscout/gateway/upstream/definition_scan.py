"""Scan what a server lists for attacks on the model, once for each definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...scanning.findings import Finding
from ...scanning.rules import RuleSet
from ...scanning.scanner import scan_definition
from ...scanning.tool_names import KnownTools
from ...sources.mcp import wire

_MAX_FINDINGS = 3


class DefinitionScanner:
    """The findings in the definitions of one server; each definition is scanned when asked for."""

    def __init__(
        self, definitions: Mapping[str, wire.MCPToolDefinition], rules: RuleSet, tools: KnownTools
    ) -> None:
        self._definitions = definitions
        self._rules = rules
        self._known_tools = tools.seen_from(definitions)
        self._found: dict[str, tuple[Finding, ...]] = {}

    def find(self, tool: str) -> Sequence[Finding]:
        """What the rules find in a definition, by the server's own name of the tool."""
        if tool not in self._found:
            definition = wire.dump_definition(self._definitions[tool].raw)
            found = scan_definition(definition, rules=self._rules, known_tools=self._known_tools)
            self._found[tool] = found
        return self._found[tool]

    def explain(self, tool: str) -> str:
        """The hard findings of a definition in a sentence, or nothing."""
        hard = [finding for finding in self.find(tool) if finding.severity == "hard"]
        more = f"; and {len(hard) - _MAX_FINDINGS} more" if len(hard) > _MAX_FINDINGS else ""
        return "; ".join(map(str, hard[:_MAX_FINDINGS])) + more
