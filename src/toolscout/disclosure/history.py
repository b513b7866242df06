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
class Exchange:
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
class _Called:
    key: str
    name: str
    arguments: object


@dataclass(frozen=True, slots=True)
class _Answered:
    key: str
    payload: object
    name: str = ""
    defines: bool = False


def exchanges(messages: Iterable[object]) -> tuple[Exchange, ...]:
    """Every call of a conversation, in order, each with its result if there is one.

    Messages may be those of OpenAI Chat Completions and Responses, Anthropic, Gemini and MCP,
    even mixed, as plain dictionaries or as the objects of the official SDKs.
    """
    found: list[tuple[str, Exchange]] = []
    for piece in _pieces(messages):
        match _read(piece):
            case _Called(key, name, arguments):
                found.append((key, Exchange(name, _arguments(arguments))))
            case _Answered() as answer:
                _answer(found, answer)
            case None:
                pass
    return tuple(exchange for _, exchange in found)


def _answer(found: list[tuple[str, Exchange]], answer: _Answered) -> None:
    """Give an answer to its call: by its id, or, where there is none, by the tool's name."""
    for index, (key, exchange) in enumerate(found):
        matches = key == answer.key if answer.key else exchange.name == answer.name
        if matches and not exchange.is_answered:
            answered = _with_payload(exchange, answer.payload)
            found[index] = (key, replace(answered, defines=answer.defines))
            return


def _with_payload(exchange: Exchange, payload: object) -> Exchange:
    text = "\n".join(_texts(payload))
    return replace(
        exchange,
        text=text,
        value=_value(payload, text),
        references=tuple(_references(payload)),
        is_answered=True,
    )


def _value(payload: object, text: str) -> Mapping[str, Any] | None:
    """What a result says as JSON: where a protocol has a place for it, else as its whole text."""
    row = _mapping(payload)
    for field in ("structuredContent", "structured_content", "result", "output"):
        if inner := _mapping(row.get(field)):
            return inner
    return _decoded(text) or row or None


def _pieces(messages: Iterable[object]) -> Iterator[dict[str, Any]]:
    """Messages and the blocks inside them, flat; a user's blocks can answer but never call."""
    for message in messages:
        whole = _plain(message)
        yield whole
        for field in ("content", "parts", "tool_calls"):
            for part in _list(whole.get(field)):
                piece = _plain(part)
                if whole.get("role") != "user" or not isinstance(_read(piece), _Called):
                    yield piece


def _read(piece: dict[str, Any]) -> _Called | _Answered | None:
    match piece:
        case {"type": "tool_use" | "server_tool_use", "id": key, "name": str(name)}:
            return _Called(str(key), name, piece.get("input"))
        case {"id": key, "function": {"name": str(name)} as function}:
            return _Called(str(key), name, function.get("arguments"))
        case {"type": "function_call", "call_id": key, "name": str(name)}:
            return _Called(str(key), name, piece.get("arguments"))
        case {"type": "tool_search_call"}:
            return _Called(_key(piece), "tool_search", piece.get("arguments"))
        case {"functionCall": {"name": str(name)} as call}:
            return _Called(str(call.get("id") or ""), name, call.get("args"))
        case {"function_call": {"name": str(name)} as call}:
            return _Called(str(call.get("id") or ""), name, call.get("args", call.get("arguments")))
        case {"method": "tools/call", "id": key, "params": {"name": str(name)} as params}:
            return _Called(f"rpc:{key}", name, params.get("arguments"))
        case _:
            return _read_answer(piece)


def _read_answer(piece: dict[str, Any]) -> _Answered | None:
    match piece:
        case {"type": "tool_result" | "tool_search_tool_result", "tool_use_id": key}:
            return _Answered(str(key), piece.get("content"))
        case {"role": "tool", "tool_call_id": key}:
            return _Answered(str(key), piece.get("content"))
        case {"role": "function", "name": str(name), "content": payload}:
            return _Answered("", payload, name)
        case {"type": "function_call_output", "call_id": key}:
            return _Answered(str(key), piece.get("output"))
        case {"type": "tool_search_output", "tools": tools}:
            return _Answered(_key(piece), {"tools": tools}, "tool_search", defines=True)
        case {"functionResponse": reply} | {"function_response": reply}:
            answer = _mapping(reply)
            return _Answered(
                str(answer.get("id") or ""), answer.get("response"), str(answer.get("name"))
            )
        case {"id": key, "result": result}:
            return _Answered(f"rpc:{key}", result)
        case _:
            return None


def _key(piece: dict[str, Any]) -> str:
    """Hosted searches carry no id of the call; then the name tells."""
    return str(piece.get("call_id") or "")


def _texts(payload: object) -> Iterator[str]:
    if isinstance(payload, str):
        yield payload
    for block in _list(payload):
        text = _plain(block).get("text")
        if isinstance(text, str):
            yield text
    for field in ("content", "result", "output"):
        inner = _mapping(payload).get(field)
        if isinstance(inner, str | list):
            yield from _texts(cast("object", inner))


def _references(payload: object) -> Iterator[str]:
    """The tools that a native search points to."""
    row = _mapping(payload)
    for block in (*_list(payload), *_list(row.get("content")), *_list(row.get("tool_references"))):
        match _plain(block):
            case {"type": "tool_reference", "tool_name": str(name)}:
                yield name
            case _:
                pass


def _plain(value: object) -> dict[str, Any]:
    dump = getattr(value, "model_dump", None)
    return _mapping(dump(mode="json", exclude_none=True) if callable(dump) else value)


def _arguments(value: object) -> dict[str, Any]:
    return (_decoded(value) or {}) if isinstance(value, str) else _mapping(value)


def _mapping(value: object) -> dict[str, Any]:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    return [*cast("Iterable[object]", value)] if isinstance(value, list | tuple) else []


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
