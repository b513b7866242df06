from __future__ import annotations

import pytest
from tests.models.conftest import Service
from tests.wire.turns import Refuse, Say

from toolscout.errors import ModelError
from toolscout.models.deltas import RetryDelta, collect
from toolscout.models.failures import retry_after_seconds
from toolscout.models.messages import user_message
from toolscout.models.model import ModelRequest, complete
from toolscout.models.retry import Backoff, RetryingModel
from toolscout.models.scripted import ScriptedFailure, ScriptedModel, Turn

ASK = ModelRequest(messages=(user_message("hello"),))


class Clock:
    """Sleeps by remembering how long."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_transient_failures_are_retried_with_growing_pauses() -> None:
    busy = Turn(error=ScriptedFailure(status=503))
    clock = Clock()
    model = RetryingModel(
        ScriptedModel([busy, busy, busy, "At last."]),
        backoff=Backoff(jitter=0),
        sleep=clock.sleep,
    )
    assert (await complete(model, ASK)).message.text == "At last."
    assert clock.slept == [0.5, 1.0, 2.0]


async def test_pauses_are_spread_so_that_many_callers_do_not_come_back_at_once() -> None:
    backoff = Backoff(jitter=0.5)
    assert backoff.delay_seconds(1, requested_seconds=None, random_value=0.0) == 0.5
    assert backoff.delay_seconds(1, requested_seconds=None, random_value=1.0) == 0.75


async def test_the_pause_the_service_asks_for_is_kept(service: Service) -> None:
    headers = {"retry-after": "9"} if service.model.provider != "gemini" else {}
    limit = Refuse(429, "slow", headers={**headers, "x-retry-delay": "9s"})
    service.wire.then(limit, Say("Here."))
    clock = Clock()
    reply = await complete(RetryingModel(service.model, sleep=clock.sleep), ASK)
    assert (reply.message.text, clock.slept) == ("Here.", [9.0])


async def test_no_service_can_make_us_wait_forever() -> None:
    assert (
        Backoff(longest_seconds=30).delay_seconds(1, requested_seconds=86_400.0, random_value=0.5)
        == 30
    )


async def test_a_cut_stream_is_asked_again_and_what_came_before_is_forgotten(
    service: Service,
) -> None:
    service.wire.then(Say("Half a senten", cut_after=4), Say("The whole sentence."))
    model = RetryingModel(service.model, sleep=Clock().sleep)
    deltas = [d async for d in model.stream(ASK)]
    assert [d.attempt for d in deltas if isinstance(d, RetryDelta)] == [2]
    assert collect(deltas).message.text == "The whole sentence."


async def test_permanent_failures_are_reported_at_once(service: Service) -> None:
    service.wire.then(Refuse(401, "who are you"), Say("never said"))
    clock = Clock()
    with pytest.raises(ModelError, match="who are you"):
        await complete(RetryingModel(service.model, sleep=clock.sleep), ASK)
    assert (clock.slept, len(service.wire.seen)) == ([], 1)


async def test_after_the_last_try_the_failure_is_reported() -> None:
    busy = Turn(error=ScriptedFailure(status=500, message="still down"))
    model = ScriptedModel([busy] * 9)
    with pytest.raises(ModelError, match="still down"):
        await complete(RetryingModel(model, backoff=Backoff(attempts=3), sleep=Clock().sleep), ASK)
    assert len(model.requests) == 3


async def test_a_retried_model_is_still_the_same_model() -> None:
    model = RetryingModel(ScriptedModel(["Hi"], name="n", provider="anthropic"))
    assert (model.name, model.provider) == ("n", "anthropic")
    await model.close()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:10 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            10.0,
        ),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:27:00 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            0.0,
        ),
    ],
)
def test_every_way_of_asking_for_a_pause_is_understood(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_seconds(headers) == seconds
