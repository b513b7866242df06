from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscout.catalog.result import Content, Result
from toolscout.errors import StoreError
from toolscout.models.deltas import (
    CallDelta,
    Delta,
    FinishDelta,
    NativeDelta,
    RetryDelta,
    TextDelta,
    Usage,
    UsageDelta,
    collect,
)
from toolscout.models.messages import (
    Call,
    CallResult,
    Message,
    NativeBlock,
    Text,
    assistant_message,
    build_call_result,
    dump_messages,
    load_messages,
    notice_message,
    results_message,
    user_message,
)

TEXTS = st.text(max_size=20)
PARTS = st.one_of(
    st.builds(Text, TEXTS),
    st.builds(Call, TEXTS, TEXTS, TEXTS, st.just("{}")),
    st.builds(NativeBlock, TEXTS, st.just('{"a": 1}')),
    st.builds(CallResult, TEXTS, TEXTS, st.builds(Result.of, TEXTS), TEXTS),
)
ROLES = st.sampled_from(["system", "user", "assistant", "tool"])
MESSAGES = st.lists(st.builds(Message, ROLES, st.lists(PARTS, max_size=4).map(tuple)), max_size=5)


@given(MESSAGES)
def test_a_conversation_survives_being_kept(messages: list[Message]) -> None:
    assert load_messages(dump_messages(messages)) == tuple(messages)


def test_results_of_every_kind_survive_being_kept() -> None:
    result = Result(
        content=(Content(text="a"), Content(type="image", data="eA==", mime="image/png")),
        structured='{"a": 1}',
        is_error=True,
    )
    kept = (
        user_message("go"),
        assistant_message(Call("1", "f")),
        results_message(CallResult("1", "f", result)),
    )
    assert load_messages(dump_messages(kept)) == kept


def test_the_raw_reply_of_a_source_is_not_stored() -> None:
    result = build_call_result(Call("1", "f"), Result(content=(Content(text="a"),), raw=object()))
    assert load_messages(dump_messages([results_message(result)]))[0].results[0].result.text == "a"


def test_half_a_character_does_not_spoil_a_conversation() -> None:
    assert load_messages(dump_messages([user_message("a\ud800b")]))[0].text == "a?b"


@pytest.mark.parametrize("text", ["", "nonsense", '{"role": "user"}', '[{"role": "king"}]'])
def test_an_unreadable_stored_conversation_is_an_error_with_advice(text: str) -> None:
    with pytest.raises(StoreError, match="new session"):
        load_messages(text)


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=4), st.data())
def test_a_reply_is_the_same_however_finely_it_was_cut(
    texts: list[str], data: st.DataObject
) -> None:
    whole: list[Delta] = []
    cut: list[Delta] = []
    for index, text in enumerate(texts):
        where = data.draw(st.integers(0, len(text)))
        if index % 2:
            whole.append(CallDelta(index, id=f"c{index}", name="f", arguments=text))
            cut.append(CallDelta(index, id=f"c{index}", name="f", arguments=text[:where]))
            cut.append(CallDelta(index, arguments=text[where:]))
        else:
            whole.append(TextDelta(text))
            cut += [TextDelta(text[:where]), TextDelta(text[where:])]
    assert collect(cut) == collect(whole)


def test_parts_keep_the_order_in_which_they_came() -> None:
    reply = collect(
        [
            TextDelta("a"),
            NativeDelta("p", "{}"),
            CallDelta(0, id="1", name="f"),
            TextDelta("b"),
            CallDelta(1, id="2", name="g"),
            CallDelta(0, arguments="{}"),
        ]
    )
    assert [p.type for p in reply.message.parts] == ["text", "native", "call", "text", "call"]


def test_a_restart_forgets_what_came_before() -> None:
    lost = [TextDelta("half"), CallDelta(0, id="1", name="f"), UsageDelta(Usage(input_tokens=9))]
    again = [RetryDelta(2, "cut", 0.5), TextDelta("whole"), FinishDelta("stop")]
    reply = collect([*lost, *again])
    assert (reply.message.text, reply.message.calls, reply.usage) == ("whole", (), Usage())


def test_later_usage_replaces_earlier() -> None:
    deltas = [UsageDelta(Usage(input_tokens=5)), UsageDelta(Usage(input_tokens=5, output_tokens=2))]
    assert collect(deltas).usage.total_tokens == 7


def test_calls_without_ids_or_with_the_same_one_are_distinguished() -> None:
    reply = collect(
        [CallDelta(i, id=given, name=f"f{i}") for i, given in enumerate(["", "x", "x", ""])]
    )
    ids = [call.id for call in reply.message.calls]
    assert len(set(ids)) == 4
    assert "" not in ids


def test_a_call_that_was_sent_twice_is_made_once() -> None:
    twice = [CallDelta(i, id="x", name="f", arguments='{"a": 1}') for i in range(2)]
    assert [call.id for call in collect(twice).message.calls] == ["x"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("  ", {}),
        ("{}", {}),
        ('{"a": [1]}', {"a": [1]}),
        ("[1]", None),
        ("null", None),
        ('{"a": ', None),
        ("[" * 100_000, None),
    ],
)
def test_arguments_are_an_object_or_unreadable(text: str, values: object) -> None:
    call = Call("1", "f", text)
    assert call.values() == values
    assert json.dumps(call.replay_arguments()).startswith("{")


def test_usage_adds_up() -> None:
    both = Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40)
    assert both == Usage(11, 22, 33, 44)


def test_a_notice_is_distinguished_from_the_user() -> None:
    assert (notice_message("careful").role, user_message("hi").role) == ("system", "user")
