"""One decoded row of a file, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

CUT_OFF = "The file seems to be cut off: write it again, or complete its end."
MEND_ITEM = "Mend or delete this item."
MEND_REST = "Mend the file from here on."


@dataclass(frozen=True, slots=True)
class Row:
    """A value with the line it starts on, or, with a `fault`, a place that cannot be read."""

    line: int
    value: object = None
    fault: str = ""
    remedy: str = ""
    server: str = ""
    """What the envelope around it says of where its tools belong."""


def in_server(rows: Iterable[Row], server: str) -> Iterator[Row]:
    """The same rows, with the server that the envelope around them names."""
    for row in rows:
        yield replace(row, server=row.server or server) if server else row
