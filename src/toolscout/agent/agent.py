"""The agent: a toolbox, a model, and the rules of a run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
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
from ..toolbox.permissions import Approver
from ..toolbox.toolbox import Toolbox
from .call_batch import RunLimits
from .compaction import Compactor, by_tokens
from .hooks import Hooks
from .loop import AgentLoop, LoopSettings, target_of
from .session_lock import lock_session
from .steps import Run
from .stop_conditions import StopCondition, with_step_limit
from .stream_events import StreamEvent

_CONTEXT_SHARE = 0.6
_NO_HOOKS = Hooks()
_LIMITS = RunLimits()


class Agent:
    """Runs a model over a toolbox, any number of conversations at a time.

    `model` is a client or `provider:name`. `instructions` stand before what the toolbox says of
    its tools. `stops` end a run that the model does not end itself; where none of them is
    `after_steps`, 15 steps are the most. Without `trim`, conversations are shortened when they
    outgrow their share of the model's context window. `approver` asks whoever decides about calls
    that need a yes.
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
        trim: Compactor | None = None,
        approver: Approver | None = None,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        _check_box(box)
        opened = (
            open_model(model, count=default_counter().count) if isinstance(model, str) else model
        )
        # A model for which no view can be made is refused here and not in the middle of a run.
        target_of(opened)
        self._approver = approver
        self._settings = LoopSettings(
            box=box,
            model=RetryingModel(opened, backoff=backoff),
            instructions=instructions,
            stops=with_step_limit(stops),
            hooks=hooks,
            limits=limits,
            trim=trim or _default_compactor(box),
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
        """Let go of the model's connections; the toolbox stays open."""
        await self._settings.model.close()

    async def run(self, text: str, *, session: str = "", allow: Allow | None = None) -> Run:
        """Answer a message and say how it went; without a session id, in a new conversation.

        Runs of one conversation wait for each other, in the order they were asked for.
        Raises ModelError when the model service fails for good. The conversation is then as it
        was after the last whole step, and can be gone on with.
        """
        return await self._run(text, session, allow, _ignore_event)

    async def stream(
        self, text: str, *, session: str = "", allow: Allow | None = None
    ) -> AsyncGenerator[StreamEvent]:
        """The same, told as it happens; the last thing told is Finished with the run.

        Leaving early ends the run: calls that have not finished are noted so in the conversation.
        """
        told: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        task = asyncio.create_task(self._run(text, session, allow, told.put_nowait))
        task.add_done_callback(lambda _: told.put_nowait(None))
        try:
            while (happening := await told.get()) is not None:
                yield happening
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()

    async def _run(
        self, text: str, session: str, allow: Allow | None, tell: Callable[[StreamEvent], None]
    ) -> Run:
        said = _check_message(text)
        box, name = self._settings.box, session or uuid4().hex
        async with lock_session(box, name):
            handle = await box.session(name, allow=allow, approver=self._approver)
            return await AgentLoop(settings=self._settings, session=handle, tell=tell).run(said)


def _ignore_event(_: StreamEvent) -> None:
    """Nobody watches."""


def _check_box(box: object) -> None:
    if not isinstance(box, Toolbox):
        raise ToolscoutError(
            f"An agent works with a toolbox, and a {type(box).__name__} is none.",
            hint="Write: async with Toolbox([…]) as box: Agent(box, model=…).",
        )


def _check_message(text: object) -> str:
    """What the user says, as it can be sent; what is no message is refused before it is kept."""
    if not isinstance(text, str):
        raise ToolscoutError(
            f"A {type(text).__name__} is not a message.", hint="Give what the user says as text."
        )
    if not text.strip():
        raise ToolscoutError(
            "An empty message gives a model nothing to answer.",
            hint="Give what the user says; to have the model go on, say so: run('Go on.').",
        )
    return replace_surrogates(text)


def _default_compactor(box: Toolbox) -> Compactor:
    budget = int(box.profile.policy.window_tokens * _CONTEXT_SHARE)
    return by_tokens(budget=budget, count=default_counter().count)
