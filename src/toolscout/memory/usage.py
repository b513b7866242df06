"""Which tools a conversation has used, how often, when last and how that went."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

Outcome = Literal["success", "error"]
_MOST = 200


@dataclass(frozen=True, slots=True)
class Usage:
    """One tool's record; `last_used` is ISO 8601."""

    name: str
    count: int
    last_used: str
    last_result: Outcome


def used(records: Iterable[Usage], name: str, *, at: str, outcome: Outcome) -> tuple[Usage, ...]:
    """Count one more call; records stay in the order of first use, the idlest goes when full."""
    found = {record.name: record for record in records}
    before = found.get(name)
    if before is None:
        found[name] = Usage(name, 1, at, outcome)
    else:
        found[name] = replace(before, count=before.count + 1, last_used=at, last_result=outcome)
    if len(found) > _MOST:
        del found[min(found.values(), key=lambda r: (r.last_used, r.name)).name]
    return tuple(found.values())
