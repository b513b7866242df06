"""The status of a server: the same words in every command, page, log line and metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

ServerStatus = Literal[
    "idle",
    "starting",
    "ready",
    "failing",
    "needs login",
    "misconfigured",
    "disabled",
    "closed",
]
"""The status of one server."""

OverallStatus = Literal["starting", "ready", "degraded", "failing"]
"""The status of a gateway, or the result of a check, over all servers."""

UP_STATUSES: tuple[ServerStatus, ...] = ("idle", "starting", "ready")
"""The statuses of a server that can be used: a call starts one that is idle."""

_FINE_STATUSES: tuple[ServerStatus, ...] = (*UP_STATUSES, "disabled")


def overall_status(
    statuses: Iterable[ServerStatus], *, tools: int, has_problems: bool, is_waiting: bool = False
) -> OverallStatus:
    """The status over all servers, for a check and for a running gateway.

    `tools` is how many can be used, `has_problems` whether anything else needs attention, and
    `is_waiting` whether a server that was never listed may still list tools.
    """
    if not tools and not is_waiting:
        return "failing"
    is_well = all(status in _FINE_STATUSES for status in statuses) and not has_problems
    return "ready" if is_well else "degraded"


_STATUS_AFTER: Mapping[str, ServerStatus] = {
    "starting": "starting",
    "ready": "ready",
    "idle": "idle",
    "lost": "starting",  # a connection that was lost is opened again
    "failed": "failing",
}


def status_after(change: str, *, needs_login: bool = False) -> ServerStatus | None:
    """The status of a server after a change, by the name of its event; None if it has none."""
    return "needs login" if needs_login else _STATUS_AFTER.get(change)
