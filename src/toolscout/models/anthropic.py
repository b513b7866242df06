"""A client for Anthropic's Messages API, with streaming."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, cast

from ..catalog.result import Content, Result
from ..disclosure.target import ModelTransport
from ..errors import ModelError, require
from .deltas import (
    CallDelta,
    Delta,
    FinishDelta,
    FinishReason,
    NativeDelta,
    TextDelta,
    ThoughtDelta,
    Usage,
    UsageDelta,
)
from .failures import model_error, resolve_api_key, stream_cut_error, translate_request_errors
from .messages import Call, CallResult, Message, NativeBlock, Part, Text, encode_input
from .model import ModelRequest, default_transport

_SERVICE = "Anthropic"
_KEY_VARIABLE = "ANTHROPIC_API_KEY"
_URL_VARIABLE = "ANTHROPIC_BASE_URL"
_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
    "pause_turn": "paused",
}
# An error event inside a stream has status 200. Its type tells which status it would have had.
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class AnthropicModel:
    """A Claude model; `options` are added to every request unchanged."""

    provider = "anthropic"

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        max_tokens: int = 8192,
        timeout_seconds: float = 600.0,
        transport: ModelTransport | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._sdk: Any = require("anthropic", extra="anthropic")
        self._http: Any = require("httpx2", extra="anthropic")
        self.name = name
        self.transport: ModelTransport = transport or default_transport(
            base_url, variable=_URL_VARIABLE
        )
        self._max_tokens = max_tokens
        self._options = dict(options or {})
        # We retry ourselves (retry.py), so that all services behave alike.
        self._client = self._sdk.AsyncAnthropic(
            api_key=resolve_api_key(_SERVICE, api_key, _KEY_VARIABLE),
            base_url=base_url,
            max_retries=0,
            timeout=timeout_seconds,
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta]:
        """Send the request and translate the events of the stream."""
        reader = _AnthropicStreamReader()
        try:
            with translate_request_errors(_SERVICE):
                stream = await self._client.messages.create(
                    **self._request_body(request), stream=True
                )
            async with stream:
                async for event in stream:
                    for delta in reader.read(event.type, event):
                        yield delta
        except self._sdk.APIStatusError as error:
            raise _status_error(error) from error
        except (self._sdk.APIConnectionError, self._http.HTTPError) as error:
            raise model_error(_SERVICE, error.__cause__ or error) from error
        # The SDK decodes events itself and lets the JSON error through.
        except ValueError as error:
            raise model_error(_SERVICE, f"the stream is not readable ({error})") from error
        # A connection that closes early ends the iteration without an error.
        if not reader.is_complete:
            raise stream_cut_error(_SERVICE)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _request_body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "max_tokens": request.max_tokens or self._max_tokens,
            "messages": render_messages(request.messages, tools=request.tools),
            # Automatic caching: the service sets the cache breakpoint at the last block.
            "cache_control": {"type": "ephemeral"},
        }
        if request.instructions:
            body["system"] = request.instructions
        if request.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
            body["tool_choice"] = _tool_choice(request.choice)
        return body | self._options


def _tool_choice(choice: str) -> dict[str, str]:
    fixed = {"auto": "auto", "none": "none", "required": "any"}
    return {"type": fixed[choice]} if choice in fixed else {"type": "tool", "name": choice}


def render_messages(
    messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Messages in Anthropic's format: two alternating roles, results first in a user turn.

    References to tools that are not in `tools` are left out: the service refuses them.
    """
    turns: list[dict[str, Any]] = []
    names = frozenset(str(tool["name"]) for tool in tools)
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = [
            b
            for part in message.parts
            for b in _content_blocks(part, role=message.role, names=names)
        ]
        if not blocks:
            continue
        if role == "user":
            # Results must come before any text. The sort is stable.
            blocks.sort(key=lambda block: block["type"] != "tool_result")
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _content_blocks(part: Part, *, role: str, names: frozenset[str]) -> list[dict[str, Any]]:
    match part:
        case Text(text):
            # The service refuses blank text blocks.
            if not text.strip():
                return []
            return [_notice(text) if role == "system" else {"type": "text", "text": text}]
        case Call():
            return [
                {
                    "type": "tool_use",
                    "id": part.id,
                    "name": part.name,
                    "input": part.replay_arguments(),
                }
            ]
        case CallResult():
            return _result_blocks(part, names)
        case NativeBlock(provider, block):
            return [json.loads(block)] if provider == AnthropicModel.provider else []


