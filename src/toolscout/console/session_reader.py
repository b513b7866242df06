"""Stored sessions with what the journal knows of them: whose they are, and with which program."""

from __future__ import annotations

from dataclasses import dataclass

from ..disclosure.session_state import SessionState
from ..disclosure.target import Target
from ..disclosure.view import View, view, why
from ..errors import StoreError
from ..gateway.gateway import Gateway
from ..gateway.identity.roles import Identity
from ..store.contract import Record
from ..store.log_contract import LogFilter, LogRow


@dataclass(frozen=True, slots=True)
class KnownSession:
    """One session; `state` is None if it is not stored or cannot be read, `row` its newest row."""

    id: str
    updated: float | None
    state: SessionState | None
    row: LogRow | None
    problem: str = ""

    @property
    def principal(self) -> str:
        """Whose session it is, as its newest row says."""
        return self.row.principal if self.row else ""

    @property
    def client(self) -> str:
        """The program that used it last."""
        return self.row.client if self.row else ""


@dataclass(frozen=True, slots=True)
class SessionView:
    """What the model of a session sees now: the tools with the reason for each."""

    view: View
    tools: tuple[tuple[str, str], ...]


def read_record(gateway: Gateway, record: Record) -> KnownSession:
    """A stored session with its newest row."""
    try:
        state = SessionState.from_json(record.text, version=record.version)
    except StoreError as error:
        problem = str(error)
        return KnownSession(
            record.key, record.updated, None, _newest_row(gateway, record.key), problem
        )
    return KnownSession(record.key, record.updated, state, _newest_row(gateway, record.key))


def read_unstored(gateway: Gateway, session: str) -> KnownSession:
    """A session that only the journal knows."""
    return KnownSession(session, None, None, _newest_row(gateway, session))


def _newest_row(gateway: Gateway, session: str) -> LogRow | None:
    log = gateway.operations.journal.store
    return next(iter(log.read(LogFilter(session=session), limit=1)), None)


def find_identity(gateway: Gateway, principal: str) -> Identity:
    """A principal with the role of its token; roles of issued tokens are not stored."""
    entry = gateway.setup.settings.auth.tokens.get(principal)
    return Identity(principal, entry.role if entry is not None else "user")


def build_view(gateway: Gateway, known: KnownSession) -> SessionView | None:
    """What the model sees, computed from the stored state without changing it."""
    state = known.state
    if state is None:
        return None
    rule = gateway.setup.rule_for(find_identity(gateway, known.principal))
    catalog, profile = gateway.box.visible_catalog(rule), gateway.box.profile
    shown = view(profile, catalog, state, target=Target.of("plain"))
    reasons = (
        (name, why(profile, name, session=shown.session, catalog=catalog).sentence)
        for name in dict.fromkeys((*shown.names.values(), *state.loaded))
    )
    return SessionView(shown, tuple(reasons))
