"""Open a model client from a spec such as `anthropic:claude-sonnet-4-5`."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ConfigError
from .anthropic import AnthropicModel
from .google import GoogleModel
from .model import Model
from .openai_chat import ChatModel
from .openai_responses import ResponsesModel
from .scripted import ScriptedModel

_CLIENTS: dict[str, Callable[..., Model]] = {
    "anthropic": AnthropicModel,
    "openai": ResponsesModel,
    "openai-chat": ChatModel,
    "openai-responses": ResponsesModel,
    "google": GoogleModel,
    "gemini": GoogleModel,
}


def open_model(
    spec: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    count: Callable[[str], int] | None = None,
) -> Model:
    """A client for `provider:name`; `scripted:FILE` plays a script and needs no key.

    `openai-chat` with a base URL is any service with a Chat Completions API. `count` counts
    tokens for a scripted model, so that it reports usage as a real one does.
    """
    provider, _, name = spec.partition(":")
    if provider == "scripted" and name:
        return ScriptedModel.read(name, count=count)
    client = _CLIENTS.get(provider)
    if client is None or not name:
        known = ", ".join(sorted(_CLIENTS))
        raise ConfigError(
            f"{spec!r} is not the name of a model.",
            hint=f"Write PROVIDER:NAME with one of {known}, or scripted:FILE.",
        )
    return client(name, api_key=api_key, base_url=base_url)
