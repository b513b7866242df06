"""Questions that a tool asks the user while its call runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

AnswerAction = Literal["accept", "decline", "cancel"]
"""The reaction of a user to a question: answer it, decline it, or dismiss it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question of a tool: a form to fill in by its schema, or a page to visit at `url`."""

    message: str
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the user did with a question, and what they filled in."""

    action: AnswerAction = "accept"
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])


Ask = Callable[[Question], Awaitable[Answer | None]]
Pause = Callable[[], AbstractAsyncContextManager[None]]
"""Opens a block in which something that limits a call, such as a timeout, does not."""


class CallUser:
    """The user behind one call, as its tool may ask them.

    `owner` is equal for two calls only if the same user is asked in the same conversation.
    """

    def __init__(self, ask: Ask, *, owner: Hashable) -> None:
        self.owner = owner
        self.waited_seconds = 0.0
        self._ask = ask
        self._pauses: list[Pause] = []
        self._open_questions = 0
        self._asked_at = 0.0

    async def ask(self, question: Question) -> Answer | None:
        """Ask, and wait for the answer; None if there will be none."""
        async with AsyncExitStack() as stack:
            # The innermost limit pauses first and resumes last, as if the call were entered again.
            for pause in reversed(self._pauses):
                await stack.enter_async_context(pause())
            with self._measure_wait():
                return await self._ask(question)

    @contextmanager
    def add_pause(self, pause: Pause) -> Generator[None]:
        """Pause something while the user is asked; it belongs to the call until the block ends."""
        self._pauses.append(pause)
        try:
            yield
        finally:
            self._pauses.remove(pause)

    @contextmanager
    def _measure_wait(self) -> Generator[None]:
        if not self._open_questions:
            self._asked_at = time.perf_counter()
        self._open_questions += 1
        try:
            yield
        finally:
            self._open_questions -= 1
            if not self._open_questions:
                self.waited_seconds += time.perf_counter() - self._asked_at


# A context variable, because sources ask, and what they are called with does not name a user.
CURRENT_USER: ContextVar[CallUser | None] = ContextVar("call_user", default=None)
"""The user whom the tool that runs in this context may ask; None if there is none."""


@contextmanager
def bind_user(user: CallUser | None) -> Generator[None]:
    """Let a tool ask this user, or nobody, while the block runs."""
    token = CURRENT_USER.set(user)
    try:
        yield
    finally:
        CURRENT_USER.reset(token)


def pause_while_asking(pause: Pause) -> AbstractContextManager[None]:
    """Pause something that limits the current call whenever its user is asked."""
    user = CURRENT_USER.get()
    return user.add_pause(pause) if user is not None else nullcontext()


def stop_while_asking(limit: asyncio.Timeout) -> AbstractContextManager[None]:
    """Keep a timeout from counting the time in which the user of the current call is asked."""
    return pause_while_asking(_TimeoutPause(limit).pause)


class _TimeoutPause:
    """Stops a timeout while at least one question is open."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self._limit = limit
        self._open_questions = 0
        self._remaining: float | None = None

    @asynccontextmanager
    async def pause(self) -> AsyncGenerator[None]:
        now = asyncio.get_running_loop().time
        if not self._open_questions:
            deadline = self._limit.when()
            self._remaining = None if deadline is None else deadline - now()
            self._reschedule(None)
        self._open_questions += 1
        try:
            yield
        finally:
            self._open_questions -= 1
            if not self._open_questions and self._remaining is not None:
                self._reschedule(now() + self._remaining)

    def _reschedule(self, when: float | None) -> None:
        # The call may have ended while its user was asked; a finished timeout cannot be changed.
        with suppress(RuntimeError):
            self._limit.reschedule(when)
