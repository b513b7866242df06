"""A client for Google's Gemini API, with streaming."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

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
from .stream_task import stream_in_task

_SERVICE = "Google"
_KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"
_REASONS: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "refused",
    "RECITATION": "refused",
    "BLOCKLIST": "refused",
    "PROHIBITED_CONTENT": "refused",
    "SPII": "refused",
    "LANGUAGE": "refused",
}
_RETRY_DELAY = re.compile(r'"retryDelay": "([0-9.]+)s"')
# The service could not parse the call of its own model. A second attempt often works.
_MALFORMED = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"})


class GoogleModel:
    """A Gemini model; `options` are added to the configuration of every request unchanged."""

    provider = "gemini"

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout_seconds: float = 600.0,
        transport: ModelTransport | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        sdk: Any = require("google.genai", extra="google")
        self._errors: Any = require("google.genai.errors", extra="google")
        self._http: Any = require("httpx2", extra="google")
        self.name = name
        self.transport: ModelTransport = transport or default_transport(
            base_url, variable=_URL_VARIABLE
        )
        self._options = dict(options or {})
        self._client = sdk.Client(
            api_key=resolve_api_key(_SERVICE, api_key, *_KEY_VARIABLES),
            # Else an environment variable could switch the SDK to Vertex AI, which takes no key.
            vertexai=False,
            http_options={
                "base_url": base_url,
                "timeout": int(timeout_seconds * 1000),
                # We retry ourselves (retry.py), so that all services behave alike.
                "retry_options": {"attempts": 1},
            },
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta]:
        """Send the request and translate the chunks of the stream."""
        reader = _GeminiStreamReader()
        try:
            with translate_request_errors(_SERVICE):
                stream: AsyncIterable[Any] = await self._client.aio.models.generate_content_stream(
                    model=self.name,
                    contents=render_messages(request.messages),
                    config=self._request_config(request),
                )
            async with aclosing(stream_in_task(stream)) as chunks:
                async for chunk in chunks:
                    for delta in reader.read(chunk):
                        yield delta
        except self._errors.APIError as error:
            raise _api_error(error) from error
        except (self._http.HTTPError, OSError) as error:
            raise model_error(_SERVICE, error) from error
        except ValueError as error:
            raise model_error(_SERVICE, f"the stream is not readable ({error})") from error
        yield reader.finish()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aio.aclose()

    def _request_config(self, request: ModelRequest) -> dict[str, Any]:
        # The SDK would run Python functions itself and hide the calls from us.
        config: dict[str, Any] = {"automatic_function_calling": {"disable": True}}
        if request.instructions:
            config["system_instruction"] = request.instructions
        if request.tools:
            config["tools"] = _group_declarations(request.tools)
            config["tool_config"] = {"function_calling_config": _tool_choice(request.choice)}
        if request.max_tokens:
            config["max_output_tokens"] = request.max_tokens
        return config | self._options


def _group_declarations(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Bare declarations as one tool; complete tools stay unchanged."""
    declarations = [dict(tool) for tool in tools if "name" in tool]
    complete = [dict(tool) for tool in tools if "name" not in tool]
    return [{"function_declarations": declarations}, *complete] if declarations else complete


def _tool_choice(choice: str) -> dict[str, Any]:
    modes = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
    if choice in modes:
        return {"mode": modes[choice]}
    return {"mode": "ANY", "allowed_function_names": [choice]}


def render_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in Gemini's format: two alternating roles, results as function responses."""
    turns: list[dict[str, Any]] = []
    # A result must repeat the id of its call, but only if the service sent one. Ids that we made
    # up for calls without one must not go back.
    echoes: dict[str, dict[str, Any]] = {}
    for message in messages:
        role = "model" if message.role == "assistant" else "user"
        echoes |= {call.id: call.echo_fields() for call in message.calls}
        parts = [p for part in message.parts if (p := _render_part(part, message.role, echoes))]
        if not parts:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["parts"] += parts
        else:
            turns.append({"role": role, "parts": parts})
    return turns


def _render_part(
    part: Part, role: str, echoes: Mapping[str, dict[str, Any]]
) -> dict[str, Any] | None:
    match part:
        case Text(text):
            if not text:
                return None
            return {"text": f"<notice>{text}</notice>" if role == "system" else text}
        case Call():
            return _render_call(part)
        case CallResult():
            return _render_result(part, echoes.get(part.id, {}))
        case NativeBlock(provider, block):
            return (
                _decode_signature(json.loads(block)) if provider == GoogleModel.provider else None
            )


def _render_call(call: Call) -> dict[str, Any]:
    echo = call.echo_fields()
    function = {"name": call.name, "args": call.replay_arguments()}
    if "id" in echo:
        function["id"] = echo["id"]
    return _decode_signature(
        {"function_call": function, "thought_signature": echo.get("signature")}
    )


