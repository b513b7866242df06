"""Calls and their results, read out of a conversation in any provider's form.

Only what a protocol marks as a call or as the result of one is read; what anybody merely says is
not. A result counts only for a call that was made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class ToolExchange:
    """One call and what came back: `text`, `value` where it was JSON, `references` to tools.

    With `defines` the provider took the definitions of tools from the answer.
    """

    name: str
    arguments: Mapping[str, Any]
    text: str = ""
    value: Mapping[str, Any] | None = None
    references: tuple[str, ...] = ()
    is_answered: bool = False
    defines: bool = False


@dataclass(frozen=True, slots=True)
class _CallBlock:
    key: str
    name: str
    arguments: object


@dataclass(frozen=True, slots=True)
class _ResultBlock:
    key: str
    payload: object
    name: str = ""
    defines: bool = False


def tool_exchanges(messages: Iterable[object]) -> tuple[ToolExchange, ...]:
    """Every call of a conversation, in order, each with its result if there is one.

    Messages may be those of OpenAI Chat Completions and Responses, Anthropic, Gemini and MCP,
    even mixed, as plain dictionaries or as the objects of the official SDKs.
    """
    found: list[tuple[str, ToolExchange]] = []
    for piece in _flatten_blocks(messages):
        match _parse_block(piece):
            case _CallBlock(key, name, arguments):
                found.append((key, ToolExchange(name, _parse_arguments(arguments))))
            case _ResultBlock() as answer:
                _attach_result(found, answer)
            case None:
                pass
    return tuple(exchange for _, exchange in found)


def _attach_result(found: list[tuple[str, ToolExchange]], answer: _ResultBlock) -> None:
    """Give an answer to its call: by its id, or, where there is none, by the tool's name."""
    for index, (key, exchange) in enumerate(found):
        matches = key == answer.key if answer.key else exchange.name == answer.name
        if matches and not exchange.is_answered:
            answered = _add_payload(exchange, answer.payload)
            found[index] = (key, replace(answered, defines=answer.defines))
            return


def _add_payload(exchange: ToolExchange, payload: object) -> ToolExchange:
    text = "\n".join(_texts(payload))
    return replace(
        exchange,
        text=text,
        value=_json_value(payload, text),
        references=tuple(_references(payload)),
        is_answered=True,
    )


def _json_value(payload: object, text: str) -> Mapping[str, Any] | None:
    """What a result says as JSON: where a protocol has a place for it, else as its whole text."""
    row = _as_mapping(payload)
    for field in ("structuredContent", "structured_content", "result", "output"):
        if inner := _as_mapping(row.get(field)):
            return inner
    return _decode_object(text) or row or None


def _flatten_blocks(messages: Iterable[object]) -> Iterator[dict[str, Any]]:
    """Messages and the blocks inside them, flat; a user's blocks can answer but never call."""
    for message in messages:
        whole = _dump_block(message)
        yield whole
        for field in ("content", "parts", "tool_calls"):
            for part in _as_list(whole.get(field)):
                piece = _dump_block(part)
                if whole.get("role") != "user" or not isinstance(_parse_block(piece), _CallBlock):
                    yield piece


def _parse_block(piece: dict[str, Any]) -> _CallBlock | _ResultBlock | None:
    match piece:
        case {"type": "tool_use" | "server_tool_use", "id": key, "name": str(name)}:
            return _CallBlock(str(key), name, piece.get("input"))
        case {"id": key, "function": {"name": str(name)} as function}:
            return _CallBlock(str(key), name, function.get("arguments"))
        case {"type": "function_call", "call_id": key, "name": str(name)}:
            return _CallBlock(str(key), name, piece.get("arguments"))
        case {"type": "tool_search_call"}:
            return _CallBlock(_call_id(piece), "tool_search", piece.get("arguments"))
        case {"functionCall": {"name": str(name)} as call}:
            return _CallBlock(str(call.get("id") or ""), name, call.get("args"))
        case {"function_call": {"name": str(name)} as call}:
            return _CallBlock(
                str(call.get("id") or ""), name, call.get("args", call.get("arguments"))
            )
        case {"method": "tools/call", "id": key, "params": {"name": str(name)} as params}:
            return _CallBlock(f"rpc:{key}", name, params.get("arguments"))
        case _:
            return _parse_result(piece)


def _parse_result(piece: dict[str, Any]) -> _ResultBlock | None:
    match piece:
        case {"type": "tool_result" | "tool_search_tool_result", "tool_use_id": key}:
            return _ResultBlock(str(key), piece.get("content"))
        case {"role": "tool", "tool_call_id": key}:
            return _ResultBlock(str(key), piece.get("content"))
        case {"role": "function", "name": str(name), "content": payload}:
            return _ResultBlock("", payload, name)
        case {"type": "function_call_output", "call_id": key}:
            return _ResultBlock(str(key), piece.get("output"))
        case {"type": "tool_search_output", "tools": tools}:
            return _ResultBlock(_call_id(piece), {"tools": tools}, "tool_search", defines=True)
        case {"functionResponse": reply} | {"function_response": reply}:
            answer = _as_mapping(reply)
            return _ResultBlock(
                str(answer.get("id") or ""), answer.get("response"), str(answer.get("name"))
            )
        case {"id": key, "result": result}:
            return _ResultBlock(f"rpc:{key}", result)
        case _:
            return None


def _call_id(piece: dict[str, Any]) -> str:
    """Hosted searches carry no id of the call; then the name tells."""
    return str(piece.get("call_id") or "")


def _texts(payload: object) -> Iterator[str]:
    if isinstance(payload, str):
        yield payload
    for block in _as_list(payload):
        text = _dump_block(block).get("text")
        if isinstance(text, str):
            yield text
    for field in ("content", "result", "output"):
        inner = _as_mapping(payload).get(field)
        if isinstance(inner, str | list):
            yield from _texts(cast("object", inner))


def _references(payload: object) -> Iterator[str]:
    """The tools that a native search points to."""
    row = _as_mapping(payload)
    for block in (
        *_as_list(payload),
        *_as_list(row.get("content")),
        *_as_list(row.get("tool_references")),
    ):
        match _dump_block(block):
            case {"type": "tool_reference", "tool_name": str(name)}:
                yield name
            case _:
                pass


def _dump_block(value: object) -> dict[str, Any]:
    dump = getattr(value, "model_dump", None)
    return _as_mapping(dump(mode="json", exclude_none=True) if callable(dump) else value)


def _parse_arguments(value: object) -> dict[str, Any]:
    return (_decode_object(value) or {}) if isinstance(value, str) else _as_mapping(value)


def _as_mapping(value: object) -> dict[str, Any]:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def _as_list(value: object) -> list[object]:
    return [*cast("Iterable[object]", value)] if isinstance(value, list | tuple) else []


def _decode_object(text: str) -> dict[str, Any] | None:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
