"""The synchronous twins of a session and of a step; `SyncToolbox` opens them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from ..catalog.questions import AnswerAction
from ..catalog.result import Result
from ..catalog.tool import Tool
from ..disclosure.scope import Visibility
from ..disclosure.session_state import SessionState
from ..disclosure.target import Target
from ..disclosure.view import View
from ..events import E, Event
from ..models.messages import Call
from ..search.hit import Results
from .call_record import CallRecord, PendingQuestion
from .loop_thread import LoopThread
from .pending_approvals import PendingApproval
from .session import Session, SessionStats
from .step import NO_HOOKS, Step, StepHooks, StepLimits, StepTool

# Methods that change something, or read state that another call may be changing, run in the loop of
# the toolbox. Methods that read only frozen values run right here.


class SyncStep:
    """A `Step` for programs without an event loop; several threads may make its calls."""

    def __init__(self, loop: LoopThread, step: Step) -> None:
        self._loop = loop
        self._step = step

    @property
    def view(self) -> View:
        """What the model sees, in its provider's format."""
        return self._step.view

    @property
    def tools(self) -> tuple[StepTool, ...]:
        """The tools for the model, in no provider's format."""
        return self._step.tools

    @property
    def instructions(self) -> str:
        """The text for the model about how to find tools, and which tools exist."""
        return self._step.instructions

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        id: str = "",  # noqa: A002 - as providers call it
        approval: str = "",
    ) -> CallRecord:
        """Call a tool; a mistake of the model or a failure of the tool is a result."""
        return self._loop.run(self._step.call(name, arguments, id=id, approval=approval))

    def run(self, calls: Sequence[Call]) -> tuple[CallRecord, ...]:
        """Make all calls of a model's reply; the records are in the same order."""
        return self._loop.run(self._step.run(calls))

    def answer(self, calls: Sequence[Call]) -> tuple[CallRecord, ...]:
        """Make all calls of a model's reply and end the step; the records are in that order."""
        return self._loop.run(self._step.answer(calls))

    def finish(self) -> tuple[CallRecord, ...]:
        """End the step: fit its results to the budget of a turn, remember, and save."""
        return self._loop.run(self._step.finish())

    @property
    def records(self) -> tuple[CallRecord, ...]:
        """The records so far; a call that did not finish has an error that says so."""
        return self._loop.run_function(lambda: self._step.records)

    def records_for(self, calls: Sequence[Call]) -> tuple[CallRecord, ...]:
        """The records of these calls, including those that never started because of an
        interruption."""
        return self._loop.run_function(self._step.records_for, calls)

    def native_answer(self, record: CallRecord) -> str:
        """The tools that a call enabled, in the format that this provider loads, if it has one."""
        return self._step.native_answer(record)


