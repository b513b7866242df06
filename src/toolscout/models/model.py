"""The contract of a model client: a request goes in, a stream of deltas comes out."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..disclosure.target import ModelTransport
from .deltas import Delta, Reply, collect
from .messages import Message

AUTO = "auto"
NONE = "none"
REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request to a model.

    `tools` are in the provider's format, as a view renders them. `choice` is `auto`, `none`,
    `required`, or the name of the one tool the model must call.
    """

    messages: tuple[Message, ...]
    instructions: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()
    choice: str = AUTO
    max_tokens: int | None = None


class Model(Protocol):
    """A model service; `provider` names the format of its tools."""

    @property
    def name(self) -> str:
        """The model's name at its service."""
        ...

    @property
    def provider(self) -> str:
        """The format of its tools: anthropic, openai-chat, openai-responses, gemini or plain."""
        ...

    @property
    def transport(self) -> ModelTransport:
        """How requests travel; native features are used only on a direct way to the provider."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta]:
        """Send the request and yield deltas as they arrive; failures raise ModelError."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


def default_transport(base_url: str | None, *, variable: str) -> ModelTransport:
    """The transport for a base URL, which may also be in an environment variable."""
    # Behind another address anything may answer, so native features are not used there. The
    # SDKs read the variable too, so it counts like an argument.
    return "gateway" if base_url or os.environ.get(variable) else "direct"


async def complete(model: Model, request: ModelRequest) -> Reply:
    """Send the request and wait for the complete reply."""
    return collect([delta async for delta in model.stream(request)])
