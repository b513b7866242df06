"""Questions of tools to the user: the call is suspended until the answer comes."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from secrets import token_hex
from typing import Any, cast

from ..catalog.questions import Answer, CallUser, Question
from ..catalog.result import Result
from ..catalog.schema import Schema
from ..catalog.tool import Tool
from ..errors import InvalidArgumentsError, SchemaError, ToolscoutError
from ..events import AnswerNeededEvent, Event
from ..models.messages import Call
from .arguments import fit_arguments
from .call_record import CallAttempt, CallQueue, CallRecord, PendingQuestion
from .suspension import SuspendedCalls, not_waiting_result

_log = logging.getLogger(__name__)

Asker = Callable[[PendingQuestion], Awaitable[Answer | None] | Answer | None]
"""Asks the user while the call waits; None if the user cannot be asked."""

WaitingCalls = SuspendedCalls[CallRecord, CallRecord, Answer | None]
"""The calls of a toolbox that wait for an answer."""


@dataclass(frozen=True, slots=True)
class QuestionOwner:
    """Who may answer a question: one principal, in one conversation."""

    session: str
    principal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Asks the questions of one conversation, now or later, and resumes the calls that wait."""

    waiting: WaitingCalls
    owner: QuestionOwner
    asker: Asker | None
    clock: Callable[[], float]
    ttl_seconds: float
    emit: Callable[[Event], None]

    def pending(self) -> tuple[PendingQuestion, ...]:
        """The questions of this conversation that wait for this principal, oldest first."""
        calls = self.waiting.owned_by(self.owner)
        needs = (call.question.question.needs for call in calls if call.question.is_open)
        return tuple(question for question in needs if isinstance(question, PendingQuestion))

    async def run(self, work: Coroutine[Any, Any, CallRecord], queue: CallQueue) -> CallRecord:
        """Run a call until it is done, or until it waits for an answer."""
        outcome = await self.waiting.run(work, queue, owner=self.owner)
        return outcome if isinstance(outcome, CallRecord) else outcome.question

    async def reply(self, question: PendingQuestion | str, answer: Answer) -> CallRecord:
        """Continue a call with the answer to its question, until it is done or asks again."""
        key = question if isinstance(question, str) else question.id
        call = self.waiting.find(key, owner=self.owner)
        if call is None:
            result = not_waiting_result()
            return CallRecord(call=Call("", "", "{}"), result=result, full=result)
        record = call.question.question
        assert isinstance(record.needs, PendingQuestion)
        try:
            fitted = _fit_answer(record.needs, answer)
        except ToolscoutError as error:
            # The question stays open: the user may correct the answer.
            result = Result.error(str(error), code=error.code)
            return replace(record, result=result, full=result)
        outcome = await self.waiting.resume(call, fitted)
        return outcome if isinstance(outcome, CallRecord) else outcome.question

    def user_for(self, attempt: CallAttempt, tool: Tool) -> CallUser | None:
        """The user whom a tool may ask while it runs; None if there is none."""
        if attempt.queue is not None:
            ask = partial(self._ask_later, attempt, tool, attempt.queue)
            return CallUser(ask, owner=self.owner)
        if self.asker is not None:
            return CallUser(partial(self._ask_now, self.asker, tool), owner=self.owner)
        return None

    async def _ask_later(
        self, attempt: CallAttempt, tool: Tool, queue: CallQueue, question: Question
    ) -> Answer | None:
        pending = self._open(tool, question)
        self.emit(
            AnswerNeededEvent(
                # A server's question may arrive outside of the context of its call.
                parent=attempt.id,
                question=pending.id,
                tool=tool.name,
                server=tool.server,
                expires=pending.expires,
            )
        )
        record = attempt.record(
            waiting_result(pending), tool=tool, id=attempt.id, needs=pending, is_run=True
        )
        return await queue.ask(record, id=pending.id)

    async def _ask_now(self, asker: Asker, tool: Tool, question: Question) -> Answer | None:
        try:
            async with asyncio.timeout(self.ttl_seconds):
                answer = cast("object", asker(self._open(tool, question)))
                if inspect.isawaitable(answer):
                    answer = cast("object", await answer)
        except TimeoutError:
            return Answer(action="cancel")
        except Exception:  # noqa: BLE001 - a failing asker must not end the call
            _log.exception("The asker failed with a question of %s.", tool.name)
            return None
        if answer is None or isinstance(answer, Answer):
            return answer
        _log.error("The asker answered with a %s, not with an Answer.", type(answer).__name__)
        return None

    def _open(self, tool: Tool, question: Question) -> PendingQuestion:
        now = self.clock()
        return PendingQuestion(
            id=token_hex(16),
            message=question.message,
            schema=question.schema,
            url=question.url,
            tool=tool.name,
            server=tool.server,
            session=self.owner.session,
            principal=self.owner.principal,
            created=now,
            expires=now + self.ttl_seconds,
        )


def is_owned_by(session: str) -> Callable[[Hashable], bool]:
    """Whether an owner belongs to a conversation, for any principal."""
    return lambda owner: isinstance(owner, QuestionOwner) and owner.session == session


def waiting_result(question: PendingQuestion) -> Result:
    """The text for the model while its call waits for an answer."""
    return Result.error(
        f"{question.tool} is not done yet: it asks the user {question.message!r} and waits for the"
        " answer. Do not call it again; tell the user, or continue with something else.",
        code="answer_needed",
    )


def _fit_answer(question: PendingQuestion, answer: Answer) -> Answer:
    """The answer with content as the question's schema requires; raises if it does not fit."""
    if answer.action != "accept" or question.url:
        return Answer(action=answer.action)
    try:
        content: Mapping[str, Any] = fit_arguments(answer.content, Schema.of(question.schema))
    except InvalidArgumentsError as error:
        raise InvalidArgumentsError(
            f"The answer does not fit the question of {question.tool}: {error.message}.",
            hint="The call is still waiting: reply again.",
        ) from error
    except SchemaError:
        # A broken schema is the server's mistake, and it can judge the answer itself.
        content = answer.content
    return Answer(content=content)
