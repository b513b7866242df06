"""The Model Context Protocol: tools as in the `tools/list` of a server."""

from __future__ import annotations

from typing import Any

from ...catalog.tool import Annotations
from .provider import Definition, Dialect, Provider


def _define(definition: Definition) -> dict[str, Any]:
    tool: dict[str, Any] = {
        "name": definition.name,
        "description": definition.description,
        "inputSchema": definition.schema,
    }
    if definition.title:
        tool["title"] = definition.title
    if definition.output is not None:
        tool["outputSchema"] = definition.output.value
    if definition.annotations is not None:
        tool["annotations"] = _hints(definition.annotations)
    return tool


def _hints(annotations: Annotations) -> dict[str, bool]:
    hints = {
        "readOnlyHint": annotations.read_only,
        "destructiveHint": annotations.destructive,
        "idempotentHint": annotations.idempotent,
        "openWorldHint": annotations.open_world,
    }
    return {name: value for name, value in hints.items() if value is not None}


# The MCP specification recommends names of at most 128 characters. Schemas stay unchanged: clients
# validate them by the draft they declare.
MCP = Provider(name="mcp", define=_define, name_limit=128, dialect=Dialect(is_modern=False))
