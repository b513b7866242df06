"""Approvals that are given later: stored in the session, and each used at most once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, FiniteFloat, TypeAdapter, ValidationError

from ..catalog.result import Result
from ..catalog.sanitization import compact_json
from ..catalog.tool import Tool
from ..errors import CallRefusedError

# The name of the section in a stored session. It is on users' disks, so it never changes.
APPROVALS = "approvals"
# A session is written after every call, so what it stores is bounded.
_MAX_STORED = 64

ApprovalStatus = Literal["pending", "used", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingApproval:
    """A call that is held for approval: exactly what will run, for whom, and why."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    why: str
    session: str
    principal: str = ""
    created: float = 0.0
    expires: float = 0.0


def _check_arguments(text: str) -> str:
    try:
        is_object = isinstance(json.loads(text), dict)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not is_object:
        raise ValueError("not a JSON object")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredApproval:
    """A pending approval as it is stored, with the fingerprint of the tool's definition."""

    id: str
    tool: str
    arguments: Annotated[str, AfterValidator(_check_arguments)]
    why: str
    principal: str
    created: float
    expires: FiniteFloat
    fingerprint: str
    status: ApprovalStatus = "pending"

    def public(self, session: str) -> PendingApproval:
        return PendingApproval(
            id=self.id,
            tool=self.tool,
            arguments=json.loads(self.arguments),
            why=self.why,
            session=session,
            principal=self.principal,
            created=self.created,
            expires=self.expires,
        )


_ADAPTER: TypeAdapter[tuple[_StoredApproval, ...]] = TypeAdapter(tuple[_StoredApproval, ...])


def add_approval(section: str | None, approval: PendingApproval, tool: Tool, now: float) -> str:
    """The section with one more approval, without expired ones.

    Of too many, those that were decided are dropped first, then the oldest.
    """
    stored = _StoredApproval(
        id=approval.id,
        tool=approval.tool,
        arguments=compact_json(approval.arguments, sort_keys=True),
        why=approval.why,
        principal=approval.principal,
        created=approval.created,
        expires=approval.expires,
        fingerprint=tool.fingerprint,
    )
    alive = [row for row in _read(section) if row.expires > now]
    return _write(_drop_excess([*alive, stored]))


def pending_approvals(
    section: str | None, session: str, *, principal: str, now: float
) -> tuple[PendingApproval, ...]:
    """The approvals of a principal that can still be given, oldest first."""
    return tuple(
        row.public(session)
        for row in _read(section)
        if row.status == "pending" and row.expires > now and row.principal == principal
    )


def find_approval(
    section: str | None,
    id: str,  # noqa: A002 - as the record calls it
    session: str,
    *,
    principal: str,
) -> PendingApproval | None:
    """An approval of a principal by its id, whatever its status."""
    rows = (row for row in _read(section) if row.id == id and row.principal == principal)
    row = next(rows, None)
    return row.public(session) if row else None


def settle_approval(
    section: str | None,
    id: str,  # noqa: A002 - as the record calls it
    status: ApprovalStatus,
    *,
    principal: str,
    now: float,
) -> str:
    """The section with an approval marked as used or refused; raises if it is not pending."""
    rows = _read(section)
    row = next((row for row in rows if row.id == id), None)
    # Another principal's approval must look as if it did not exist.
    if row is None or row.principal != principal:
        raise unknown_approval(id)
    if row.status != "pending":
        word = "given and used" if row.status == "used" else "refused"
        raise CallRefusedError(
            f"The approval {id!r} was {word} already; each works only once.",
            hint="Call the tool again to ask for another.",
        )
    if row.expires <= now:
        raise CallRefusedError(
            f"The approval {id!r} has expired.", hint="Call the tool again to ask for another."
        )
    return _write([replace(r, status=status) if r is row else r for r in rows])


def unknown_approval(id: str) -> CallRefusedError:  # noqa: A002 - as the record calls it
    """The error for an id that is not an approval of the caller."""
    return CallRefusedError(
        f"There is no approval {id!r} in this session.", hint="Call the tool again to ask for one."
    )


def check_approval(
    section: str | None,
    id: str,  # noqa: A002 - as the record calls it
    tool: Tool,
    arguments: Mapping[str, Any],
) -> None:
    """Raise if an approval is for another call, or the tool is no longer the same."""
    row = next((row for row in _read(section) if row.id == id), None)
    if row is None:  # settling reports it
        return
    same = row.tool == tool.name and row.arguments == compact_json(arguments, sort_keys=True)
    if not same:
        raise CallRefusedError(
            f"The approval {id!r} is for another call: {row.tool} with other arguments.",
            hint="Run exactly what was approved, or call the tool again to ask for an approval.",
        )
    if row.fingerprint != tool.fingerprint:
        raise CallRefusedError(
            f"The definition of {tool.name} changed after approval was requested.",
            hint="Call the tool again to ask for approval of the new definition.",
        )


def pending_result(approval: PendingApproval) -> Result:
    """The text for the model while its call is held for approval."""
    return Result.error(
        f"{approval.tool} was not run yet: it is held for approval ({approval.why}). Do not call "
        f"it again; tell the user, or continue with something else.",
        code="approval_needed",
    )


def _read(section: str | None) -> tuple[_StoredApproval, ...]:
    if not section:
        return ()
    try:
        return _ADAPTER.validate_json(section)
    except ValidationError:
        # Damaged: nothing in it may approve anything.
        return ()


def _drop_excess(rows: list[_StoredApproval]) -> list[_StoredApproval]:
    # A decided one is stored only to report that; without it, its id is unknown and runs nothing.
    by_need = sorted(range(len(rows)), key=lambda index: (rows[index].status == "pending", index))
    dropped = {*by_need[: max(0, len(rows) - _MAX_STORED)]}
    return [row for index, row in enumerate(rows) if index not in dropped]


def _write(rows: list[_StoredApproval]) -> str:
    return compact_json([asdict(row) for row in rows])
