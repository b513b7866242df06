"""A client for OpenAI's Chat Completions API and compatible services, with streaming."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any

from ..catalog.result import Result
from .deltas import (
    CallDelta,
    Delta,
    FinishDelta,
    FinishReason,
    TextDelta,
    ThoughtDelta,
    UsageDelta,
)
from .failures import stream_cut_error, translate_request_errors
from .messages import Call, CallResult, Message
from .model import ModelRequest
from .openai import OpenAIClient, token_usage

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "calls",
    "function_call": "calls",
    "content_filter": "refused",
}


class ChatModel(OpenAIClient):
    """A model of the Chat Completions API."""

    provider = "openai-chat"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta]:
        """Send the request and translate the chunks of the stream."""
        reader = _ChatStreamReader()
        async with self._endpoint.translate_errors():
            create = self._endpoint.client.chat.completions.create
            with translate_request_errors(self._endpoint.service):
                stream = await create(**self._request_body(request), stream=True)
            async with stream:
                async for chunk in stream:
                    for delta in reader.read(chunk):
                        yield delta
        if reader.reason is None:
            raise stream_cut_error(self._endpoint.service)
        yield FinishDelta(reader.reason)

    def _request_body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": render_messages(request.messages, instructions=request.instructions),
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
            body["tool_choice"] = _tool_choice(request.choice)
        if request.max_tokens:
            # Only OpenAI itself knows the newer name; its newer models refuse the older one.
            name = "max_tokens" if self._endpoint.is_compatible else "max_completion_tokens"
            body[name] = request.max_tokens
        return body | self._options


def _tool_choice(choice: str) -> str | dict[str, Any]:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def render_messages(messages: Sequence[Message], *, instructions: str = "") -> list[dict[str, Any]]:
    """Messages in the format of Chat Completions: one message for each result."""
    opening = [{"role": "system", "content": instructions}] if instructions else []
    return [*opening, *(turn for message in messages for turn in _render_message(message))]


def _render_message(message: Message) -> Iterator[dict[str, Any]]:
    match message.role:
        case "tool":
            for part in message.results:
                yield _render_result(part)
        case "assistant":
            turn: dict[str, Any] = {"role": "assistant", "content": message.text or None}
            if message.calls:
                turn["tool_calls"] = [_render_call(call) for call in message.calls]
            if message.text or message.calls:
                yield turn
        case "user" | "system":
            yield {"role": message.role, "content": message.text}


def _render_call(call: Call) -> dict[str, Any]:
    arguments = json.dumps(call.replay_arguments(), ensure_ascii=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _render_result(part: CallResult) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": part.id, "content": result_text(part.result)}


def result_text(result: Result) -> str:
    """A result as text only; other content is named."""
    lines = (
        item.text or f"[{item.type} {item.uri or item.mime}: not shown, this API takes text only]"
        for item in result.content
        if item.text or item.type != "text"
    )
    text = "\n".join(lines)
    return f"Error: {text}" if result.is_error else text


def reply_deltas(reply: Mapping[str, Any]) -> Iterator[Delta]:
    """The deltas of a complete reply, as its stream would have produced them."""
    for choice in reply["choices"][:1]:
        message = choice["message"]
        if message.get("content"):
            yield TextDelta(message["content"])
        for index, call in enumerate(message.get("tool_calls") or ()):
            function = call.get("function") or {}
            name, arguments = function.get("name") or "", function.get("arguments") or ""
            yield CallDelta(index, id=call.get("id") or "", name=name, arguments=arguments)


class _ChatStreamReader:
    """Reads one stream; a new id starts a new call, whatever index the service gives."""

    def __init__(self) -> None:
        self.reason: FinishReason | None = None
        # Compatible services may leave the index out or give all calls the same one. Calls are
        # numbered here: `_ids` has the id of each, `_current` the number of an index.
        self._ids: list[str] = []
        self._current: dict[int, int] = {}

    def read(self, chunk: Any) -> Iterator[Delta]:
        for choice in chunk.choices[:1]:
            yield from self._read_delta(choice.delta)
            # The first reason counts: a refusal is set before the stream says "stop".
            if choice.finish_reason:
                self.reason = self.reason or _REASONS.get(choice.finish_reason, "stop")
        if usage := chunk.usage:
            details = usage.prompt_tokens_details
            yield UsageDelta(token_usage(usage.prompt_tokens, usage.completion_tokens, details))

    def _read_delta(self, delta: Any) -> Iterator[Delta]:
        if delta is None:
            return
        # Not in OpenAI's API, but many compatible services stream thoughts in this field.
        thought: object = getattr(delta, "reasoning_content", None)
        if thought:
            yield ThoughtDelta(str(thought))
        if delta.content:
            yield TextDelta(delta.content)
        if delta.refusal:
            self.reason = "refused"
            yield TextDelta(delta.refusal)
        for call in delta.tool_calls or ():
            yield self._read_call(call)

    def _read_call(self, call: Any) -> Delta:
        index = call.index if call.index is not None else len(self._current)
        number = self._current.get(index)
        if number is None or (call.id and call.id != self._ids[number]):
            number = self._current[index] = len(self._ids)
            self._ids.append(call.id or "")
        function = call.function
        return CallDelta(
            number,
            id=call.id or "",
            name=(function and function.name) or "",
            arguments=(function and function.arguments) or "",
        )