def _result_blocks(part: CallResult, names: frozenset[str]) -> list[dict[str, Any]]:
    """The result of a call, and a notice with the text that references have no room for."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": part.id}
    references = _references(part.native, names)
    content = references or _result_content(part.result)
    if content:
        block["content"] = content
    if part.result.is_error:
        block["is_error"] = True
    extra = part.extra_text if references else ""
    return [block, _notice(extra)] if extra else [block]


def _notice(text: str) -> dict[str, Any]:
    # Messages have no system role inside a conversation, so the tag marks text of the program.
    return {"type": "text", "text": f"<notice>{text}</notice>"}


def _references(native: str, names: frozenset[str]) -> list[dict[str, Any]]:
    """The references of a native result; none if it is in another provider's format."""
    blocks: list[dict[str, Any]] = json.loads(native) if native else []
    return [b for b in blocks if b.get("tool_name") in names]


def _result_content(result: Result) -> list[dict[str, Any]]:
    return [block for item in result.content if (block := _content_block(item))]


def _content_block(item: Content) -> dict[str, Any] | None:
    if item.type == "image" and item.data:
        source = {"type": "base64", "media_type": item.mime, "data": item.data}
        return {"type": "image", "source": source}
    text = item.text or (f"[{item.type} {item.uri or item.mime}]" if item.type != "text" else "")
    return {"type": "text", "text": text} if text else None


def reply_deltas(reply: Mapping[str, Any]) -> Iterator[Delta]:
    """The deltas of a complete reply, as its stream would have produced them."""
    reader = _AnthropicStreamReader()
    for index, block in enumerate(reply["content"]):
        yield from reader.begin_block(index, dict(block))
        yield from reader.end_block(index)


class _AnthropicStreamReader:
    """Reads one stream: tracks open blocks, usage, and whether the message is complete."""

    def __init__(self) -> None:
        self.is_complete = False
        self._open: dict[int, dict[str, Any]] = {}
        self._usage = Usage()
        self._reason: FinishReason = "stop"

    def read(self, kind: str, event: Any) -> list[Delta]:
        match kind:
            case "message_start":
                return [self._update_usage(event.message.usage)]
            case "content_block_start":
                return self.begin_block(event.index, event.content_block.to_dict(warnings=False))
            case "content_block_delta":
                return self._read_delta(event.index, event.delta)
            case "content_block_stop":
                return self.end_block(event.index)
            case "message_delta":
                self._reason = _REASONS.get(event.delta.stop_reason or "", self._reason)
                return [self._update_usage(event.usage)]
            case "message_stop":
                self.is_complete = True
                return [FinishDelta(self._reason)]
            case _:
                return []

    def _update_usage(self, usage: Any) -> Delta:
        """The usage so far."""
        # Later figures are cumulative and may leave out what has not changed. Anthropic counts
        # cached tokens beside `input_tokens`; in our Usage they are part of the input.
        before = self._usage
        cached = _value_or(usage.cache_read_input_tokens, before.cached_tokens)
        written = _value_or(usage.cache_creation_input_tokens, before.written_tokens)
        uncached = before.input_tokens - before.cached_tokens - before.written_tokens
        self._usage = Usage(
            input_tokens=_value_or(usage.input_tokens, uncached) + cached + written,
            output_tokens=_value_or(usage.output_tokens, before.output_tokens),
            cached_tokens=cached,
            written_tokens=written,
        )
        return UsageDelta(self._usage)

    def begin_block(self, index: int, block: dict[str, Any]) -> list[Delta]:
        self._open[index] = block
        if block["type"] == "text":
            return [TextDelta(block["text"])] if block.get("text") else []
        if block["type"] == "tool_use":
            # A stream starts with an empty input; a complete reply has all of it.
            arguments = encode_input(block["input"]) if block.get("input") else ""
            return [CallDelta(index, id=block["id"], name=block["name"], arguments=arguments)]
        # Any other block (thinking, hosted search) is collected and sent back unchanged.
        block["_json"] = []
        return []

    def _read_delta(self, index: int, delta: Any) -> list[Delta]:
        block = self._open.get(index, {})
        match delta.type:
            case "text_delta":
                return [TextDelta(delta.text)]
            case "input_json_delta":
                if block.get("type") == "tool_use":
                    return [CallDelta(index, arguments=delta.partial_json)]
                block.setdefault("_json", []).append(delta.partial_json)
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta.thinking
                return [ThoughtDelta(delta.thinking)]
            case "signature_delta":
                block["signature"] = delta.signature
            case _:
                pass
        return []

    def end_block(self, index: int) -> list[Delta]:
        block = self._open.pop(index, {"type": "text"})
        if block["type"] in ("text", "tool_use"):
            return []
        if pieces := cast("list[str]", block.pop("_json", [])):
            block["input"] = json.loads("".join(pieces))
        return [NativeDelta(AnthropicModel.provider, json.dumps(block, ensure_ascii=False))]


def _value_or(value: int | None, fallback: int) -> int:
    return fallback if value is None else value


def _status_error(error: Any) -> ModelError:
    status = _STATUSES.get(error.type, 500) if error.status_code == 200 else error.status_code
    detail = error.api_message or error.message
    return model_error(
        _SERVICE,
        detail,
        status=status,
        variable=_KEY_VARIABLE,
        headers=dict(error.response.headers),
    )
