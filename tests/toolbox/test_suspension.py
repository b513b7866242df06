"""Calls that wait in this process for an answer."""

from __future__ import annotations

import asyncio

import pytest

from toolscout.toolbox.suspension import OpenQuestion, QuestionQueue, SuspendedCalls

Queue = QuestionQueue[str, str]
Calls = SuspendedCalls[str, str, str]


async def suspend(calls: Calls, owner: str = "ann", *, text: str = "Yes?") -> tuple[Queue, str]:
    """A call that asks, and the id of its question."""
    queue: Queue = QuestionQueue(answer_at_end="over")
    question = await calls.run(queue.ask(text), queue, owner=owner)
    assert isinstance(question, OpenQuestion)
    return queue, question.id


async def resume(calls: Calls, token: str, answer: str, owner: str = "ann") -> object:
    call = calls.find(token, owner=owner)
    return None if call is None else await calls.resume(call, answer)


async def test_an_answer_continues_the_call_once() -> None:
    calls = Calls()
    _, token = await suspend(calls)
    assert await resume(calls, token, "yes") == "yes"
    assert await resume(calls, token, "yes") is None


async def test_another_owner_finds_nothing_and_does_not_use_the_question_up() -> None:
    calls = Calls()
    _, token = await suspend(calls)
    assert await resume(calls, token, "no", owner="bob") is None
    assert await resume(calls, token, "yes") == "yes"


async def test_the_oldest_of_too_many_calls_is_cancelled() -> None:
    calls = Calls(max_calls=2)
    first, second, third = [(await suspend(calls))[1] for _ in range(3)]
    assert await resume(calls, first, "yes") is None
    assert await resume(calls, second, "yes") == "yes"
    assert await resume(calls, third, "yes") == "yes"


async def test_a_cancelled_caller_cancels_its_call() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    caller = asyncio.ensure_future(Calls().run(work(), Queue(answer_at_end=""), owner="ann"))
    await started.wait()
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    assert caller.cancelled()
    assert ended.is_set()


async def test_a_call_that_ends_by_itself_answers_its_open_questions() -> None:
    calls, queue = Calls(), Queue(answer_at_end="over")
    asked = asyncio.ensure_future(queue.ask("Yes?"))
    gate = asyncio.Event()

    async def work() -> str:
        await gate.wait()
        return "done"

    question = await calls.run(work(), queue, owner="ann")
    assert isinstance(question, OpenQuestion)
    gate.set()
    assert await asked == "over"
    assert await queue.ask("And now?") == "over"
    assert await resume(calls, question.id, "too late") == "done"


async def test_a_question_that_is_taken_back_is_not_asked_again() -> None:
    calls, queue = Calls(), Queue(answer_at_end="over")
    first, second = (asyncio.ensure_future(queue.ask(text)) for text in ("Yes?", "Really?"))

    async def work() -> str:
        return await second

    question = await calls.run(work(), queue, owner="ann")
    assert isinstance(question, OpenQuestion)
    assert question.question == "Yes?"
    first.cancel()
    following = await resume(calls, question.id, "yes")
    assert isinstance(following, OpenQuestion)
    assert following.question == "Really?"
    assert await resume(calls, following.id, "really") == "really"


async def test_the_exception_of_a_call_is_raised_to_its_caller() -> None:
    async def work() -> str:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await Calls().run(work(), Queue(answer_at_end=""), owner="ann")
