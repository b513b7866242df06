"""Approvals of one conversation that are given later, by this process or by another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from ..catalog.tool import Tool
from ..disclosure.session_state import SessionState
from ..events import ApprovalEvent, ApprovalNeededEvent, Event
from .pending_approvals import (
    APPROVALS,
    PendingApproval,
    add_approval,
    check_approval,
    find_approval,
    pending_approvals,
    settle_approval,
)
from .persistence import StoredSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """Asks for approvals that are given later, and uses or refuses each at most once."""

    stored: StoredSession
    principal: str
    clock: Callable[[], float]
    ttl_seconds: float
    emit: Callable[[Event], None]

    def pending(self) -> tuple[PendingApproval, ...]:
        """The calls held for an approval of this principal."""
        session = self.stored.session
        section = session.sections.get(APPROVALS)
        return pending_approvals(section, session.id, principal=self.principal, now=self.clock())

    async def find(self, approval: PendingApproval | str) -> PendingApproval:
        """An approval as it is stored now; another process may have asked for it."""
        key = approval.id if isinstance(approval, PendingApproval) else str(approval)
        await asyncio.to_thread(self.stored.refresh)
        session = self.stored.session
        section = session.sections.get(APPROVALS)
        found = find_approval(section, key, session.id, principal=self.principal)
        # A missing one is returned too, so that one place words the refusal.
        return found or PendingApproval(id=key, tool="", arguments={}, why="", session=session.id)

    async def ask_later(
        self, tool: Tool, arguments: Mapping[str, Any], why: str
    ) -> PendingApproval:
        """Store a call that is held for approval."""
        now = self.clock()
        approval = PendingApproval(
            id=token_hex(8),
            tool=tool.name,
            arguments=arguments,
            why=why,
            session=self.stored.session.id,
            principal=self.principal,
            created=now,
            expires=now + self.ttl_seconds,
        )

        def move(session: SessionState) -> tuple[SessionState, None]:
            section = add_approval(session.sections.get(APPROVALS), approval, tool, now)
            return session.with_section(APPROVALS, section), None

        await asyncio.to_thread(self.stored.apply, move)
        self.emit(
            ApprovalNeededEvent(
                approval=approval.id, tool=tool.name, why=why, expires=approval.expires
            )
        )
        return approval

    async def use(self, approval: str, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Mark an approval as used; raises if it is not for this call or not valid any more."""

        def move(session: SessionState) -> tuple[SessionState, None]:
            section = session.sections.get(APPROVALS)
            after = settle_approval(
                section, approval, "used", principal=self.principal, now=self.clock()
            )
            check_approval(section, approval, tool, arguments)
            return session.with_section(APPROVALS, after), None

        # Durably, and before the tool runs: an approval must never run a tool twice, not even if
        # this process is killed.
        await asyncio.to_thread(self.stored.apply_durably, move)
        self.emit(
            ApprovalEvent(tool=tool.name, approved=True, approval=approval, why=self._why(approval))
        )

    async def refuse(self, approval: PendingApproval) -> None:
        """Mark an approval as refused; raises if it is not valid any more."""

        def move(session: SessionState) -> tuple[SessionState, None]:
            section = session.sections.get(APPROVALS)
            after = settle_approval(
                section, approval.id, "refused", principal=self.principal, now=self.clock()
            )
            return session.with_section(APPROVALS, after), None

        await asyncio.to_thread(self.stored.apply_durably, move)
        self.emit(
            ApprovalEvent(
                tool=approval.tool, approved=False, approval=approval.id, why=approval.why
            )
        )

    def _why(self, approval: str) -> str:
        session = self.stored.session
        section = session.sections.get(APPROVALS)
        found = find_approval(section, approval, session.id, principal=self.principal)
        return found.why if found else ""
