"""The OpenAI Chat Completions dialect."""

from __future__ import annotations

import json
from typing import Any

from .turns import Refuse, Say, pieces

GARBLED = "data: {broken\n\n"


def check(body: dict[str, Any]) -> str | None:
    for tool in body.get("tools", []):
        if tool.get("type") != "function" or not tool.get("function", {}).get("name"):
            return "Missing required parameter: 'tools[0].function.name'."
    waiting: list[str] = []
    for place, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return f"messages[{place}] with role 'tool' must follow its 'tool_calls'."
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"messages[{place}]: tool_call_ids did not have response messages: {waiting}"
        waiting = [call["id"] for call in message.get("tool_calls", [])]
        for call in message.get("tool_calls", []):
            json.loads(call["function"]["arguments"])
    return "the last tool_calls have no response messages" if waiting else None


def error(plan: Refuse) -> dict[str, Any]:
    return {"error": {"message": plan.message, "type": "error", "code": plan.kind or None}}


def broken(plan: Refuse) -> list[str]:
    return [_chunk({"role": "assistant", "content": ""}), _frame(error(plan))]


def frames(plan: Say, body: dict[str, Any]) -> list[str]:
    words = [_chunk({"content": piece}) for piece in pieces(plan.text)]
    calls = [
        f for i, call in enumerate(plan.calls) for f in _call(i, *call, turn=len(body["messages"]))
    ]
    stop = plan.stop or ("tool_calls" if plan.calls else "stop")
    return [
        _chunk({"role": "assistant", "content": None if plan.calls else ""}),
        *(_chunk(dict(native)) for native in plan.natives),
        *words,
        *calls,
        _chunk({}, finish=stop),
        _frame({**_base(), "choices": [], "usage": _usage(plan)}),
        "data: [DONE]\n\n",
    ]


def whole(plan: Say, body: dict[str, Any]) -> dict[str, Any]:
    """The reply as it comes without a stream."""
    turn = len(body["messages"])
    calls = [
        {"id": f"call_{turn}_{i}", "type": "function", "function": {"name": n, "arguments": a}}
        for i, (n, a) in enumerate(plan.calls)
    ]
    message = {"role": "assistant", "content": plan.text or None, "refusal": None}
    message |= {"tool_calls": calls} if calls else {}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    base = {**_base(), "object": "chat.completion"}
    return {**base, "choices": [{**choice, "logprobs": None}], "usage": _usage(plan)}


def _frame(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _base() -> dict[str, Any]:
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test"}


def _chunk(delta: dict[str, Any], *, finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return _frame({**_base(), "choices": [choice], "usage": None})


def _call(index: int, name: str, arguments: str, *, turn: int) -> list[str]:
    function = {"name": name, "arguments": ""}
    opening = {
        "index": index,
        "id": f"call_{turn}_{index}",
        "type": "function",
        "function": function,
    }
    more = [{"index": index, "function": {"arguments": piece}} for piece in pieces(arguments)]
    return [_chunk({"tool_calls": [call]}) for call in (opening, *more)]


def _usage(plan: Say) -> dict[str, Any]:
    return {
        "prompt_tokens": plan.input_tokens,
        "completion_tokens": plan.output_tokens,
        "total_tokens": plan.input_tokens + plan.output_tokens,
        "prompt_tokens_details": {"cached_tokens": plan.cached_tokens},
    }
