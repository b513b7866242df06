"""A client for OpenAI's Responses API, streamed and stateless, including its tool search."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any

from ..catalog.result import Content
from .deltas import (
    CallDelta,
    Delta,
    FinishDelta,
    FinishReason,
    NativeDelta,
    TextDelta,
    ThoughtDelta,
    UsageDelta,
)
from .failures import stream_cut_error, translate_request_errors
from .messages import Call, CallResult, Message, NativeBlock, Part, Text
from .model import ModelRequest
from .openai import OpenAIClient, OpenAIEndpoint, token_usage

SEARCH = "tool_search"


class ResponsesModel(OpenAIClient):
    """A model of the Responses API; nothing is stored at the service."""

    provider = "openai-responses"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta]:
        """Send the request and translate the events of the stream."""
        reader = _ResponsesStreamReader(self._endpoint)
        async with self._endpoint.translate_errors():
            create = self._endpoint.client.responses.create
            with translate_request_errors(self._endpoint.service):
                stream = await create(**self._request_body(request), stream=True)
            async with stream:
                async for event in stream:
                    for delta in reader.read(event.type, event):
                        yield delta
        if not reader.is_complete:
            raise stream_cut_error(self._endpoint.service)

    def _request_body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "input": render_messages(request.messages),
            # Conversations are stored on our side, so the whole history is sent each time. A
            # reasoning item can be sent back without storage only in its encrypted form.
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if request.instructions:
            body["instructions"] = request.instructions
        if request.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
            body["tool_choice"] = _tool_choice(request.choice)
        if request.max_tokens:
            body["max_output_tokens"] = request.max_tokens
        return body | self._options


def _tool_choice(choice: str) -> str | dict[str, str]:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "name": choice}


def render_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as input items, in order."""
    items: list[dict[str, Any]] = []
    # A result does not know its kind of call, and a search is answered by another kind of item.
    searches: set[str] = set()
    for message in messages:
        searches |= {call.id for call in message.calls if _is_search(call)}
        for part in message.parts:
            items += _render_part(part, role=message.role, searches=searches)
    return items


def _is_search(call: Call) -> bool:
    return call.echo_fields().get("type") == "tool_search_call"


def _render_part(part: Part, *, role: str, searches: set[str]) -> list[dict[str, Any]]:
    match part:
        case Text(text):
            return [_render_text(text, role=role)] if text else []
        case Call():
            return [_render_call(part)]
        case CallResult():
            return _render_search_result(part) if part.id in searches else [_render_result(part)]
        case NativeBlock(provider, block):
            return [json.loads(block)] if provider == ResponsesModel.provider else []


