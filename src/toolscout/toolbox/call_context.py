"""What every call of one conversation shares: its state, its catalog, its rules, its events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from ..catalog.tool import Tool
from ..disclosure.discovery import role_of
from ..disclosure.profile import Profile
from ..disclosure.resolution import resolve_name
from ..disclosure.scope import Scope, is_allowed
from ..errors import ToolscoutError
from ..events import E, Event, FeatureFailureEvent, Sink, current_parent, ignore, stamp
from ..learning.learner import Learner
from ..search.engine import Allow
from .approvals import Approvals
from .call_record import PendingQuestion
from .features import FeatureFailure, Features
from .live_catalog import CatalogView
from .pending_approvals import PendingApproval
from .pending_questions import Asker, QuestionOwner, Questions, WaitingCalls
from .permissions import ApprovalGate
from .persistence import Move, StoredSession, T

MissingToolExplainer = Callable[[str, Allow | None], ToolscoutError | None]
"""Says why a name is not a tool now, to a caller with this allow rule; None if unknown.

With an empty name: why there is no tool at all.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The conversation that calls belong to, and the permissions of its caller."""

    stored: StoredSession
    live: CatalogView
    profile: Profile
    features: Features
    allow: Allow | None
    approval_gate: ApprovalGate
    sink: Sink
    timeout_seconds: float
    clock: Callable[[], float]
    approval_seconds: float
    waiting: WaitingCalls
    question_seconds: float
    learner: Learner | None = None
    asker: Asker | None = None
    explain_missing: MissingToolExplainer | None = None
    note_absent: Callable[[Allow | None], str] = lambda _: ""
    list_starting: Callable[[], Sequence[str]] = tuple
    principal: str = ""
    client: str = ""

    def explain(self, name: str) -> ToolscoutError | None:
        """Why a name cannot be used now, as far as the caller may know; None if it is unknown."""
        return self.explain_missing(name, self.allow) if self.explain_missing else None

    def knows(self, name: str) -> bool:
        """Whether a name means a discovery tool, a feature's tool or one that may be called."""
        catalog = self.live.catalog
        if name in self.features.callable_tools or role_of(self.profile, name, catalog):
            return True
        scope = Scope.of(self.profile.policy, catalog, self.stored.session, self.allow)
        return bool(resolve_name(name, scope, aliases=self.profile.aliases))

    @property
    def approvals(self) -> Approvals:
        """The approvals of this conversation that are given later."""
        return Approvals(
            stored=self.stored,
            principal=self.principal,
            clock=self.clock,
            ttl_seconds=self.approval_seconds,
            emit=self.emit,
        )

    @property
    def questions(self) -> Questions:
        """The questions that tools of this conversation ask the user."""
        return Questions(
            waiting=self.waiting,
            owner=QuestionOwner(self.stored.session.id, self.principal),
            asker=self.asker,
            clock=self.clock,
            ttl_seconds=self.question_seconds,
            emit=self.emit,
        )

    def pending_needs(self) -> Sequence[PendingApproval | PendingQuestion]:
        """The approvals and answers that calls of this conversation wait for."""
        return (*self.approvals.pending(), *self.questions.pending())

    def allowed_tools(self, *names: str) -> tuple[Tool, ...]:
        """The tools of these names that the caller may use."""
        tools = (self.live.catalog.get(name) for name in names)
        return tuple(t for t in tools if t is not None and is_allowed(t, self.allow))

    def is_forbidden(self, name: str) -> bool:
        """Whether a tool of this name exists that the caller may not use."""
        tool = self.live.catalog.get(name)
        if tool is None:
            return self.live.has_hidden_tool(name)
        return not is_allowed(tool, self.allow)

    def emit(self, event: Event) -> None:
        """Send an event of this conversation to the sink, with its envelope filled in."""
        if self.sink is not ignore:  # without a listener nothing is computed
            self.sink(self.stamp(event))

    def stamp(self, event: E) -> E:
        """An event of this conversation with its envelope filled in."""
        return stamp(
            event,
            session=self.stored.session.id,
            principal=self.principal,
            client=self.client,
            parent=current_parent(event.id),
            clock=self.clock,
        )

    def search_context(self) -> AbstractContextManager[None]:
        """Searches in the block know which tools this conversation has called lately."""
        if self.learner is None:
            return nullcontext()
        return self.learner.search_context(self.stored.session.id, self.principal, self.client)

    def emit_failures(self, failures: Iterable[FeatureFailure], *, tool: str = "") -> None:
        """Report features that failed, perhaps during a call of a tool; the call continues."""
        for feature, error in failures:
            self.emit(FeatureFailureEvent(feature=feature, tool=tool, why=repr(error)))

    async def apply_move(self, move: Move[T], *, is_quick: bool) -> T:
        """Apply a move in a thread, or right here if it is quick and changes nothing."""
        # A thread costs more than such a move, and only a change has to wait for the store.
        read = self.stored.try_read(move) if is_quick else None
        return read[0] if read else await asyncio.to_thread(self.stored.apply, move)
