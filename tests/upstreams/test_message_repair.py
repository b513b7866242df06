"""Lines of a server's output that are not one message: what is taken from them."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from toolscout.sources.mcp.message_repair import repair_message

ANSWER: dict[str, Any] = {"result": {"deep": {"er": [1]}}, "jsonrpc": "2.0", "id": 7}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={"id": VALUES, "method": VALUES, "result": VALUES, "error": VALUES, "params": VALUES},
).map(json.dumps)
PIECES = st.sampled_from(['{"jsonrpc"', '{"', "{", "}", "[", ",", '"jsonrpc":"2.0"', "\\ud800"])
LINES = st.lists(st.text(max_size=8) | PIECES | MESSAGES, max_size=12).map("".join)


def items(line: str) -> tuple[SessionMessage | Exception, ...]:
    """What a session gets of a line."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        return repair_message(error)
    return (SessionMessage(message),)


def read(line: str) -> list[Any]:
    """The messages of a line."""
    return [item.message for item in items(line) if isinstance(item, SessionMessage)]


def is_delivered(line: str) -> bool:
    return [m.id for m in read(line)] == [ANSWER["id"]]


@given(LINES)
def test_whatever_a_server_writes_every_line_is_one_or_more_items(line: str) -> None:
    assert items(line)


@given(st.text(st.characters(exclude_characters='{}"', exclude_categories=["Cs"])), st.data())
def test_an_answer_is_got_whatever_words_are_around_it(words: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(words)))
    after = words[cut:].lstrip().lstrip(",]")
    line = f"{words[:cut]}{json.dumps(ANSWER)} {after}"
    (message,) = read(line)
    assert isinstance(message, types.JSONRPCResponse)
    assert message.result == ANSWER["result"]


@pytest.mark.parametrize(
    "before", ["{'level': 1} ", '{"level": 1} ', '{"cut ', "{{{", '{"a": {"b": "\\', "\ufeff"]
)
def test_braces_before_an_answer_do_not_hide_it(before: str) -> None:
    assert is_delivered(before + json.dumps(ANSWER))


def test_several_messages_on_one_line_come_in_their_order() -> None:
    texts = [json.dumps({**ANSWER, "id": i}) for i in range(100)]
    assert [m.id for m in read("".join(texts))] == list(range(100))


@pytest.mark.parametrize(
    "line",
    [
        'received {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {}}',
        f'log {{"sent": {json.dumps(ANSWER)}}}',
        f"log [{json.dumps(ANSWER)}]",
        'log {"jsonrpc": "1.0", "id": 7, "result": {}}',
        'log {"jsonrpc": "2.0", "id": 7}',
        'log {"id": 7, "result": {}} "jsonrpc"',
    ],
)
def test_an_invalid_message_of_a_server_is_skipped(line: str) -> None:
    assert read(line) == []


def test_an_unreadable_answer_among_log_output_is_reported_to_the_caller() -> None:
    deep = '{"in":' * 300 + "1" + "}" * 300
    (message,) = read(f'loading... {{"jsonrpc":"2.0","id":7,"result":{deep}}}')
    assert isinstance(message, types.JSONRPCError)
    assert message.id == 7
    assert "recursion" in message.error.message


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ({"result": None}, "its result is not an object"),
        ({"result": "done"}, "its result is not an object"),
        ({"error": "boom"}, "its error is malformed"),
        ({}, "no result and no error"),
    ],
)
@pytest.mark.parametrize("key", [7, "seven"])
def test_an_invalid_answer_is_reported_to_the_caller(
    key: int | str, rest: dict[str, Any], says: str
) -> None:
    (message,) = read(json.dumps({"jsonrpc": "2.0", "id": key, **rest}))
    assert isinstance(message, types.JSONRPCError)
    assert message.id == key
    assert says in message.error.message


@pytest.mark.timeout(60)  # the square of its length would take far longer
@pytest.mark.parametrize(
    "piece", ['{"jsonrpc":', '{"jsonrpc" ', '{"jsonrpc":1}', '"jsonrpc"[', '"jsonrpc"{']
)
def test_a_long_line_of_braces_is_read_in_one_go(piece: str) -> None:
    assert read(piece * 1_000_000) == []