class SyncSession:
    """A `Session` for programs without an event loop; several threads may use it."""

    def __init__(self, loop: LoopThread, session: Session) -> None:
        self._loop = loop
        self._session = session

    @property
    def id(self) -> str:
        """The key under which the session is stored."""
        return self._session.id

    @property
    def principal(self) -> str:
        """Who calls; empty if the program does not say."""
        return self._session.principal

    @property
    def state(self) -> SessionState:
        """What the conversation has loaded, searched and used, as a frozen value."""
        return self._session.state

    def refresh(self) -> None:
        """Take over what other processes wrote to the conversation; raises if the store fails."""
        self._loop.run(self._session.refresh())

    def view(self, model: str | Target = "plain", *, with_memory: bool = True) -> View:
        """Exactly what the model sees now, in its provider's format."""
        return self._loop.run_function(self._session.view, model, with_memory=with_memory)

    def replace_view(self, view: View) -> None:
        """Keep an equal view in place of the last one, so that sessions can share its texts."""
        self._loop.run_function(self._session.replace_view, view)

    def call(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> Result:
        """Call a tool; a mistake of the model or a failure of the tool is a result."""
        return self._loop.run(self._session.call(name, arguments))

    def answer(self, response: object) -> list[Any]:
        """Run every call in a model's reply, and return the messages for the next request."""
        return self._loop.run(self._session.answer(response))

    def step(
        self,
        model: str | Target | View = "plain",
        *,
        limits: StepLimits | None = None,
        hooks: StepHooks = NO_HOOKS,
        passes: Iterable[type[BaseException]] = (),
        approvals: Literal["return", "ask"] = "return",
    ) -> SyncStep:
        """The next request to the model as a value: its tools, and the calls of its reply."""
        open_step = self._session.step
        step = self._loop.run_function(
            open_step, model, limits=limits, hooks=hooks, passes=passes, approvals=approvals
        )
        return SyncStep(self._loop, step)

    def approvals(self) -> tuple[PendingApproval, ...]:
        """The calls of this session that are held for an approval of this principal."""
        return self._session.approvals()

    def approve(self, approval: PendingApproval | str) -> CallRecord:
        """Run a call that is held for approval, exactly as it was made, at most once."""
        return self._loop.run(self._session.approve(approval))

    def refuse(self, approval: PendingApproval | str, *, reason: str = "") -> CallRecord:
        """Refuse a call that is held for approval; the result is for the model, with the reason."""
        return self._loop.run(self._session.refuse(approval, reason=reason))

    def questions(self) -> tuple[PendingQuestion, ...]:
        """The questions of this session that wait for a reply of this principal."""
        return self._session.questions()

    def reply(
        self,
        question: PendingQuestion | str,
        content: Mapping[str, Any] | None = None,
        *,
        action: AnswerAction = "accept",
    ) -> CallRecord:
        """Answer a question of a server, and continue the call that asked it."""
        return self._loop.run(self._session.reply(question, content, action=action))

    def why(self, name: str) -> Visibility:
        """Whether a tool is in view or deferred, and by which rule."""
        return self._session.why(name)

    def knows(self, name: str) -> bool:
        """Whether a call of this name finds a tool now."""
        return self._session.knows(name)

    def is_program(self, name: str) -> bool:
        """Whether a tool of this name runs a program, which may wait for a person between calls."""
        return self._session.is_program(name)

    def stats(self) -> SessionStats:
        """Every tool this conversation may use, grouped by its state."""
        return self._session.stats()

    def render_memory(self) -> str:
        """The memory of this conversation as text for the model."""
        return self._session.render_memory()

    def tools(self, *names: str) -> tuple[Tool, ...]:
        """The tools of these names that this conversation may use."""
        return self._session.tools(*names)

    def emit(self, event: Event) -> None:
        """Send an event to the sink of the toolbox, as one of this conversation."""
        self._session.emit(event)

    def search(self, query: str | Sequence[str], *, limit: int = 5) -> Results:
        """The best tools for a query among those that this conversation may use."""
        return self._session.search(query, limit=limit)

    def stamp(self, event: E) -> E:
        """An event as one of this conversation: empty fields of its envelope are filled in."""
        return self._session.stamp(event)

    def fit(self, *results: tuple[str, Result]) -> tuple[Result, ...]:
        """Shrink the results of one turn, each with its tool's name, to the budget of a turn."""
        return self._loop.run(self._session.fit(*results))

    def finish(self) -> None:
        """Mark the end of a turn, so that memory can process the whole turn."""
        self._loop.run(self._session.finish())

    def update_section(self, section: str, change: Callable[[str | None], str]) -> None:
        """Replace a section of the session by a function of its text, and save it."""
        self._loop.run(self._session.update_section(section, change))

    def load(self, *names: str) -> None:
        """Load tools without a search."""
        self._loop.run(self._session.load(*names))

    def unload(self, *names: str) -> None:
        """Remove tools from view."""
        self._loop.run(self._session.unload(*names))

    def mark_compacted(self) -> None:
        """Record that the messages of the conversation were shortened."""
        self._loop.run(self._session.mark_compacted())

    def save(self) -> None:
        """Write pending changes, such as a view that no call followed."""
        self._loop.run(self._session.save())

    def forget(self) -> None:
        """End the conversation and delete everything stored for it."""
        self._loop.run(self._session.forget())
