"""Limits on sessions of the protocol: how many are open, in all and for each principal."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from .limit_settings import LimitSettings
from .refusals import OverLimitError, Refusal

_TOO_MANY_SESSIONS = Refusal(503, "Too many sessions are open. Try again later.")
_TOO_MANY_OF_PRINCIPAL = Refusal(429, "Too many of your sessions are open. Close some of them.")


class SessionLimits:
    """Counts sessions by principal; `is_open` says which of them still exist."""

    def __init__(
        self, read_limits: Callable[[], LimitSettings], *, is_open: Callable[[str], bool]
    ) -> None:
        self._read_limits = read_limits
        self._is_open = is_open
        self._owners: dict[str, str] = {}
        self._opening: dict[str, str] = {}

    def admit(self, principal: str) -> str:
        """A ticket for a session that is about to open; raises if there are too many."""
        limits = self._read_limits()
        # Sessions end in several ways: the client closes them, or they are idle for too long.
        self._owners = {key: who for key, who in self._owners.items() if self._is_open(key)}
        owners = [*self._owners.values(), *self._opening.values()]
        if len(owners) >= limits.sessions:
            raise OverLimitError(_TOO_MANY_SESSIONS)
        if principal and owners.count(principal) >= limits.sessions_per_principal:
            raise OverLimitError(_TOO_MANY_OF_PRINCIPAL)
        ticket = uuid.uuid4().hex
        self._opening[ticket] = principal
        return ticket

    def settle(self, ticket: str, session_id: str) -> None:
        """Note the id of the session that a ticket was for; empty if it did not open."""
        principal = self._opening.pop(ticket, None)
        if principal is not None and session_id:
            self._owners[session_id] = principal