def _decode_signature(part: dict[str, Any]) -> dict[str, Any]:
    # Stored as base64, since messages are JSON; the SDK takes bytes.
    signature = part.pop("thought_signature", None)
    return part | ({"thought_signature": base64.b64decode(signature)} if signature else {})


def _render_result(part: CallResult, echo: Mapping[str, Any]) -> dict[str, Any]:
    label = "error" if part.result.is_error else "output"
    response: dict[str, Any] = {"name": part.name, "response": {label: part.result.text}}
    media = [
        {"inline_data": {"mime_type": c.mime, "data": c.data}}
        for c in part.result.content
        if c.type in ("image", "audio") and c.data
    ]
    if media:
        response["parts"] = media
    if "id" in echo:
        response["id"] = echo["id"]
    return {"function_response": response}


def reply_deltas(reply: Any) -> Iterator[Delta]:
    """The deltas of a complete reply, which is a stream of one chunk."""
    if isinstance(reply, Mapping):
        types: Any = require("google.genai.types", extra="google")
        reply = types.GenerateContentResponse.model_validate(reply)
    return _GeminiStreamReader().read(reply)


class _GeminiStreamReader:
    """Reads one stream; calls arrive complete, the finish reason with the last chunk."""

    def __init__(self) -> None:
        self._calls = 0
        self._reason = ""
        self._message = ""

    def read(self, chunk: Any) -> Iterator[Delta]:
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            self._reason = "SAFETY"
        for candidate in (chunk.candidates or ())[:1]:
            for part in (candidate.content and candidate.content.parts) or ():
                yield from self._read_part(part)
            if candidate.finish_reason:
                self._reason = candidate.finish_reason.value
                self._message = candidate.finish_message or ""
        if chunk.usage_metadata:
            yield UsageDelta(_usage(chunk.usage_metadata))

    def finish(self) -> Delta:
        """The end of the reply; raises ModelError if it has none."""
        if not self._reason:
            raise stream_cut_error(_SERVICE)
        if self._reason in _MALFORMED:
            raise ModelError(
                f"{_SERVICE} could not read the model's call: {self._message or self._reason}.",
                hint="Ask again, or simplify the tool's schema.",
                is_transient=True,
            )
        # Gemini ends with STOP whether or not it called functions.
        reason = _REASONS.get(self._reason, "stop")
        return FinishDelta("calls" if self._calls and reason == "stop" else reason)

    def _read_part(self, part: Any) -> Iterator[Delta]:
        # Gemini wants the signature of its thoughts back: with the call it came with, or, from a
        # text part, in a part of its own.
        signature = base64.b64encode(part.thought_signature or b"").decode()
        if part.function_call:
            yield self._read_call(part.function_call, signature)
            return
        if part.text and part.thought:
            yield ThoughtDelta(part.text)
        elif part.text:
            yield TextDelta(part.text)
        if signature and not part.thought:
            block = {"text": "", "thought_signature": signature}
            yield NativeDelta(GoogleModel.provider, json.dumps(block))

    def _read_call(self, call: Any, signature: str) -> Delta:
        index, self._calls = self._calls, self._calls + 1
        echo = {"id": call.id, "signature": signature}
        return CallDelta(
            index,
            id=call.id or "",
            name=call.name or "",
            arguments=encode_input(call.args or {}),
            echo=json.dumps({k: v for k, v in echo.items() if v}),
        )


def _usage(usage: Any) -> Usage:
    # Thoughts are billed as output but are not part of the candidates' count.
    thoughts = usage.thoughts_token_count or 0
    return Usage(
        input_tokens=(usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
        output_tokens=(usage.candidates_token_count or 0) + thoughts,
        cached_tokens=usage.cached_content_token_count or 0,
    )


def _api_error(error: Any) -> ModelError:
    detail = error.message or error.status
    # Gemini answers a wrong key with 400, not 401.
    is_key_error = "API_KEY_INVALID" in json.dumps(error.details, default=str)
    return model_error(
        _SERVICE,
        detail,
        status=401 if is_key_error else error.code,
        variable=_KEY_VARIABLES[0],
        headers=_retry_headers(error),
    )


def _retry_headers(error: Any) -> dict[str, str]:
    """The response headers, with the delay from the body as a Retry-After header."""
    # Google asks for a pause in a `RetryInfo` in the body, not in a header.
    headers: dict[str, str] = dict(getattr(error.response, "headers", None) or {})
    found = _RETRY_DELAY.search(json.dumps(error.details, default=str))
    return headers | ({"retry-after": found[1]} if found else {})
