"""The Anthropic Messages dialect."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from .turns import Refuse, Say, pieces

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_NUMBERS = count(1)
GARBLED = "event: content_block_delta\ndata: {broken\n\n"


def check(body: dict[str, Any]) -> str | None:
    if not body.get("max_tokens"):
        return "max_tokens: Field required"
    return _check_tools(body) or _check_turns(body["messages"]) or _check_references(body)


def _check_tools(body: dict[str, Any]) -> str | None:
    names = [tool["name"] for tool in body.get("tools", [])]
    for tool in body.get("tools", []):
        if "input_schema" not in tool and not tool.get("type", "").startswith("tool_search_tool"):
            return f"tools.{tool['name']}.input_schema: Field required"
    if body.get("tools") and all(tool.get("defer_loading") for tool in body["tools"]):
        return "At least one tool must have defer_loading=false"
    return "tools: Tool names must be unique." if len(set(names)) != len(names) else None


def _check_turns(messages: list[dict[str, Any]]) -> str | None:
    if not messages or messages[0]["role"] != "user":
        return "messages: first message must use the user role"
    waiting: list[str] = []
    for place, message in enumerate(messages):
        blocks = _blocks(message["content"])
        given = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(given) != sorted(waiting):
            return f"messages.{place}: tool_use ids without tool_result blocks, or the reverse"
        if any(b["type"] == "text" and not b["text"].strip() for b in blocks):
            return f"messages.{place}: text content blocks must be non-empty"
        if any(b["type"] == "tool_use" and not isinstance(b["input"], dict) for b in blocks):
            return f"messages.{place}: tool_use.input: Input should be an object"
        waiting = [b["id"] for b in blocks if b["type"] == "tool_use"]
    return "the last tool_use has no tool_result" if waiting else None


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _check_references(body: dict[str, Any]) -> str | None:
    names = {tool["name"] for tool in body.get("tools", [])}
    blocks = [b for m in body["messages"] for b in _blocks(m["content"])]
    ids = [b["id"] for b in blocks if b["type"] == "tool_use"]
    if len(set(ids)) != len(ids):
        return "messages: `tool_use` ids must be unique"
    results = [b.get("content") for b in blocks if b["type"] == "tool_result"]
    for block in (b for content in results if isinstance(content, list) for b in content):
        if block["type"] == "tool_reference" and block["tool_name"] not in names:
            return f"Tool reference '{block['tool_name']}' not found in available tools"
    return None


def error(plan: Refuse) -> dict[str, Any]:
    kind = plan.kind or KINDS.get(plan.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": plan.message}}


def broken(plan: Refuse) -> list[str]:
    return [_start(Say()), _frame("error", error(plan))]


def frames(plan: Say, _: dict[str, Any]) -> list[str]:
    blocks: list[list[str]] = [_native(i, block) for i, block in enumerate(plan.natives)]
    if plan.text:
        blocks.append(_text(len(blocks), plan.text))
    for name, arguments in plan.calls:
        blocks.append(_call(len(blocks), name, arguments))
    stop = plan.stop or ("tool_use" if plan.calls else "end_turn")
    usage = {"output_tokens": plan.output_tokens}
    ending = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}
    return [
        _start(plan),
        _frame("ping", {"type": "ping"}),
        *(frame for block in blocks for frame in block),
        _frame("message_delta", ending),
        _frame("message_stop", {"type": "message_stop"}),
    ]


def whole(plan: Say, _: dict[str, Any]) -> dict[str, Any]:
    """The reply as it comes without a stream."""
    content: list[dict[str, Any]] = [dict(native) for native in plan.natives]
    if plan.text:
        content.append({"type": "text", "text": plan.text})
    for name, arguments in plan.calls:
        call = {"type": "tool_use", "id": f"toolu_{next(_NUMBERS)}", "name": name}
        content.append({**call, "input": json.loads(arguments)})
    usage = {"input_tokens": plan.input_tokens, "output_tokens": plan.output_tokens}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test"}
    stop = plan.stop or ("tool_use" if plan.calls else "end_turn")
    return {**message, "content": content, "stop_reason": stop, "usage": usage}


def _frame(event: str, data: dict[str, Any]) -> str:
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"


def _start(plan: Say) -> str:
    usage = {
        "input_tokens": plan.input_tokens - plan.cached_tokens,
        "cache_read_input_tokens": plan.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test"}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    return _frame("message_start", {"type": "message_start", "message": message})


def _block(index: int, start: dict[str, Any], deltas: list[dict[str, Any]]) -> list[str]:
    opening = {"type": "content_block_start", "index": index, "content_block": start}
    middle = [
        _frame(
            "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        )
        for delta in deltas
    ]
    closing = {"type": "content_block_stop", "index": index}
    return [
        _frame("content_block_start", opening),
        *middle,
        _frame("content_block_stop", closing),
    ]


def _text(index: int, text: str) -> list[str]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces(text)]
    return _block(index, {"type": "text", "text": ""}, deltas)


def _call(index: int, name: str, arguments: str) -> list[str]:
    start = {"type": "tool_use", "id": f"toolu_{next(_NUMBERS)}", "name": name, "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": p} for p in ["", *pieces(arguments)]]
    return _block(index, start, deltas)


def _native(index: int, block: Any) -> list[str]:
    """Thinking and hosted tools as the service streams them: first empty, then filled."""
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": p} for p in pieces(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return _block(index, {**block, "thinking": "", "signature": ""}, deltas)
    if block["type"] == "server_tool_use":
        text = json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": p} for p in pieces(text)]
        return _block(index, {**block, "input": {}}, deltas)
    return _block(index, dict(block), [])
