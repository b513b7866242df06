"""Suspended calls: each waits in this process for an answer, and its owner resumes it.

A call runs in a task of its own, so that it can keep waiting when the request that started it has
been answered with the question.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..catalog.result import Result

MAX_SUSPENDED_CALLS = 1_000
TTL_SECONDS = 600.0

Q = TypeVar("Q")
A = TypeVar("A")
R = TypeVar("R")


def not_waiting_result() -> Result:
    """The result of an answer to a call that is not suspended here, or not any more."""
    return Result.error(
        "The call that this answers is no longer waiting. Call the tool again.", code="expired"
    )


@dataclass(frozen=True, eq=False, slots=True)
class OpenQuestion(Generic[Q, A]):
    """A question of a call, with the future that takes its answer."""

    # `eq=False` above: two questions with the same text are still two questions.
    id: str
    question: Q
    answer: asyncio.Future[A]

    @property
    def is_open(self) -> bool:
        """Whether the call still waits for the answer."""
        return not self.answer.done()

    def settle(self, answer: A) -> None:
        """Deliver the answer, unless the call no longer waits for it."""
        if self.is_open:
            self.answer.set_result(answer)


class QuestionQueue(Generic[Q, A]):
    """The questions of one call, oldest first; `answer_at_end` answers those open when it ends."""

    def __init__(self, *, answer_at_end: A) -> None:
        self._answer_at_end = answer_at_end
        self._questions: list[OpenQuestion[Q, A]] = []
        self._changed: asyncio.Future[None] | None = None
        self._has_ended = False

    async def ask(self, question: Q, *, id: str = "") -> A:  # noqa: A002 - as its owner calls it
        """Ask, and wait until the question is settled."""
        if self._has_ended:
            return self._answer_at_end
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        entry = OpenQuestion(id or uuid.uuid4().hex, question, future)
        self._questions.append(entry)
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
        try:
            return await future
        finally:
            # Also when the question is taken back, which cancels this wait.
            self._questions.remove(entry)

    def oldest(self) -> OpenQuestion[Q, A] | None:
        """The question that has been open for the longest time."""
        return next((question for question in self._questions if question.is_open), None)

    def changed(self) -> asyncio.Future[None]:
        """A future that is done when another question is asked."""
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        return self._changed

    def end(self) -> None:
        """Settle all questions, because the call has ended."""
        self._has_ended = True
        for question in self._questions:
            question.settle(self._answer_at_end)


@dataclass(frozen=True, eq=False, slots=True)
class SuspendedCall(Generic[R, Q, A]):
    """A call that waits for an answer, its owner, and the question that the owner was sent."""

    owner: Hashable
    task: asyncio.Task[R]
    questions: QuestionQueue[Q, A]
    question: OpenQuestion[Q, A]
    expiry: asyncio.TimerHandle


class SuspendedCalls(Generic[R, Q, A]):
    """Suspended calls by the id of their question; only the owner of a call can resume it."""

    def __init__(
        self, *, max_calls: int = MAX_SUSPENDED_CALLS, ttl_seconds: float = TTL_SECONDS
    ) -> None:
        self._max_calls = max_calls
        self._ttl_seconds = ttl_seconds
        self._calls: dict[str, SuspendedCall[R, Q, A]] = {}

    async def run(
        self, work: Coroutine[Any, Any, R], questions: QuestionQueue[Q, A], *, owner: Hashable
    ) -> R | OpenQuestion[Q, A]:
        """Run a call until it is done, or until it has a question."""
        task = asyncio.create_task(work)

        # A callback, since nobody may be awaiting the task: a suspended call can end by itself, by
        # its timeout or because its server gave up, while a server still waits for an answer.
        def end_questions(ended: asyncio.Task[R]) -> None:
            questions.end()
            if not ended.cancelled():
                ended.exception()  # retrieved, or asyncio logs it for a call nobody resumes

        task.add_done_callback(end_questions)
        return await self._run_until_question(task, questions, owner)

    def find(self, token: str, *, owner: Hashable) -> SuspendedCall[R, Q, A] | None:
        """A call that waits for this owner; another's looks as if it did not exist."""
        call = self._calls.get(token)
        return call if call is not None and call.owner == owner else None

    def owned_by(self, owner: Hashable) -> tuple[SuspendedCall[R, Q, A], ...]:
        """The calls that wait for this owner, oldest first."""
        return tuple(call for call in self._calls.values() if call.owner == owner)

    async def resume(self, call: SuspendedCall[R, Q, A], answer: A) -> R | OpenQuestion[Q, A]:
        """Continue a call that `find` has just returned."""
        self._remove(call.question.id)
        call.question.settle(answer)
        return await self._run_until_question(call.task, call.questions, call.owner)

    async def cancel(self, is_meant: Callable[[Hashable], bool]) -> None:
        """Cancel the suspended calls of these owners, and wait until they have ended."""
        meant = [token for token, call in self._calls.items() if is_meant(call.owner)]
        tasks = [call.task for token in meant if (call := self._remove(token)) is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Cancel every suspended call."""
        await self.cancel(lambda _: True)

    async def _run_until_question(
        self, task: asyncio.Task[R], questions: QuestionQueue[Q, A], owner: Hashable
    ) -> R | OpenQuestion[Q, A]:
        while not task.done():
            question = questions.oldest()
            if question is not None:
                self._suspend(task, questions, question, owner)
                return question
            try:
                await asyncio.wait((task, questions.changed()), return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                # The caller was cancelled. The call has a task of its own, so it does not notice.
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise
        return task.result()

    def _suspend(
        self,
        task: asyncio.Task[R],
        questions: QuestionQueue[Q, A],
        question: OpenQuestion[Q, A],
        owner: Hashable,
    ) -> None:
        if len(self._calls) >= self._max_calls:
            self._expire(next(iter(self._calls)))  # the oldest: dictionaries keep their order
        loop = asyncio.get_running_loop()
        expiry = loop.call_later(self._ttl_seconds, self._expire, question.id)
        self._calls[question.id] = SuspendedCall(owner, task, questions, question, expiry)

    def _expire(self, token: str) -> None:
        call = self._remove(token)
        if call is not None:
            call.task.cancel()

    def _remove(self, token: str) -> SuspendedCall[R, Q, A] | None:
        call = self._calls.pop(token, None)
        if call is not None:
            call.expiry.cancel()
        return call
