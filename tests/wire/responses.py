"""The OpenAI Responses dialect."""

from __future__ import annotations

import json
from typing import Any

from .turns import Refuse, Say, pieces

CALLS = {"function_call": "function_call_output", "tool_search_call": "tool_search_output"}
GARBLED = "data: {broken\n\n"


def check(body: dict[str, Any]) -> str | None:
    for tool in body.get("tools", []):
        if tool["type"] == "function" and not isinstance(tool.get("parameters"), dict):
            return f"Missing required parameter: 'tools.{tool.get('name')}.parameters'."
    waiting: list[str] = []
    for place, item in enumerate(body["input"]):
        kind = item.get("type")
        if kind in CALLS and item.get("execution") != "server":
            waiting.append(item["call_id"])
        elif kind in CALLS.values() and item.get("execution") != "server":
            if item["call_id"] not in waiting:
                return f"input[{place}]: No tool call found for {item['call_id']}."
            waiting.remove(item["call_id"])
    return f"No tool output found for function call {waiting[0]}." if waiting else None


def error(plan: Refuse) -> dict[str, Any]:
    return {"error": {"message": plan.message, "type": "error", "code": plan.kind or None}}


def broken(plan: Refuse) -> list[str]:
    failure = {"code": plan.kind or "server_error", "message": plan.message}
    response = {**_response(Say()), "status": "failed", "error": failure}
    return _numbered([_created(), {"type": "response.failed", "response": response}])


def frames(plan: Say, body: dict[str, Any]) -> list[str]:
    events: list[dict[str, Any]] = []
    for native in plan.natives:
        events += _item(len(events), dict(native), [])
    if plan.text:
        events += _message(len(events), plan.text)
    for name, arguments in plan.calls:
        events += _call(len(events), name, arguments, turn=len(body["input"]))
    ending = "response.incomplete" if plan.stop else "response.completed"
    return _numbered([_created(), *events, {"type": ending, "response": _response(plan)}])


def whole(plan: Say, body: dict[str, Any]) -> dict[str, Any]:
    """The reply as it comes without a stream."""
    output = [dict(native) for native in plan.natives]
    events = _message(0, plan.text) if plan.text else []
    for place, (name, arguments) in enumerate(plan.calls):
        events += _call(place, name, arguments, turn=len(body["input"]))
    output += [e["item"] for e in events if e["type"] == "response.output_item.done"]
    return {**_response(plan), "output": output}


def _numbered(events: list[dict[str, Any]]) -> list[str]:
    return [
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': place})}\n\n"
        for place, event in enumerate(events)
    ]


def _created() -> dict[str, Any]:
    return {"type": "response.created", "response": {**_response(Say()), "status": "in_progress"}}


def _response(plan: Say) -> dict[str, Any]:
    usage = {
        "input_tokens": plan.input_tokens,
        "input_tokens_details": {"cached_tokens": plan.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": plan.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": plan.input_tokens + plan.output_tokens,
    }
    response = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-test"}
    response |= {"output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    status = "incomplete" if plan.stop else "completed"
    details = {"reason": plan.stop} if plan.stop else None
    return response | {
        "status": status,
        "incomplete_details": details,
        "usage": usage,
        "error": None,
    }


def _item(
    index: int, item: dict[str, Any], middle: list[dict[str, Any]], **opened: Any
) -> list[dict[str, Any]]:
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, **opened}},
        *({**event, "output_index": index, "item_id": item.get("id", "")} for event in middle),
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _message(index: int, text: str) -> list[dict[str, Any]]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "id": f"msg_{index}", "role": "assistant", "status": "completed"}
    deltas = [
        {"type": "response.output_text.delta", "content_index": 0, "delta": p, "logprobs": []}
        for p in pieces(text)
    ]
    return _item(index, {**item, "content": content}, deltas, content=[], status="in_progress")


def _call(index: int, name: str, arguments: str, *, turn: int) -> list[dict[str, Any]]:
    item = {"type": "function_call", "id": f"fc_{turn}_{index}", "call_id": f"call_{turn}_{index}"}
    item |= {"name": name, "arguments": arguments, "status": "completed"}
    deltas = [
        {"type": "response.function_call_arguments.delta", "delta": piece}
        for piece in pieces(arguments)
    ]
    return _item(index, item, deltas, arguments="", status="in_progress")
