"""One decoded row of a file: where it stands, and the list it came in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

CUT_OFF = "The file seems to be cut off: write it again, or complete its end."
FIX_ITEM = "Mend or delete this item."
FIX_REST = "Mend the file from here on."


@dataclass(frozen=True, slots=True)
class Row:
    """A value with the line it starts on, or, with a `fault`, a place that cannot be read."""

    line: int
    value: object = None
    fault: str = ""
    remedy: str = ""
    server: str = ""
    """What the envelope around it says of where its tools belong."""


def assign_server(rows: Iterable[Row], server: str) -> Iterator[Row]:
    """The same rows, with the server that the envelope around them names."""
    for row in rows:
        yield replace(row, server=row.server or server) if server else row


TOOL_LIST_KEYS = ("tools", "functions", "function_declarations", "functionDeclarations")
"""Keys under which the known shapes keep their list of tools."""


def is_tool(members: Mapping[str, object]) -> bool:
    """Whether an object is a tool itself, whatever else it may hold."""
    return "name" in members and members.get("type") != "namespace"


def server_of(members: Mapping[str, object]) -> str:
    """The namespace or server that the tools inside an envelope belong to."""
    name = members.get("name") if members.get("type") == "namespace" else members.get("server")
    return name if isinstance(name, str) else ""
