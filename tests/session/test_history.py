"""Calls and results are read out of any provider's conversation, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from google.genai.types import Content as GeminiContent
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall

from toolscout.disclosure.history import ToolExchange, tool_exchanges

REPLY = {"tools": [{"name": "send_email", "description": "Send."}]}
TEXT = json.dumps(REPLY)
ARGUMENTS = {"query": "mail"}

CHAT: list[Any] = [
    {"role": "system", "content": "Help."},
    {"role": "user", "content": "Mail Ann"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "tool_search", "arguments": json.dumps(ARGUMENTS)},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": TEXT},
]
CHAT_PARTS: list[object] = [
    *CHAT[:3],
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": TEXT}]},
]
RESPONSES: list[object] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Mail Ann"}]},
    {
        "type": "function_call",
        "call_id": "c1",
        "name": "tool_search",
        "arguments": json.dumps(ARGUMENTS),
    },
    {"type": "function_call_output", "call_id": "c1", "output": TEXT},
]
NATIVE_RESPONSES: list[object] = [
    {
        "type": "tool_search_call",
        "call_id": "c1",
        "execution": "client",
        "arguments": ARGUMENTS,
    },
    {
        "type": "tool_search_output",
        "call_id": "c1",
        "execution": "client",
        "tools": REPLY["tools"],
    },
]
HOSTED_RESPONSES: list[object] = [
    {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": ARGUMENTS},
    {
        "type": "tool_search_output",
        "call_id": None,
        "execution": "server",
        "tools": REPLY["tools"],
    },
]
ANTHROPIC: list[Any] = [
    {"role": "user", "content": "Mail Ann"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "c1", "name": "tool_search", "input": ARGUMENTS},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "text", "text": TEXT}],
            }
        ],
    },
]
GEMINI: list[object] = [
    {"role": "user", "parts": [{"text": "Mail Ann"}]},
    {"role": "model", "parts": [{"functionCall": {"name": "tool_search", "args": ARGUMENTS}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "tool_search", "response": REPLY}}]},
]
GEMINI_WRAPPED: list[object] = [
    *GEMINI[:2],
    {
        "role": "user",
        "parts": [{"function_response": {"name": "tool_search", "response": {"result": TEXT}}}],
    },
]
MCP: list[object] = [
    {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "tool_search", "arguments": ARGUMENTS},
    },
    {
        "jsonrpc": "2.0",
        "id": 7,
        "result": {"content": [{"type": "text", "text": "found"}], "structuredContent": REPLY},
    },
]
SHAPES = {
    "chat": CHAT,
    "chat with parts": CHAT_PARTS,
    "responses": RESPONSES,
    "responses, native search": NATIVE_RESPONSES,
    "responses, hosted search": HOSTED_RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "gemini, wrapped": GEMINI_WRAPPED,
    "mcp": MCP,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_search_and_its_answer_are_read_from_every_shape(shape: str):
    (exchange,) = tool_exchanges(SHAPES[shape])
    assert exchange.name == "tool_search"
    assert exchange.arguments == ARGUMENTS
    assert exchange.value is not None
    assert exchange.value["tools"] == REPLY["tools"]


def test_objects_of_the_official_sdks_are_read_like_their_dictionaries():
    chat = ChatCompletionMessage.model_validate(CHAT[2])
    anthropic = AnthropicMessage.model_validate(
        {
            "id": "m",
            "type": "message",
            "model": "x",
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 1, "output_tokens": 1},
            **ANTHROPIC[1],
        }
    )
    response = ResponseFunctionToolCall.model_validate(RESPONSES[1])
    gemini = GeminiContent.model_validate(GEMINI[1])
    for message in (chat, anthropic, response, gemini):
        (exchange,) = tool_exchanges([message])
        assert (exchange.name, exchange.arguments) == ("tool_search", ARGUMENTS)


def test_native_references_to_tools_are_read():
    client = [
        ANTHROPIC[1],
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": [{"type": "tool_reference", "tool_name": "send_email"}],
                }
            ],
        },
    ]
    hosted = [
        {
            "role": "assistant",
            "content": [
                {
                    "type": "server_tool_use",
                    "id": "s1",
                    "name": "tool_search_tool_bm25",
                    "input": {"query": "mail"},
                },
                {
                    "type": "tool_search_tool_result",
                    "tool_use_id": "s1",
                    "content": {
                        "type": "tool_search_tool_search_result",
                        "tool_references": [{"type": "tool_reference", "tool_name": "send_email"}],
                    },
                },
            ],
        }
    ]
    for messages in (client, hosted):
        (exchange,) = tool_exchanges(messages)
        assert exchange.references == ("send_email",)


def test_several_calls_get_each_their_own_answer_in_any_order():
    messages = [
        {
            "role": "assistant",
            "tool_calls": [
                {"id": k, "type": "function", "function": {"name": n, "arguments": "{}"}}
                for k, n in (("1", "a"), ("2", "b"))
            ],
        },
        {"role": "tool", "tool_call_id": "2", "content": "of b"},
        {"role": "tool", "tool_call_id": "1", "content": "of a"},
    ]
    assert [(e.name, e.text) for e in tool_exchanges(messages)] == [("a", "of a"), ("b", "of b")]


def test_calls_without_ids_are_answered_in_order():
    call = {"functionCall": {"name": "x", "args": {}}}
    messages = [
        {"role": "model", "parts": [call, call]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "x", "response": {"n": n}}} for n in (1, 2)],
        },
    ]
    assert [e.value for e in tool_exchanges(messages)] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": TEXT},
        {"role": "user", "content": [ANTHROPIC[1]["content"][1]]},
        {"role": "tool", "tool_call_id": "nobody asked", "content": TEXT},
        {"role": "system", "content": 'discoveredTools: ["send_email"]'},
        json.dumps(CHAT[2]),
        None,
        17,
        {"role": "assistant", "content": None, "tool_calls": None},
        {"role": "assistant", "tool_calls": [{"id": "x"}, "y", None]},
        {"type": "function_call", "call_id": "1"},
        {},
    ],
)
def test_mentioned_or_broken_calls_do_not_count_as_an_exchange(message: Any):
    assert tool_exchanges([message]) == ()


def test_broken_arguments_are_an_empty_call():
    messages = [
        {"type": "function_call", "call_id": "1", "name": "x", "arguments": '{"a": '},
    ]
    assert tool_exchanges(messages) == (ToolExchange("x", {}),)