def _render_text(text: str, *, role: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    api_role = "developer" if role == "system" else role
    return {"role": api_role, "content": [{"type": kind, "text": text}]}


def _render_call(call: Call) -> dict[str, Any]:
    echo = call.echo_fields()
    if _is_search(call):
        return {**echo, "call_id": call.id, "arguments": call.replay_arguments()}
    arguments = json.dumps(call.replay_arguments(), ensure_ascii=False)
    item = {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}
    return item | {k: echo[k] for k in ("id", "namespace") if k in echo}


def _render_search_result(part: CallResult) -> list[dict[str, Any]]:
    """The answer to a search that we ran for the provider, and its text as a message."""
    # The output item has room for tools only. The text follows it: the side notes, or the whole
    # reply if nothing was found.
    tools: list[Any] = json.loads(part.native) if part.native else []
    output: dict[str, Any] = {"type": "tool_search_output", "call_id": part.id, "tools": tools}
    output |= {"execution": "client", "status": "completed"}
    text = part.extra_text if tools else part.result.text
    return [output, _render_text(text, role="system")] if text else [output]


def _render_result(part: CallResult) -> dict[str, Any]:
    output: list[dict[str, Any]] | str = part.result.text
    if any(c.type == "image" and c.data for c in part.result.content):
        content = part.result.content
        output = [_render_content(item) for item in content if item.text or item.data]
    elif part.result.is_error:
        output = f"Error: {part.result.text}"
    return {"type": "function_call_output", "call_id": part.id, "output": output}


def _render_content(item: Content) -> dict[str, Any]:
    if item.type == "image" and item.data:
        return {"type": "input_image", "image_url": f"data:{item.mime};base64,{item.data}"}
    return {"type": "input_text", "text": item.text or f"[{item.type} {item.uri or item.mime}]"}


def reply_deltas(reply: Mapping[str, Any]) -> Iterator[Delta]:
    """The deltas of a complete reply, as its stream would have produced them."""
    for index, item in enumerate(reply["output"]):
        if item["type"] == "function_call":
            yield _call_start(index, item)
            yield CallDelta(index, arguments=item["arguments"])
        else:
            yield _item_delta(index, item)


class _ResponsesStreamReader:
    """Reads one stream: text and arguments as they arrive, other items when they are done."""

    def __init__(self, endpoint: OpenAIEndpoint) -> None:
        self.is_complete = False
        self._endpoint = endpoint
        self._streamed: set[int] = set()
        self._has_calls = False

    def read(self, kind: str, event: Any) -> Iterator[Delta]:
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                yield TextDelta(event.delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield ThoughtDelta(event.delta)
            case "response.output_item.added":
                yield from self._begin_item(event.output_index, _to_dict(event.item))
            case "response.function_call_arguments.delta":
                self._streamed.add(event.output_index)
                yield CallDelta(event.output_index, arguments=event.delta)
            case "response.output_item.done":
                yield from self._end_item(event.output_index, _to_dict(event.item))
            case "response.completed" | "response.incomplete":
                yield from self._finish(event.response)
            case "response.failed":
                error = event.response.error
                message = (error and error.message) or "it failed and does not say why"
                raise self._endpoint.stream_error(error and error.code, message)
            case "error":
                raise self._endpoint.stream_error(event.code, event.message)
            case _:
                pass

    def _begin_item(self, index: int, item: dict[str, Any]) -> Iterator[Delta]:
        if item["type"] == "function_call":
            self._has_calls = True
            yield _call_start(index, item)

    def _end_item(self, index: int, item: dict[str, Any]) -> Iterator[Delta]:
        if item["type"] == "message":
            return
        if item["type"] == "function_call":
            # Compatible services may send the arguments only with the finished item.
            if index not in self._streamed:
                yield CallDelta(index, arguments=item["arguments"])
            return
        self._has_calls = self._has_calls or _is_client_search(item)
        yield _item_delta(index, item)

    def _finish(self, response: Any) -> Iterator[Delta]:
        self.is_complete = True
        if usage := response.usage:
            details = usage.input_tokens_details
            yield UsageDelta(token_usage(usage.input_tokens, usage.output_tokens, details))
        yield FinishDelta(self._reason(response))

    def _reason(self, response: Any) -> FinishReason:
        details = response.incomplete_details
        if details and details.reason == "content_filter":
            return "refused"
        if response.status == "incomplete":
            return "length"
        return "calls" if self._has_calls else "stop"


def _to_dict(item: Any) -> dict[str, Any]:
    return item.to_dict(mode="json", warnings=False)


def _call_start(index: int, item: Mapping[str, Any]) -> Delta:
    # A call of a tool inside a namespace must go back with that namespace.
    echo = json.dumps({k: item[k] for k in ("id", "namespace") if item.get(k)})
    return CallDelta(index, id=item["call_id"], name=item["name"], echo=echo)


def _item_delta(index: int, item: Mapping[str, Any]) -> Delta:
    """A search for us to run, or an item that is sent back unchanged."""
    if _is_client_search(item):
        return _search_call(index, item)
    # The service adds `created_by` but does not accept it as input.
    block = {k: v for k, v in item.items() if k != "created_by"}
    return NativeDelta(ResponsesModel.provider, json.dumps(block, ensure_ascii=False))


def _is_client_search(item: Mapping[str, Any]) -> bool:
    return item["type"] == "tool_search_call" and item.get("execution") == "client"


def _search_call(index: int, block: Mapping[str, Any]) -> Delta:
    """The provider's search as a call like any other; `echo` restores it in later requests."""
    arguments = block.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    echo = {k: block[k] for k in ("type", "id", "execution", "status") if block.get(k)}
    call_id = str(block.get("call_id") or block.get("id") or "")
    return CallDelta(index, id=call_id, name=SEARCH, arguments=text, echo=json.dumps(echo))
