from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.agent.compaction import Compactor, by_count, by_tokens, keep_all
from toolscout.catalog.result import Result
from toolscout.models.messages import (
    Call,
    CallResult,
    Message,
    Text,
    assistant_message,
    notice_message,
    results_message,
    user_message,
)

DESIGN = by_count(after=20, keep=10)


def talk(count: int) -> list[Message]:
    return [
        user_message(str(i)) if i % 2 == 0 else assistant_message(Text(str(i)))
        for i in range(count)
    ]


def step(name: str) -> list[Message]:
    call = Call(name, "f")
    return [assistant_message(call), results_message(CallResult(name, "f", Result.of("done")))]


@pytest.mark.behaviour("E79", "K27")
def test_twenty_messages_stay_as_they_are() -> None:
    assert DESIGN(talk(20)) == tuple(talk(20))


@pytest.mark.behaviour("E79", "K27")
def test_of_twenty_one_the_first_and_the_last_ten_stay() -> None:
    messages = talk(21)
    assert DESIGN(messages) == (messages[0], *messages[-10:])


@pytest.mark.behaviour("E79", "K27")
def test_a_cut_between_a_call_and_its_result_keeps_both() -> None:
    messages = [*talk(11), *step("a"), *talk(9)]
    trimmed = DESIGN(messages)
    assert messages[-10].results
    assert trimmed == (messages[0], *messages[-11:])


def test_a_conversation_that_begins_with_a_call_keeps_its_result_too() -> None:
    messages = [*step("a"), *talk(30)]
    assert DESIGN(messages)[:2] == tuple(messages[:2])


def test_once_cut_it_grows_again_before_the_next_cut() -> None:
    """A window that slid at every step would spoil the provider's cache at every step."""
    messages = DESIGN(talk(21))
    for extra in talk(9):
        grown = (*messages, extra)
        assert DESIGN(grown) == grown
        messages = grown
    assert len(DESIGN((*messages, user_message("one more")))) == 11


def test_untrimmed_keeps_everything() -> None:
    assert keep_all(talk(500)) == tuple(talk(500))


def test_a_budget_of_tokens_keeps_the_first_message_and_the_newest() -> None:
    trim = by_tokens(budget=60, count=len)
    messages = talk(60)
    trimmed = trim(messages)
    assert trimmed[0] == messages[0]
    assert 1 < len(trimmed) < 60
    assert trimmed[1:] == tuple(messages[-len(trimmed) + 1 :])
    assert trim(talk(3)) == tuple(talk(3))


def test_the_message_to_answer_stays_however_large_it_is() -> None:
    messages = [user_message("start"), *talk(4), user_message("x" * 10_000)]
    assert by_tokens(budget=8, count=len)(messages) == (messages[0], messages[-1])


@pytest.mark.parametrize("trim", [DESIGN, by_tokens(budget=60, count=len)])
def test_the_last_request_of_the_user_stays_however_old_it_is(trim: Compactor) -> None:
    """A second message that takes many steps must not be forgotten in favour of the first."""
    asked = user_message("the second thing")
    steps = [message for place in range(20) for message in step(f"call{place}")]
    trimmed = trim([*talk(2), asked, *steps])
    assert trimmed[:2] == (user_message("0"), asked)
    assert trimmed[2:] == tuple(steps[-len(trimmed) + 2 :])


PIECES = st.sampled_from(["user", "answer", "step", "notice"])
TRIMMERS = st.sampled_from(
    [
        DESIGN,
        by_count(after=3, keep=0),
        by_count(after=3, keep=1),
        by_count(after=5, keep=4),
        by_tokens(budget=90, count=len),
    ]
)


def built(pieces: list[str]) -> list[Message]:
    messages = [user_message("start")]
    for place, piece in enumerate(pieces):
        match piece:
            case "user":
                messages.append(user_message(f"say {place}"))
            case "answer":
                messages.append(assistant_message(Text(f"answer {place}")))
            case "notice":
                messages.append(notice_message("careful"))
            case _:
                messages += step(f"call{place}")
    return messages


@pytest.mark.behaviour("E79", "K27")
@given(st.lists(PIECES, max_size=40), TRIMMERS)
def test_no_trimming_ever_parts_a_call_from_its_result(pieces: list[str], trim: Compactor) -> None:
    messages = built(pieces)
    trimmed = trim(messages)
    assert trimmed[0] == messages[0]
    assert trimmed[-1] == messages[-1]
    assert [c.id for m in trimmed for c in m.calls] == [r.id for m in trimmed for r in m.results]
    for place, message in enumerate(trimmed):
        if message.results:
            assert [r.id for r in message.results] == [c.id for c in trimmed[place - 1].calls]


@given(st.lists(PIECES, max_size=40), TRIMMERS)
def test_trimming_only_leaves_out(pieces: list[str], trim: Compactor) -> None:
    messages = built(pieces)
    rest = iter(messages)
    assert all(any(kept is m for m in rest) for kept in trim(messages))
