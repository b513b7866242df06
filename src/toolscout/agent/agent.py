"""Agent: runs a model over a toolbox in any number of conversations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from uuid import uuid4

from ..catalog.sanitization import replace_surrogates
from ..errors import ToolscoutError
from ..models.model import Model
from ..models.retry import Backoff, RetryingModel
from ..models.spec import open_model
from ..search.engine import Allow
from ..tokens import default_counter
from ..toolbox.pending_questions import Asker
from ..toolbox.permissions import Approver
from ..toolbox.toolbox import Toolbox
from .compaction import Compactor, by_tokens
from .hooks import Hooks
from .loop import AgentLoop, LoopSettings, target_of
from .session_lock import lock_session
from .steps import Run, RunLimits
from .stop_conditions import StopCondition, with_step_limit
from .stream_events import StreamEvent

# The messages may fill this share of the context window; the rest is for tools, instructions and
# the reply.
_CONTEXT_SHARE = 0.6
_NO_HOOKS = Hooks()
_LIMITS = RunLimits()


@dataclass(frozen=True, slots=True)
class _Caller:
    """Whose run it is: the conversation, what it may use, and who asks."""

    session: str
    allow: Allow | None
    principal: str
    client: str


class Agent:
    """Runs a model over a toolbox, any number of conversations at a time.

    `model` is a client or `provider:name`. `instructions` come before the toolbox's own
    instructions. `stops` end a run that the model does not end itself; without `after_steps`
    among them the limit is 15 steps. Without `compactor`, conversations are shortened when they
    exceed their share of the model's context window. `approver` decides about calls that need
    approval, and `asker` asks the user the questions of tools.
    """

    def __init__(
        self,
        box: Toolbox,
        *,
        model: Model | str,
        instructions: str = "",
        stops: Sequence[StopCondition] = (),
        hooks: Hooks = _NO_HOOKS,
        limits: RunLimits = _LIMITS,
        compactor: Compactor | None = None,
        approver: Approver | None = None,
        asker: Asker | None = None,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        _check_box(box)
        opened = (
            open_model(model, count=default_counter().count) if isinstance(model, str) else model
        )
        # Raises here, rather than in the middle of a run, if there is no provider for the model.
        target_of(opened)
        self._approver = approver
        self._asker = asker
        self._settings = LoopSettings(
            box=box,
            model=RetryingModel(opened, backoff=backoff),
            instructions=instructions,
            stops=with_step_limit(stops),
            hooks=hooks,
            limits=limits,
            compactor=compactor or _default_compactor(box),
            clock=clock,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the model's connections; the toolbox stays open."""
        await self._settings.model.close()

    async def run(
        self,
        text: str,
        *,
        session: str = "",
        allow: Allow | None = None,
        principal: str = "",
        client: str = "",
    ) -> Run:
        """Answer a message; without a session id, in a new conversation.

        Runs of one conversation wait for each other in order of arrival. Raises ModelError when
        the model service fails permanently; the conversation then ends with the last complete
        step and can be continued. `principal` and `client`, who asks and with which program, are
        for the events of the run, and approvals belong to the principal.
        """
        caller = _Caller(session or uuid4().hex, allow, principal, client)
        return await self._run(text, caller, _ignore_event)

    async def stream(
        self,
        text: str,
        *,
        session: str = "",
        allow: Allow | None = None,
        principal: str = "",
        client: str = "",
    ) -> AsyncGenerator[StreamEvent]:
        """Run, and yield events as they happen; the last one is RunEndEvent with the run.

        Leaving the loop early ends the run: the conversation records its unfinished calls.
        """
        events: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        # A separate task, so that the run does not depend on how fast the caller reads events.
        caller = _Caller(session or uuid4().hex, allow, principal, client)
        task = asyncio.create_task(self._run(text, caller, events.put_nowait))
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # marks it as retrieved, so that asyncio does not log it

    async def _run(self, text: str, caller: _Caller, emit: Callable[[StreamEvent], None]) -> Run:
        message = _check_message(text)
        box = self._settings.box
        async with lock_session(box, caller.session):
            session = await box.session(
                caller.session,
                allow=caller.allow,
                approver=self._approver,
                asker=self._asker,
                principal=caller.principal,
                client=caller.client,
            )
            return await AgentLoop(settings=self._settings, session=session, emit=emit).run(message)


def _ignore_event(_: StreamEvent) -> None:
    """The sink of a run that is not streamed."""


def _check_box(box: object) -> None:
    if not isinstance(box, Toolbox):
        raise ToolscoutError(
            f"An agent needs a toolbox, not a {type(box).__name__}.",
            hint="Write: async with Toolbox([…]) as box: Agent(box, model=…).",
        )


def _check_message(text: object) -> str:
    """The message as text that can be encoded; raises before anything is stored."""
    if not isinstance(text, str):
        raise ToolscoutError(
            f"A {type(text).__name__} is not a message.", hint="Give what the user says as text."
        )
    if not text.strip():
        raise ToolscoutError(
            "An empty message gives a model nothing to answer.",
            hint="Give what the user says; to let the model continue, say so: run('Continue.').",
        )
    return replace_surrogates(text)


def _default_compactor(box: Toolbox) -> Compactor:
    budget = int(box.profile.policy.window_tokens * _CONTEXT_SHARE)
    return by_tokens(budget=budget, count=default_counter().count)
