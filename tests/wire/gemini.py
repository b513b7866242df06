"""The Gemini dialect."""

from __future__ import annotations

import json
from typing import Any

from .turns import Refuse, Say, pieces

KINDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
}
GARBLED = "data: {broken\n\n"


def check(body: dict[str, Any]) -> str | None:
    for tool in body.get("tools", []):
        for declared in tool.get("functionDeclarations", []):
            if not declared.get("name"):
                return "function_declarations.name must be set"
    waiting: list[str] = []
    for place, turn in enumerate(body["contents"]):
        given = [p["functionResponse"]["name"] for p in turn["parts"] if "functionResponse" in p]
        if sorted(given) != sorted(waiting):
            return f"contents[{place}]: function response parts must match the function call parts"
        waiting = [p["functionCall"]["name"] for p in turn["parts"] if "functionCall" in p]
    return "the last function call has no response" if waiting else None


def error(plan: Refuse) -> dict[str, Any]:
    status = KINDS.get(plan.status, "UNAVAILABLE")
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": plan.kind}]
    if delay := plan.headers.get("x-retry-delay"):
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
    failure = {"code": plan.status, "message": plan.message, "status": status, "details": details}
    return {"error": failure}


def broken(plan: Refuse) -> list[str]:
    return [_frame([{"text": "Well"}]), f"data: {json.dumps(error(plan))}\n\n"]


def frames(plan: Say, body: dict[str, Any]) -> list[str]:
    calls = [{"functionCall": {"name": n, "args": json.loads(a)}} for n, a in plan.calls]
    usage = {
        "promptTokenCount": plan.input_tokens,
        "candidatesTokenCount": plan.output_tokens,
        "cachedContentTokenCount": plan.cached_tokens,
        "totalTokenCount": plan.input_tokens + plan.output_tokens,
    }
    return [
        *(_frame([dict(native)]) for native in plan.natives),
        *(_frame([{"text": piece}]) for piece in pieces(plan.text)),
        *(_frame([call]) for call in calls),
        _frame([], finish=plan.stop or "STOP", usage=usage),
    ]


def whole(plan: Say, _: dict[str, Any]) -> dict[str, Any]:
    """The reply as it comes without a stream."""
    parts: list[dict[str, Any]] = [dict(native) for native in plan.natives]
    parts += [{"text": plan.text}] if plan.text else []
    parts += [{"functionCall": {"name": n, "args": json.loads(a)}} for n, a in plan.calls]
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return {"candidates": [candidate], "modelVersion": "gemini-test"}


def _frame(parts: list[dict[str, Any]], *, finish: str = "", usage: Any = None) -> str:
    candidate: dict[str, Any] = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": parts}
    if finish:
        candidate["finishReason"] = finish
    chunk: dict[str, Any] = {"candidates": [candidate], "modelVersion": "gemini-test"}
    if usage:
        chunk["usageMetadata"] = usage
    return f"data: {json.dumps(chunk)}\n\n"
