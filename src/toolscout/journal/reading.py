"""Read rows of the journal: their outcome as of now, and as plain values."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import asdict
from typing import Any

from ..store.log_contract import LogRow
from ..store.processes import is_running

RUNNING = "running"
UNKNOWN = "unknown"
# Whether a process of another machine runs cannot be seen from here; no call takes longer.
_PRESUMED_RUNNING_SECONDS = 3_600.0


def current_outcome(row: LogRow, *, now: float) -> str:
    """The outcome of a row, `running`, or `unknown` if its process ended first."""
    if row.outcome is not None:
        return row.outcome
    is_alive = is_running(row.process)
    if is_alive is None:
        is_alive = now - row.time < _PRESUMED_RUNNING_SECONDS
    return RUNNING if is_alive else UNKNOWN


def row_data(row: LogRow) -> dict[str, Any]:
    """The data of a row beside its columns."""
    data: Any = json.loads(row.data)
    return data


def row_values(row: LogRow, *, now: float) -> dict[str, Any]:
    """A row as plain values for JSON, with its data beside its columns."""
    values = asdict(row)
    del values["data"], values["sequence"]
    values["outcome"] = current_outcome(row, now=now)
    values["vector"] = b64encode(row.vector).decode("ascii")
    # A column wins over data of the same name, so that a reader can rely on the columns.
    return {**row_data(row), **values}
