"""Read tool calls and their results from a conversation in any provider's format.

Only what a protocol marks as a call or a result counts, never plain text. A result counts only
for a call that was made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class ToolExchange:
    """One call and its result: `text`, `value` if it was JSON, and `references` to tools.

    With `defines` the provider loaded tool definitions from the result.
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
    """Every call of a conversation in order, with its result if there is one.

    Messages may be those of OpenAI Chat Completions and Responses, Anthropic, Gemini and MCP,
    even mixed, as plain dictionaries or as objects of the official SDKs.
    """
    exchanges: list[tuple[str, ToolExchange]] = []
    for block in _flatten_blocks(messages):
        match _parse_block(block):
            case _CallBlock(key, name, arguments):
                exchanges.append((key, ToolExchange(name, _parse_arguments(arguments))))
            case _ResultBlock() as result:
                _attach_result(exchanges, result)
            case None:
                pass
    return tuple(exchange for _, exchange in exchanges)


def _attach_result(exchanges: list[tuple[str, ToolExchange]], result: _ResultBlock) -> None:
    """Attach a result to its call, by id, or by the tool's name where there is no id."""
    # The first unanswered call wins: services without ids answer calls in order.
    for index, (key, exchange) in enumerate(exchanges):
        matches = key == result.key if result.key else exchange.name == result.name
        if matches and not exchange.is_answered:
            answered = _add_payload(exchange, result.payload)
            exchanges[index] = (key, replace(answered, defines=result.defines))
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
    """The JSON of a result: from the field a protocol has for it, else from the whole text."""
    # MCP writes `structuredContent`, its Python SDK `structured_content`; Gemini responses have
    # `result` or `output`.
    row = as_mapping(payload)
    for field in ("structuredContent", "structured_content", "result", "output"):
        if inner := as_mapping(row.get(field)):
            return inner
    return _decode_object(text) or row or None


def _flatten_blocks(messages: Iterable[object]) -> Iterator[dict[str, Any]]:
    """Messages and the blocks inside them, flattened."""
    for message in messages:
        whole = _dump_block(message)
        yield whole
        for field in ("content", "parts", "tool_calls"):
            for part in as_list(whole.get(field)):
                block = _dump_block(part)
                # Users return results but never call: a pasted transcript must load nothing.
                if whole.get("role") != "user" or not isinstance(_parse_block(block), _CallBlock):
                    yield block


def _parse_block(block: dict[str, Any]) -> _CallBlock | _ResultBlock | None:
    # In order: Anthropic, Chat Completions, Responses (two), Gemini's REST form, Gemini's SDK form
    # and the old function_call of Chat Completions, MCP.
    match block:
        case {"type": "tool_use" | "server_tool_use", "id": key, "name": str(name)}:
            return _CallBlock(str(key), name, block.get("input"))
        case {"id": key, "function": {"name": str(name)} as function}:
            return _CallBlock(str(key), name, function.get("arguments"))
        case {"type": "function_call", "call_id": key, "name": str(name)}:
            return _CallBlock(str(key), name, block.get("arguments"))
        case {"type": "tool_search_call"}:
            return _CallBlock(_call_id(block), "tool_search", block.get("arguments"))
        case {"functionCall": {"name": str(name)} as call}:
            return _CallBlock(str(call.get("id") or ""), name, call.get("args"))
        case {"function_call": {"name": str(name)} as call}:
            return _CallBlock(
                str(call.get("id") or ""), name, call.get("args", call.get("arguments"))
            )
        case {"method": "tools/call", "id": key, "params": {"name": str(name)} as params}:
            return _CallBlock(f"rpc:{key}", name, params.get("arguments"))
        case _:
            return _parse_result(block)


def _parse_result(block: dict[str, Any]) -> _ResultBlock | None:
    match block:
        case {"type": "tool_result" | "tool_search_tool_result", "tool_use_id": key}:
            return _ResultBlock(str(key), block.get("content"))
        case {"role": "tool", "tool_call_id": key}:
            return _ResultBlock(str(key), block.get("content"))
        case {"role": "function", "name": str(name), "content": payload}:
            return _ResultBlock("", payload, name)
        case {"type": "function_call_output", "call_id": key}:
            return _ResultBlock(str(key), block.get("output"))
        case {"type": "tool_search_output", "tools": tools}:
            return _ResultBlock(_call_id(block), {"tools": tools}, "tool_search", defines=True)
        case {"functionResponse": reply} | {"function_response": reply}:
            response = as_mapping(reply)
            return _ResultBlock(
                str(response.get("id") or ""), response.get("response"), str(response.get("name"))
            )
        # JSON-RPC ids are small numbers that could equal another provider's id, so they get a
        # prefix.
        case {"id": key, "result": result}:
            return _ResultBlock(f"rpc:{key}", result)
        case _:
            return None


def _call_id(block: dict[str, Any]) -> str:
    """The id of a search call; empty for a hosted search, which is matched by name."""
    return str(block.get("call_id") or "")


def _texts(payload: object) -> Iterator[str]:
    if isinstance(payload, str):
        yield payload
    for block in as_list(payload):
        text = _dump_block(block).get("text")
        if isinstance(text, str):
            yield text
    for field in ("content", "result", "output"):
        inner = as_mapping(payload).get(field)
        if isinstance(inner, str | list):
            yield from _texts(cast("object", inner))


def _references(payload: object) -> Iterator[str]:
    """The tools that a native search refers to."""
    row = as_mapping(payload)
    for block in (
        *as_list(payload),
        *as_list(row.get("content")),
        *as_list(row.get("tool_references")),
    ):
        match _dump_block(block):
            case {"type": "tool_reference", "tool_name": str(name)}:
                yield name
            case _:
                pass


def _dump_block(value: object) -> dict[str, Any]:
    # The objects of all official SDKs are pydantic models.
    dump = getattr(value, "model_dump", None)
    return as_mapping(dump(mode="json", exclude_none=True) if callable(dump) else value)


def _parse_arguments(value: object) -> dict[str, Any]:
    return (_decode_object(value) or {}) if isinstance(value, str) else as_mapping(value)


def as_mapping(value: object) -> dict[str, Any]:
    """The value if it is a mapping, else an empty dictionary."""
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[object]:
    """The value if it is a list or a tuple, else an empty list."""
    return [*cast("Iterable[object]", value)] if isinstance(value, list | tuple) else []


def _decode_object(text: str) -> dict[str, Any] | None:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
